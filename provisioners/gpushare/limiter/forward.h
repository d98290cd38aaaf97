/* Exports of a stand-in: each is `jmp *slot`. A slot leads to the resolver until the first call, then to the limited
 * function if there is one, else to the real library's function. The generated stubs (generate.py) define the slots. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_FORWARD_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_FORWARD_H

#define EGPU_HIDDEN __attribute__((visibility("hidden")))

typedef int (*AnyFunction)(void);

/** One export. */
struct Export {
  const char* name;
  void* limited; /**< the function that replaces it; NULL: forwarded */
};

/** Defined by the generated code of each library. */
extern const struct Export kExports[] EGPU_HIDDEN;
extern const unsigned kExportCount EGPU_HIDDEN;
extern void* egpuSlots[] EGPU_HIDDEN;       /**< addresses that the stubs jump to */
extern void* const egpuStubs[] EGPU_HIDDEN; /**< addresses of the stubs */

/** Functions of the real library by export, NULL if it lacks one. Complete before any limited function runs. */
extern void* egpuReal[] EGPU_HIDDEN;

/** Opens the real library and fills in all slots, once. Returns the address to jump to for an export. Called by the
 *  stubs; any thread. Without the real library, each function returns the code of `missing`. */
void* egpuResolve(long index) EGPU_HIDDEN;

/** Returns the index of the export whose stub or real function has this address, or -1. */
int egpuExportAt(const void* address) EGPU_HIDDEN;

/** Supplied by each library. */
const char* egpuRealPath(void) EGPU_HIDDEN;
int egpuMissing(void) EGPU_HIDDEN; /**< stands for functions that the real library lacks */
void egpuAttach(void) EGPU_HIDDEN; /**< called once, after the real functions are known and before any is used */

#endif

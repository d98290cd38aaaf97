// The stand-in for libcuda.so.1: start, and the look-up of functions.
#include <string.h>

#include "provisioners/gpushare/limiter/cuda/allocations.h"
#include "provisioners/gpushare/limiter/cuda/driver.h"
#include "provisioners/gpushare/limiter/cuda/graphs.h"
#include "provisioners/gpushare/limiter/cuda/pools.h"
#include "provisioners/gpushare/limiter/cuda/prices.h"
#include "provisioners/gpushare/limiter/cuda/vmm.h"
#include "provisioners/gpushare/limiter/old_libc.h"
#include "provisioners/gpushare/limiter/usage.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

/// Newest version of each name that leads to a limited function.
static const struct {
  const char* name;
  int version;
} kVersions[] = {
#define EGPU_VERSION(name, version) {name, version},
#include "cuda_versions.inc"
#undef EGPU_VERSION
};

static void forgetParent(void) {
  allocationForgetAll();
  vmmForgetAll();
  poolsForgetAll();
  graphsForgetAll();
  pricesForgetAll();
}

const char* egpuRealPath(void) {
  usageOpen();
  usageOnFork(forgetParent);
  return usageLimits() == NULL ? "" : usageLimits()->cuda;
}

void egpuAttach(void) {}

int egpuMissing(void) { return usageValid() ? kNotFound : kSystemNotReady; }

EGPU_LIMITED(cuInit)(unsigned flags) {
  if (!usageValid()) return kSystemNotReady;
  return EGPU_REAL(cuInit, unsigned)(flags);
}

/// Returns the newest known version of a limited name, 0 for other names.
static int limitedVersion(const char* name) {
  for (unsigned i = 0; name != NULL && i < sizeof kVersions / sizeof *kVersions; i++)
    if (strcmp(kVersions[i].name, name) == 0) return kVersions[i].version;
  return 0;
}

/// Replaces the address of an export by that of its limited function, or of the real one. Returns 0 if it is neither.
static int replace(void** function) {
  const int at = egpuExportAt(*function);
  if (at < 0) return 0;
  void* limited = kExports[at].limited;
  if (limited != NULL)
    *function = limited;
  else if (egpuReal[at] != NULL)
    *function = egpuReal[at];
  return 1;
}

/// One look-up of either generation.
struct Query {
  const char* name;
  void** function;
  uint64_t flags;
  int* status;
  int generation;
};

static int ask(const struct Query* of, int version) {
  if (of->generation == 1)
    return EGPU_REAL(cuGetProcAddress, const char*, void**, int, uint64_t)(of->name, of->function, version, of->flags);
  return EGPU_REAL(cuGetProcAddress_v2, const char*, void**, int, uint64_t, int*)(of->name, of->function, version,
                                                                                  of->flags, of->status);
}

/// Asks the driver. A limited name whose function is newer than the limiter gets the newest function that it knows.
static int query(const struct Query* of, int version) {
  int result = ask(of, version);
  if (result != kSuccess || of->function == NULL || *of->function == NULL || replace(of->function)) return result;
  const int known = limitedVersion(of->name);
  if (known == 0) return result;
  result = ask(of, known < version ? known : version);
  if (result != kSuccess || *of->function == NULL || replace(of->function)) return result;
  *of->function = NULL;
  if (of->status != NULL) *of->status = kSymbolNotFound;
  return kNotFound;
}

EGPU_LIMITED(cuGetProcAddress)(const char* name, void** function, int version, uint64_t flags) {
  const struct Query of = {name, function, flags, NULL, 1};
  return query(&of, version);
}

EGPU_LIMITED(cuGetProcAddress_v2)(const char* name, void** function, int version, uint64_t flags, int* status) {
  const struct Query of = {name, function, flags, status, 2};
  return query(&of, version);
}

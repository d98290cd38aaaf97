#include "provisioners/gpushare/limiter/forward.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "provisioners/gpushare/limiter/old_libc.h"

enum { kAddressSlots = 4096 };  // at least twice the number of stubs and real functions

static struct {
  const void* address;
  int index;
} addresses[kAddressSlots];

static unsigned addressHash(const void* address) {
  uint64_t key = (uintptr_t)address;
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdu;
  return (unsigned)(key >> 40) % kAddressSlots;
}

static void rememberAddress(const void* address, int index) {
  unsigned at = addressHash(address);
  while (addresses[at].address != NULL) {
    if (addresses[at].address == address) return;
    at = (at + 1) % kAddressSlots;
  }
  addresses[at].address = address;
  addresses[at].index = index;
}

int egpuExportAt(const void* address) {
  for (unsigned at = addressHash(address); addresses[at].address != NULL; at = (at + 1) % kAddressSlots)
    if (addresses[at].address == address) return addresses[at].index;
  return -1;
}

static void complain(const char* path) {
  char line[512];
  const char* reason = dlerror();
  const int length = snprintf(line, sizeof line, "elasticgpu limiter: cannot load the driver's library %s: %s\n", path,
                              reason == NULL ? "no reason given" : reason);
  if (length > 0 && write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0) return;
}

/// A limited symbol and its alias can share one address in the real library: the limited one is remembered first.
static void rememberAll(void) {
  for (int pass = 0; pass < 2; pass++)
    for (unsigned i = 0; i < kExportCount; i++) {
      if ((kExports[i].limited == NULL) != (pass == 1)) continue;
      rememberAddress(egpuStubs[i], (int)i);
      if (egpuReal[i] != NULL) rememberAddress(egpuReal[i], (int)i);
    }
}

static void resolveAll(void) {
  const char* path = egpuRealPath();
  void* library = path[0] == 0 ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL && path[0] != 0) complain(path);
  for (unsigned i = 0; library != NULL && i < kExportCount; i++) {
    egpuReal[i] = dlsym(library, kExports[i].name);
    // A library that is not the driver's, or this one under another name, would lead back to the stubs.
    if (egpuReal[i] == egpuStubs[i]) egpuReal[i] = NULL;
  }
  rememberAll();
  egpuAttach();
  for (unsigned i = 0; i < kExportCount; i++) {
    void* target = egpuReal[i];
    if (target == NULL)
      target = (void*)(uintptr_t)egpuMissing;
    else if (kExports[i].limited != NULL)
      target = kExports[i].limited;
    __atomic_store_n(&egpuSlots[i], target, __ATOMIC_RELEASE);
  }
}

void* egpuResolve(long index) {
  static int state;  // 0: not begun, 1: a thread resolves, 2: done
  int expected = 0;
  if (__atomic_compare_exchange_n(&state, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    resolveAll();
    __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2) sched_yield();
  return __atomic_load_n(&egpuSlots[index], __ATOMIC_ACQUIRE);
}

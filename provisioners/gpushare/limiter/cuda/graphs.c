#include "provisioners/gpushare/limiter/cuda/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "provisioners/gpushare/limiter/cuda/cards.h"
#include "provisioners/gpushare/limiter/cuda/pools.h"
#include "provisioners/gpushare/limiter/cuda/prices.h"
#include "provisioners/gpushare/limiter/old_libc.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

enum { kMaxDepth = 8, kBuckets = 256 };

/// A graph that was instantiated and allocates memory.
struct Executable {
  Handle handle;
  uint64_t bytes;
  struct Executable* next;
};

static struct Lock lock;  ///< guards all below
static struct Executable* executables[kBuckets];
static int anyAllocates;  ///< read without the lock

struct GraphCost {
  uint64_t nanoseconds, bytes;
};

static struct Executable** cellOf(Handle handle) {
  struct Executable** at = &executables[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 12) % kBuckets];
  while (*at != NULL && (*at)->handle != handle) at = &(*at)->next;
  return at;
}

static void addGraph(Handle graph, int depth, struct GraphCost* cost);

static void addNode(Handle node, int depth, struct GraphCost* cost) {
  int type = -1;
  if (EGPU_REAL(cuGraphNodeGetType, Handle, int*)(node, &type) != kSuccess) return;
  if (type == kNodeKernel) {
    struct KernelNode kernel;
    memset(&kernel, 0, sizeof kernel);
    if (EGPU_REAL(cuGraphKernelNodeGetParams, Handle, void*)(node, &kernel) == kSuccess)
      cost->nanoseconds +=
          priceOf(kernelKey(kernel.function, (uint64_t)kernel.grid[0] * kernel.grid[1] * kernel.grid[2]));
  } else if (type == kNodeMemAlloc && EGPU_HAS_REAL(cuGraphMemAllocNodeGetParams)) {
    struct MemAllocNode alloc;
    memset(&alloc, 0, sizeof alloc);
    if (EGPU_REAL(cuGraphMemAllocNodeGetParams, Handle, void*)(node, &alloc) == kSuccess) cost->bytes += alloc.bytes;
  } else if (type == kNodeGraph) {
    Handle child = NULL;
    if (EGPU_REAL(cuGraphChildGraphNodeGetGraph, Handle, Handle*)(node, &child) == kSuccess)
      addGraph(child, depth + 1, cost);
  }
}

static void addGraph(Handle graph, int depth, struct GraphCost* cost) {
  size_t count = 0;
  if (depth > kMaxDepth || EGPU_REAL(cuGraphGetNodes, Handle, Handle*, size_t*)(graph, NULL, &count) != kSuccess)
    return;
  Handle* nodes = count == 0 ? NULL : calloc(count, sizeof *nodes);
  if (nodes == NULL) return;
  if (EGPU_REAL(cuGraphGetNodes, Handle, Handle*, size_t*)(graph, nodes, &count) == kSuccess)
    for (size_t i = 0; i < count; i++) addNode(nodes[i], depth, cost);
  free(nodes);
}

/// Records what an executable graph costs.
static void price(Handle executable, Handle graph) {
  struct GraphCost cost = {0, 0};
  addGraph(graph, 0, &cost);
  setPrice(graphKey(executable), cost.nanoseconds);
  lockAcquire(&lock);
  struct Executable** cell = cellOf(executable);
  if (*cell == NULL && cost.bytes != 0 && (*cell = calloc(1, sizeof **cell)) != NULL) (*cell)->handle = executable;
  if (*cell != NULL) (*cell)->bytes = cost.bytes;
  if (cost.bytes != 0) __atomic_store_n(&anyAllocates, 1, __ATOMIC_RELAXED);
  lockRelease(&lock);
}

static int instantiated(int result, Handle* executable, Handle graph) {
  if (result == kSuccess) price(*executable, graph);
  return result;
}

EGPU_LIMITED(cuGraphInstantiate)(Handle* out, Handle graph, Handle* node, char* log, size_t size) {
  return instantiated(
      EGPU_REAL(cuGraphInstantiate, Handle*, Handle, Handle*, char*, size_t)(out, graph, node, log, size), out, graph);
}

EGPU_LIMITED(cuGraphInstantiate_v2)(Handle* out, Handle graph, Handle* node, char* log, size_t size) {
  return instantiated(
      EGPU_REAL(cuGraphInstantiate_v2, Handle*, Handle, Handle*, char*, size_t)(out, graph, node, log, size), out,
      graph);
}

EGPU_LIMITED(cuGraphInstantiateWithFlags)(Handle* out, Handle graph, unsigned long long flags) {
  return instantiated(EGPU_REAL(cuGraphInstantiateWithFlags, Handle*, Handle, unsigned long long)(out, graph, flags),
                      out, graph);
}

EGPU_LIMITED(cuGraphInstantiateWithParams)(Handle* out, Handle graph, void* parameters) {
  return instantiated(EGPU_REAL(cuGraphInstantiateWithParams, Handle*, Handle, void*)(out, graph, parameters), out,
                      graph);
}

EGPU_LIMITED(cuGraphInstantiateWithParams_ptsz)(Handle* out, Handle graph, void* parameters) {
  return instantiated(EGPU_REAL(cuGraphInstantiateWithParams_ptsz, Handle*, Handle, void*)(out, graph, parameters), out,
                      graph);
}

EGPU_LIMITED(cuGraphExecUpdate)(Handle executable, Handle graph, Handle* node, int* outcome) {
  return instantiated(EGPU_REAL(cuGraphExecUpdate, Handle, Handle, Handle*, int*)(executable, graph, node, outcome),
                      &executable, graph);
}

EGPU_LIMITED(cuGraphExecUpdate_v2)(Handle executable, Handle graph, void* outcome) {
  return instantiated(EGPU_REAL(cuGraphExecUpdate_v2, Handle, Handle, void*)(executable, graph, outcome), &executable,
                      graph);
}

EGPU_LIMITED(cuGraphExecDestroy)(Handle executable) {
  lockAcquire(&lock);
  struct Executable** cell = cellOf(executable);
  struct Executable* ended = *cell;
  if (ended != NULL) *cell = ended->next;
  lockRelease(&lock);
  free(ended);
  return EGPU_REAL(cuGraphExecDestroy, Handle)(executable);
}

static uint64_t bytesOf(Handle executable) {
  if (__builtin_expect(!__atomic_load_n(&anyAllocates, __ATOMIC_RELAXED), 1)) return 0;
  lockAcquire(&lock);
  const struct Executable* found = *cellOf(executable);
  const uint64_t bytes = found == NULL ? 0 : found->bytes;
  lockRelease(&lock);
  return bytes;
}

/// Calls a function that may reserve the memory of a graph, within the limit.
static int callReserving(int (*call)(Handle, Handle), Handle executable, Handle stream) {
  const uint64_t bytes = bytesOf(executable);
  const int device = bytes == 0 ? -1 : deviceOfStream(stream);
  if (device < 0) return call(executable, stream);
  if (!graphMemoryBegin(device, bytes)) return kOutOfMemory;
  const int result = call(executable, stream);
  graphMemoryEnd(device);
  return result;
}

EGPU_LIMITED(cuGraphUpload)(Handle executable, Handle stream) {
  return callReserving(EGPU_REAL(cuGraphUpload, Handle, Handle), executable, stream);
}

EGPU_LIMITED(cuGraphUpload_ptsz)(Handle executable, Handle stream) {
  return callReserving(EGPU_REAL(cuGraphUpload_ptsz, Handle, Handle), executable, stream);
}

EGPU_LIMITED(cuGraphLaunch)(Handle executable, Handle stream) {
  struct Launch launch;
  launchBegin(&launch, graphKey(executable), stream, 0);
  return launchEnd(&launch, callReserving(EGPU_REAL(cuGraphLaunch, Handle, Handle), executable, stream));
}

EGPU_LIMITED(cuGraphLaunch_ptsz)(Handle executable, Handle stream) {
  struct Launch launch;
  launchBegin(&launch, graphKey(executable), stream, 1);
  return launchEnd(&launch, callReserving(EGPU_REAL(cuGraphLaunch_ptsz, Handle, Handle), executable, stream));
}

void graphsForgetAll(void) {
  memset(&lock, 0, sizeof lock);
  memset(executables, 0, sizeof executables);
  anyAllocates = 0;
}

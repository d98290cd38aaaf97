/* The parts of CUDA's driver interface that the limiter uses: codes, types and leading members of structs, from
 * NVIDIA's public documentation. Handles are opaque pointers. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_DRIVER_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_exports.h"
#include "provisioners/gpushare/limiter/forward.h"

/** The real library's function, with the given types of parameters. NULL if it has none: EGPU_HAS_REAL. */
#define EGPU_REAL(name, ...) ((int (*)(__VA_ARGS__))egpuReal[kExport_##name])
#define EGPU_HAS_REAL(name) (egpuReal[kExport_##name] != NULL)

enum {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotReady = 600,
  kNotFound = 500,
  kSystemNotReady = 802,
};

enum {
  kLocationDevice = 1,         ///< CU_MEM_LOCATION_TYPE_DEVICE
  kPoolReservedCurrent = 5,    ///< CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
  kGraphUsedCurrent = 0,       ///< CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
  kGraphReservedCurrent = 2,   ///< CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
  kArrayWithoutMemory = 0xc0,  ///< CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING
  kNodeKernel = 0,
  kNodeGraph = 4,
  kNodeMemAlloc = 10,
  kSymbolNotFound = 1,  ///< CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
};

typedef uint64_t DevicePointer;
typedef void* Handle;

struct MemLocation {
  int type, id;
};

/** CUmemAllocationProp and CUmemPoolProps begin alike. */
struct AllocationProperties {
  int type, handleTypes;
  struct MemLocation location;
};

struct ArrayDescriptor {
  size_t width, height;
  int format;
  unsigned channels;
};

struct ArrayDescriptorOld {
  unsigned width, height;
  int format;
  unsigned channels;
};

struct Array3dDescriptor {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
};

struct Array3dDescriptorOld {
  unsigned width, height, depth;
  int format;
  unsigned channels, flags;
};

struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Handle stream;
};

struct MultiDeviceLaunch {
  Handle function;
  unsigned grid[3], block[3], sharedBytes;
  Handle stream;
  void** parameters;
};

struct KernelNode {
  Handle function;
  unsigned grid[3], block[3], sharedBytes;
  void** parameters;
  void** extra;
  Handle spare[4];
};

/** CUDA_MEM_ALLOC_NODE_PARAMS. */
struct MemAllocNode {
  struct AllocationProperties pool;
  uint64_t poolRest[9];
  const void* access;
  size_t accessCount, bytes;
  DevicePointer address;
  uint64_t spare[4];
};

/** CUarrayMapInfo. */
struct ArrayMapping {
  int resourceType;
  Handle resource;
  int subresourceType;
  uint64_t subresource[4];
  int operation;  ///< 1 maps, 2 unmaps
  int handleType;
  uint64_t handle, offset;
  unsigned deviceMask, flags, reserved[2];
};

#endif

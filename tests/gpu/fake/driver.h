// The parts of CUDA's driver interface that the fake implements, written down from NVIDIA's public documentation and
// independently of the limiter, so that an error in one of them shows.
#pragma once

#include <cstddef>
#include <cstdint>

#define EGPU_FAKE extern "C" __attribute__((visibility("default"))) int

namespace egpu::gpu::testing {

enum CudaResult : int {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  notInitialized = 3,
  noDevice = 100,
  invalidDevice = 101,
  invalidContext = 201,
  invalidHandle = 400,
  notFound = 500,
  notReady = 600,
  notSupported = 801,
  captureUnsupported = 900,
  captureIsolation = 905,
};

using Address = uint64_t;
using Device = int;

struct Location {
  int type, id;  // type 1: a device
};

struct AllocationProp {
  int type, handleTypes;
  Location location;
};

struct ArrayDesc {
  std::size_t width, height;
  int format;
  unsigned channels;
};

struct Array3dDesc {
  std::size_t width, height, depth;
  int format;
  unsigned channels, flags;
};

struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void* stream;
  void* attributes;
  unsigned attributeCount;
};

struct KernelParams {
  void* function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void** parameters;
  void** extra;
};

struct MemAllocParams {
  struct {
    int allocType, handleTypes;
    Location location;
    void* security;
    std::size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
  } pool;
  const void* access;
  std::size_t accessCount, bytes;
  Address address;
};

}  // namespace egpu::gpu::testing

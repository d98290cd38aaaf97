// Allocations, copies, arrays, pools and virtual memory management.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "tests/gpu/fake/machine.h"

namespace egpu::gpu::testing {
namespace {

uint64_t rounded(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

bool hasPhysicalMemory(int kind) { return kind == 0 || kind == 1; }

/// Grows a pool for an allocation. Memory within a pool never fragments: the driver can map it to other addresses.
CudaResult growPool(Pool* pool, uint64_t bytes) {
  if (pool->used + bytes > pool->reserved) {
    const uint64_t growth = rounded(pool->used + bytes - pool->reserved, kChunk);
    if (const CudaResult result = pool->onDevice ? GpuMachine::get().charge(pool->device, growth) : success)
      return result;
    pool->reserved += growth;
  }
  pool->used += bytes;
  return success;
}

void trimPool(Pool* pool, uint64_t minimum) {
  const uint64_t target = std::max(minimum, rounded(pool->used, kChunk));
  if (pool->reserved <= target) return;
  if (pool->onDevice) GpuMachine::get().release(pool->device, pool->reserved - target);
  pool->reserved = target;
}

CudaResult allocateFromPool(Address* out, uint64_t bytes, Pool* pool, void* handle) {
  auto& machine = GpuMachine::get();
  if (out == nullptr || bytes == 0) return invalidValue;
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(machine.mutex);
  if (stream->capture != nullptr) return captureAlloc(stream, out, bytes);
  if (pool == nullptr) pool = machine.currentPools[stream->context->device];
  if (!machine.pools.contains(pool)) return invalidValue;
  if (const CudaResult result = growPool(pool, rounded(bytes, 512))) return result;
  *out = machine.reserve(bytes);
  machine.allocations[*out] = {bytes, pool->device, 3, nullptr, pool, machine.nextId++};
  return success;
}

CudaResult freeAsync(Address address, void* handle) {
  auto& machine = GpuMachine::get();
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  {
    const std::lock_guard lock(machine.mutex);
    if (stream->capture != nullptr) return captureFree(stream, address);
    const auto found = machine.allocations.find(address);
    if (found == machine.allocations.end()) return invalidValue;
    if (found->second.kind == 3) {  // its memory stays in the pool until the work has ended
      found->second.pool->used -= rounded(found->second.size, 512);
      machine.unreserve(address, found->second.size);
      machine.allocations.erase(found);
      return success;
    }
  }
  return freeAllocation(address);
}

}  // namespace

CudaResult allocate(Address* out, uint64_t bytes, int kind) {
  auto& machine = GpuMachine::get();
  Context* context = current();
  if (context == nullptr) return machine.initialized ? invalidContext : notInitialized;
  if (out == nullptr || bytes == 0) return invalidValue;
  if (hasPhysicalMemory(kind))
    if (const CudaResult result = machine.charge(context->device, bytes)) return result;
  const Address address = machine.reserve(bytes);
  if (address == 0) return outOfMemory;
  const std::lock_guard lock(machine.mutex);
  machine.allocations[address] = {bytes, context->device, kind, context, nullptr, machine.nextId++};
  *out = address;
  return success;
}

CudaResult freeAllocation(Address address) {
  auto& machine = GpuMachine::get();
  Allocation found;
  {
    const std::lock_guard lock(machine.mutex);
    const auto at = machine.allocations.find(address);
    if (at == machine.allocations.end() || at->second.kind > 3) return invalidValue;
    found = at->second;
    machine.allocations.erase(at);
    if (found.kind == 3) {
      found.pool->used -= rounded(found.size, 512);
      trimPool(found.pool, found.pool->threshold);
    }
  }
  machine.unreserve(address, found.size);
  if (hasPhysicalMemory(found.kind)) machine.release(found.device, found.size);
  return success;
}

void endContext(const Context* context) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  for (auto at = machine.allocations.begin(); at != machine.allocations.end();) {
    if (at->second.context != context || at->second.kind > 2) {
      ++at;
      continue;
    }
    if (hasPhysicalMemory(at->second.kind)) machine.release(at->second.device, at->second.size);
    machine.unreserve(at->first, at->second.size);
    at = machine.allocations.erase(at);
  }
  for (auto at = machine.arrays.begin(); at != machine.arrays.end();) {
    if (at->second.context != context) {
      ++at;
      continue;
    }
    machine.release(at->second.device, at->second.size);
    at = machine.arrays.erase(at);
  }
}

void trimPools() {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  for (void* pool : machine.pools) trimPool(static_cast<Pool*>(pool), static_cast<Pool*>(pool)->threshold);
}

EGPU_FAKE cuMemAlloc_v2(Address* out, std::size_t bytes) { return allocate(out, bytes, 0); }
EGPU_FAKE cuMemAllocManaged(Address* out, std::size_t bytes, unsigned) { return allocate(out, bytes, 1); }

EGPU_FAKE cuMemAllocPitch_v2(Address* out, std::size_t* pitch, std::size_t width, std::size_t height, unsigned) {
  if (pitch == nullptr || width == 0 || height == 0) return invalidValue;
  const CudaResult result = allocate(out, rounded(width, 512) * height, 0);
  if (result == success) *pitch = rounded(width, 512);
  return result;
}

EGPU_FAKE cuMemFree_v2(Address address) {
  if (!GpuMachine::get().initialized) return notInitialized;
  return address == 0 ? success : freeAllocation(address);
}

EGPU_FAKE cuMemHostAlloc(void** out, std::size_t bytes, unsigned) {
  return allocate(reinterpret_cast<Address*>(out), bytes, 2);
}
EGPU_FAKE cuMemAllocHost_v2(void** out, std::size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }
EGPU_FAKE cuMemFreeHost(void* address) { return freeAllocation(reinterpret_cast<Address>(address)); }

EGPU_FAKE cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  auto& machine = GpuMachine::get();
  const Context* context = current();
  if (context == nullptr) return invalidContext;
  const auto memory = machine.device(context->device).memory;
  if (total != nullptr) *total = memory;
  if (free != nullptr) *free = memory - machine.used(context->device);
  return success;
}

EGPU_FAKE cuMemGetAddressRange_v2(Address* base, std::size_t* size, Address address) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  auto found = machine.allocations.upper_bound(address);
  if (found == machine.allocations.begin()) return invalidValue;
  --found;
  if (address - found->first >= found->second.size) return invalidValue;
  if (base != nullptr) *base = found->first;
  if (size != nullptr) *size = found->second.size;
  return success;
}

// ---- copies

static int copy(Address to, Address from, std::size_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}

#define EGPU_COPY(name, To, From) \
  EGPU_FAKE name(To to, From from, std::size_t bytes) { return copy((Address)to, (Address)from, bytes); }
#define EGPU_COPY_ASYNC(name, To, From) \
  EGPU_FAKE name(To to, From from, std::size_t bytes, void*) { return copy((Address)to, (Address)from, bytes); }
EGPU_COPY(cuMemcpy, Address, Address)
EGPU_COPY(cuMemcpyHtoD_v2, Address, const void*)
EGPU_COPY(cuMemcpyDtoH_v2, void*, Address)
EGPU_COPY(cuMemcpyDtoD_v2, Address, Address)
EGPU_COPY(cuMemcpyHtoD_v2_ptds, Address, const void*)
EGPU_COPY(cuMemcpyDtoH_v2_ptds, void*, Address)
EGPU_COPY_ASYNC(cuMemcpyAsync, Address, Address)
EGPU_COPY_ASYNC(cuMemcpyHtoDAsync_v2, Address, const void*)
EGPU_COPY_ASYNC(cuMemcpyDtoHAsync_v2, void*, Address)
EGPU_COPY_ASYNC(cuMemcpyDtoDAsync_v2, Address, Address)
EGPU_COPY_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, Address, const void*)
EGPU_COPY_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, void*, Address)

/// Zeroing whole pages gives them back to the host, so that clearing a card's memory takes no memory of the host.
static int fill(Address to, unsigned value, unsigned width, std::size_t count) {
  const uint64_t bytes = count * width;
  if (value == 0 && bytes >= (1 << 20)) {
    const Address from = (to + 4095) & ~Address{4095}, end = (to + bytes) & ~Address{4095};
    std::memset(reinterpret_cast<void*>(to), 0, from - to);
    madvise(reinterpret_cast<void*>(from), end - from, MADV_DONTNEED);
    std::memset(reinterpret_cast<void*>(end), 0, to + bytes - end);
    return success;
  }
  if (bytes > (64 << 20)) return success;  // only the time would be spent
  for (std::size_t i = 0; i < count; ++i) std::memcpy(reinterpret_cast<void*>(to + i * width), &value, width);
  return success;
}

#define EGPU_FILL(name, Value, width) \
  EGPU_FAKE name(Address to, Value value, std::size_t count) { return fill(to, value, width, count); }
#define EGPU_FILL_ASYNC(name, Value, width) \
  EGPU_FAKE name(Address to, Value value, std::size_t count, void*) { return fill(to, value, width, count); }
EGPU_FILL(cuMemsetD8_v2, unsigned char, 1)
EGPU_FILL(cuMemsetD16_v2, unsigned short, 2)
EGPU_FILL(cuMemsetD32_v2, unsigned, 4)
EGPU_FILL_ASYNC(cuMemsetD8Async, unsigned char, 1)
EGPU_FILL_ASYNC(cuMemsetD16Async, unsigned short, 2)
EGPU_FILL_ASYNC(cuMemsetD32Async, unsigned, 4)

// ---- arrays

/// Bytes of an element of the formats with a plain size.
static uint64_t elementBytes(int format, unsigned channels) {
  switch (format) {
    case 0x01:
    case 0x08:
      return channels;
    case 0x02:
    case 0x09:
    case 0x10:
      return 2 * channels;
    case 0x03:
    case 0x0a:
    case 0x20:
      return 4 * channels;
    default:
      return 0;
  }
}

static int createArray(void** out, const Array3dDesc& of, unsigned levels) {
  auto& machine = GpuMachine::get();
  Context* context = current();
  if (context == nullptr) return invalidContext;
  uint64_t bytes = 0;
  const bool layered = (of.flags & 1) != 0;
  for (unsigned i = 0; i < levels; ++i) {
    const auto side = [i](std::size_t n) { return std::max<uint64_t>(n >> i, 1); };
    const uint64_t depth = layered ? std::max<uint64_t>(of.depth, 1) : side(of.depth);
    bytes += elementBytes(of.format, of.channels) * side(of.width) * side(of.height) * depth;
  }
  if (bytes == 0) return invalidValue;
  if ((of.flags & 0xc0) != 0) bytes = 0;  // sparse, or mapped later
  if (const CudaResult result = machine.charge(context->device, bytes)) return result;
  void* handle = new char[16];
  const std::lock_guard lock(machine.mutex);
  machine.arrays[handle] = {bytes, context->device, 0, context, nullptr, machine.nextId++};
  *out = handle;
  return success;
}

static int destroyArray(void* handle) {
  auto& machine = GpuMachine::get();
  Allocation found;
  {
    const std::lock_guard lock(machine.mutex);
    const auto at = machine.arrays.find(handle);
    if (at == machine.arrays.end()) return invalidHandle;
    found = at->second;
    machine.arrays.erase(at);
  }
  machine.release(found.device, found.size);
  delete[] static_cast<char*>(handle);
  return success;
}

EGPU_FAKE cuArrayCreate_v2(void** out, const ArrayDesc* of) {
  return createArray(out, {of->width, of->height, 0, of->format, of->channels, 0}, 1);
}
EGPU_FAKE cuArray3DCreate_v2(void** out, const Array3dDesc* of) { return createArray(out, *of, 1); }
EGPU_FAKE cuMipmappedArrayCreate(void** out, const Array3dDesc* of, unsigned levels) {
  return levels == 0 ? invalidValue : createArray(out, *of, levels);
}
EGPU_FAKE cuArrayDestroy(void* handle) { return destroyArray(handle); }
EGPU_FAKE cuMipmappedArrayDestroy(void* handle) { return destroyArray(handle); }

// ---- pools

EGPU_FAKE cuMemAllocAsync(Address* out, std::size_t bytes, void* stream) {
  return allocateFromPool(out, bytes, nullptr, stream);
}
EGPU_FAKE cuMemAllocAsync_ptsz(Address* out, std::size_t bytes, void* stream) {
  return allocateFromPool(out, bytes, nullptr, stream);
}
EGPU_FAKE cuMemAllocFromPoolAsync(Address* out, std::size_t bytes, void* pool, void* stream) {
  return allocateFromPool(out, bytes, static_cast<Pool*>(pool), stream);
}
EGPU_FAKE cuMemAllocFromPoolAsync_ptsz(Address* out, std::size_t bytes, void* pool, void* stream) {
  return allocateFromPool(out, bytes, static_cast<Pool*>(pool), stream);
}
EGPU_FAKE cuMemFreeAsync(Address address, void* stream) { return freeAsync(address, stream); }
EGPU_FAKE cuMemFreeAsync_ptsz(Address address, void* stream) { return freeAsync(address, stream); }

EGPU_FAKE cuDeviceGetDefaultMemPool(void** out, Device device) {
  auto& machine = GpuMachine::get();
  if (device < 0 || device >= machine.deviceCount()) return invalidDevice;
  *out = machine.defaultPools[device].get();
  return success;
}
EGPU_FAKE cuDeviceGetMemPool(void** out, Device device) {
  auto& machine = GpuMachine::get();
  if (device < 0 || device >= machine.deviceCount()) return invalidDevice;
  const std::lock_guard lock(machine.mutex);
  *out = machine.currentPools[device];
  return success;
}
EGPU_FAKE cuDeviceSetMemPool(Device device, void* pool) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  if (!machine.pools.contains(pool)) return invalidValue;
  machine.currentPools[device] = static_cast<Pool*>(pool);
  return success;
}
EGPU_FAKE cuMemPoolCreate(void** out, const AllocationProp* of) {
  auto& machine = GpuMachine::get();
  auto* pool = new Pool{of->location.id, of->location.type == 1, 0, 0, 0};
  const std::lock_guard lock(machine.mutex);
  machine.pools.insert(pool);
  *out = pool;
  return success;
}
EGPU_FAKE cuMemPoolDestroy(void* handle) {
  auto& machine = GpuMachine::get();
  auto* pool = static_cast<Pool*>(handle);
  const std::lock_guard lock(machine.mutex);
  for (const auto& own : machine.defaultPools)
    if (own.get() == pool) return invalidValue;
  if (machine.pools.erase(pool) == 0) return invalidValue;
  for (auto& at : machine.currentPools)
    if (at == pool) at = machine.defaultPools[pool->device].get();
  trimPool(pool, 0);  // the record stays for allocations that are still in use
  return success;
}
EGPU_FAKE cuMemPoolTrimTo(void* pool, std::size_t minimum) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  trimPool(static_cast<Pool*>(pool), minimum);
  return success;
}
EGPU_FAKE cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  if (attribute == 4) static_cast<Pool*>(pool)->threshold = *static_cast<uint64_t*>(value);
  return success;
}
EGPU_FAKE cuMemPoolGetAttribute(void* handle, int attribute, void* value) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  const auto* pool = static_cast<Pool*>(handle);
  if (attribute < 4) return *static_cast<int*>(value) = 1, success;
  *static_cast<uint64_t*>(value) = attribute == 4 ? pool->threshold : attribute <= 6 ? pool->reserved : pool->used;
  return success;
}

// ---- virtual memory management

namespace {
struct BackedMemory {
  uint64_t size;
  Device device;
  bool onDevice;
  int references;
};
std::map<Address, std::pair<uint64_t, BackedMemory*>> mapped;  // guarded by the machine's mutex

void unreference(BackedMemory* physical) {
  if (--physical->references > 0) return;
  if (physical->onDevice) GpuMachine::get().release(physical->device, physical->size);
  delete physical;
}
}  // namespace

EGPU_FAKE cuMemGetAllocationGranularity(std::size_t* out, const AllocationProp*, int) { return *out = kChunk, success; }

EGPU_FAKE cuMemAddressReserve(Address* out, std::size_t bytes, std::size_t, Address, unsigned long long) {
  if (bytes == 0 || bytes % kChunk != 0) return invalidValue;
  *out = GpuMachine::get().reserve(bytes);
  return *out == 0 ? outOfMemory : success;
}
EGPU_FAKE cuMemAddressFree(Address address, std::size_t bytes) {
  GpuMachine::get().unreserve(address, bytes);
  return success;
}
EGPU_FAKE cuMemCreate(uint64_t* out, std::size_t bytes, const AllocationProp* of, unsigned long long) {
  if (bytes == 0 || bytes % kChunk != 0) return invalidValue;
  const bool onDevice = of->location.type == 1;
  if (onDevice)
    if (const CudaResult result = GpuMachine::get().charge(of->location.id, bytes)) return result;
  *out = reinterpret_cast<uint64_t>(new BackedMemory{bytes, of->location.id, onDevice, 1});
  return success;
}
EGPU_FAKE cuMemRelease(uint64_t handle) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  unreference(reinterpret_cast<BackedMemory*>(handle));
  return success;
}
EGPU_FAKE cuMemMap(Address at, std::size_t bytes, std::size_t, uint64_t handle, unsigned long long) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  auto* physical = reinterpret_cast<BackedMemory*>(handle);
  if (mapped.contains(at)) return invalidValue;
  mapped[at] = {bytes, physical};
  ++physical->references;
  return success;
}
EGPU_FAKE cuMemUnmap(Address from, std::size_t bytes) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  auto at = mapped.lower_bound(from);
  if (at == mapped.end() || at->first >= from + bytes) return invalidValue;
  while (at != mapped.end() && at->first < from + bytes) {
    unreference(at->second.second);
    at = mapped.erase(at);
  }
  return success;
}
EGPU_FAKE cuMemRetainAllocationHandle(uint64_t* out, void* address) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  auto at = mapped.upper_bound(reinterpret_cast<Address>(address));
  if (at == mapped.begin()) return invalidValue;
  --at;
  if (reinterpret_cast<Address>(address) - at->first >= at->second.first) return invalidValue;
  ++at->second.second->references;
  *out = reinterpret_cast<uint64_t>(at->second.second);
  return success;
}
EGPU_FAKE cuMemSetAccess(Address, std::size_t, const void*, std::size_t) { return success; }

}  // namespace egpu::gpu::testing

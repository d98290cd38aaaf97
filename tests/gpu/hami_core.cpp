// Stub of HAMi-core's libvgpu.so. It shows whether a container has everything that the real library needs: the dynamic
// linker preloads it, it replaces dlsym, and it limits card 0 by CUDA_DEVICE_MEMORY_LIMIT_0. All processes of the claim
// share the file CUDA_DEVICE_MEMORY_SHARED_CACHE, and start one after the other by the lock in /tmp/vgpulock. Without
// one of these, no memory can be allocated.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kOutOfMemory = 2;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr mode_t kAnyUser = 0666;

using Symbol = void* (*)(void*, const char*);
using Allocate = int (*)(std::uint64_t*, std::size_t);
using Usage = std::atomic<std::uint64_t>;  // bytes
Allocate driverAllocate = nullptr;

/// Returns the used bytes that all processes share; null if a file can't be opened.
Usage* sharedUsage() {
  const char* cache = std::getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
  const int lock = open("/tmp/vgpulock/lock", O_RDWR | O_CREAT | O_CLOEXEC, kAnyUser);
  const int file = cache == nullptr ? -1 : open(cache, O_RDWR | O_CREAT | O_CLOEXEC, kAnyUser);
  if (lock < 0 || file < 0 || flock(lock, LOCK_EX) != 0 || ftruncate(file, sizeof(Usage)) != 0) return nullptr;
  void* page = mmap(nullptr, sizeof(Usage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  flock(lock, LOCK_UN);
  return page == MAP_FAILED ? nullptr : static_cast<Usage*>(page);
}

std::uint64_t limit() {
  const char* text = std::getenv("CUDA_DEVICE_MEMORY_LIMIT_0");  // such as 4096m
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10) * kMiB;
}

/// Memory of this process. At its end the other processes of the claim can use it, unless it is killed.
class ProcessMemory {
 public:
  ~ProcessMemory() {
    if (shared_ != nullptr) shared_->fetch_sub(own_);
  }
  bool reserve(std::uint64_t bytes) {
    if (shared_ == nullptr) return false;
    if (shared_->fetch_add(bytes) + bytes > limit()) return shared_->fetch_sub(bytes), false;
    own_ += bytes;
    return true;
  }
  void release(std::uint64_t bytes) { shared_->fetch_sub(bytes), own_ -= bytes; }

 private:
  Usage* const shared_ = sharedUsage();
  std::uint64_t own_ = 0;
};

/// Takes the place of the driver's cuMemAlloc_v2.
int allocate(std::uint64_t* address, std::size_t bytes) {
  static ProcessMemory memory;
  if (!memory.reserve(bytes)) return kOutOfMemory;
  const int code = driverAllocate(address, bytes);
  if (code != 0) memory.release(bytes);
  return code;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  static const auto original = reinterpret_cast<Symbol>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  void* const found = original(handle, name);
  if (found == nullptr || std::strcmp(name, "cuMemAlloc_v2") != 0) return found;
  driverAllocate = reinterpret_cast<Allocate>(found);
  return reinterpret_cast<void*>(&allocate);
}

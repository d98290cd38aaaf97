#include "tests/gpu/fake/machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/nvml/mig_state.h"

namespace egpu::gpu::testing {

namespace {
constexpr int kAccounts = 256;
constexpr uint64_t kArena = uint64_t{1} << 40;
constexpr uint64_t kAlignment = 512;
constexpr uint64_t kDropAtOnce = 64 << 10;  // pages of a freed range of this size go back to the host
thread_local std::vector<Context*> stack;
}  // namespace

/// The state file. The mutex is robust: it survives a process that ends with it.
struct GpuMachine::SharedAccounts {
  std::atomic<uint32_t> ready;
  pthread_mutex_t mutex;
  std::atomic<uint64_t> peak[kMaxDevices];
  ProcessAccount accounts[kAccounts];
};

int64_t now() {
  auto& machine = GpuMachine::get();
  if (machine.simulatesTime) return machine.simulatedTime;
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

void waitUntil(int64_t time) {
  auto& machine = GpuMachine::get();
  if (machine.simulatesTime) {
    int64_t before = machine.simulatedTime;
    while (before < time && !machine.simulatedTime.compare_exchange_weak(before, time)) {
    }
    return;
  }
  for (int64_t left; (left = time - now()) > 0;) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
}

GpuMachine& GpuMachine::get() {
  static GpuMachine* machine = new GpuMachine;  // never destroyed: threads may call until the process ends
  return *machine;
}

namespace {
/// CUDA cores of an SM: 64 for the compute capability 8.0, 128 for newer ones.
uint64_t coresPerSm(const nvidia::testing::FakeDevice& device) {
  return device.computeMajor == 8 && device.computeMinor == 0 ? 64 : 128;
}

/// The cards that this process sees. A card in MIG mode is replaced by an instance, of which CUDA lists one only.
std::shared_ptr<const nvidia::testing::FakeNode> visibleNode() {
  const auto all = nvidia::testing::currentNode();
  if (!all) return std::make_shared<nvidia::testing::FakeNode>();
  auto out = std::make_shared<nvidia::testing::FakeNode>(*all);
  out->devices.clear();
  bool hasInstance = false;
  for (const std::size_t place : nvidia::testing::visiblePlaces(*all)) {
    nvidia::testing::FakeDevice device = all->devices[place];
    if (device.mig == 1) {
      const auto instances = nvidia::testing::visibleMigDevices(*all, place);
      if (hasInstance || instances.empty()) continue;
      hasInstance = true;
      device.uuid = instances.front().uuid, device.memory = instances.front().memory;
      device.cores = instances.front().sms * coresPerSm(device);
    }
    out->devices.push_back(std::move(device));
  }
  return out;
}
}  // namespace

GpuMachine::GpuMachine() : node_(visibleNode()), mps_(mpsLimits()) {
  if (const char* path = std::getenv("ELASTICGPU_FAKE_NVML")) {
    const auto file = YAML::LoadFile(path);
    for (const auto& entry : file["kernels"]) kernels_[entry.first.as<std::string>()] = entry.second.as<int64_t>();
    simulatesTime = file["clock"] && file["clock"].as<std::string>() == "simulated";
    for (const auto& name : file["newerFunctions"]) newerFunctions_.push_back(name.as<std::string>());
  }
  for (int i = 0; i < deviceCount(); ++i) {
    primaries.push_back(std::make_unique<Context>(Context{i, true, 0, 0}));
    defaultPools.push_back(std::make_unique<Pool>(Pool{i, true, 0, 0, 0}));
    currentPools.push_back(defaultPools.back().get());
    contexts.insert(primaries.back().get());
    pools.insert(defaultPools.back().get());
  }
  if (const char* path = std::getenv("ELASTICGPU_FAKE_CUDA_STATE")) openState(path);
  void* arena = mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena != MAP_FAILED) next_ = reinterpret_cast<Address>(arena), end_ = next_ + kArena;
}

void GpuMachine::openState(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || ftruncate(file, sizeof(SharedAccounts)) != 0) {
    std::fprintf(stderr, "fake libcuda: cannot open %s: %s\n", path, std::strerror(errno));
    std::abort();
  }
  void* mapped = mmap(nullptr, sizeof(SharedAccounts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) std::abort();
  state_ = static_cast<SharedAccounts*>(mapped);
  uint32_t untouched = 0;
  if (state_->ready.compare_exchange_strong(untouched, 1)) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&state_->mutex, &attributes);
    state_->ready = 2;
  }
  while (state_->ready != 2) usleep(100);
}

namespace {
class StateLock {
 public:
  explicit StateLock(pthread_mutex_t& mutex) : mutex_(mutex) {
    if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  }
  ~StateLock() { pthread_mutex_unlock(&mutex_); }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};
}  // namespace

/// Takes an account for this process, also in a child after a fork. The state's mutex is held.
void GpuMachine::joinState() {
  if (pid_ == getpid()) return;
  pid_ = getpid();
  for (auto& used : mine_) used = 0;
  for (auto& account : state_->accounts)
    if (account.pid == 0 || account.pid == pid_ || (kill(static_cast<pid_t>(account.pid), 0) != 0 && errno == ESRCH)) {
      account.pid = pid_.load();
      for (auto& used : account.used) used = 0;
      account_ = &account;
      return;
    }
  std::abort();
}

/// The state's mutex is held. The driver frees the memory of a process that has ended.
uint64_t GpuMachine::sum(Device device) {
  uint64_t out = 0;
  for (auto& account : state_->accounts) {
    const auto pid = static_cast<pid_t>(account.pid.load());
    if (pid == 0 || account.used[device] == 0) continue;
    if (pid != pid_ && kill(pid, 0) != 0 && errno == ESRCH)
      for (auto& used : account.used) used = 0;
    else
      out += account.used[device];
  }
  return out;
}

CudaResult GpuMachine::charge(Device device, uint64_t bytes) {
  const uint64_t max = std::min(node_->devices[device].memory, mps_.memoryOf(device));
  if (state_ == nullptr) {
    uint64_t before = mine_[device].load();
    do {
      if (bytes > max || before > max - bytes) return outOfMemory;
    } while (!mine_[device].compare_exchange_weak(before, before + bytes));
    uint64_t peak = peak_[device].load();
    while (peak < before + bytes && !peak_[device].compare_exchange_weak(peak, before + bytes)) {
    }
    return success;
  }
  const StateLock lock(state_->mutex);
  joinState();
  const uint64_t before = sum(device);
  if (bytes > max || before > max - bytes) return outOfMemory;
  account_->used[device] += bytes;
  mine_[device] += bytes;
  state_->peak[device] = std::max(state_->peak[device].load(), before + bytes);
  return success;
}

void GpuMachine::release(Device device, uint64_t bytes) {
  if (state_ != nullptr) {
    const StateLock lock(state_->mutex);
    joinState();
    account_->used[device] -= bytes;
    mine_[device] -= bytes;
    return;
  }
  mine_[device] -= bytes;
}

uint64_t GpuMachine::used(Device device) {
  if (state_ == nullptr) return mine_[device];
  const StateLock lock(state_->mutex);
  joinState();
  return sum(device);
}

uint64_t GpuMachine::peak(Device device) {
  return state_ == nullptr ? peak_[device].load() : state_->peak[device].load();
}

int GpuMachine::sms(Device number) const {
  const auto all = static_cast<int>(device(number).cores / coresPerSm(device(number)));
  return std::max(all == 0 ? 0 : 1, all * mps_.percentage / 100);
}

int64_t GpuMachine::durationOf(const std::string& kernel) const {
  const auto found = kernels_.find(kernel);
  return found == kernels_.end() ? 10000 : found->second;
}

Address GpuMachine::reserve(uint64_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(ranges_);
  if (const auto found = freeRanges_.find(bytes); found != freeRanges_.end() && !found->second.empty()) {
    const Address out = found->second.back();
    found->second.pop_back();
    return out;
  }
  const uint64_t alignment = bytes >= kChunk ? kChunk : kAlignment;
  const Address out = (next_ + alignment - 1) / alignment * alignment;
  if (next_ == 0 || bytes > end_ - out) return 0;
  next_ = out + bytes;
  return out;
}

void GpuMachine::unreserve(Address address, uint64_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes >= kDropAtOnce) {
    const Address from = (address + 4095) & ~Address{4095}, to = (address + bytes) & ~Address{4095};
    madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  }
  const std::lock_guard lock(ranges_);
  freeRanges_[bytes].push_back(address);
}

Context* current() { return stack.empty() ? nullptr : stack.back(); }

void pushContext(Context* context) { stack.push_back(context); }

Context* popContext() {
  if (stack.empty()) return nullptr;
  Context* out = stack.back();
  stack.pop_back();
  return out;
}

void removeContext(const Context* context) {
  stack.erase(std::remove(stack.begin(), stack.end(), context), stack.end());
}

}  // namespace egpu::gpu::testing

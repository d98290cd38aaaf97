// The machine behind the fake libcuda.so.1: its cards, their memory, contexts, streams. One per process; the amounts of
// memory in use are shared by all processes with the same state file. All functions are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/fake/driver.h"
#include "tests/gpu/fake/mps_client.h"
#include "tests/nvml/node_file.h"

namespace egpu::gpu::testing {

constexpr int kMaxDevices = 16;
constexpr uint64_t kChunk = 2 << 20;  ///< granularity of physical memory

/// Accounts of one process in the state file.
struct ProcessAccount {
  std::atomic<int64_t> pid;
  std::atomic<uint64_t> used[kMaxDevices];
};

struct Pool {
  Device device = 0;
  bool onDevice = true;
  uint64_t threshold = 0, used = 0, reserved = 0;
};

struct Context {
  Device device = 0;
  bool primary = false;
  int references = 0;
  unsigned flags = 0;
};

struct Graph;

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  int64_t end = 0;           ///< time at which its last work ends
  Graph* capture = nullptr;  ///< not null while it is captured
};

struct Allocation {
  uint64_t size = 0;
  Device device = 0;
  int kind = 0;  ///< 0 device, 1 managed, 2 host, 3 of a pool, 4 a mapping, 5 a reserved range, 6 of a graph
  Context* context = nullptr;
  Pool* pool = nullptr;
  uint64_t id = 0;
};

class GpuMachine {
 public:
  /// Reads $ELASTICGPU_FAKE_NVML (tests/nvml/README.md and the keys of README.md here).
  static GpuMachine& get();

  int deviceCount() const { return static_cast<int>(node_->devices.size()); }
  const nvidia::testing::FakeDevice& device(Device number) const { return node_->devices.at(number); }
  /// Number of SMs that this process may use; 0 = not described.
  int sms(Device number) const;
  int cudaVersion() const { return static_cast<int>(node_->cuda); }
  int64_t durationOf(const std::string& kernel) const;
  /// Names with a version that is newer than the tables of exports.
  const std::vector<std::string>& newerFunctions() const { return newerFunctions_; }

  /// Takes physical memory of a card. Returns success or outOfMemory. `used` and the peak include it at once.
  CudaResult charge(Device device, uint64_t bytes);
  void release(Device device, uint64_t bytes);
  /// Bytes in use by all processes that run, and the most at any time.
  uint64_t used(Device device);
  uint64_t peak(Device device);
  uint64_t usedByThisProcess(Device device) const { return mine_[device].load(); }

  /// Addresses without physical memory, aligned to 512 bytes. Backed by zero pages until written. 0 if none are left.
  Address reserve(uint64_t bytes);
  void unreserve(Address address, uint64_t bytes);

  std::mutex mutex;  ///< guards all below
  std::map<Address, Allocation> allocations;
  std::map<void*, Allocation> arrays;
  std::set<void*> contexts, pools;
  uint64_t nextId = 1;
  std::vector<std::unique_ptr<Context>> primaries;
  std::vector<std::unique_ptr<Pool>> defaultPools;
  std::vector<Pool*> currentPools;
  uint64_t graphUsed[kMaxDevices] = {}, graphReserved[kMaxDevices] = {};
  int64_t deviceEnd[kMaxDevices] = {};  ///< time at which a card's last work ends
  std::atomic<bool> initialized{false};
  bool simulatesTime = false;
  std::atomic<int64_t> simulatedTime{0};

 private:
  struct SharedAccounts;
  GpuMachine();
  void openState(const char* path);
  void joinState();
  uint64_t sum(Device device);

  std::shared_ptr<const nvidia::testing::FakeNode> node_;
  std::map<std::string, int64_t> kernels_;
  std::vector<std::string> newerFunctions_;
  SharedAccounts* state_ = nullptr;
  ProcessAccount* account_ = nullptr;
  MpsLimits mps_;
  std::atomic<int64_t> pid_{0};
  std::atomic<uint64_t> mine_[kMaxDevices] = {};
  std::atomic<uint64_t> peak_[kMaxDevices] = {};
  std::mutex ranges_;
  std::map<uint64_t, std::vector<Address>> freeRanges_;
  Address next_ = 0, end_ = 0;
};

/// The calling thread's context, or null.
Context* current();
void pushContext(Context* context);
Context* popContext();
void removeContext(const Context* context);

/// The card's clock in nanoseconds: CLOCK_MONOTONIC, or with `clock: simulated` the end of awaited work.
int64_t now();
/// Waits until a time on the card's clock.
void waitUntil(int64_t time);

/// Allocates as cuMemAlloc does, of a kind of Allocation.
CudaResult allocate(Address* out, uint64_t bytes, int kind);
CudaResult freeAllocation(Address address);
/// Frees the allocations of a context.
void endContext(const Context* context);
/// Releases memory that pools do not need, as at the end of work.
void trimPools();
/// Stream of a handle; the default streams of the current context for 0, 1 and 2. Null without a context.
Stream* streamOf(void* handle);
/// Memory node of a stream that is captured.
CudaResult captureAlloc(Stream* stream, Address* out, uint64_t bytes);
CudaResult captureFree(Stream* stream, Address address);

}  // namespace egpu::gpu::testing

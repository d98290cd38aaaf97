// Random operations of many processes and threads on shared cards: the page agrees with the fake driver at every step,
// and the card's usage is never above the limit.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/gpu/fake/driver.h"
#include "tests/gpu/limited_process.h"

namespace egpu::gpu::testing {
namespace {

constexpr uint64_t kLimit = 512 * kMiB;

/// One process that allocates and frees in all ways.
class Worker {
 public:
  Worker(const SharedFiles& files, unsigned seed) : files_(files), cuda_(standInPath()), random_(seed) {
    void* context;
    cuda_("cuInit", 0U);
    cuda_("cuDevicePrimaryCtxRetain", &context, 0);
    cuda_("cuCtxSetCurrent", context);
    cuda_("cuStreamCreate", &stream_, 0U);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Returns 0, or the number of an error.
  int step() {
    const unsigned choice = random_() % 100;
    const int result = choice < 55 ? take() : choice < 90 ? giveBack() : choice < 97 ? synchronize() : forkChild();
    if (result != success && result != outOfMemory) return 10;
    return agrees() ? 0 : 11;
  }
  bool agrees() const { return files_.usedBy(getpid(), 0) == fakeUsage(0).own; }

 private:
  struct HeldMemory {
    int kind;
    uint64_t handle;
  };

  int take() {
    const int kind = static_cast<int>(random_() % 6);
    const std::size_t bytes = (1 + random_() % 24) * kMiB;
    uint64_t handle = 0;
    int result = success;
    const ArrayDesc array{1024, bytes / 4096, 0x20, 1};
    const AllocationProp device{1, 0, {1, 0}};
    if (kind == 0) result = cuda_("cuMemAlloc_v2", &handle, bytes - random_() % 4096);
    if (kind == 1) result = cuda_("cuMemAllocManaged", &handle, bytes, 1U);
    if (kind == 2 || kind == 3) result = cuda_("cuMemAllocAsync", &handle, bytes - random_() % 9000, stream_);
    if (kind == 4) result = cuda_("cuArrayCreate_v2", reinterpret_cast<void**>(&handle), &array);
    if (kind == 5)
      result = cuda_("cuMemCreate", &handle, (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB), &device, 0ULL);
    if (result == success) held_.push_back({kind, handle});
    return result;
  }

  int giveBack() {
    if (held_.empty()) return success;
    const std::size_t at = random_() % held_.size();
    const HeldMemory one = held_[at];
    held_[at] = held_.back();
    held_.pop_back();
    if (one.kind <= 1 || (one.kind == 3 && random_() % 2 == 0)) return cuda_("cuMemFree_v2", one.handle);
    if (one.kind <= 3) return cuda_("cuMemFreeAsync", one.handle, stream_);
    if (one.kind == 4) return cuda_("cuArrayDestroy", reinterpret_cast<void*>(one.handle));
    return cuda_("cuMemRelease", one.handle);
  }

  int synchronize() { return cuda_("cuStreamSynchronize", stream_); }

  /// A child takes a slot of its own and leaves its parent's alone.
  int forkChild() {
    const uint64_t before = files_.usedBy(getpid(), 0);
    const pid_t child = fork();
    if (child == 0) {
      uint64_t handle;
      const int result = cuda_("cuMemAlloc_v2", &handle, std::size_t{kMiB});
      const uint64_t used = files_.usedBy(getpid(), 0);
      _exit(result == success ? used != kMiB : used != 0 || result != outOfMemory);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && files_.usedBy(getpid(), 0) == before ? success : -1;
  }

  const SharedFiles& files_;
  Cuda cuda_;
  std::mt19937 random_;
  void* stream_ = nullptr;
  std::vector<HeldMemory> held_;
};

/// Steps until the pipe ends, then ends with its memory allocated.
void runWorker(const SharedFiles& files, unsigned seed, int orders, int reports) {
  Worker worker(files, seed);
  char steps;
  while (read(orders, &steps, 1) == 1) {
    char wrong = 0;
    for (int i = 0; i < steps && wrong == 0; ++i) wrong = static_cast<char>(worker.step());
    if (write(reports, &wrong, 1) != 1) break;
  }
  _exit(0);
}

struct Process {
  pid_t pid = -1;
  int orders = -1, reports = -1;
};

Process start(const SharedFiles& files, unsigned seed) {
  int orders[2], reports[2];
  if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(reports, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(orders[1]);
    close(reports[0]);
    runWorker(files, seed, orders[0], reports[1]);
  }
  close(orders[0]);
  close(reports[1]);
  return {child, orders[1], reports[0]};
}

void kill(Process* process) {
  ::kill(process->pid, SIGKILL);
  waitpid(process->pid, nullptr, 0);
  close(process->orders);
  close(process->reports);
  process->pid = -1;
}

/// Sums of the page and of the fake, by an own process, as this one has no driver.
bool sumsAgreeNow(const SharedFiles& files) {
  const pid_t child = fork();
  if (child == 0) {
    const FakeUsage usage = fakeUsage(0);
    if (files.used(0) != usage.all) std::fprintf(stderr, "page %lu, driver %lu\n", files.used(0), usage.all);
    if (usage.peak > kLimit) std::fprintf(stderr, "peak %lu\n", usage.peak);
    _exit(files.used(0) == usage.all && usage.peak <= kLimit ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

/// Children of workers that were killed may still be at work: they are waited for.
bool sumsAgree(SharedFiles& files) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    files.clearEnded();
    if (sumsAgreeNow(files)) return true;
    usleep(20000);
  }
  return false;
}

TEST(LimiterProcessesTest, EightProcessesWithKillsAndForks_TheSumsAreRightAndTheLimitHolds) {
  SharedFiles files(fakePath(), "", twoCards());
  files.limit(kLimit);
  std::mt19937 random(3);
  std::vector<Process> all(8);
  int killed = 0;
  for (int round = 0; round < 25; ++round) {
    for (auto& process : all)
      if (process.pid < 0) process = start(files, random());
    const char steps = 40;
    for (const auto& process : all) ASSERT_EQ(write(process.orders, &steps, 1), 1);
    if (round % 2 == 1) {  // at any instruction of it
      usleep(random() % 20000);
      kill(&all[random() % all.size()]);
      ++killed;
    }
    for (auto& process : all) {
      char wrong = 1;
      if (process.pid < 0) continue;
      ASSERT_EQ(read(process.reports, &wrong, 1), 1);
      ASSERT_EQ(wrong, 0);
    }
    ASSERT_TRUE(sumsAgree(files)) << "round " << round;
  }
  EXPECT_GE(killed, 10);
  for (auto& process : all)
    if (process.pid >= 0) kill(&process);
  EXPECT_TRUE(sumsAgree(files));
  for (int attempt = 0; files.used(0) != 0 && attempt < 100; ++attempt) {
    usleep(20000);
    files.clearEnded();
  }
  EXPECT_EQ(files.used(0), 0U);
}

int runThreads() {
  SharedFiles files(fakePath(), "", twoCards());
  files.limit(kLimit);
  Cuda cuda(standInPath());
  void* context;
  cuda("cuInit", 0U);
  cuda("cuDevicePrimaryCtxRetain", &context, 0);
  const auto setCurrent = reinterpret_cast<int (*)(void*)>(cuda.address("cuCtxSetCurrent"));
  const auto alloc = reinterpret_cast<int (*)(uint64_t*, std::size_t)>(cuda.address("cuMemAlloc_v2"));
  const auto release = reinterpret_cast<int (*)(uint64_t)>(cuda.address("cuMemFree_v2"));
  const auto allocAsync = reinterpret_cast<int (*)(uint64_t*, std::size_t, void*)>(cuda.address("cuMemAllocAsync"));
  const auto freeAsync = reinterpret_cast<int (*)(uint64_t, void*)>(cuda.address("cuMemFreeAsync"));
  const auto synchronize = reinterpret_cast<int (*)()>(cuda.address("cuCtxSynchronize"));
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      setCurrent(context);
      for (int round = 0; round < 60; ++round) {
        uint64_t a = 0, b = 0;
        const int first = alloc(&a, (1 + random() % 32) * kMiB),
                  second = allocAsync(&b, (1 + random() % 32) * kMiB, nullptr);
        for (const int result : {first, second}) {
          if (result == outOfMemory)
            ++refused;
          else if (result != success)
            ++wrong;
        }
        if (first == success && release(a) != success) ++wrong;
        if (second == success && freeAsync(b, nullptr) != success) ++wrong;
        if (round % 8 == 0 && synchronize() != success) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  setCurrent(context);
  synchronize();
  const FakeUsage usage = fakeUsage(0);
  std::printf("64 threads: %d refusals, peak %lu MiB, left %lu\n", refused.load(), usage.peak / kMiB, usage.own);
  std::fflush(stdout);
  if (usage.peak > kLimit) return 2;
  if (usage.own != 0 || files.used(0) != 0) return 3;
  return wrong == 0 ? 0 : 1;
}

TEST(LimiterProcessesTest, SixtyFourThreads_TheLimitHoldsAndAllIsReturned) {
  const pid_t child = fork();
  if (child == 0) _exit(runThreads());
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// Processes that end, by themselves or killed, leave slots that the next process of the container frees.
TEST(LimiterProcessesTest, EndedProcesses_LeaveSlotsThatTheNextOneClears) {
  SharedFiles files(fakePath(), "", twoCards());
  files.limit(kLimit);
  for (int i = 0; i < 140; ++i) {  // more than there are slots
    const pid_t child = fork();
    if (child == 0) {
      Cuda cuda(standInPath());
      void* context;
      uint64_t address;
      cuda("cuInit", 0U);
      cuda("cuDevicePrimaryCtxRetain", &context, 0);
      cuda("cuCtxSetCurrent", context);
      _exit(cuda("cuMemAlloc_v2", &address, std::size_t{400 * kMiB}) == success ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << i;
  }
  EXPECT_EQ(files.used(0), 400 * kMiB);  // the last process's
  EXPECT_EQ(files.clearEnded(), 1U);
  EXPECT_EQ(files.used(0), 0U);
}

}  // namespace
}  // namespace egpu::gpu::testing

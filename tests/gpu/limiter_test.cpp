// The limiter in front of the fake driver, in one process: each kind of memory is charged, refused at the limit and
// returned; the driver reports the share; GPU time is limited.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "tests/gpu/fake/driver.h"
#include "tests/gpu/limited_process.h"

namespace egpu::gpu::testing {
namespace {

constexpr uint64_t kLimit = 1024 * kMiB;

/// One process has one stand-in: all tests share it.
struct Limited {
  SharedFiles files{fakePath(), EGPU_LIB_DIR "/nvml/libnvidia-ml.so.1", twoCards()};
  Cuda cuda{standInPath()};
};

Limited& limited() {
  static auto* out = new Limited;
  return *out;
}

class LimiterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files.limit(kLimit, kLimit);
    ASSERT_EQ(cuda("cuInit", 0U), success);
    ASSERT_EQ(cuda("cuDevicePrimaryCtxRetain", &context, 0), success);
    ASSERT_EQ(cuda("cuCtxSetCurrent", context), success);
  }
  void TearDown() override {
    // A release of the last reference ends the context and frees its memory.
    EXPECT_EQ(cuda("cuDevicePrimaryCtxRelease_v2", 0), success);
    cuda("cuMemPoolTrimTo", defaultPool(), std::size_t{0});
    cuda("cuDeviceGraphMemTrim", 0);
    expectUsed(0);
    void* popped;
    cuda("cuCtxPopCurrent_v2", &popped);
  }
  void* defaultPool() {
    void* out = nullptr;
    cuda("cuDeviceGetDefaultMemPool", &out, 0);
    return out;
  }
  /// The page, the slot of this process and the fake driver agree.
  void expectUsed(uint64_t bytes, int card = 0) {
    EXPECT_EQ(fakeUsage(card).own, bytes);
    EXPECT_EQ(files.usedBy(getpid(), card), bytes);
    EXPECT_EQ(files.used(card), bytes);
  }
  int alloc(Address* out, uint64_t bytes) { return cuda("cuMemAlloc_v2", out, std::size_t{bytes}); }
  int release(Address address) { return cuda("cuMemFree_v2", address); }

  SharedFiles& files = limited().files;
  Cuda& cuda = limited().cuda;
  void* context = nullptr;
};

TEST_F(LimiterTest, Alloc_IsChargedRefusedAtTheLimitAndReturned) {
  Address a, b, c;
  ASSERT_EQ(alloc(&a, 600 * kMiB), success);
  expectUsed(600 * kMiB);
  EXPECT_EQ(alloc(&b, 425 * kMiB), outOfMemory);
  expectUsed(600 * kMiB);
  ASSERT_EQ(alloc(&b, 424 * kMiB), success);
  expectUsed(kLimit);
  EXPECT_EQ(alloc(&c, 1), outOfMemory);
  EXPECT_EQ(alloc(&c, UINT64_MAX), outOfMemory);
  ASSERT_EQ(release(a), success);
  expectUsed(424 * kMiB);
  EXPECT_EQ(release(a), invalidValue);
  expectUsed(424 * kMiB);
}

TEST_F(LimiterTest, OtherErrorsOfTheDriver_AreReportedAndChargeNothing) {
  Address a;
  EXPECT_EQ(alloc(&a, 0), invalidValue);
  expectUsed(0);
  files.limit(EGPU_LIMITER_NO_LIMIT);
  EXPECT_EQ(alloc(&a, uint64_t{17} << 30), outOfMemory);  // more than the card has
  expectUsed(0);
  ASSERT_EQ(alloc(&a, 2 * kLimit), success);  // no limit, and still counted
  expectUsed(2 * kLimit);
  ASSERT_EQ(release(a), success);
}

TEST_F(LimiterTest, PitchManagedAndArrays) {
  Address pitched, managed;
  std::size_t pitch = 0;
  ASSERT_EQ(cuda("cuMemAllocPitch_v2", &pitched, &pitch, std::size_t{1000}, std::size_t{1024}, 4U), success);
  expectUsed(1024 * 1024);
  ASSERT_EQ(cuda("cuMemAllocManaged", &managed, std::size_t{64 * kMiB}, 1U), success);
  expectUsed(65 * kMiB);
  void *array, *cube, *levels, *layers, *sparse;
  const ArrayDesc plain{1024, 1024, 0x20, 4};
  ASSERT_EQ(cuda("cuArrayCreate_v2", &array, &plain), success);
  expectUsed(81 * kMiB);
  const Array3dDesc volume{128, 128, 128, 0x02, 2, 0}, layered{512, 512, 4, 0x01, 4, 1},
      later{1024, 1024, 64, 0x20, 4, 0x40};
  ASSERT_EQ(cuda("cuArray3DCreate_v2", &cube, &volume), success);
  expectUsed(89 * kMiB);
  ASSERT_EQ(cuda("cuMipmappedArrayCreate", &levels, &layered, 3U), success);
  expectUsed(89 * kMiB + 4 * 4 * (512 * 512 + 256 * 256 + 128 * 128));
  ASSERT_EQ(cuda("cuArray3DCreate_v2", &sparse, &later), success);
  expectUsed(89 * kMiB + 4 * 4 * (512 * 512 + 256 * 256 + 128 * 128));
  const Array3dDesc large{4096, 4096, 64, 0x20, 1, 0};
  EXPECT_EQ(cuda("cuArray3DCreate_v2", &layers, &large), outOfMemory);
  EXPECT_EQ(cuda("cuMipmappedArrayCreate", &layers, &large, 2U), outOfMemory);
  for (void* handle : {array, cube, sparse}) EXPECT_EQ(cuda("cuArrayDestroy", handle), success);
  EXPECT_EQ(cuda("cuMipmappedArrayDestroy", levels), success);
  expectUsed(65 * kMiB);
}

TEST_F(LimiterTest, EndOfAContext_ReturnsItsMemory) {
  void *own, *array;
  Address a;
  ASSERT_EQ(cuda("cuCtxCreate_v2", &own, 0U, 0), success);
  ASSERT_EQ(alloc(&a, 100 * kMiB), success);
  const ArrayDesc plain{1024, 1024, 0x20, 4};
  ASSERT_EQ(cuda("cuArrayCreate_v2", &array, &plain), success);
  expectUsed(116 * kMiB);
  ASSERT_EQ(cuda("cuCtxDestroy_v2", own), success);
  expectUsed(0);
  ASSERT_EQ(alloc(&a, 10 * kMiB), success);
  ASSERT_EQ(cuda("cuDevicePrimaryCtxReset_v2", 0), success);
  expectUsed(0);
}

TEST_F(LimiterTest, VirtualMemory_IsChargedUntilHandleAndMappingsAreGone) {
  const AllocationProp device{1, 0, {1, 0}}, host{1, 0, {3, 0}};
  uint64_t handle, again, onHost;
  Address at;
  ASSERT_EQ(cuda("cuMemCreate", &onHost, std::size_t{2048 * kMiB}, &host, 0ULL), success);
  expectUsed(0);
  ASSERT_EQ(cuda("cuMemCreate", &handle, std::size_t{64 * kMiB}, &device, 0ULL), success);
  EXPECT_EQ(cuda("cuMemCreate", &again, std::size_t{962 * kMiB}, &device, 0ULL), outOfMemory);
  ASSERT_EQ(cuda("cuMemAddressReserve", &at, std::size_t{256 * kMiB}, std::size_t{0}, Address{0}, 0ULL), success);
  ASSERT_EQ(cuda("cuMemMap", at, std::size_t{64 * kMiB}, std::size_t{0}, handle, 0ULL), success);
  ASSERT_EQ(cuda("cuMemMap", at + 64 * kMiB, std::size_t{64 * kMiB}, std::size_t{0}, handle, 0ULL), success);
  ASSERT_EQ(cuda("cuMemRelease", handle), success);
  expectUsed(64 * kMiB);
  ASSERT_EQ(cuda("cuMemUnmap", at, std::size_t{64 * kMiB}), success);
  expectUsed(64 * kMiB);
  ASSERT_EQ(cuda("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(at + 70 * kMiB)), success);
  ASSERT_EQ(cuda("cuMemUnmap", at, std::size_t{256 * kMiB}), success);
  expectUsed(64 * kMiB);
  ASSERT_EQ(cuda("cuMemRelease", again), success);
  expectUsed(0);
  ASSERT_EQ(cuda("cuMemRelease", onHost), success);
  ASSERT_EQ(cuda("cuMemAddressFree", at, std::size_t{256 * kMiB}), success);
}

TEST_F(LimiterTest, Pools_AreChargedByReservedBytes) {
  Address a, b;
  void* stream;
  ASSERT_EQ(cuda("cuStreamCreate", &stream, 0U), success);
  ASSERT_EQ(cuda("cuMemAllocAsync", &a, std::size_t{600 * kMiB}, stream), success);
  expectUsed(600 * kMiB);
  EXPECT_EQ(cuda("cuMemAllocAsync", &b, std::size_t{600 * kMiB}, stream), outOfMemory);
  ASSERT_EQ(cuda("cuMemFreeAsync", a, stream), success);
  expectUsed(600 * kMiB);
  // The pool's own memory serves it: nothing has to be reserved.
  ASSERT_EQ(cuda("cuMemAllocAsync_ptsz", &b, std::size_t{900 * kMiB}, stream), success);
  expectUsed(900 * kMiB);
  ASSERT_EQ(cuda("cuMemFreeAsync_ptsz", b, stream), success);
  ASSERT_EQ(cuda("cuStreamSynchronize", stream), success);
  expectUsed(0);
  const AllocationProp device{1, 0, {1, 0}}, host{1, 0, {2, 0}};
  std::vector<unsigned char> of(88, 0);
  std::memcpy(of.data(), &device, sizeof device);
  void *pool, *onHost;
  ASSERT_EQ(cuda("cuMemPoolCreate", &pool, of.data()), success);
  std::memcpy(of.data(), &host, sizeof host);
  ASSERT_EQ(cuda("cuMemPoolCreate", &onHost, of.data()), success);
  uint64_t threshold = UINT64_MAX;
  ASSERT_EQ(cuda("cuMemPoolSetAttribute", pool, 4, &threshold), success);
  ASSERT_EQ(cuda("cuMemAllocFromPoolAsync", &b, std::size_t{2048 * kMiB}, onHost, stream), success);
  ASSERT_EQ(cuda("cuMemAllocFromPoolAsync", &a, std::size_t{3 * kMiB}, pool, stream), success);
  expectUsed(4 * kMiB);
  ASSERT_EQ(release(a), success);
  ASSERT_EQ(release(b), success);
  ASSERT_EQ(cuda("cuCtxSynchronize"), success);
  expectUsed(4 * kMiB);
  ASSERT_EQ(cuda("cuMemPoolTrimTo", pool, std::size_t{0}), success);
  expectUsed(0);
  ASSERT_EQ(cuda("cuMemPoolDestroy", pool), success);
  ASSERT_EQ(cuda("cuStreamDestroy_v2", stream), success);
}

TEST_F(LimiterTest, MemoryOfGraphs_IsChargedByReservedBytes) {
  void *stream, *graph, *executable;
  Address a, b;
  ASSERT_EQ(cuda("cuStreamCreate", &stream, 0U), success);
  ASSERT_EQ(cuda("cuStreamBeginCapture_v2", stream, 0), success);
  ASSERT_EQ(cuda("cuMemAllocAsync", &a, std::size_t{700 * kMiB}, stream), success);
  ASSERT_EQ(cuda("cuMemFreeAsync", a, stream), success);
  ASSERT_EQ(cuda("cuStreamEndCapture", stream, &graph), success);
  expectUsed(0);
  ASSERT_EQ(cuda("cuGraphInstantiateWithFlags", &executable, graph, 0ULL), success);
  ASSERT_EQ(alloc(&b, 400 * kMiB), success);
  EXPECT_EQ(cuda("cuGraphLaunch", executable, stream), outOfMemory);
  expectUsed(400 * kMiB);
  ASSERT_EQ(release(b), success);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cuda("cuGraphLaunch", executable, stream), success);
  expectUsed(700 * kMiB);
  EXPECT_EQ(alloc(&b, 400 * kMiB), outOfMemory);
  ASSERT_EQ(cuda("cuDeviceGraphMemTrim", 0), success);
  expectUsed(0);
  EXPECT_EQ(cuda("cuGraphExecDestroy", executable), success);
  EXPECT_EQ(cuda("cuGraphDestroy", graph), success);
  EXPECT_EQ(cuda("cuStreamDestroy_v2", stream), success);
}

TEST_F(LimiterTest, TheDriverReportsTheShare) {
  std::size_t free, total;
  Address a;
  ASSERT_EQ(alloc(&a, 24 * kMiB), success);
  ASSERT_EQ(cuda("cuMemGetInfo_v2", &free, &total), success);
  EXPECT_EQ(total, kLimit);
  EXPECT_EQ(free, 1000 * kMiB);
  ASSERT_EQ(cuda("cuDeviceTotalMem_v2", &total, 0), success);
  EXPECT_EQ(total, kLimit);
  files.limit(8 * kMiB);  // less than in use
  ASSERT_EQ(cuda("cuMemGetInfo_v2", &free, &total), success);
  EXPECT_EQ(total, 8 * kMiB);
  EXPECT_EQ(free, 0U);
  files.limit(EGPU_LIMITER_NO_LIMIT);
  ASSERT_EQ(cuda("cuDeviceTotalMem_v2", &total, 0), success);
  EXPECT_EQ(total, uint64_t{16} << 30);
}

TEST_F(LimiterTest, NvmlReportsTheShare) {
  Cuda nvml(EGPU_LIB_DIR "/limiter_test/libnvidia-ml.so.1");
  Address a;
  ASSERT_EQ(alloc(&a, 24 * kMiB), success);
  void* device;
  ASSERT_EQ(nvml("nvmlInit_v2"), 0);
  ASSERT_EQ(nvml("nvmlDeviceGetHandleByIndex_v2", 0U, &device), 0);
  unsigned long long info[5] = {40 | 2 << 24, 0, 0, 0, 0};
  ASSERT_EQ(nvml("nvmlDeviceGetMemoryInfo", device, &info[0]), 0);
  EXPECT_EQ(info[0], kLimit);
  EXPECT_EQ(info[1], 1000 * kMiB);
  EXPECT_EQ(info[2], 24 * kMiB);
  info[0] = 40 | 2 << 24;
  ASSERT_EQ(nvml("nvmlDeviceGetMemoryInfo_v2", device, &info[0]), 0);
  EXPECT_EQ(info[1], kLimit);
  EXPECT_EQ(info[3], 1000 * kMiB);
  EXPECT_EQ(info[4], 24 * kMiB);
}

TEST_F(LimiterTest, Resize_TakesEffectOnARunningProcess) {
  Address a, b;
  ASSERT_EQ(alloc(&a, 1000 * kMiB), success);
  EXPECT_EQ(alloc(&b, 100 * kMiB), outOfMemory);
  files.limit(2048 * kMiB);
  ASSERT_EQ(alloc(&b, 100 * kMiB), success);
  files.limit(512 * kMiB);
  EXPECT_EQ(release(b), success);
  EXPECT_EQ(alloc(&b, 1), outOfMemory);
  expectUsed(1000 * kMiB);  // programs that run keep their memory
}

TEST_F(LimiterTest, DamagedLimits_LeaveTheLastOnes) {
  Address a, b;
  files.limit(kLimit, kLimit);  // the same limits in both banks
  ASSERT_EQ(alloc(&a, 1000 * kMiB), success);
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const egpu_limiter_limits before = *files.limits;
    auto* bytes = reinterpret_cast<unsigned char*>(&files.limits->sequence);
    const std::size_t size = sizeof *files.limits - offsetof(egpu_limiter_limits, sequence);
    for (int i = 0; i < 8; ++i) bytes[random() % size] = static_cast<unsigned char>(random());
    if (round % 3 == 0) ++files.limits->sequence;
    ASSERT_EQ(alloc(&b, 100 * kMiB), outOfMemory);
    const uint32_t sequence = files.limits->sequence;
    *files.limits = before;
    files.limits->sequence = sequence + (sequence - before.sequence) % 2;  // the same bank, and another number
  }
  expectUsed(1000 * kMiB);
}

TEST_F(LimiterTest, ADamagedUsagePage_NeitherCrashesNorLifts) {
  std::mt19937_64 random(11);
  std::vector<Address> held;
  files.limit(kLimit, kLimit, 500);
  void *module, *function;
  ASSERT_EQ(cuda("cuModuleLoadData", &module, "image"), success);
  ASSERT_EQ(cuda("cuModuleGetFunction", &function, module, "small"), success);
  for (int round = 0; round < 3000; ++round) {
    auto* words = reinterpret_cast<uint64_t*>(files.usage);
    static constexpr uint64_t kValues[] = {0, 1, UINT64_MAX, uint64_t{1} << 63, 4096};
    for (int i = 0; i < 6; ++i)
      __atomic_store_n(&words[random() % (sizeof *files.usage / 8)], random() % 2 ? random() : kValues[random() % 5],
                       __ATOMIC_RELAXED);
    // Not a debt, which the process would only wait for.
    if (random() % 2 != 0)
      __atomic_store_n(&files.usage->bucket[0].granted, files.usage->bucket[0].spent, __ATOMIC_RELAXED);
    files.usage->bucket[0].spent = files.usage->bucket[0].granted;
    Address a;
    const int result = alloc(&a, random() % (64 * kMiB) + 1);
    ASSERT_TRUE(result == success || result == outOfMemory) << result;
    if (result == success) held.push_back(a);
    if (!held.empty() && random() % 3 == 0) {
      EXPECT_EQ(release(held.back()), success);
      held.pop_back();
    }
    ASSERT_EQ(
        cuda("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, (void*)nullptr, (void**)nullptr, (void**)nullptr),
        success);
    ASSERT_LE(fakeUsage(0).own, kLimit);
  }
  for (const Address a : held) EXPECT_EQ(release(a), success);
  egpu_limiter_make_usage(files.usage);  // as an administrator would repair it; the process takes a slot again
  ASSERT_EQ(alloc(&held.emplace_back(), kMiB), success);
  expectUsed(kMiB);
  EXPECT_EQ(cuda("cuModuleUnload", module), success);
}

TEST_F(LimiterTest, CardsThatAreNotListed) {
  egpu_limiter_card other = {};
  other.memory = kLimit;
  egpu_limiter_set(files.limits, &other, 1, 0);
  Address a;
  EXPECT_EQ(alloc(&a, 1), outOfMemory);
  egpu_limiter_set(files.limits, &other, 1, EGPU_LIMITER_PASS_UNLISTED);
  ASSERT_EQ(alloc(&a, 2 * kLimit), success);
  ASSERT_EQ(release(a), success);
}

// ---- GPU time

class LimiterTimeTest : public LimiterTest {
 protected:
  void SetUp() override {
    LimiterTest::SetUp();
    // Work of other tests would be a part of the first measured times.
    ASSERT_EQ(cuda("cuCtxSynchronize"), success);
    // Once: a price belongs to a handle, which another kernel could get after an unload.
    static void *modules[2] = {}, *loaded[2] = {};
    for (int i = 0; i < 2; ++i)
      if (loaded[i] == nullptr) {
        ASSERT_EQ(cuda("cuModuleLoadData", &modules[i], "image"), success);
        ASSERT_EQ(cuda("cuModuleGetFunction", &loaded[i], modules[i], i == 0 ? "small" : "medium"), success);
      }
    small = loaded[0];
    medium = loaded[1];
    ASSERT_EQ(cuda("cuStreamCreate", &stream, 0U), success);
  }
  int launch(void* function) {
    return cuda("cuLaunchKernel", function, 8U, 1U, 1U, 32U, 1U, 1U, 0U, stream, (void**)nullptr, (void**)nullptr);
  }
  /// Lets the limiter settle the launches that it measured: it does so at the next one that it measures.
  void settle() {
    ASSERT_EQ(cuda("cuStreamSynchronize", stream), success);
    for (int i = 0; i < 130; ++i) ASSERT_EQ(launch(small), success);
    ASSERT_EQ(cuda("cuStreamSynchronize", stream), success);
  }
  uint64_t spent() const { return __atomic_load_n(&files.usage->bucket[0].spent, __ATOMIC_RELAXED); }

  void *small = nullptr, *medium = nullptr, *stream = nullptr;
};

TEST_F(LimiterTimeTest, WithoutALimitNothingIsCharged) {
  const uint64_t before = spent();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(launch(small), success);
  EXPECT_EQ(spent(), before);
}

TEST_F(LimiterTimeTest, EachKindOfLaunchIsChargedItsMeasuredTime) {
  files.limit(kLimit, kLimit, 900);
  settle();
  const uint64_t before = spent();
  // 40 kernels of 2 ms: more than the burst, so that the last launches wait until the first are measured.
  const LaunchConfig config{8, 1, 1, 32, 1, 1, 0, stream, nullptr, 0};
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(launch(medium), success);
    ASSERT_EQ(cuda("cuLaunchKernelEx", &config, medium, (void**)nullptr, (void**)nullptr), success);
    ASSERT_EQ(cuda("cuLaunchCooperativeKernel", medium, 8U, 1U, 1U, 32U, 1U, 1U, 0U, stream, (void**)nullptr), success);
    ASSERT_EQ(
        cuda("cuLaunchKernel_ptsz", medium, 8U, 1U, 1U, 32U, 1U, 1U, 0U, stream, (void**)nullptr, (void**)nullptr),
        success);
    ASSERT_EQ(cuda("cuStreamSynchronize", stream), success);
  }
  settle();
  const uint64_t charged = spent() - before;
  EXPECT_GE(charged, 80000000U);  // 40 x 2 ms, and the small kernels of settle
  EXPECT_LE(charged, 88000000U);
}

TEST_F(LimiterTimeTest, AGraphIsChargedAtItsLaunchAndNothingWhileItIsCaptured) {
  files.limit(kLimit, kLimit, 900);
  void *graph, *executable;
  settle();
  uint64_t before = spent();
  ASSERT_EQ(cuda("cuStreamBeginCapture_v2", stream, 0), success);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(launch(medium), success);
  ASSERT_EQ(cuda("cuStreamEndCapture", stream, &graph), success);
  EXPECT_EQ(spent(), before);
  std::size_t nodes = 0;
  ASSERT_EQ(cuda("cuGraphGetNodes", graph, (void**)nullptr, &nodes), success);
  EXPECT_EQ(nodes, 5U);  // no event of ours became a node
  ASSERT_EQ(cuda("cuGraphInstantiateWithFlags", &executable, graph, 0ULL), success);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(cuda("cuGraphLaunch", executable, stream), success);
    ASSERT_EQ(cuda("cuStreamSynchronize", stream), success);
  }
  settle();
  EXPECT_GE(spent() - before, 40000000U);  // 4 x 10 ms
  EXPECT_LE(spent() - before, 48000000U);
  EXPECT_EQ(cuda("cuGraphExecDestroy", executable), success);
  EXPECT_EQ(cuda("cuGraphDestroy", graph), success);
}

TEST_F(LimiterTimeTest, AFailedLaunchIsReturned) {
  files.limit(kLimit, kLimit, 500);
  settle();
  EXPECT_EQ(launch(nullptr), invalidHandle);
  const uint64_t before = spent();
  EXPECT_EQ(launch(nullptr), invalidHandle);
  EXPECT_EQ(spent(), before);
}

TEST_F(LimiterTimeTest, ALiftedLimitEndsAWait) {
  files.limit(kLimit, kLimit, 1);
  auto& bucket = files.usage->bucket[0];
  __atomic_store_n(&bucket.spent, bucket.granted + 5000000000U, __ATOMIC_RELAXED);  // 5,000 s at this share
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // as the agent
    usleep(50000);
    files.limit(kLimit, kLimit, 0);
    _exit(0);
  }
  EXPECT_EQ(launch(small), success);
  __atomic_store_n(&bucket.spent, bucket.granted, __ATOMIC_RELAXED);
}

}  // namespace
}  // namespace egpu::gpu::testing

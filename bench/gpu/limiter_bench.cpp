// Cost of limited calls, beside the driver's own in the same run, and simulated shares of GPU time.
//
//   limiter_bench [cost | shares]
//
// The driver is the fake one: the differences are the limiter's cost, the driver's own times are not a GPU's.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/gpu/shares.h"
#include "tests/gpu/limited_process.h"

namespace egpu::bench {
namespace {

using gpu::testing::Cuda;
using gpu::testing::kMiB;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 400;  // short ones, which fit between two interruptions

template <class Call>
double nanosecondsPer(int count, const Call& call) {
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) call();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / count;
}

/// Prints the least time of both ways. The rounds alternate, so that other load meets both.
template <class Direct, class Limited>
void row(const char* name, int count, const Direct& direct, const Limited& limited) {
  double least[2] = {1e12, 1e12};
  for (int round = 0; round < kRounds; ++round) {
    least[0] = std::min(least[0], nanosecondsPer(count, direct));
    least[1] = std::min(least[1], nanosecondsPer(count, limited));
  }
  std::printf("%-34s %9.1f %9.1f %+9.1f %8.2f\n", name, least[0], least[1], least[1] - least[0], least[1] / least[0]);
}

struct Calls {
  explicit Calls(Cuda& cuda)
      : synchronize(function<int (*)(int*)>(cuda, "cuDriverGetVersion")),
        alloc(function<int (*)(uint64_t*, std::size_t)>(cuda, "cuMemAlloc_v2")),
        release(function<int (*)(uint64_t)>(cuda, "cuMemFree_v2")),
        info(function<int (*)(std::size_t*, std::size_t*)>(cuda, "cuMemGetInfo_v2")),
        launch(function<Launch>(cuda, "cuLaunchKernel")) {}
  template <class Function>
  static Function function(Cuda& cuda, const char* name) {
    return reinterpret_cast<Function>(cuda.address(name));
  }
  using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);
  void allocAndFree() const {
    uint64_t address;
    alloc(&address, 4096);
    release(address);
  }
  int (*synchronize)(int*);
  int (*alloc)(uint64_t*, std::size_t);
  int (*release)(uint64_t);
  int (*info)(std::size_t*, std::size_t*);
  Launch launch;
};

/// `cards` is 1 or 2: with one, launches need not ask for the context.
void printCosts(int cards) {
  std::string node = gpu::testing::twoCards();
  if (cards == 1) node.resize(node.find("  - {uuid: GPU-b0b"));
  std::printf("%d card%s\n", cards, cards == 1 ? "" : "s");
  node.replace(node.find("simulated"), std::strlen("simulated"), "real");
  gpu::testing::SharedFiles files(gpu::testing::fakePath(), "", node);
  unsetenv("ELASTICGPU_FAKE_CUDA_STATE");
  files.limit(8192 * kMiB);
  const auto begin = Clock::now();
  Cuda standIn(gpu::testing::standInPath()), driver(gpu::testing::fakePath());
  void *context = nullptr, *module = nullptr, *kernel = nullptr;
  standIn("cuInit", 0U);
  const double start = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  standIn("cuDevicePrimaryCtxRetain", &context, 0);
  standIn("cuCtxSetCurrent", context);
  standIn("cuModuleLoadData", &module, "image");
  standIn("cuModuleGetFunction", &kernel, module, "free");
  const Calls direct(driver), limited(standIn);
  int version;
  std::size_t free, total;
  std::printf("%-34s %9s %9s %9s %8s\n", "ns per call, least of 400 rounds", "direct", "limited", "added", "ratio");
  row(
      "forwarded call", 20000, [&] { direct.synchronize(&version); }, [&] { limited.synchronize(&version); });
  row(
      "alloc + free", 1000, [&] { direct.allocAndFree(); }, [&] { limited.allocAndFree(); });
  row(
      "cuMemGetInfo", 5000, [&] { direct.info(&free, &total); }, [&] { limited.info(&free, &total); });
  const auto launchDirect = [&] { direct.launch(kernel, 8, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr); };
  const auto launchLimited = [&] { limited.launch(kernel, 8, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr); };
  row("launch, no limit of compute", 2000, launchDirect, launchLimited);
  // A small factor, so that no launch waits: the fake's kernels take as long as their launches.
  files.limit(8192 * kMiB, EGPU_LIMITER_NO_LIMIT, 999, 0, EGPU_LIMITER_FACTOR_ONE / 1000);
  row("launch, limited", 2000, launchDirect, launchLimited);
  for (unsigned i = 1; i < EGPU_LIMITER_SLOTS; ++i) files.usage->slot[i].owner = uint64_t{i} << 32 | 1;
  files.usage->high = EGPU_LIMITER_SLOTS;
  row(
      "alloc + free, 127 other processes", 1000, [&] { direct.allocAndFree(); }, [&] { limited.allocAndFree(); });
  std::printf("first call, with both libraries loaded: %.2f ms\n", start);
}

/// In a process each: a process has one stand-in.
void printCostsOfBoth() {
  for (const int cards : {1, 2}) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      printCosts(cards);
      std::fflush(stdout);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
}

void printShares() {
  std::printf("%-16s %22s %22s %22s\n", "30 / 70 %", "event time", "with the factor", "with 20 % noise");
  for (const auto& one : shareCases()) {
    SharesSetting setting;
    setting.kernels[0] = one.first;
    setting.kernels[1] = one.second;
    setting.corrected = false;
    const Shares plain = simulateShares(setting);
    setting.corrected = true;
    const Shares corrected = simulateShares(setting);
    setting.noise = 0.2;
    const Shares noisy = simulateShares(setting);
    std::printf("%-16s %13.1f / %-6.1f %13.1f / %-6.1f %13.1f / %-6.1f\n", one.name.c_str(), plain.percent[0],
                plain.percent[1], corrected.percent[0], corrected.percent[1], noisy.percent[0], noisy.percent[1]);
  }
}

}  // namespace
}  // namespace egpu::bench

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (!what.empty() && what != "cost" && what != "shares") {
    std::fprintf(stderr, "usage: limiter_bench [cost | shares]\n");
    return 2;
  }
  if (what != "shares") egpu::bench::printCostsOfBoth();
  if (what != "cost") egpu::bench::printShares();
}

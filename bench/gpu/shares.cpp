#include "bench/gpu/shares.h"

#include <algorithm>
#include <deque>
#include <random>

#include "provisioners/gpushare/limiter/bucket.h"
#include "provisioners/gpushare/limiter/page.h"

namespace egpu::bench {
namespace {

constexpr int64_t kSlice = 2000000;       // ns that the driver gives a program before the other one's turn
constexpr int64_t kLaunchTime = 5000;     // ns of the host per launch
constexpr std::size_t kQueue = 64;        // kernels that a program launches ahead
constexpr int64_t kLongKernel = 1000000;  // ns, as in prices.c: each launch of a longer kernel is measured
constexpr unsigned kSampleEvery = 128;    // and one in so many of the others
constexpr int64_t kEnd = 20000000000, kWarmUp = 5000000000;

struct Kernel {
  int64_t left, charged, started = -1;
  std::size_t kind;  ///< index in the program's kernels: its price
  bool measured;
};

class Program {
 public:
  Program(uint32_t cores, const Kernels& kernels)
      : kernels_(kernels), prices_(kernels.size(), 0), launches_(kernels.size(), 0), cores_(cores) {}

  /// Launches as far as the budget and the queue allow.
  void launch(int64_t now) {
    while (queue.size() < kQueue && host_ <= now) {
      if (!egpu_bucket_allows(&bucket_, cores_) && egpu_bucket_refill(&bucket_, cores_, now + 1) < 0) return;
      // Kernels of one length have one price.
      const auto kind = static_cast<std::size_t>(
          std::find(kernels_.begin(), kernels_.end(), kernels_[next_ % kernels_.size()]) - kernels_.begin());
      const uint64_t price = prices_[kind] == 0 ? EGPU_BUCKET_DEFAULT_PRICE : prices_[kind];
      const unsigned count = launches_[kind]++;
      const bool measured =
          prices_[kind] == 0 || count < 3 || count % kSampleEvery == 0 || price >= static_cast<uint64_t>(kLongKernel);
      const int64_t charged = egpu_bucket_price(price, factor);
      egpu_bucket_charge(&bucket_, charged);
      queue.push_back({kernels_[kind], charged, -1, kind, measured});
      host_ = std::max(host_, now) + kLaunchTime;
      ++next_;
    }
  }

  /// Runs the first kernel for up to `max`. Returns the time that it ran.
  int64_t run(int64_t now, int64_t max) {
    Kernel& kernel = queue.front();
    if (kernel.started < 0) kernel.started = std::max(now, lastEnd_);
    const int64_t step = std::min(kernel.left, max);
    kernel.left -= step;
    busy += step;
    if (kernel.left == 0) finish(now + step);
    return step;
  }

  /// The agent's period: compares the budget's growth with the measured time.
  void correct(double measured) {
    const uint64_t spent = bucket_.spent;
    factor = egpu_limiter_next_factor(factor, static_cast<uint64_t>(std::max(0.0, measured)), spent - spentBefore_);
    spentBefore_ = spent;
  }

  std::deque<Kernel> queue;
  int64_t busy = 0;
  uint32_t factor = EGPU_LIMITER_FACTOR_ONE;

 private:
  /// Event time is the time on the wall, with slices of the other program in it.
  void finish(int64_t now) {
    const Kernel kernel = queue.front();
    queue.pop_front();
    lastEnd_ = now;
    if (!kernel.measured) return;
    const int64_t duration = now - kernel.started, known = static_cast<int64_t>(prices_[kernel.kind]);
    prices_[kernel.kind] = static_cast<uint64_t>(known == 0 ? duration : known + (duration - known) / 8);
    egpu_bucket_charge(&bucket_, egpu_bucket_price(static_cast<uint64_t>(duration), factor) - kernel.charged);
  }

  const Kernels kernels_;
  std::vector<uint64_t> prices_;
  std::vector<unsigned> launches_;
  const uint32_t cores_;
  egpu_limiter_bucket bucket_ = {};
  std::size_t next_ = 0;
  int64_t host_ = 0, lastEnd_ = 0;
  uint64_t spentBefore_ = 0;
};

/// Gives the card to the program whose turn it is, for a slice. Returns the time after it.
int64_t runCard(Program* programs, int* current, int64_t now) {
  const bool first = !programs[0].queue.empty(), second = !programs[1].queue.empty();
  if (!first && !second) return now + 20000;
  const bool alone = first != second;
  *current = alone ? (first ? 0 : 1) : 1 - *current;
  Program& program = programs[*current];
  const int64_t end = now + (alone ? kSlice / 4 : kSlice);
  while (!program.queue.empty() && now < end) now += program.run(now, end - now);
  return now;
}

}  // namespace

Shares simulateShares(const SharesSetting& setting) {
  Program programs[2] = {{setting.cores[0], setting.kernels[0]}, {setting.cores[1], setting.kernels[1]}};
  std::mt19937 random(1);
  std::normal_distribution<double> error(1.0, setting.noise);
  int64_t atWarmUp[2] = {}, atPeriod[2] = {}, nextPeriod = setting.period;
  int current = 0;
  bool warm = false;
  for (int64_t now = 0; now < kEnd;) {
    for (int i = 0; !warm && now >= kWarmUp && i < 2; ++i) atWarmUp[i] = programs[i].busy;
    warm = now >= kWarmUp;
    for (auto& program : programs) program.launch(now);
    now = runCard(programs, &current, now);
    if (now < nextPeriod) continue;
    nextPeriod += setting.period;
    for (int i = 0; i < 2; ++i) {
      const auto measured = static_cast<double>(programs[i].busy - atPeriod[i]) * error(random);
      atPeriod[i] = programs[i].busy;
      if (setting.corrected) programs[i].correct(measured);
    }
  }
  Shares out;
  for (int i = 0; i < 2; ++i)
    out.percent[i] = 100.0 * static_cast<double>(programs[i].busy - atWarmUp[i]) / static_cast<double>(kEnd - kWarmUp);
  return out;
}

std::vector<NamedKernels> shareCases() {
  const Kernels small = {30000}, medium = {2000000}, large = {40000000};
  Kernels mixed;
  std::mt19937 random(2);
  constexpr int64_t kSome[] = {20000, 200000, 2000000, 20000000};
  for (int i = 0; i < 1000; ++i) mixed.push_back(random() % 5 == 0 ? kSome[random() % 4] : 50000);
  return {{"small", small, small}, {"2 ms", medium, medium},       {"40 ms", large, large},
          {"mixed", mixed, mixed}, {"small, 40 ms", small, large}, {"40 ms, small", large, small}};
}

}  // namespace egpu::bench

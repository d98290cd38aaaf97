#include "controller/scheduler/fit.h"

#include <algorithm>
#include <limits>

#include "controller/scheduler/split.h"

namespace egpu::scheduler {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t saturate(__int128 value) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return value > kMax ? kMax : static_cast<int64_t>(value);
}

}  // namespace

int64_t chargedFor(int64_t granted, int64_t overcommit) {
  if (overcommit == 1000) return granted;
  return saturate((static_cast<__int128>(granted) * 1000 + overcommit - 1) / overcommit);
}

int64_t grantableFrom(int64_t charged, int64_t overcommit) {
  if (charged <= 0) return 0;
  return saturate(static_cast<__int128>(charged) * overcommit / 1000);
}

int64_t memoryInProportion(int64_t core, const CardType& type) {
  if (type.core <= 0) return 0;
  int64_t memory = saturate(static_cast<__int128>(type.memory) * core / type.core);
  // A whole card's worth is the whole card, also where its size is no multiple of a MiB.
  return core == type.core ? type.memory : memory / kMiB * kMiB;
}

Need needOn(const CardType& type, const Request& request) {
  Need need;
  if (!request.models.empty() &&
      std::find(request.models.begin(), request.models.end(), type.model) == request.models.end()) {
    need.verdict = TypeVerdict::otherModel;
    return need;
  }
  if (type.memory < request.minMemory) {
    need.verdict = TypeVerdict::belowMinMemory;
    return need;
  }
  if (request.wholeCards) {
    // A whole card is charged whole: overcommit must not let anybody else onto it.
    need.granted = need.charged = {type.core, type.memory};
    return need;
  }
  if (request.tflopsPerCard > 0 && type.tflops <= 0) {
    need.verdict = TypeVerdict::noRating;
    return need;
  }
  if (divides(request)) {
    need.granted = SplitTotal(request).atMost(type, 1);
  } else {
    need.granted = request.perCard;
    if (request.tflopsPerCard > 0)
      need.granted.core =
          saturate((static_cast<__int128>(request.tflopsPerCard) * type.core + type.tflops - 1) / type.tflops);
    if (request.memoryFromCore) need.granted.memory = memoryInProportion(need.granted.core, type);
  }
  if (need.granted.core > type.core || need.granted.memory > type.memory) need.verdict = TypeVerdict::tooSmall;
  need.charged = chargedFor(need.granted, request);
  return need;
}

const Need& Needs::lookUp(TypeId type) {
  for (const Known& known : known_) {
    if (known.first != type) continue;
    last_ = &known;
    return known.second;
  }
  last_ = &known_.emplace_back(type, needOn(state_.types[type], request_));
  return last_->second;
}

}  // namespace egpu::scheduler

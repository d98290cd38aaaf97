#include "controller/agent/limiter/limited_device.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/quantity.h"
#include "controller/base/text.h"

namespace egpu::agent::limiter {

namespace {

constexpr int64_t kPercent = 100;

bool isOn(const plugin::CardProcess& process, const std::string& card) {
  return base::lowered(process.uuid) == base::lowered(card);
}

/// Bytes of the card that the processes use, and their number; -1 bytes if one of them is unknown.
std::pair<int64_t, int64_t> usedOf(const std::string& card, const std::vector<PodProcess>& processes) {
  int64_t bytes = 0, count = 0;
  for (const auto& each : processes) {
    if (!isOn(each.process, card)) continue;
    ++count;
    bytes = bytes < 0 || each.process.memory < 0 ? -1 : bytes + each.process.memory;
  }
  return {bytes, count};
}

/// Uid of the pod with the largest use of the card's memory.
std::string largestOn(const std::string& card, const std::vector<PodProcess>& processes) {
  std::map<std::string, int64_t> bytes;
  for (const auto& each : processes)
    if (isOn(each.process, card)) bytes[each.pod] += each.process.memory;
  const auto largest =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == bytes.end() ? std::string() : largest->first;
}

}  // namespace

std::optional<Bypass> findBypass(const std::vector<v1alpha::DeviceCard>& cards,
                                 const std::vector<PodProcess>& processes,
                                 const std::function<std::string(int64_t pid)>& name) {
  for (const auto& card : cards) {
    for (const auto& each : processes)
      if (isOn(each.process, card.uuid) && !each.hasSlot)
        return Bypass{card.uuid, each.pod,
                      "process " + std::to_string(each.process.pid) + " (" + name(each.process.pid) + ") uses card " +
                          card.uuid +
                          " without the limiter: it loaded the driver's library in another way, and nothing limits it"};
    const auto [bytes, count] = usedOf(card.uuid, processes);
    if (bytes <= card.memory + count * kContextMemory) continue;
    return Bypass{card.uuid, largestOn(card.uuid, processes),
                  "its processes use " + v1alpha::formatBytes(bytes) + " of the memory of card " + card.uuid +
                      ", of which it has " + v1alpha::formatBytes(card.memory)};
  }
  return std::nullopt;
}

const std::optional<Bypass>& Suspicion::observe(std::optional<Bypass> now, bool isIdle) {
  const bool lasts = now && last_ && now->card == last_->card && now->pod == last_->pod;
  last_ = std::move(now);
  quiet_ = last_ ? 0 : quiet_ + 1;
  // The message of a reported bypass stays, although amounts change.
  if (lasts && (!reported_ || reported_->card != last_->card || reported_->pod != last_->pod)) reported_ = last_;
  if (isIdle || quiet_ >= kQuietRounds) reported_.reset();
  return reported_;
}

uint32_t Factors::next(const std::string& card, uint32_t factor, base::Clock::Steady now, uint64_t spent,
                       int64_t percent) {
  const auto [at, isNew] = starts_.try_emplace(card, Start{now, spent});
  auto& start = at->second;
  if (isNew || now - start.at < kPeriod) return factor;
  const auto elapsed =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - start.at).count());
  const uint64_t charged = spent - start.spent;  // numbers of a hostile page wrap, and the factor stays in its range
  start = {now, spent};
  if (percent <= 0 || charged == 0) return factor;  // nothing to compare
  return egpu_limiter_next_factor(factor, elapsed / kPercent * static_cast<uint64_t>(percent), charged);
}

}  // namespace egpu::agent::limiter

#include "controller/agent/usage/usage.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/v1alpha/usage.h"
#include "controller/base/text.h"
#include "controller/base/timestamp.h"

namespace egpu::agent::usage {

namespace {

constexpr std::size_t kMaxDevices = 128;  ///< maximum entries in a card's ledger
constexpr Used kUnknown{-1, -1, -1};

int64_t sum(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }

void add(Used& to, const plugin::CardProcess& process) {
  to.memory = sum(to.memory, process.memory);
  // Each process is measured separately, so the sum may exceed 100.
  to.smPercent = std::min<int64_t>(sum(to.smPercent, process.smPercent), 100);
  to.processes = sum(to.processes, 1);
}
void add(Used& to, const Used& more) {
  to.memory = sum(to.memory, more.memory);
  to.smPercent = std::min<int64_t>(sum(to.smPercent, more.smPercent), 100);
  to.processes = sum(to.processes, more.processes);
}

/// Shares of one card, with the usage by each of their pods.
class Holders {
 public:
  Holders(const std::vector<Share>& shares, const std::string& card, const Used& start) {
    for (const auto& share : shares) {
      if (base::lowered(share.card) != base::lowered(card)) continue;
      auto& holder = holders_.emplace_back(DeviceUse{&share, {}});
      for (const auto& [uid, name] : share.pods) holder.used.emplace(uid, start);
      if (share.pods.empty()) holder.used.emplace("", start);
    }
  }
  /// Adds the process to the pod's share. Returns false if the pod has no share of the card.
  bool count(const std::string& pod, const plugin::CardProcess& process) {
    for (auto& holder : holders_)
      if (const auto used = holder.used.find(pod); !pod.empty() && used != holder.used.end())
        return add(used->second, process), true;
    return false;
  }
  /// Replaces the memory of the measured shares of the card.
  void measure(const std::vector<Measured>& measured, const std::string& card) {
    for (auto& holder : holders_) {
      std::map<std::string, int64_t> sums;  // by uid of the pod
      for (const auto& each : measured)
        if (each.deviceUid == holder.share->deviceUid && base::lowered(each.card) == base::lowered(card))
          sums[holder.used.count(each.pod) > 0 ? each.pod : ""] += each.memory;
      for (const auto& [pod, sum] : sums)
        if (const auto used = holder.used.find(pod); used != holder.used.end()) used->second.memory = sum;
    }
  }
  void report(CardUse& card, std::vector<ClaimUse>& claims) const {
    for (const auto& [share, used] : holders_) {
      auto& device = card.devices.try_emplace(share->deviceUid).first->second;
      device.granted += share->memory;
      for (const auto& [uid, part] : used) {
        add(device.used, part);
        const auto pod = share->pods.find(uid);
        claims.push_back({share->namespace_, share->claim, pod == share->pods.end() ? "" : pod->second, card.uuid, part,
                          share->core, share->memory});
      }
    }
  }

 private:
  struct DeviceUse {
    const Share* share;
    std::map<std::string, Used> used;  ///< by uid of the pod
  };
  std::vector<DeviceUse> holders_;
};

v1alpha::CardUsage statusOf(const CardUse& now, base::Clock::Wall wall) {
  v1alpha::CardUsage out;
  out.memory = now.used.memory;
  out.smPercent = now.used.smPercent;
  for (const auto& [uid, device] : now.devices) {
    if (device.used == Used{} || out.devices.size() == kMaxDevices) continue;
    out.devices[uid] = {device.used.memory, device.used.smPercent};
  }
  out.time = base::rfc3339(wall);
  return out;
}

bool noticeable(const v1alpha::CardUsage& before, const v1alpha::CardUsage& after, const CardUse& now) {
  using v1alpha::movedNoticeably;
  if (movedNoticeably(before.memory, after.memory, now.memory) ||
      movedNoticeably(before.smPercent, after.smPercent, 100))
    return true;
  const auto moved = [&](const std::string& uid) {
    const auto of = [&uid](const v1alpha::CardUsage& usage) {
      const auto it = usage.devices.find(uid);
      return it == usage.devices.end() ? v1alpha::DeviceUsage{0, 0} : it->second;
    };
    const auto device = now.devices.find(uid);
    const auto was = of(before), is = of(after);
    const bool granted = device != now.devices.end() && device->second.granted > 0;
    return movedNoticeably(was.memory, is.memory, granted ? device->second.granted : now.memory) ||
           movedNoticeably(was.smPercent, is.smPercent, 100);
  };
  const auto any = [&](const auto& devices) {
    return std::any_of(devices.begin(), devices.end(), [&](const auto& each) { return moved(each.first); });
  };
  return any(before.devices) || any(after.devices);
}

}  // namespace

Usage attribute(const std::vector<Reading>& readings, std::vector<Share> shares, const PodOf& podOf,
                const std::vector<Measured>& measured) {
  std::sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.deviceUid < b.deviceUid; });
  Usage out;
  for (const auto& reading : readings) {
    CardUse card{reading.name, reading.uuid, reading.model, reading.memory, {}, {}};
    card.used = {reading.use.memory, reading.use.smPercent, reading.use.processes};
    Holders holders(shares, reading.uuid, reading.use.processes < 0 ? kUnknown : Used{});
    for (const auto& process : reading.processes)
      if (const auto pod = podOf(process.pid); pod && !holders.count(*pod, process) && !pod->empty())
        out.strangers.insert(*pod);
    holders.measure(measured, reading.uuid);
    holders.report(card, out.claims);
    out.cards.push_back(std::move(card));
  }
  std::sort(out.claims.begin(), out.claims.end(), [](const auto& a, const auto& b) {
    return std::tie(a.namespace_, a.claim, a.pod, a.card) < std::tie(b.namespace_, b.claim, b.pod, b.card);
  });
  return out;
}

bool shouldReport(const core::HeapOptional<v1alpha::CardUsage>& before, const CardUse* now, base::Clock::Wall wall,
                  std::chrono::milliseconds every, core::HeapOptional<v1alpha::CardUsage>& after) {
  after.reset();
  if (now != nullptr) after = statusOf(*now, wall);
  if (!before) return after.has_value();
  // A time that is malformed or in the future does not delay the write.
  const auto last = base::parseRfc3339(before->time);
  if (last && *last <= wall && wall - *last < every) return false;
  return !after || noticeable(*before, *after, *now);
}

}  // namespace egpu::agent::usage

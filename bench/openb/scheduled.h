// The project's scheduler as a placer: Cluster and decide(), with CPU, memory and models.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/openb/replay.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/request.h"

namespace egpu::bench::openb {

using scheduler::findPolicies;
using scheduler::Policies;
using scheduler::policyNames;

/// The policies apply only to choose(). take() also accepts and counts choices of other placers.
class Scheduled : public Placer {
 public:
  Scheduled(const Trace& trace, const Policies& policies);
  /// Lets the cluster observe all pods of the trace's file in scattered order, so that it knows the trace's
  /// distribution.
  void teach();
  void arrives(const TracePod& pod) override { cluster_.observe(requestOf(pod)); }
  std::optional<Seat> choose(const TracePod& pod, const Where& where) override;
  /// Converts a decision that fits.
  Seat seatOf(const scheduler::Decision& decision) const;
  void take(const TracePod& pod, uint64_t id, const Seat& seat) override;
  void giveBack(const TracePod& pod, uint64_t id, const Seat& seat) override;

  const scheduler::Cluster& cluster() const { return cluster_; }
  const scheduler::Request& requestOf(const TracePod& pod) const {
    return requests_[static_cast<std::size_t>(&pod - trace_.pods.data())];
  }
  /// Returns the rank of a node of the cluster.
  static std::size_t rankOf(std::string_view node);
  /// Returns the device name for a pod's cards.
  static std::string deviceOf(uint64_t id) { return "pod-" + std::to_string(id); }
  static uint64_t idOf(std::string_view device) { return rankOf(device); }

 private:
  const Trace& trace_;
  std::vector<scheduler::Request> requests_;     // by pod
  std::vector<std::string> nodes_;               // by rank
  std::vector<std::vector<std::string>> cards_;  // by rank and index
  scheduler::Cluster cluster_;
};

}  // namespace egpu::bench::openb

// The scheduler itself as a placer: Cluster and decide(), with CPU, memory and models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/openb/replay.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/request.h"

namespace egpu::bench::openb {

using scheduler::findPolicies;
using scheduler::Policies;
using scheduler::policyNames;

class Scheduled : public Placer {
 public:
  Scheduled(const Trace& trace, const Policies& policies);
  /// Lets the cluster observe every pod of the trace's file beforehand, scattered: it knows the trace's distribution.
  void teach();
  bool place(const Pod& pod) override;

 private:
  const Trace& trace_;
  std::vector<scheduler::Request> requests_;  // by pod
  scheduler::Cluster cluster_;
  uint64_t devices_ = 0;
};

}  // namespace egpu::bench::openb

#include "controller/scheduler/node_policy/node_policy.h"

#include "controller/scheduler/node_policy/binpack.h"
#include "controller/scheduler/node_policy/compact_first.h"
#include "controller/scheduler/node_policy/fragmentation.h"
#include "controller/scheduler/node_policy/low_load_first.h"
#include "controller/scheduler/node_policy/spread.h"

namespace egpu::scheduler {
namespace {
// All node policies, sorted by name. A new policy is a file and a line here.
constexpr NodePolicy kNodePolicies[] = {node_policy::kBinpack, node_policy::kCompactFirst, node_policy::kFragmentation,
                                        node_policy::kLowLoadFirst, node_policy::kSpread};
}  // namespace

const NodePolicy* findNodePolicy(std::string_view name) {
  for (const NodePolicy& policy : kNodePolicies)
    if (policy.name == name) return &policy;
  return nullptr;
}

std::vector<std::string_view> nodePolicyNames() {
  std::vector<std::string_view> names;
  for (const NodePolicy& policy : kNodePolicies) names.push_back(policy.name);
  return names;
}

}  // namespace egpu::scheduler

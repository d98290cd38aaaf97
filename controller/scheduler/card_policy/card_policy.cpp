#include "controller/scheduler/card_policy/card_policy.h"

#include "controller/scheduler/card_policy/binpack.h"
#include "controller/scheduler/card_policy/compact_first.h"
#include "controller/scheduler/card_policy/low_load_first.h"
#include "controller/scheduler/card_policy/simple.h"
#include "controller/scheduler/card_policy/spread.h"
#include "controller/scheduler/card_policy/static.h"
#include "controller/scheduler/card_policy/topology.h"

namespace egpu::scheduler {
namespace {
// All card policies, sorted by name. A new policy is a file and a line here.
constexpr CardPolicy kCardPolicies[] = {card_policy::kBinpack, card_policy::kCompactFirst, card_policy::kLowLoadFirst,
                                        card_policy::kSimple,  card_policy::kSpread,       card_policy::kStatic,
                                        card_policy::kTopology};
}  // namespace

const CardPolicy* findCardPolicy(std::string_view name) {
  for (const CardPolicy& policy : kCardPolicies)
    if (policy.name == name) return &policy;
  for (const CardPolicy& policy : card_policy::kStaticMachines)
    if (policy.name == name) return &policy;
  return nullptr;
}

std::vector<std::string_view> cardPolicyNames() {
  std::vector<std::string_view> names;
  for (const CardPolicy& policy : kCardPolicies) names.push_back(policy.name);
  return names;
}

}  // namespace egpu::scheduler

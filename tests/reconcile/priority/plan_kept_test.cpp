// A plan of preemption while its victims are released, at the moments at which the allocator knows less than the
// stores.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/priority/preemption.h"
#include "tests/support/stored_objects.h"

namespace egpu::reconcile {
namespace {

/// Node n1 with card c1, which two preemptible claims share.
class PlanKeptTest : public ::testing::Test {
 protected:
  /// `beforeAllocator` is called when a device changes, before the allocator learns of the change.
  PlanKeptTest() {
    stores.devices.listen([this](const auto*, const auto*) {
      if (beforeAllocator) beforeAllocator();
    });
    cluster.emplace(stores);
    preemption.emplace(stores, *cluster, clock, kDefaultTimeouts);
    stores.nodes.informed(support::readyNode("n1", next()));
    cardWith({});
    core::PriorityClass high;
    high.metadata.name = high.metadata.uid = "high";
    high.metadata.resourceVersion = next();
    high.value = 1000;
    stores.priorityClasses.informed(high);
  }
  std::string next() { return std::to_string(++version); }
  void cardWith(core::SortedMap<v1alpha::LedgerEntry> entries) {
    auto gpu = support::cardOn("n1", "c1", next());
    gpu.spec.allocations = std::move(entries);
    stores.cards.informed(gpu);
  }
  cache::Store<cache::Claim>::Ptr claim(const std::string& name, const std::string& priorityClass = {}) {
    cache::Claim made;
    made.metadata.name = made.metadata.uid = name;
    made.metadata.namespace_ = "ns";
    made.metadata.resourceVersion = next();
    made.spec.priorityClassName = priorityClass;
    stores.claims.informed(made);
    return stores.claims.get({"ns", name});
  }
  /// Makes a device of that many milli-cards for the claim, and returns it.
  cache::Gpu device(const std::string& of, int64_t core, const std::string& phase) {
    cache::Gpu gpu;
    gpu.metadata.name = deviceNameFor(*stores.claims.get({"ns", of}));
    gpu.metadata.uid = "uid-" + of;
    gpu.metadata.resourceVersion = next();
    gpu.spec.nodeName = "n1";
    gpu.spec.cards = {{"c1", "c1", core, 100, core, 100}};
    gpu.spec.claimRef = v1alpha::ClaimRef{"ns", of, of};
    gpu.spec.parameters["preemptible"] = "true";
    gpu.spec.reclaimPolicy = "Delete";
    gpu.status.phase = phase;
    stores.devices.informed(gpu);
    return gpu;
  }
  std::vector<v1alpha::Nomination> planFor(const std::string& name) {
    const auto preemptor = stores.claims.get({"ns", name});
    allocator::SchedulingRequest ask;
    ask.claimUid = preemptor->metadata.uid;
    ask.claim = "ns/" + name;
    ask.request.perCard = {1000, 10};
    ask.order.priority = 1000;
    return preemption->planForGroup({{preemptor}, {ask}, {{}}}, {});
  }

  int version = 0;
  base::ManualClock clock;
  cache::Stores stores;
  std::function<void()> beforeAllocator;
  std::optional<allocator::Allocator> cluster;
  std::optional<Preemption> preemption;
};

TEST_F(PlanKeptTest, IsKeptWhenTheAllocatorStillCountsAReleasedVictim) {
  claim("a");
  claim("b");
  auto preemptor = *claim("p", "high");
  const v1alpha::LedgerEntry other{"", "ns/b", 400, 100};
  cardWith({{"uid-a", {"", "ns/a", 600, 100}}, {"uid-b", other}});
  auto released = device("a", 600, std::string(v1alpha::keys::phase::kBound));
  const auto remaining = device("b", 400, std::string(v1alpha::keys::phase::kBound));
  preemptor.metadata.resourceVersion = next();
  preemptor.status.nominated =
      v1alpha::Nomination{"n1", {{"c1", 1000, 10}}, {released.metadata.name, remaining.metadata.name}};
  stores.claims.informed(preemptor);
  ASSERT_EQ(planFor("p").size(), 1U);
  EXPECT_EQ(planFor("p").front().victims.size(), 2U);

  // The steps of the release: the device Failed, its entry is removed, and it is gone.
  released.status.phase = v1alpha::keys::phase::kFailed;
  released.status.reason = v1alpha::keys::reason::kPreempted;
  released.metadata.resourceVersion = next();
  stores.devices.informed(released);
  cardWith({{"uid-b", other}});
  int plans = 0;
  beforeAllocator = [&] {
    const auto plan = planFor("p");
    ASSERT_EQ(plan.size(), 1U) << "the plan was dropped";
    EXPECT_EQ(plan.front().nodeName, "n1");
    EXPECT_NE(std::find(plan.front().victims.begin(), plan.front().victims.end(), remaining.metadata.name),
              plan.front().victims.end());
    ++plans;
  };
  released.metadata.resourceVersion = next();
  stores.devices.informedGone(released);
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(planFor("p").front().victims, std::vector<std::string>{remaining.metadata.name});
}

}  // namespace
}  // namespace egpu::reconcile

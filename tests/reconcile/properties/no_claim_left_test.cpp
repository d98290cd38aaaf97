// After random operations and a quiet period, no claim is pending that would fit. Two checks prove it: the scheduler
// decides each pending claim on the final state, and a new process on the same objects serves no claim that the first
// process left.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/priority.h"
#include "tests/reconcile/properties/trial.h"
#include "tests/support/stock_scheduler.h"

namespace egpu::reconcile {
namespace {

using std::chrono::minutes;
using support::World;

class BusyCluster : public Trial {
 public:
  explicit BusyCluster(uint64_t seed) : Trial(seed) {
    world.addClass("share");
    world.addClass("t4", "Delete", "Immediate", {{"model", "T4"}});
    world.addClass("few", "Delete", "Immediate", {{"maxClaimsPerCard", "2"}});
    world.addClass("tolerant");
    world.setClass("tolerant", R"({"tolerations":[{"key":"gpu","operator":"Exists"}]})");
    world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
    world.addClass("late", "Delete", "WaitForFirstConsumer");
    addPriorityClass("low", 10);
    addPriorityClass("high", 1000);
    for (int i = 0; i < between(1, 3); ++i) addNode();
    start();
    unlimited();
  }

  /// Performs one random operation on the cluster.
  std::string act() {
    switch (below(18)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return "claim " + core::keyOf(addClaim().metadata).str();
      case 4:
        return addPodWithClaims();
      case 5:
        return addGang();
      case 6:
        return addMember();
      case 7:
      case 8:
      case 9:
        return removeClaim();
      case 10:
        return removePod();
      case 11:
        return once(2) ? addNode() : removeNode();
      case 12:
        return toggleNode();
      case 13:
        return changeCard();
      case 14:
        return changeQuota();
      case 15:
        return once(3) ? changeClass() : allowClass();
      case 16:
        return once(3) ? changeQuota() : removeQuota();
      default:
        return once(2) ? "time" : "claim " + core::keyOf(addAlternatives().metadata).str();
    }
  }
  /// Deletes a served claim. Pending claims are then evaluated only because capacity becomes free.
  std::string release() {
    std::vector<core::ObjectKey> served;
    for (const auto& name : servedClaims()) served.push_back(core::ObjectKey::of(name));
    if (served.empty()) return {};
    const auto key = oneOf(served);
    for (const auto& each : stores().podsOfClaim(key)) world.removePod(each->metadata.name);
    Trial::removeClaim(key);
    return "release " + key.str();
  }
  /// Runs until nothing changes; the scheduler places pods meanwhile.
  void rest() {
    for (int i = 0; i < 20; ++i) {
      settle(minutes(2));
      if (scheduler_.round().empty()) break;
    }
    settle(minutes(20));
    while (!scheduler_.round().empty()) settle(minutes(20));
  }
  /// Disables reservations of nodes and quotas. They would be a reason to leave claims pending that a new process does
  /// not know.
  void unlimited() {
    scheduler::ReservationLimits limits;
    limits.after = 1'000'000'000;
    driver->cluster.setReservationLimits(limits);
  }

  /// Returns the first claim that would fit and is pending, or does not report why. Empty: there is none.
  std::string leftOut() {
    std::string found;
    const auto claims = World::must(world.client.listAll<cache::Claim>({}));
    for (const auto& each : claims) {
      if (each.metadata.deleting() || isServed(each)) continue;
      const auto name = core::keyOf(each.metadata).str();
      const auto* bound = findCondition(each.status.conditions, kBound);
      if (bound == nullptr || bound->status != "False" || bound->reason.empty() || bound->message.empty())
        return name + " does not report why it is pending";
      ++reasons[bound->reason];
      const auto fits = whereItFits(each);
      if (!fits.empty())
        return name + " would fit on " + fits + "; it reports " + bound->reason + ": " + bound->message;
    }
    return found;
  }
  std::set<std::string> servedClaims() {
    std::set<std::string> names;
    for (const auto& each : World::must(world.client.listAll<cache::Claim>({})))
      if (isServed(each)) names.insert(core::keyOf(each.metadata).str());
    return names;
  }
  std::map<std::string, int> reasons;

 private:
  /// Returns the node on which the claim alone would be decided now. Claims that are decided with others are checked by
  /// the new process.
  std::string whereItFits(const cache::Claim& each) {
    const auto cls = classOf(stores(), each, nullptr);
    if (!cls || gangOf(stores(), each) || isDecidedByPod(stores(), each)) return {};
    const auto made = schedulingRequestsOf(stores(), each, *cls);
    const auto* requests = std::get_if<std::vector<scheduler::Request>>(&made);
    const auto priority = priorityOf(stores(), each);
    if (requests == nullptr || !priority.unknown.empty()) return {};
    for (const auto& request : *requests) {
      const allocator::Allocator::SchedulingRequest ask{each.metadata.uid,
                                                        core::keyOf(each.metadata).str(),
                                                        request,
                                                        {},
                                                        cls->metadata.name,
                                                        queueOrderOf(each, priority.value, world.clock.wall())};
      const auto decided = cluster().candidates(ask, toleratedNodes(stores(), *cls), 1);
      if (!decided.empty()) return decided.front().node;
    }
    return {};
  }

  core::StringMap shape() {
    static const std::vector<core::StringMap> shapes{
        {{"gpu", "1"}},        {{"gpu", "1"}},          {{"gpu", "2"}},
        {{"gpu", "3"}},        {{"gpu-core", "20"}},    {{"gpu-core", "50"}},
        {{"gpu-core", "200"}}, {{"gpu-memory", "6Gi"}}, {{"gpu-core", "30"}, {"gpu-memory", "12Gi"}}};
    return oneOf(shapes);
  }
  std::string anyPriority() { return oneOf<std::string>({"", "", "low", "high"}); }
  std::string anyNamespace() { return oneOf<std::string>({"a", "b", "default"}); }
  cache::Claim addClaim() {
    ClaimWish wish{anyNamespace(),
                   oneOf<std::string>({"share", "share", "t4", "few", "tolerant", "spare", "spare"}),
                   anyPriority(),
                   shape(),
                   {},
                   {}};
    if (once(10)) wish.cls = "none";
    if (once(8))
      if (const auto cards = cardNames(); !cards.empty()) wish.gpu = oneOf(cards);
    return claim(wish);
  }
  cache::Claim addAlternatives() {
    ClaimWish wish{anyNamespace(), "share", anyPriority(), {}, {}, {}};
    for (int i = between(2, 3); i > 0; --i) {
      v1alpha::ClaimAlternative one;
      one.name = "option-" + std::to_string(i);
      for (const auto& [key, value] : shape()) one.requests["elasticgpu.io/" + key] = value;
      wish.firstAvailable.push_back(one);
    }
    return claim(wish);
  }
  std::string addPodWithClaims() {
    std::vector<std::string> names;
    for (int i = between(1, 2); i > 0; --i)
      names.push_back(claim({"default", once(4) ? "share" : "late", anyPriority(), shape(), {}, {}}).metadata.name);
    return "pod " + pod("default", names).metadata.name;
  }
  std::string addGang() {
    const int size = between(2, 4);
    const auto namespace_ = anyNamespace();
    const auto name = "g" + std::to_string(++gangs_);
    lastGang_ = {namespace_,
                 oneOf<std::string>({"share", "spare"}),
                 anyPriority(),
                 shape(),
                 {{std::string(v1alpha::keys::kGangAnnotation), name},
                  {std::string(v1alpha::keys::kGangSizeAnnotation), std::to_string(size)}},
                 {}};
    for (int i = once(3) ? 1 : 0; i < size; ++i) (void)claim(lastGang_);
    return "gang " + name;
  }
  std::string addMember() {
    if (gangs_ == 0) return {};
    return "member " + claim(lastGang_).metadata.name;
  }
  std::string removeClaim() {
    const auto claims = World::must(world.client.listAll<cache::Claim>({}));
    if (claims.empty()) return {};
    const auto key = core::keyOf(oneOf(claims).metadata);
    Trial::removeClaim(key);
    return "no claim " + key.str();
  }
  std::string removePod() {
    const auto pods = World::must(world.client.listAll<core::Pod>({}));
    if (pods.empty()) return {};
    const auto name = oneOf(pods).metadata.name;
    if (once(3))
      world.finishPod(name);
    else
      world.removePod(name);
    return "no pod " + name;
  }
  std::string addNode() {
    const auto name = "n" + std::to_string(++nodes_);
    world.addNode(name);
    for (int i = 0; i < between(1, 4); ++i) world.addCard(name, i, 16 * support::kGi, once(3) ? "A100" : "T4");
    return "node " + name;
  }
  std::vector<std::string> nodeNames() {
    std::vector<std::string> names;
    for (const auto& each : World::must(world.client.listAll<core::Node>({}))) names.push_back(each.metadata.name);
    return names;
  }
  std::vector<std::string> cardNames() {
    std::vector<std::string> names;
    for (const auto& each : World::must(world.client.listAll<cache::Gpu>({})))
      if (each.isCard()) names.push_back(each.metadata.name);
    return names;
  }
  std::string removeNode() {
    const auto names = nodeNames();
    if (names.size() < 2) return {};
    const auto name = oneOf(names);
    world.removeNode(name);
    return "no node " + name;
  }
  std::string toggleNode() {
    const auto nodes = World::must(world.client.listAll<core::Node>({}));
    const auto& node = oneOf(nodes);
    if (once(2)) {
      cordon(node.metadata.name, !node.unschedulable);
      return "cordon " + node.metadata.name;
    }
    world.taint(node.metadata.name,
                node.taints.empty() ? R"([{"key":"gpu","value":"x","effect":"NoSchedule"}])" : "null");
    return "taint " + node.metadata.name;
  }
  std::string changeCard() {
    const auto cards = cardNames();
    if (cards.empty()) return {};
    const auto name = oneOf(cards);
    if (once(4)) {
      World::mustOk(world.client.remove<cache::Gpu>({"", name}));
      return "no card " + name;
    }
    const bool isHealthy = once(2);
    world.json<cache::Gpu>({"", name},
                           std::string(R"({"status":{"conditions":[{"type":"Healthy","status":")") +
                               (isHealthy ? "True" : "False") + R"(","reason":"Xid79"}]}})",
                           "status");
    return (isHealthy ? "healthy " : "unhealthy ") + name;
  }
  std::string changeQuota() {
    const auto namespace_ = anyNamespace();
    const core::ObjectKey key{namespace_, "team"};
    if (once(3) && world.client.get<cache::Quota>(key).ok()) {
      World::mustOk(world.client.remove<cache::Quota>(key));
      return "no quota " + namespace_;
    }
    setQuota(namespace_, {{"gpu", std::to_string(below(6))},
                          {"gpu-core", std::to_string(below(8) * 100)},
                          {"claims", std::to_string(between(1, 9))}});
    return "quota " + namespace_;
  }
  std::string removeQuota() {
    for (const auto& each : World::must(world.client.listAll<cache::Quota>({})))
      World::mustOk(world.client.remove<cache::Quota>(core::keyOf(each.metadata)));
    return "no quotas";
  }
  std::string allowClass() {
    for (const auto* cls : {"share", "t4", "few", "tolerant", "spare", "late"})
      world.setClass(cls, R"({"allowedNamespaces":null})");
    return "all namespaces";
  }
  std::string changeClass() {
    const auto cls = oneOf<std::string>({"share", "t4", "few", "tolerant", "spare", "late"});
    if (once(4) && !world.client.get<cache::Class>({"", "none"}).ok()) {
      world.addClass("none");
      return "class none";
    }
    if (once(4) && world.client.get<cache::Class>({"", "none"}).ok()) {
      World::mustOk(world.client.remove<cache::Class>({"", "none"}));
      return "no class none";
    }
    if (once(2)) {
      world.setClass(cls, once(2) ? R"({"allowedNamespaces":null})"
                                  : R"({"allowedNamespaces":{"matchLabels":{"kubernetes.io/metadata.name":"a"}}})");
      return "namespaces of class " + cls;
    }
    world.setClass(cls, once(2) ? R"({"tolerations":null})" : R"({"tolerations":[{"key":"gpu","operator":"Exists"}]})");
    return "tolerations of class " + cls;
  }

  support::StockScheduler scheduler_{world};
  ClaimWish lastGang_;
  int gangs_ = 0, nodes_ = 0;
};

TEST(NoClaimLeftTest, AfterRandomOperationsNoClaimIsPendingThatWouldFit) {
  std::map<std::string, int> reasons;
  for (const auto seed : seeds(8)) {
    BusyCluster cluster(seed);
    std::string log = "seed " + std::to_string(seed) + ":";
    for (int round = 0; round < 6; ++round) {
      for (int n = cluster.between(3, 14); n > 0; --n) {
        log += "\n  " + cluster.act();
        if (cluster.once(2)) cluster.settle(std::chrono::seconds(cluster.below(20)));
        if (cluster.once(3)) cluster.world.nextSecond();
      }
      // After the first evaluations of new claims, which would find freed capacity.
      cluster.settle(minutes(1));
      for (int n = cluster.below(3); n > 0; --n) log += "\n  " + cluster.release();
      cluster.rest();
      log += "\n rest";
      ASSERT_EQ(cluster.world.garbage(), "") << log;
      ASSERT_EQ(cluster.leftOut(), "") << log;
      if (!cluster.once(2)) continue;
      const auto before = cluster.servedClaims();
      cluster.restart();
      cluster.unlimited();
      cluster.rest();
      log += "\n restart";
      for (const auto& name : cluster.servedClaims())
        ASSERT_TRUE(before.contains(name)) << name << " was left by the process before. " << log;
      ASSERT_EQ(cluster.leftOut(), "") << log;
    }
    for (const auto& [reason, times] : cluster.reasons) reasons[reason] += times;
  }
  // The operations cause each of these reasons.
  for (const auto* reason : {"NoFit", "QuotaExceeded", "WaitingForGang"}) EXPECT_GT(reasons[reason], 0) << reason;
}

}  // namespace
}  // namespace egpu::reconcile

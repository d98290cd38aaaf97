// Pending claims cost nothing at rest: after a quiet period each kind of them causes no step, or only the steps of its
// documented periodic evaluation.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/pod/consumer_rounds.h"
#include "controller/reconcile/priority/preemption.h"
#include "tests/reconcile/properties/trial.h"

namespace egpu::reconcile {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using support::World;

/// A node "n" of two cards, a class per policy, and claims for the rows of the table.
class Waiters : public Trial {
 public:
  Waiters() : Trial(1) {
    addNode("n", 2);
    world.addClass("share");
    world.addClass("late", "Delete", "WaitForFirstConsumer");
    world.addClass("keep", "Retain");
    world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
    world.addClass("elastic", "Delete", "Immediate", {{"resizable", "true"}});
    world.addClass("refused", "Delete", "Immediate", {{"refuse", "me"}});
    world.addClass("absent", "Delete", "Immediate", {}, "absent.example.com");
    addPriorityClass("high", 1000);
    start();
  }
  cache::Claim claim(const std::string& cls, core::StringMap requests = {{"gpu", "1"}},
                     const std::string& priority = {}) {
    world.nextSecond();
    ClaimWish wish{"default", cls, priority, std::move(requests), {}, {}, {}};
    wish.annotations = std::move(annotations);
    wish.gpu = std::move(gpu);
    auto made = Trial::claim(wish);
    settle();
    return made;
  }
  /// Creates a claim that holds all of node n.
  cache::Claim fill(const std::string& cls = "share") { return claim(cls, {{"gpu", "2"}}); }
  void member(const std::string& cls, int size, const std::string& priority = {}) {
    annotations = {{std::string(v1alpha::keys::kGangAnnotation), "train"},
                   {std::string(v1alpha::keys::kGangSizeAnnotation), std::to_string(size)}};
    (void)claim(cls, {{"gpu", "2"}}, priority);
  }
  core::Pod podOf(const std::vector<cache::Claim>& claims, const std::function<void(core::Pod&)>& change = {}) {
    std::vector<std::string> names;
    for (const auto& each : claims) names.push_back(each.metadata.name);
    auto made = World::podOf("user-" + std::to_string(++pods_), names);
    if (change) change(made);
    made = World::must(world.client.create(made));
    settle();
    return made;
  }
  /// Creates a pod that runs with the claim.
  core::Pod run(const cache::Claim& of) {
    auto made = podOf({of});
    world.schedule(made.metadata.name);
    settle();
    return made;
  }
  std::string deviceOf(const cache::Claim& of) { return "egpu-" + of.metadata.uid; }

  core::StringMap annotations;  ///< annotations of the next claim
  std::string gpu;              ///< name of the ElasticGPU that the next claim names

 private:
  int pods_ = 0;
};

struct RestRow {
  const char* name;
  std::function<void(Waiters&)> begin;
  const char* reason = "";   ///< reason of a condition of some claim; empty: not checked
  milliseconds interval{0};  ///< time between two documented evaluations; 0: none
  int steps = 0;             ///< maximum for each evaluation
  bool writes = false;       ///< the evaluation tries again, and writes
};
void PrintTo(const RestRow& row, std::ostream* out) { *out << row.name; }

void refuseEvictions(Waiters& w) {
  w.line.code = 429;
  w.line.message = "Cannot evict pod as it would violate the pod's disruption budget.";
  w.line.refuses = [](const kube::HttpRequest& request) { return request.target.ends_with("/eviction"); };
}

constexpr milliseconds kReservationInterval = seconds(60);  ///< as Timeouts::reservationExpiryInterval
constexpr milliseconds kRefusedFor = seconds(300);          ///< as Timeouts::provisionRefusalBackoff
constexpr milliseconds kPlaceTimeout = seconds(300);        ///< as Timeouts::placementTimeout

const std::vector<RestRow>& rows() {
  static const std::vector<RestRow> all{
      {"NoRoom",
       [](Waiters& w) {
         (void)w.fill();
         (void)w.claim("share");
       },
       "NoFit"},
      {"NoRoomForAHundred",
       [](Waiters& w) {
         (void)w.fill();
         for (int i = 0; i < 100; ++i) (void)w.claim("share");
       },
       "NoFit"},
      {"NoRoomForAnyAlternative",
       [](Waiters& w) {
         (void)w.fill();
         Trial::ClaimWish wish{"default", "share", {}, {}, {}, {}, {}};
         for (const auto* count : {"2", "1"})
           wish.firstAvailable.push_back({std::string("cards-") + count, {}, {{"elasticgpu.io/gpu", count}}});
         (void)static_cast<Trial&>(w).claim(wish);
       },
       "NoFit"},
      {"NoNodeAtAll",
       [](Waiters& w) {
         (void)w.claim("share", {{"gpu", "64"}});
       },
       "NoFit"},
      {"OverQuota",
       [](Waiters& w) {
         w.setQuota("default", {{"gpu", "0"}});
         for (int i = 0; i < 40; ++i) (void)w.claim("share");
       },
       "QuotaExceeded"},
      {"RefusedByQuota",
       [](Waiters& w) {
         w.setQuota("default", {{"gpu", "0"}});
         w.world.json<cache::Quota>({"default", "team"}, R"({"spec":{"enforcement":"Refuse"}})");
         w.settle();
         (void)w.claim("share");
       },
       "QuotaExceeded"},
      {"AGangThatIsNotComplete", [](Waiters& w) { w.member("share", 3); }, "WaitingForGang"},
      {"AGangThatDoesNotFit",
       [](Waiters& w) {
         for (int i = 0; i < 3; ++i) w.member("share", 3);
       },
       "NoFit"},
      {"APreemptibleGangThatDoesNotFit",
       [](Waiters& w) {
         (void)w.fill("spare");
         for (int i = 0; i < 3; ++i) w.member("spare", 3);
       },
       "NoFit"},
      {"AGangThatPreemptsInVain",
       [](Waiters& w) {
         (void)w.fill("spare");
         for (int i = 0; i < 3; ++i) w.member("share", 3, "high");
       },
       "NoFit"},
      {"AClaimWithoutConsumer", [](Waiters& w) { (void)w.claim("late"); }, "WaitingForConsumer"},
      {"AConsumerWithoutRoom",
       [](Waiters& w) {
         (void)w.fill();
         w.podOf({w.claim("late")});
       },
       "NoFit"},
      {"AConsumerThatSuitsNoNode",
       [](Waiters& w) { w.podOf({w.claim("late")}, [](auto& pod) {
                          pod.nodeSelector = {{"zone", "none"}};
                        }); },
       "NoFit"},
      // The driver keeps each of several delays of a key, so that each evaluation happens twice.
      {"ManyConsumersOfOneClaimThatSuitNoNode",
       [](Waiters& w) {
         const auto shared = w.claim("late");
         for (int i = 0; i < 20; ++i)
           w.podOf({shared}, [i](auto& pod) { pod.nodeSelector = {{"zone", std::to_string(i)}}; });
       },
       "NoFit", kDefaultTimeouts.consumerRoundInterval, 22},
      {"AConsumerWithoutAnotherClaim",
       [](Waiters& w) {
         const auto made = w.claim("late");
         w.podOf({made}, [](auto& pod) {
           pod.resourceClaims.push_back({"other", "other"});
           pod.containers[0].resourceClaims.push_back("other");
         });
       },
       "WaitingForConsumer"},
      {"AConsumerWhoseTemplateIsMissing",
       [](Waiters& w) {
         const auto made = w.claim("late");
         w.podOf({made}, [](auto& pod) {
           pod.resourceClaims.push_back({"other", "", "no-such-template"});
           pod.containers[0].resourceClaims.push_back("other");
         });
       },
       "WaitingForConsumer"},
      {"AConsumerBehindAnotherGate",
       [](Waiters& w) {
         w.podOf({w.claim("late")}, [](auto& pod) { pod.schedulingGates.push_back("kueue.x-k8s.io"); });
       },
       "WaitingForGates"},
      {"AConsumerOfAnotherScheduler",
       [](Waiters& w) { w.podOf({w.claim("late")}, [](auto& pod) { pod.schedulerName = "kai-scheduler"; }); },
       "SchedulerNotServed"},
      {"AConsumerThatIsNotPlaced", [](Waiters& w) { w.podOf({w.claim("late")}); }, "WaitingForConsumer", kPlaceTimeout,
       40, true},
      {"NoProvisioner", [](Waiters& w) { (void)w.claim("absent"); }, "ProvisionerUnavailable"},
      {"AClassThatItsProvisionerRefuses", [](Waiters& w) { (void)w.claim("refused"); }, "InvalidParameter"},
      {"AClaimThatItsProvisionerRefuses",
       [](Waiters& w) {
         w.world.plugin.answer({{plugin::ReplyCode::invalid, "no such mode"}}, true);
         (void)w.claim("share");
       },
       "ProvisionFailed", kRefusedFor, 20, true},
      {"NoClass", [](Waiters& w) { (void)w.claim("none"); }, "ClassNotFound"},
      {"NoPriorityClass",
       [](Waiters& w) {
         (void)w.claim("share", {{"gpu", "1"}}, "none");
       },
       "PriorityClassNotFound"},
      {"AnUnknownAmount",
       [](Waiters& w) {
         (void)w.claim("share", {{"gpu-core", "150"}});
       },
       "NotRepresentable"},
      {"NobodyWouldMakeRoom",
       [](Waiters& w) {
         (void)w.fill("share");
         (void)w.claim("share", {{"gpu", "1"}}, "high");
       },
       "NoFit"},
      {"TooFewWouldMakeRoom",
       [](Waiters& w) {
         (void)w.claim("spare");
         (void)w.claim("share");
         (void)w.claim("share", {{"gpu", "2"}}, "high");
       },
       "NoFit"},
      {"APreemptorThatABudgetHoldsUp",
       [](Waiters& w) {
         w.run(w.fill("spare"));
         refuseEvictions(w);
         (void)w.claim("share", {{"gpu", "1"}}, "high");
       },
       "Preempting", kDefaultTimeouts.preemptionRetryBackoff, 6},
      {"AReservationOfANode",
       [](Waiters& w) {
         (void)w.claim("share");
         (void)w.claim("share", {{"gpu", "2"}});
         w.settle(minutes(1));
         w.world.clock.advance(seconds(700));
         w.addNode("m", 1);
         (void)w.claim("share");
         ASSERT_TRUE(w.cluster().hasReservations());
       },
       "NoFit", kReservationInterval, 3},
      {"AReservationOfQuota",
       [](Waiters& w) {
         w.setQuota("default", {{"gpu", "2"}});
         (void)w.claim("share");
         (void)w.claim("share", {{"gpu", "2"}});
         w.world.clock.advance(seconds(700));
         w.setQuota("default", {{"gpu", "2"}, {"claims", "9"}});
         w.settle();
         ASSERT_TRUE(w.cluster().hasReservations());
       },
       "QuotaExceeded", kReservationInterval, 3},
      {"ACardByNameThatIsFull",
       [](Waiters& w) {
         (void)w.fill();
         w.gpu = "gpu-n-0";
         (void)w.claim("share");
       },
       "NoFit"},
      {"AnElasticGpuByNameThatIsMissing",
       [](Waiters& w) {
         w.gpu = "no-such-gpu";
         (void)w.claim("share");
       }},
      {"ADeviceByNameThatIsNotAvailable",
       [](Waiters& w) {
         w.gpu = w.deviceOf(w.fill());
         (void)w.claim("share");
       }},
      {"ADeviceThatIsKept",
       [](Waiters& w) {
         w.removeClaim(core::keyOf(w.fill("keep").metadata));
         w.settle();
         (void)w.claim("share");
       },
       "NoFit"},
      {"ACardThatIsUnhealthy",
       [](Waiters& w) {
         for (const auto* card : {"gpu-n-0", "gpu-n-1"})
           w.world.json<cache::Gpu>(
               {"", card}, R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"Xid79"}]}})",
               "status");
         (void)w.claim("share");
       },
       "NoFit"},
      {"ALostClaimThatIsInUse",
       [](Waiters& w) {
         w.run(w.fill());
         w.world.removeNode("n");
         w.settle();
       }},
      {"ADeletedClaimThatIsInUse",
       [](Waiters& w) {
         const auto made = w.fill();
         w.run(made);
         w.removeClaim(core::keyOf(made.metadata));
         w.settle();
       }},
      {"AResizeThatDoesNotFit",
       [](Waiters& w) {
         const auto made = w.claim("elastic", {{"gpu-core", "50"}, {"gpu-memory", "4Gi"}});
         w.gpu = w.world.gpu(w.deviceOf(made)).spec.cards.front().name;
         (void)w.claim("share", {{"gpu-core", "40"}, {"gpu-memory", "4Gi"}});
         w.world.json<cache::Claim>(core::keyOf(made.metadata),
                                    R"({"spec":{"resources":{"requests":{"elasticgpu.io/gpu-core":"90"}}}})");
         w.settle();
       }},
      {"AnObserverThatMayNot",
       [](Waiters& w) {
         cache::Claim made;
         made.metadata.name = "observer";
         made.metadata.namespace_ = "default";
         made.spec.className = "share";
         made.spec.adminAccess = true;
         made.spec.requests = {{"elasticgpu.io/gpu", "1"}};
         (void)World::must(w.world.client.create(made));
       }},
      {"BoundClaimsAndRunningPods", [](Waiters& w) { w.run(w.fill()); }},
  };
  return all;
}

class AtRestTest : public ::testing::TestWithParam<RestRow> {};

/// Advances the time. Writes of a documented evaluation are no oscillation.
void pass(Waiters& w, const RestRow& row, milliseconds time) {
  const auto end = w.world.clock.now() + time;
  const auto left = [&] { return std::chrono::duration_cast<milliseconds>(end - w.world.clock.now()); };
  while (left().count() > 0) {
    const auto part = row.writes ? std::min(row.interval, left()) : left();
    const auto partEnd = w.world.clock.now() + part;
    w.settle(part);
    if (w.world.clock.now() < partEnd)
      w.world.clock.advance(std::chrono::duration_cast<milliseconds>(partEnd - w.world.clock.now()));
    if (row.writes) w.driver->writes().inputsChanged();
  }
  w.settle(milliseconds(0));
}

TEST_P(AtRestTest, NoStepWithoutACause) {
  const auto& row = GetParam();
  Waiters w;
  row.begin(w);
  if (HasFatalFailure()) return;
  pass(w, row, minutes(30));
  std::string reasons;
  for (const auto& each : World::must(w.world.client.listAll<cache::Claim>({})))
    for (const auto& condition : each.status.conditions)
      if (condition.status == "False") reasons += condition.reason + " ";
  EXPECT_NE(reasons.find(row.reason), std::string::npos) << reasons;
  const auto period = row.interval.count() > 0 ? milliseconds(hours(1)) : milliseconds(hours(6));
  // Explanations are cached by real time (explanation_cache.h), so a message may be written in a later period. A
  // waiter that is at rest writes nothing in one of the next periods.
  auto steps = w.driver->steps;
  auto writes = w.world.writes();
  pass(w, row, period);
  for (int tries = 0; tries < 4 && !row.writes && w.world.writes() != writes; ++tries) {
    std::this_thread::sleep_for(milliseconds(100));
    steps = w.driver->steps;
    writes = w.world.writes();
    pass(w, row, period);
  }
  const auto took = w.driver->steps - steps;
  RecordProperty("steps", took);
  EXPECT_LE(took, row.interval.count() > 0 ? (period / row.interval + 1) * row.steps : 0) << reasons;
  if (!row.writes) {
    EXPECT_EQ(w.world.writes(), writes) << reasons;
  }
}

INSTANTIATE_TEST_SUITE_P(, AtRestTest, ::testing::ValuesIn(rows()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace egpu::reconcile

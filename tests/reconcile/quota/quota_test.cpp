// ElasticGPUQuota: a claim that exceeds a quota waits or is refused, reports that, and is tried again when the quota
// permits. The quota's status shows the usage.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "controller/reconcile/controller.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/forwarding_transport.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using support::World;

cache::Quota quotaOf(const std::string& name, core::StringMap hard) {
  cache::Quota quota;
  quota.metadata.name = name;
  quota.metadata.namespace_ = "default";
  quota.spec.hard = std::move(hard);
  return quota;
}

class QuotaTest : public ReconcileTest {
 protected:
  cache::Quota quota(const std::string& name = "team") {
    return World::must(world.client.get<cache::Quota>({"default", name}));
  }
  void add(const cache::Quota& quota) {
    (void)World::must(world.client.create(quota));
    settle();
  }
  void change(const std::string& spec, const std::string& name = "team") {
    (void)World::must(
        world.client.patch<cache::Quota>({"default", name}, kube::PatchType::merge, R"({"spec":)" + spec + "}", {}));
    settle();
  }
  void claim(const std::string& name, core::StringMap requests, const std::string& cls = "share") {
    world.addClaim(name, cls, std::move(requests));
    settle();
  }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
};

TEST_F(QuotaTest, ThePodOfAnImmediateClaimReportsEachReasonInOrder) {
  for (const auto* name : {"a", "b", "c"}) {
    claim(name, {{"gpu", "1"}});
    world.nextSecond();
  }
  world.addPod("p", {"c"});
  settle();
  ASSERT_EQ(world.reason("c"), "NoFit");
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim c: NoFit"), 1);
  add(quotaOf("team", {{"gpu", "2"}}));
  driver->run();
  ASSERT_EQ(world.reason("c"), "QuotaExceeded") << world.message("c");
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim c: QuotaExceeded"), 1);
}

TEST_F(QuotaTest, TheStatusFollowsClaimsThatComeAndGoQuickly) {
  add(quotaOf("team", {{"claims", "5"}}));
  for (int i = 0; i < 8; ++i) {
    claim("a", {{"gpu-core", "10"}});
    driver->run(std::chrono::seconds(2));
    EXPECT_EQ(quota().status.used.at("claims"), "1") << i;
    world.removeClaim("a");
    driver->run(std::chrono::seconds(2));
    EXPECT_EQ(quota().status.used.at("claims"), "0") << i;
  }
}

TEST_F(QuotaTest, WhatExceedsItWaitsAndReportsHowMuchIsMissingAndWhoHasIt) {
  add(quotaOf("team", {{"gpu-memory", "10Gi"}, {"claims", "5"}}));
  claim("a", {{"gpu-core", "10"}, {"gpu-memory", "8Gi"}});
  EXPECT_EQ(phase("a"), "Bound");
  claim("b", {{"gpu-core", "10"}, {"gpu-memory", "4Gi"}});
  EXPECT_EQ(phase("b"), "Pending");
  EXPECT_EQ(world.reason("b"), "QuotaExceeded");
  EXPECT_EQ(world.message("b"),
            "quota team allows gpu-memory 10Gi, 8Gi is used: 2Gi too little for another 4Gi; gpu-memory 12Gi in its "
            "spec.hard would be enough, or requesting at most 2Gi; held by default/a 8Gi: without default/a it would "
            "be within its "
            "quotas");
  EXPECT_EQ(world.reason("b", "Accepted"), "Accepted");
  EXPECT_EQ(countEvents("b Warning QuotaExceeded"), 1);
  EXPECT_EQ(driver->reconciler.waitingForCapacity(), 1u) << "quotas that become free are given in the same turns";
  claim("c", {{"gpu-memory", "2Gi"}});
  EXPECT_EQ(phase("c"), "Bound");
}

TEST_F(QuotaTest, WhoWaitsIsBoundOnceSomethingIsGivenBack) {
  add(quotaOf("team", {{"claims", "1"}}));
  claim("a", {{"gpu-core", "10"}});
  claim("b", {{"gpu-core", "10"}});
  world.nextSecond();
  claim("c", {{"gpu-core", "10"}});
  world.removeClaim("a");
  settle();
  EXPECT_EQ(phase("b"), "Bound");  // the older claim
  EXPECT_EQ(world.reason("c"), "QuotaExceeded");
}

TEST_F(QuotaTest, WhoWaitsIsBoundOnceTheQuotaIsRaisedOrGone) {
  add(quotaOf("team", {{"claims", "0"}}));
  claim("a", {{"gpu-core", "10"}});
  world.nextSecond();
  claim("b", {{"gpu-core", "10"}});
  EXPECT_EQ(world.reason("a"), "QuotaExceeded");
  change(R"({"hard":{"claims":1}})");
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(world.reason("b"), "QuotaExceeded");
  World::mustOk(world.client.remove<cache::Quota>({"default", "team"}));
  settle();
  EXPECT_EQ(phase("b"), "Bound");
}

TEST_F(QuotaTest, OfAnotherNamespaceItDoesNotCount) {
  world.addNamespace("other");
  auto elsewhere = quotaOf("team", {{"claims", "0"}});
  elsewhere.metadata.namespace_ = "other";
  add(elsewhere);
  claim("a", {{"gpu-core", "10"}});
  EXPECT_EQ(phase("a"), "Bound");
}

TEST_F(QuotaTest, CountsWhatStoodBeforeItAndTakesNothingAway) {
  claim("a", {{"gpu", "2"}, {"gpu-core", "30"}, {"gpu-memory", "4Gi"}});
  add(quotaOf("team", {{"gpu", "1"}, {"gpu-core", "70"}}));
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(quota().status.used, (core::StringMap{{"gpu", "2"}, {"gpu-core", "60"}}));
  EXPECT_EQ(quota().status.summary, (core::StringMap{{"gpu", "2/1"}, {"gpu-core", "60/70"}}));
  claim("b", {{"gpu-core", "5"}});
  EXPECT_EQ(world.reason("b"), "QuotaExceeded");
  change(R"({"hard":{"gpu":3}})");
  EXPECT_EQ(phase("b"), "Bound");
  change(R"({"hard":{"gpu":1}})");  // lowered below the usage
  EXPECT_EQ(phase("b"), "Bound");
  claim("c", {{"gpu-core", "5"}});
  EXPECT_EQ(world.reason("c"), "QuotaExceeded");
}

TEST_F(QuotaTest, CardsThatItDoesNotCountLetWaitersInWhenTheyCome) {
  auto only = quotaOf("team", {{"gpu", "0"}});
  only.spec.models = {"T4"};
  add(only);
  claim("a", {{"gpu", "1"}});
  EXPECT_EQ(world.reason("a"), "QuotaExceeded") << "there are only such cards";
  world.addCard("n1", 2);
  world.json<cache::Gpu>({"", "gpu-n1-2"}, R"({"spec":{"card":{"model":"A100"}}})");
  settle();
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
}

TEST_F(QuotaTest, ASmallerCardLetsInWhoAsksForAWholeOne) {
  add(quotaOf("team", {{"gpu-memory", "10Gi"}}));
  claim("a", {{"gpu", "1"}});
  EXPECT_EQ(world.reason("a"), "QuotaExceeded") << "all cards have 16Gi";
  world.addNode("n2");
  world.addCard("n2", 0, 8 * support::kGi);
  settle();
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
}

TEST_F(QuotaTest, ASmallerCardLetsInTheWholeOneOfAFirstConsumer) {
  add(quotaOf("team", {{"gpu-memory", "10Gi"}}));
  claim("a", {{"gpu", "1"}}, "late");
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "QuotaExceeded");
  world.addCard("n1", 2, 8 * support::kGi);  // a new node would cause another try anyway
  settle();
  EXPECT_TRUE(world.resourceClaim("a") && world.resourceClaim("a")->allocation) << world.message("a");
}

TEST_F(QuotaTest, OfSeveralClaimsOfAPodNoRemedyIsReported) {
  add(quotaOf("team", {{"gpu-memory", "10Gi"}}));
  for (const auto* name : {"a", "b"}) claim(name, {{"gpu-core", "10"}, {"gpu-memory", "8Gi"}}, "late");
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_EQ(
      world.message("a"),
      "quota team allows gpu-memory 10Gi, 0 is used and 8Gi would be used by claims that are decided with it: 6Gi too "
      "little for another 8Gi");
}

TEST_F(QuotaTest, OfTwoPodsOfAClaimTheOlderReportsWhatBlocksIt) {
  claim("full", {{"gpu", "2"}});
  add(quotaOf("team", {{"gpu-core", "205"}}));
  claim("x", {{"gpu-core", "5"}}, "late");
  claim("y", {{"gpu-core", "10"}}, "late");
  world.addPod("old", {"x"});
  settle();
  world.nextSecond();
  world.addPod("young", {"x", "y"});
  ASSERT_NO_THROW(settle()) << "two texts would overwrite each other for ever";
  EXPECT_EQ(world.reason("x"), "NoFit");
  EXPECT_EQ(world.reason("y"), "QuotaExceeded");
}

TEST_F(QuotaTest, NoNodeIsReservedForAFirstConsumerThatOnlyAQuotaHoldsUp) {
  for (const auto* name : {"a", "b"}) claim(name, {{"gpu", "1"}});
  claim("large", {{"gpu", "2"}}, "late");
  world.addPod("p", {"large"});
  settle();
  world.clock.advance(std::chrono::seconds(601));
  world.removeClaim("b");
  driver->run();
  claim("c", {{"gpu", "1"}});
  ASSERT_EQ(phase("c"), "Pending") << "the node is kept for the large one";
  auto dear = quotaOf("dear", {{"gpu", "1"}});
  dear.spec.classes = {"late"};
  add(dear);
  EXPECT_EQ(world.reason("large"), "QuotaExceeded");
  EXPECT_EQ(phase("c"), "Bound") << world.message("c");
}

TEST_F(QuotaTest, OfAFirstConsumerANodeThatWasRefusedForAWhileIsTriedAgain) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.json<cache::Gpu>({"", "gpu-n2-0"}, R"({"spec":{"card":{"model":"A100"}}})");
  auto some = quotaOf("team", {{"gpu", "0"}});
  some.spec.models = {"T4"};
  support::RefusingTransport line(*world.transport);
  line.code = 422;
  line.refuses = [](const kube::HttpRequest& request) {
    return request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos;
  };
  startOver(line);
  add(some);
  claim("a", {{"gpu", "1"}}, "late");
  world.addPod("p", {"a"});
  driver->run(std::chrono::seconds(10));
  EXPECT_EQ(world.reason("a"), "QuotaExceeded") << world.message("a");
  line.refuses = nullptr;
  driver->run(std::chrono::minutes(3));
  EXPECT_TRUE(world.resourceClaim("a") && world.resourceClaim("a")->allocation) << world.message("a");
  start();
}

TEST_F(QuotaTest, OfEachClaimItReportsWhatWouldDo) {
  auto each = quotaOf("team", {});
  each.spec.perClaim = {{"gpu-memory", "4"}};
  add(each);
  claim("a", {{"gpu-memory", "5Gi"}});
  EXPECT_EQ(world.message("a"),
            "quota team allows each claim gpu-memory 4Gi, this one would have 5Gi; gpu-memory 4Gi would be within it");
  claim("b", {{"gpu-memory", "4Gi"}});
  claim("c", {{"gpu-memory", "4Gi"}});
  EXPECT_EQ(phase("b"), "Bound");
  EXPECT_EQ(phase("c"), "Bound");
}

TEST_F(QuotaTest, OfTheClaimsOfAPodThatIsBlamedWhichIsTooLarge) {
  for (const auto* enforcement : {"Wait", "Refuse"}) {
    auto each = quotaOf(enforcement == std::string("Wait") ? "wait" : "refuse", {});
    each.spec.perClaim = {{"gpu-core", "30"}};
    each.spec.enforcement = enforcement;
    add(each);
    claim("a", {{"gpu-core", "20"}}, "late");
    claim("b", {{"gpu-core", "40"}}, "late");
    world.addPod("p", {"a", "b"});
    settle();
    EXPECT_EQ(world.message("b"), "quota " + each.metadata.name +
                                      " allows each claim gpu-core 30, this one would have 40; gpu-core 30 would be "
                                      "within it");
    EXPECT_EQ(world.reason("a"), "WaitingForConsumer") << world.message("a");
    EXPECT_EQ(world.message("a"), "waits for claim b of pod p: all claims of a pod go to one node");
    world.removePod("p");
    for (const auto* name : {"a", "b"}) world.removeClaim(name);
    World::mustOk(world.client.remove<cache::Quota>({"default", each.metadata.name}));
    settle();
  }
}

TEST_F(QuotaTest, WhatIsRefusedStaysSoUntilTheQuotaChanges) {
  auto strict = quotaOf("team", {{"claims", "1"}});
  strict.spec.enforcement = "Refuse";
  add(strict);
  claim("a", {{"gpu-core", "10"}});
  claim("b", {{"gpu-core", "10"}});
  EXPECT_EQ(phase("b"), "Pending");
  EXPECT_EQ(world.reason("b", "Accepted"), "QuotaExceeded");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.reason("b", "Accepted"), "QuotaExceeded");
  start();  // a new process reads it from the claim
  EXPECT_EQ(world.reason("b", "Accepted"), "QuotaExceeded");
  claim("c", {{"gpu-core", "10"}});
  EXPECT_EQ(phase("c"), "Bound");
  change(R"({"hard":{"claims":2}})");
  EXPECT_EQ(phase("b"), "Bound");
  EXPECT_EQ(world.reason("b", "Accepted"), "Accepted");
}

TEST_F(QuotaTest, ByClassAndByModel) {
  world.json<cache::Gpu>({"", "gpu-n1-1"}, R"({"spec":{"card":{"model":"A100"}}})");
  settle();
  auto models = quotaOf("team", {{"gpu", "1"}});
  models.spec.models = {"A100"};
  add(models);
  claim("a", {{"gpu", "1"}});
  claim("b", {{"gpu", "1"}});
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(phase("b"), "Bound");
  driver->run();
  EXPECT_EQ(quota().status.used, (core::StringMap{{"gpu", "1"}}));
  world.addCard("n1", 2);
  world.json<cache::Gpu>({"", "gpu-n1-2"}, R"({"spec":{"card":{"model":"A100"}}})");
  claim("c", {{"gpu", "1"}});
  EXPECT_EQ(world.reason("c"), "QuotaExceeded");
  EXPECT_NE(world.message("c").find("cards within the quota have no free capacity"), std::string::npos)
      << world.message("c");
  world.addCard("n1", 3);  // a T4
  settle();
  EXPECT_EQ(phase("c"), "Bound");
  auto classes = quotaOf("dear", {{"claims", "0"}});
  classes.spec.classes = {"keep"};
  add(classes);
  world.addCard("n1", 4);
  claim("d", {{"gpu-core", "10"}}, "keep");
  claim("e", {{"gpu-core", "10"}});
  EXPECT_EQ(world.reason("d"), "QuotaExceeded");
  EXPECT_EQ(phase("e"), "Bound");
}

TEST_F(QuotaTest, OfAFirstConsumerThePodIsRequeued) {
  add(quotaOf("team", {{"claims", "1"}}));
  claim("a", {{"gpu-core", "10"}});
  claim("b", {{"gpu-core", "10"}}, "late");
  world.addPod("p", {"b"});
  settle();
  EXPECT_EQ(world.reason("b"), "QuotaExceeded");
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim b: QuotaExceeded: quota team allows claims 1"), 1);
  EXPECT_FALSE(world.resourceClaim("b") && world.resourceClaim("b")->allocation);
  world.removeClaim("a");
  settle();
  ASSERT_TRUE(world.resourceClaim("b"));
  EXPECT_TRUE(world.resourceClaim("b")->allocation);
}

TEST_F(QuotaTest, ADeviceThatStandsAlreadyCountsForWhoNamesIt) {
  claim("old", {{"gpu-core", "50"}}, "keep");
  const auto name = deviceOf("old");
  world.removeClaim("old");
  settle();
  add(quotaOf("team", {{"gpu-core", "60"}}));
  EXPECT_EQ(quota().status.used, (core::StringMap{{"gpu-core", "50"}}));  // reserved for a claim of the namespace
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  driver->run();
  EXPECT_EQ(quota().status.used, (core::StringMap{{"gpu-core", "0"}}));  // no claim's
  claim("a", {{"gpu-core", "20"}});
  world.addClaim("b", "keep", {}, name);
  settle();
  EXPECT_EQ(world.reason("b"), "QuotaExceeded");
  EXPECT_EQ(world.gpu(name).status.phase, "Available");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(phase("b"), "Bound");
  EXPECT_EQ(quota().status.used, (core::StringMap{{"gpu-core", "50"}}));
  world.removeClaim("b");
  driver->run();
  World::mustOk(world.client.remove<cache::Gpu>({"", name}));
}

TEST_F(QuotaTest, ReportsOnceThatLittleIsLeft) {
  add(quotaOf("team", {{"claims", "4"}, {"gpu-core", "400"}}));
  change(R"({"alertPercent":75})");
  for (const auto* name : {"a", "b"}) claim(name, {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(countEvents("team Warning QuotaAlmostUsed"), 0);
  claim("c", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(countEvents("team Warning QuotaAlmostUsed 75% or more is used of claims: claims 3/4, gpu-core 30/400"), 1);
  claim("d", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(countEvents("team Warning QuotaAlmostUsed"), 1);
  EXPECT_EQ(findCondition(quota().status.conditions, kNearLimit)->status, "True");
  for (const auto* name : {"a", "b"}) world.removeClaim(name);
  driver->run();
  EXPECT_EQ(findCondition(quota().status.conditions, kNearLimit)->status, "False");
  EXPECT_EQ(quota().status.summary, (core::StringMap{{"claims", "2/4"}, {"gpu-core", "20/400"}}));
}

TEST_F(QuotaTest, AModelThatNoCardHasNamesThoseThatExist) {
  auto quota = quotaOf("team", {{"gpu", "4"}});
  quota.spec.models = {"H1OO"};
  add(quota);
  driver->run();
  const auto status = this->quota().status;
  const auto* condition = findCondition(status.conditions, kModelsExist);
  ASSERT_NE(condition, nullptr);
  EXPECT_EQ(condition->status, "False");
  EXPECT_EQ(condition->message, "spec.selector.models: no card is of model H1OO; the cluster has T4");
  change(R"({"selector":{"models":["T4","H1OO"]}})");
  world.clock.advance(kDefaultTimeouts.quotaInterval);
  driver->run();
  EXPECT_EQ(findCondition(this->quota().status.conditions, kModelsExist)->status, "True");
}

TEST_F(QuotaTest, ItsStatusIsWrittenNoMoreThanOnceASecond) {
  add(quotaOf("team", {{"claims", "100"}}));
  driver->run();
  world.clock.advance(kDefaultTimeouts.quotaInterval);
  const auto before = quota().metadata.resourceVersion;
  world.addClaim("a", "share", {{"gpu-core", "1"}});
  settle();
  const auto once = quota().metadata.resourceVersion;
  EXPECT_NE(once, before);
  for (int i = 0; i < 10; ++i) claim("b" + std::to_string(i), {{"gpu-core", "1"}});
  EXPECT_EQ(quota().metadata.resourceVersion, once);  // the clock stands still
  driver->run();
  EXPECT_EQ(quota().status.used.at("claims"), "11");
}

/// The process dies at its n-th write, before or after it is applied, and forgets all its decisions.
class Dying final : public support::ForwardingTransport {
 public:
  Dying(kube::Transport& next, int writes, bool done) : ForwardingTransport(next), left_(writes), done_(done) {}
  bool dead() const { return left_ < 0; }
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    if (request.method != kube::Method::get && --left_ < 0) {
      if (left_ == -1 && done_) (void)ForwardingTransport::perform(request, stop);
      return base::Status(base::Code::unavailable, "dead");
    }
    return ForwardingTransport::perform(request, std::move(stop));
  }

 private:
  int left_;
  const bool done_;
};

TEST_F(QuotaTest, ADeadLeadersHalfDoneWorkCounts) {
  add(quotaOf("team", {{"claims", "1"}}));
  int died = 0;
  for (int n = 0; n < 24; ++n) {
    auto dying = std::make_unique<Dying>(*world.transport, n / 2, n % 2 == 1);
    startOver(*dying);
    for (const auto* name : {"a", "b"}) world.addClaim(name, "share", {{"gpu-core", "10"}});
    driver->settle();
    died += dying->dead();
    start();
    driver->run();
    int bound = 0;
    for (const auto* name : {"a", "b"}) bound += phase(name) == "Bound";
    EXPECT_EQ(bound, 1) << "write " << n;
    int devices = 0;
    for (const auto& gpu : World::must(world.client.listAll<cache::Gpu>({}))) devices += gpu.isDevice();
    EXPECT_EQ(devices, 1) << "write " << n;
    for (const auto* name : {"a", "b"}) world.removeClaim(name);
    driver->run();
  }
  EXPECT_GT(died, 8);
}

/// Eight clients at once, the controller with its threads, and an observer of every change.
class QuotaBurstTest : public ::testing::Test {
 protected:
  static constexpr int kClients = 8, kEach = 125, kAllowed = 120;
  void SetUp() override {
    world.addNamespace("default");
    world.addNode("n1");
    for (int i = 0; i < 8; ++i) world.addCard("n1", i);
    world.addClass("share");
    (void)World::must(
        world.client.create(quotaOf("team", {{"claims", std::to_string(kAllowed)}, {"gpu-core", "500"}})));
    http::Request request;
    request.method = "GET";
    request.path = kube::Client::path(core::kindOf<cache::Gpu>, {});
    request.query = "watch=true&timeoutSeconds=3600&resourceVersion=0";
    watch = world.handler().handle(request, stop.get_token()).stream;
    controller = std::make_unique<Controller>(client, world.registry, clock, events, world.metrics);
    controller->start();
    ASSERT_TRUE(controller->waitUntilReady());
  }
  void TearDown() override {
    controller.reset();
    world.registry.forgetListeners();
  }
  /// Tracks the maximum number of devices that existed at once, from each change in order.
  void readChange() {
    std::string chunk;
    watch->next(chunk, stop.get_token());
    std::size_t at = 0;
    while (at < chunk.size()) {
      const auto end = chunk.find('\n', at);
      const auto event = codec::decodeWatchEvent<cache::Gpu>(std::string_view(chunk).substr(at, end - at));
      at = end == std::string::npos ? chunk.size() : end + 1;
      ASSERT_TRUE(event.ok());
      if (event->type == codec::EventType::bookmark || event->object.isCard()) continue;
      if (event->type == codec::EventType::deleted)
        devices.erase(event->object.metadata.uid);
      else
        devices.insert(event->object.metadata.uid);
      max = std::max(max, devices.size());
    }
  }
  bool comesTrue(const std::function<bool()>& holds) {
    const auto deadline = clock.now() + std::chrono::minutes(5);
    while (!holds()) {
      readChange();
      if (clock.now() > deadline) return false;
      clock.sleepFor(std::chrono::milliseconds(5), {});
    }
    readChange();
    return true;
  }
  int count(const std::function<bool(const cache::Claim&)>& which) const {
    int n = 0;
    controller->stores().claims.forEach([&](const auto& claim) { n += which(*claim); });
    return n;
  }
  int bound() const {
    return count([](const auto& claim) { return claim.status.phase == "Bound" && !claim.metadata.deleting(); });
  }
  int waiting() const {
    return count([](const auto& claim) {
      const auto* condition = findCondition(claim.status.conditions, kBound);
      return condition != nullptr && condition->reason == "QuotaExceeded";
    });
  }

  World world;
  base::SystemClock clock;
  kube::Client client{*world.transport, clock, world.random, world.metrics};
  support::EventLog events;
  std::unique_ptr<Controller> controller;
  std::stop_source stop;
  std::unique_ptr<http::BodyStream> watch;
  std::set<std::string> devices;
  std::size_t max = 0;
};

TEST_F(QuotaBurstTest, AThousandClaimsOfEightClientsNeverExceedIt) {
  {
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c)
      clients.emplace_back([this, c] {
        base::Random random(static_cast<uint64_t>(c));
        kube::Client mine(*world.transport, clock, random, world.metrics);
        for (int i = 0; i < kEach; ++i) {
          cache::Claim claim;
          claim.metadata.name = "c" + std::to_string(c) + "-" + std::to_string(i);
          claim.metadata.namespace_ = "default";
          claim.spec.className = "share";
          claim.spec.requests = {{"elasticgpu.io/gpu-core", "1"}, {"elasticgpu.io/gpu-memory", "16Mi"}};
          (void)World::must(mine.create(claim));
        }
      });
  }
  ASSERT_TRUE(comesTrue([&] { return bound() == kAllowed && waiting() == kClients * kEach - kAllowed; }))
      << bound() << " bound, " << waiting() << " wait";
  EXPECT_EQ(devices.size(), static_cast<std::size_t>(kAllowed));
  std::vector<std::string> leaving;
  controller->stores().claims.forEach([&](const auto& claim) {
    if (claim->status.phase == "Bound" && leaving.size() < 50) leaving.push_back(claim->metadata.name);
  });
  for (const auto& name : leaving) world.removeClaim(name);
  ASSERT_TRUE(comesTrue([&] { return bound() == kAllowed && waiting() == kClients * kEach - kAllowed - 50; }))
      << bound() << " bound, " << waiting() << " wait";
  EXPECT_LE(max, static_cast<std::size_t>(kAllowed));
  EXPECT_EQ(world.violation(), "");
  ASSERT_TRUE(comesTrue([&] {
    const auto quota = controller->stores().quotas.get({"default", "team"});
    return quota->status.summary == core::StringMap{{"claims", "120/120"}, {"gpu-core", "120/500"}};
  }));
}

}  // namespace
}  // namespace egpu::reconcile

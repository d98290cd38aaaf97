#include "controller/agent/cards/publisher.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/v1alpha/card_object.h"
#include "tests/agent/cards/publisher_fixture.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::cards {
namespace {

using std::chrono::minutes;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(PublisherTest, ACardIsPublishedAndThenLeftAlone) {
  must(one());
  const auto have = card("gpu-a");
  ASSERT_TRUE(have);
  EXPECT_EQ(have->metadata.labels, (core::StringMap{{"elasticgpu.io/role", "card"},
                                                    {"elasticgpu.io/node", "n1"},
                                                    {"elasticgpu.io/discovered-by", "physical"}}));
  EXPECT_EQ(have->metadata.finalizers, std::vector<std::string>{"elasticgpu.io/ledger"});
  EXPECT_EQ(have->spec.card, merge(one(), "n1").cards.at("gpu-a").card);
  EXPECT_EQ(have->spec.source->gpuNames, std::vector<std::string>{"gpu-a"});
  EXPECT_EQ(have->spec.capacity.at("elasticgpu.io/gpu-memory"), "80Gi");
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_THAT(events.taken(), IsEmpty());
  EXPECT_EQ(writes(one()), 0u);
}

TEST_F(PublisherTest, OneThatChangedIsWrittenOnceAndItsLedgerStays) {
  auto changed = gpu("GPU-A");
  changed.attributes = {{"migMode", "disabled"}, {"pendingMigMode", "enabled"}};
  changed.links = {{"GPU-B", "nvlink", 4}};
  must(one(changed));
  occupy("gpu-a");
  change("gpu-a", R"({"metadata":{"labels":{"kept":"yes"}}})");
  changed.memory = 40 * kGiB;
  changed.attributes = {{"migMode", "disabled"}};
  changed.links.clear();
  EXPECT_EQ(writes(one(changed)), 1u);
  const auto have = card("gpu-a");
  EXPECT_EQ(have->spec.card, merge(one(changed), "n1").cards.at("gpu-a").card);
  EXPECT_EQ(have->spec.capacity.at("elasticgpu.io/gpu-memory"), "40Gi");
  EXPECT_EQ(have->spec.allocations.at("u1").core, 100);
  EXPECT_EQ(have->metadata.label("kept"), "yes");
  EXPECT_EQ(writes(one(changed)), 0u);
}

TEST_F(PublisherTest, TheAgentAddsItsAttributes) {
  std::string support = "the driver is too old";
  options.describe = [&](v1alpha::Card& card) { card.attributes["memoryLimits"] = support; };
  Publisher describing{*client, store, events, clock, options};
  watch();
  ASSERT_TRUE(describing.publish(one(), {}).ok());
  watch();
  EXPECT_EQ(card("gpu-a")->spec.card->attributes.at("memoryLimits"), support);
  support = "available";
  ASSERT_TRUE(describing.publish(one(), {}).ok());
  watch();
  EXPECT_EQ(card("gpu-a")->spec.card->attributes.at("memoryLimits"), "available");
  const auto before = server->resourceVersion();
  ASSERT_TRUE(describing.publish(one(), {}).ok());
  EXPECT_EQ(server->resourceVersion(), before);
}

TEST_F(PublisherTest, AWarningOfTheNodeIsReportedOnceForAsLongAsItHolds) {
  std::string warning = "containers without a claim get every card";
  options.warning = [&] { return warning; };
  Publisher warned(*client, store, events, clock, options);
  watch();
  EXPECT_TRUE(warned.publish(one(), {}).ok());
  EXPECT_THAT(events.taken(), ElementsAre("Node n1 CardsReachableWithoutClaim: " + warning));
  EXPECT_EQ(healthy("gpu-a").status, "True") << "nothing is withdrawn for it";
  EXPECT_TRUE(warned.publish(one(), {}).ok());
  EXPECT_THAT(events.taken(), IsEmpty());
  EXPECT_TRUE(warned.publish(one(), {}).ok());
  const auto again = std::exchange(warning, "");
  EXPECT_TRUE(warned.publish(one(), {}).ok());
  warning = again;
  EXPECT_TRUE(warned.publish(one(), {}).ok());
  EXPECT_THAT(events.taken(), ElementsAre("Node n1 CardsReachableWithoutClaim: " + warning));
}

/// A pod without a claim computes on one of two cards.
TEST_F(PublisherTest, ForeignUseFencesTheCardUsedAndNamesThePod) {
  const support::ScratchFolder proc;
  std::filesystem::create_directories(proc.path() + "/7");
  std::ofstream(proc.path() + "/7/cgroup") << "0::/kubepods/pod0123abcd-0000-4000-8000-00000000000a/c\n";
  std::ofstream(proc.path() + "/7/comm") << "torch\n";
  options.host.proc = proc.path();
  options.hasClaim = [](const std::string&, const std::string&) { return false; };
  options.podName = [](const std::string& uid) {
    return uid == "0123abcd-0000-4000-8000-00000000000a" ? "tenant/greedy" : "";
  };
  Publisher fencing(*client, store, events, clock, options);
  auto found = answer({gpu("GPU-A", 0), gpu("GPU-B", 1)});
  found.health.processes = {{"GPU-B", 7, 1, -1}};
  watch();
  EXPECT_TRUE(fencing.publish({{"physical", found}}, {}).ok());
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(healthy("gpu-b").reason, "ForeignUse");
  EXPECT_THAT(healthy("gpu-b").message, HasSubstr("of pod tenant/greedy;"));
}

/// An API server whose CRD is older than this agent: it accepts a card and drops attributes and usage.
class OlderServer final : public support::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    auto pruned = request;
    auto body = nlohmann::json::parse(request.body, nullptr, false);
    if (body.is_object() && body.contains("spec")) body["spec"]["card"].erase("attributes");
    if (body.is_object() && body.contains("status")) body["status"].erase("usage");
    if (body.is_array())
      body.erase(std::remove_if(body.begin(), body.end(),
                                [](const auto& op) { return op["path"] == "/spec/card/attributes"; }),
                 body.end());
    if (!body.is_discarded()) pruned.body = body.dump();
    writes += request.method == kube::Method::get ? 0 : 1;
    return ForwardingTransport::perform(pruned, std::move(stop));
  }
  int writes = 0;
};

TEST_F(PublisherTest, AnOlderServerIsNotWrittenToForEver) {
  OlderServer older(*transport);
  kube::Client toOlder(older, serverClock, random, metrics, client->options());
  Publisher newer(toOlder, store, events, clock, options);
  const auto writesOf = [&](const Answers& answers) {
    watch();
    EXPECT_TRUE(newer.publish(answers, {}).ok());
    return std::exchange(older.writes, 0);
  };
  EXPECT_EQ(writesOf(one()), 3) << "created, written once more, and its health";
  EXPECT_THAT(card("gpu-a")->spec.card->attributes, IsEmpty());
  for (int i = 0; i < 24; ++i) EXPECT_EQ(writesOf(one()), 0);
  auto changed = gpu("GPU-A");
  changed.model = "H100";
  EXPECT_EQ(writesOf(one(changed)), 1);
  EXPECT_EQ(writesOf(one(changed)), 0);
  change("gpu-a", R"({"spec":{"card":{"model":"fake"}}})");
  EXPECT_EQ(writesOf(one(changed)), 1) << "what an administrator changed is put right";
  EXPECT_EQ(card("gpu-a")->spec.card->model, "H100");
  EXPECT_EQ(writesOf(one(changed)), 0);
}

TEST_F(PublisherTest, WhatSomebodyElseChangedIsPutRight) {
  must(one());
  const auto before = *card("gpu-a");
  change("gpu-a", R"({"metadata":{"labels":null},"spec":{"card":{"model":"fake","memory":1,"attributes":{"x":"y"}}}})");
  must(one());
  EXPECT_EQ(card("gpu-a")->spec, before.spec);
  EXPECT_EQ(card("gpu-a")->metadata.labels, before.metadata.labels);
  change("gpu-a", R"({"metadata":{"finalizers":null}})");
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  must(one());
  EXPECT_NE(card("gpu-a")->metadata.uid, before.metadata.uid);
}

TEST_F(PublisherTest, OneOnItsWayOutIsLeftAlone) {
  must(one());
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  auto changed = gpu("GPU-A");
  changed.memory = kGiB;
  const auto before = card("gpu-a")->spec;
  EXPECT_EQ(writes({{"physical", answer({changed}, {{"GPU-A", false, "Xid79: lost"}})}}), 1u) << "its health alone";
  EXPECT_EQ(writes({{"physical", answer({})}}), 1u);
  EXPECT_EQ(card("gpu-a")->spec, before);
}

TEST_F(PublisherTest, AStaleStoreWritesNothingTwice) {
  must(one());
  cache::Store<Gpu> empty;
  Publisher again(*client, empty, events, clock, options);
  const auto before = server->resourceVersion();
  EXPECT_TRUE(again.publish(one(), {}).ok()) << "it is there already";
  EXPECT_EQ(server->resourceVersion(), before);
  // The object in the store was deleted and recreated meanwhile.
  change("gpu-a", R"({"metadata":{"finalizers":null}})");
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  ASSERT_TRUE(admin->create(v1alpha::cardObject(merge(one(), "n1").cards.at("gpu-a").card)).ok());
  auto changed = gpu("GPU-A");
  changed.memory = 40 * kGiB;
  EXPECT_TRUE(publishBlind(one(changed)).ok());
  EXPECT_EQ(card("gpu-a")->spec.card->memory, 40 * kGiB);
  // Its status was changed meanwhile.
  change("gpu-a", R"({"status":{"phase":"Full"}})", "status");
  EXPECT_TRUE(publishBlind({{"physical", answer({changed}, {{"GPU-A", false, "Xid79: lost"}})}}).ok());
  EXPECT_EQ(healthy("gpu-a").reason, "Xid79");
  EXPECT_EQ(card("gpu-a")->status.phase, "Full");
}

TEST_F(PublisherTest, ACardOfAnotherNodeIsNotTaken) {
  auto elsewhere = merge(one(), "n2").cards.at("gpu-a").card;
  ASSERT_TRUE(admin->create(v1alpha::cardObject(elsewhere)).ok());
  EXPECT_EQ(writes({{"physical", answer({gpu("GPU-A"), gpu("GPU-B")})}}), 2u) << "the other one and its health";
  EXPECT_EQ(card("gpu-a")->spec.card->nodeName, "n2");
  EXPECT_THAT(events.taken(), Contains(AllOf(HasSubstr("Node n1 CardRefused"), HasSubstr("is a card of node n2"))));
  must({{"physical", answer({gpu("GPU-A"), gpu("GPU-B")})}});
  EXPECT_THAT(events.taken(), IsEmpty()) << "told once";
  change("gpu-a", R"({"metadata":{"finalizers":null}})");
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  must(one());
  EXPECT_EQ(card("gpu-a")->spec.card->nodeName, "n1");
}

TEST_F(PublisherTest, ADeviceOfThatNameIsNotTaken) {
  Gpu device;
  device.metadata.name = "gpu-a";
  device.spec.cards = {{"gpu-b", "GPU-B", 100, 1, 100, 1}};
  device.spec.nodeName = "n1";
  ASSERT_TRUE(admin->create(device).ok());
  EXPECT_EQ(writes(one()), 0u);
  EXPECT_THAT(events.taken(), Contains(HasSubstr("is a device")));
}

TEST_F(PublisherTest, ACardThatIsGoneIsMarkedAndGoesOnceItIsEmpty) {
  must(one());
  occupy("gpu-a");
  must({{"physical", answer({})}});
  EXPECT_EQ(healthy("gpu-a").status, "False");
  EXPECT_EQ(healthy("gpu-a").reason, "CardGone");
  EXPECT_THAT(healthy("gpu-a").message, HasSubstr("physical no longer finds it on node n1"));
  clock.advance(minutes(60));
  EXPECT_EQ(writes({{"physical", answer({})}}), 0u) << "it has an entry";
  free("gpu-a");
  must({{"physical", answer({})}});
  EXPECT_TRUE(card("gpu-a")->metadata.deleting()) << "the controller takes the finalizer off";
}

TEST_F(PublisherTest, ACardThatIsGoneIsRetainedForAWhile) {
  must(one());
  must({{"physical", answer({})}});
  clock.advance(minutes(9));
  EXPECT_EQ(writes({{"physical", answer({})}}), 0u);
  // The card returns: first on probation, then healthy.
  must(one());
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
  clock.advance(minutes(5));
  must(one());
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_FALSE(card("gpu-a")->metadata.deleting());
}

TEST_F(PublisherTest, ACardThatWasIllBeforeItWentIsRetainedAsLong) {
  must({{"physical", answer({gpu("GPU-A")}, {{"GPU-A", false, "Xid79: it fell off"}})}});
  clock.advance(minutes(60));
  must({{"physical", answer({})}});
  EXPECT_EQ(healthy("gpu-a").reason, "CardGone");
  EXPECT_FALSE(card("gpu-a")->metadata.deleting());
  must(one());
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

TEST_F(PublisherTest, ACardThatIsBeingDeletedStillReportsHowItIs) {
  must(one());
  occupy("gpu-a");
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  must({{"physical", answer({gpu("GPU-A")}, {{"GPU-A", false, "Xid79: it fell off"}})}});
  EXPECT_EQ(healthy("gpu-a").reason, "Xid79");
  must({{"physical", answer({})}});
  EXPECT_EQ(healthy("gpu-a").reason, "CardGone");
}

TEST_F(PublisherTest, AnEntryThatComesWhileItIsDeletedRetainsIt) {
  must(one());
  must({{"physical", answer({})}});
  clock.advance(minutes(11));
  watch();
  occupy("gpu-a");
  EXPECT_TRUE(publishBlind({{"physical", answer({})}}).ok());
  EXPECT_FALSE(card("gpu-a")->metadata.deleting());
}

TEST_F(PublisherTest, WhoeverFailsRetainsItsCards) {
  must(one());
  for (const auto code : {plugin::ReplyCode::unavailable, plugin::ReplyCode::timeout, plugin::ReplyCode::crashed,
                          plugin::ReplyCode::garbage, plugin::ReplyCode::internal})
    EXPECT_EQ(writes({{"physical", failure(code)}}), 0u);
  EXPECT_EQ(writes({}), 0u) << "it is not loaded";
  EXPECT_EQ(writes({{"another", answer({})}}), 0u) << "another one does not know them";
  auto half = answer({});
  half.cards.reply = {plugin::ReplyCode::unavailable, "slow"};
  EXPECT_EQ(writes({{"physical", half}}), 0u);
}

TEST_F(PublisherTest, WhoeverFailsForLongHasItsCardsFenced) {
  must(one());
  EXPECT_EQ(writes({{"physical", failure()}}), 0u);
  clock.advance(minutes(2));
  EXPECT_EQ(writes({{"physical", failure()}}), 0u);
  clock.advance(minutes(1));
  EXPECT_EQ(writes({{"physical", failure()}}), 1u);
  EXPECT_EQ(healthy("gpu-a").reason, "DriverNotAnswering");
  EXPECT_THAT(healthy("gpu-a").message, HasSubstr("the driver is away"));
  must(one());
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

TEST_F(PublisherTest, CardsWhosePluginIsMissingAreFencedAfterAWhile) {
  must(one());
  Publisher next(*client, store, events, clock, options);
  const Answers others{{"another", answer({})}};
  const auto written = [&] {
    const auto before = server->resourceVersion();
    EXPECT_TRUE(next.publish(others, {}).ok());
    return server->resourceVersion() - before;
  };
  clock.advance(minutes(2));
  EXPECT_EQ(written(), 0u) << "it may only be slow";
  clock.advance(minutes(1));
  EXPECT_EQ(written(), 1u);
  EXPECT_EQ(healthy("gpu-a").reason, "DriverNotAnswering");
  EXPECT_THAT(healthy("gpu-a").message, HasSubstr("provisioner physical, which found it, is not loaded on node n1"));
  EXPECT_TRUE(next.publish(one(), {}).ok());
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

TEST_F(PublisherTest, OneThatFailsNowAndThenIsNotFenced) {
  must(one());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(writes({{"physical", failure()}}), 0u);
    clock.advance(minutes(2));
    EXPECT_EQ(writes(one()), 0u);
    clock.advance(minutes(2));
  }
}

TEST_F(PublisherTest, OnlyTheIllCardIsQuarantined) {
  const Answers both{{"physical", answer({gpu("GPU-A"), gpu("GPU-B")})}};
  must(both);
  must({{"physical",
         answer({gpu("GPU-A"), gpu("GPU-B")}, {{"gpu-b", false, "Xid79: it fell off"}, {"GPU-C", false, "unknown"}})}});
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(healthy("gpu-b").status, "False");
  EXPECT_EQ(healthy("gpu-b").message, "it fell off");
  EXPECT_THAT(events.taken(), Contains("ElasticGPU gpu-b Xid79: it fell off"));
  must(both);
  clock.advance(minutes(5));
  must(both);
  EXPECT_EQ(healthy("gpu-b").status, "True");
}

/// A memory row that waits to be remapped, or errors of a program, withdraw no card from its users.
TEST_F(PublisherTest, ACardThatWorksReportsWhatIsToBeDoneAtItsNextReset) {
  must({{"physical", answer({gpu("GPU-A")}, {{"GPU-A", true, "MemoryRepairPending: reset it when nothing runs"}})}});
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(healthy("gpu-a").reason, "MemoryRepairPending");
  EXPECT_EQ(healthy("gpu-a").message, "reset it when nothing runs");
  const auto since = healthy("gpu-a").lastTransitionTime;
  clock.advance(minutes(1));
  must(one());
  EXPECT_EQ(healthy("gpu-a").reason, "Working");
  EXPECT_EQ(healthy("gpu-a").message, "");
  EXPECT_EQ(healthy("gpu-a").lastTransitionTime, since);
}

/// A card off the bus is no longer discovered, but its plugin knows the reason.
TEST_F(PublisherTest, ACardThatIsOnlySpokenOfIsNotGone) {
  must(one());
  const Answers lost{{"physical", answer({}, {{"GPU-A", false, "FallenOffTheBus: reboot"}})}};
  must(lost);
  EXPECT_EQ(healthy("gpu-a").reason, "FallenOffTheBus");
  clock.advance(minutes(60));
  EXPECT_EQ(writes(lost), 0u);
}

/// A card that did not start with the machine has no object.
TEST_F(PublisherTest, ACardThatWasIllBeforeItWasPublishedIsReportedOnTheNode) {
  auto report = answer({gpu("GPU-A")}, {{"GPU-B", false, "Lost: NVML does not count it"}, {"GPU-C", true, ""}});
  report.cards.reply.message = "card 1 is left out";
  const Answers both{{"gpushare", report}, {"physical", report}};
  must(both);
  EXPECT_THAT(
      events.taken(),
      ElementsAre("Node n1 DiscoveryWarning: gpushare: card 1 is left out",
                  "Node n1 DiscoveryWarning: gpushare: card GPU-B is not published: Lost: NVML does not count it"));
  EXPECT_EQ(writes(both), 0u);
  EXPECT_THAT(events.taken(), IsEmpty()) << "told once";
  must(one(gpu("GPU-B")));
  events.taken();
  report.cards.reply.message = {};
  must({{"physical", report}});
  EXPECT_EQ(healthy("gpu-b").reason, "Lost");
  EXPECT_THAT(events.taken(), Not(Contains(HasSubstr("Node n1")))) << "its object tells of it";
}

TEST_F(PublisherTest, NoPluginSpeaksForAnothersCards) {
  must(one());
  EXPECT_EQ(writes({{"another", answer({}, {{"GPU-A", false, "a lie"}})}, {"physical", answer({gpu("GPU-A")})}}), 0u);
}

TEST_F(PublisherTest, ACardInMigModeIsOfferedWithItsProfiles) {
  auto mig = gpu("GPU-A");
  mig.attributes["migMode"] = "enabled";
  mig.mig = {{"1g.10gb", kGiB, 1, 1, {0x7f}, false}};
  must(one(mig));
  EXPECT_EQ(card("gpu-a")->spec.card->mig, mig.mig);
  EXPECT_EQ(healthy("gpu-a").status, "True");
  mig.mig[0].starts = {0x7b};
  must(one(mig));
  EXPECT_EQ(card("gpu-a")->spec.card->mig, mig.mig) << "foreign instances reduce the places";
  mig.attributes["migMode"] = "disabled";
  mig.mig.clear();
  must(one(mig));
  EXPECT_TRUE(card("gpu-a")->spec.card->mig.empty());
}

TEST_F(PublisherTest, ACardInMigModeWithUnknownProfilesIsNotOffered) {
  auto mig = gpu("GPU-A");
  mig.attributes["migMode"] = "enabled";
  must(one(mig));
  EXPECT_EQ(card("gpu-a")->spec.card->attributes.at("migMode"), "enabled");
  EXPECT_EQ(healthy("gpu-a").reason, "MigMode");
  EXPECT_THAT(healthy("gpu-a").message, HasSubstr("nvidia-smi -i GPU-A -mig 0"));
}

TEST_F(PublisherTest, ACardThatOthersUseIsFencedAndComesBack) {
  options.hasClaim = [](const std::string&, const std::string&) { return false; };
  Publisher watchful(*client, store, events, clock, options);
  auto used = answer({gpu("GPU-A"), gpu("GPU-B")});
  used.health.processes = {{"GPU-B", getpid(), 1}};
  EXPECT_TRUE(watchful.publish({{"physical", used}}, {}).ok());
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(healthy("gpu-b").reason, "ForeignUse");
  EXPECT_THAT(healthy("gpu-b").message, HasSubstr("process " + std::to_string(getpid())));
  used.health.processes.clear();
  EXPECT_TRUE(watchful.publish({{"physical", used}}, {}).ok());
  EXPECT_EQ(healthy("gpu-b").reason, "Probation");
}

TEST_F(PublisherTest, ACardThatOthersGaveAwayIsFencedBeforeItIsUsed) {
  std::optional<std::vector<health::Given>> given{{{"team/notebook", "main", "nvidia.com/gpu", "", {"GPU-B"}}}};
  options.hasClaim = [](const std::string&, const std::string&) { return false; };
  options.given = [&](const std::stop_token&) { return given; };
  Publisher watchful(*client, store, events, clock, options);
  const auto both = answer({gpu("GPU-A"), gpu("GPU-B")});
  EXPECT_TRUE(watchful.publish({{"physical", both}}, {}).ok());
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(healthy("gpu-b").reason, "ForeignUse");
  EXPECT_THAT(healthy("gpu-b").message, HasSubstr("pod team/notebook"));
  given.reset();
  EXPECT_TRUE(watchful.publish({{"physical", both}}, {}).ok());
  EXPECT_EQ(healthy("gpu-b").reason, "ForeignUse") << "a kubelet that does not answer takes nothing back";
  given.emplace();
  EXPECT_TRUE(watchful.publish({{"physical", both}}, {}).ok());
  EXPECT_EQ(healthy("gpu-b").reason, "Probation");
}

TEST_F(PublisherTest, AKubeletThatNeverAnsweredHasGivenNothing) {
  options.hasClaim = [](const std::string&, const std::string&) { return false; };
  options.given = [](const std::stop_token&) { return std::nullopt; };
  Publisher watchful(*client, store, events, clock, options);
  EXPECT_TRUE(watchful.publish(one(), {}).ok());
  EXPECT_EQ(healthy("gpu-a").status, "True");
}

TEST_F(PublisherTest, AListenerKnowsItsOwnWritesFromThoseOfOthers) {
  std::vector<bool> own;
  store.listen([&](const Gpu*, const Gpu* after) {
    own.push_back(!publisher.ownWrites().recordChange(after->metadata.name, after->metadata.resourceVersion));
  });
  EXPECT_TRUE(publishBlind(one()).ok());
  EXPECT_EQ(own, (std::vector<bool>{true, true})) << "made, and its health";
  own.clear();
  change("gpu-a", R"({"metadata":{"labels":{"elasticgpu.io/node":"other"}}})");
  watch();
  EXPECT_EQ(own, std::vector<bool>{false});
  // A conflicting write is another client's.
  EXPECT_TRUE(publishBlind(one()).ok());
  own.clear();
  change("gpu-a", R"({"metadata":{"labels":{"elasticgpu.io/role":"other"}}})");
  EXPECT_TRUE(publishBlind({{"physical", answer({gpu("GPU-A")}, {{"GPU-A", false, "Xid79: it fell off"}})}}).ok());
  EXPECT_FALSE(std::all_of(own.begin(), own.end(), [](bool its) { return its; }));
}

TEST(OwnWritesTest, TheWatchMayBeEarlierThanTheAnswer) {
  OwnWrites writes;
  EXPECT_TRUE(writes.recordChange("a", "1"));
  const auto during = [&](const std::vector<std::string>& versions, const std::string& answer) {
    writes.begin("a");
    EXPECT_TRUE(writes.recordChange("b", "7")) << "another object";
    for (const auto& version : versions) EXPECT_FALSE(writes.recordChange("a", version));
    writes.end(answer);
    return writes.takeMissed();
  };
  EXPECT_FALSE(during({}, "2"));
  EXPECT_FALSE(during({"2"}, "2"));
  EXPECT_FALSE(during({"2", "2"}, "2")) << "by the watch, and by the answer";
  EXPECT_TRUE(during({"2", "3"}, "3")) << "another change before";
  EXPECT_TRUE(during({"3", "4"}, "3")) << "and after";
  EXPECT_TRUE(during({""}, "3")) << "deleted";
  EXPECT_TRUE(during({"2"}, "")) << "changed, and the write failed";
  EXPECT_FALSE(writes.takeMissed()) << "it is reported once";
  EXPECT_TRUE(writes.recordChange("a", "3"));
}

TEST_F(PublisherTest, OneThatIsRefusedBlocksNoOther) {
  transport->refuses = [](const kube::HttpRequest& r) {
    return r.method == kube::Method::post && r.body.find("GPU-A") != std::string::npos;
  };
  EXPECT_EQ(publish({{"physical", answer({gpu("GPU-A"), gpu("GPU-B")})}}).code(), base::Code::forbidden);
  EXPECT_TRUE(card("gpu-b"));
  EXPECT_THAT(events.taken(), Contains(HasSubstr("GPU-A could not be published: exceeded quota")));
  transport->refuses = nullptr;
  must(one());
  EXPECT_TRUE(card("gpu-a"));
}

TEST_F(PublisherTest, WhileTheServerIsAwayItIsAskedOnce) {
  transport->refuses = [](const kube::HttpRequest&) { return true; };
  for (const int code : {503, 429}) {
    transport->code = code;
    transport->refused = 0;
    EXPECT_FALSE(publishBlind({{"physical", answer({gpu("GPU-A"), gpu("GPU-B"), gpu("GPU-C")})}}).ok());
    EXPECT_EQ(transport->refused, 1);
  }
}

/// The write succeeds, but its answer is lost.
TEST_F(PublisherTest, AnUnknownOutcomeIsRead) {
  must(one());
  transport->code = 0;
  transport->refuses = [&](const kube::HttpRequest& r) {
    return transport->refused == 0 && r.method != kube::Method::get;
  };
  auto changed = gpu("GPU-A");
  changed.memory = 40 * kGiB;
  must(one(changed));
  EXPECT_EQ(transport->refused, 1);
  EXPECT_EQ(card("gpu-a")->spec.card->memory, 40 * kGiB);
}

TEST_F(PublisherTest, WordsOnRefusedCardsAreReportedOnce) {
  auto bad = gpu("GPU-B");
  bad.memory = -1;
  const Answers answers{{"physical", answer({gpu("GPU-A"), bad})}};
  must(answers);
  EXPECT_THAT(events.taken(), Contains(AllOf(HasSubstr("Node n1 CardRefused"), HasSubstr("can't have -1 bytes"))));
  must(answers);
  EXPECT_THAT(events.taken(), IsEmpty());
  must(one());
  must(answers);
  EXPECT_THAT(events.taken(), Not(IsEmpty())) << "it was gone in between";
}

/// Whatever a plugin answers: the API accepts everything that merge lets through.
TEST_F(PublisherTest, WhatIsNotRefusedTheApiTakes) {
  const std::vector<std::string> texts = {"",
                                          "a",
                                          "GPU-1",
                                          "x y",
                                          "\n",
                                          "\x7f",
                                          "\xff",
                                          "\xc3\xa9",
                                          "-",
                                          ".",
                                          "a.b",
                                          "a..b",
                                          "A100|H100",
                                          std::string(63, 'm'),
                                          std::string(64, 'm'),
                                          std::string(253, 'm'),
                                          std::string(254, 'm'),
                                          "\"{}<>&'"};
  const std::vector<int64_t> numbers = {INT64_MIN, -2,        -1,        0,         1,         2,
                                        1023,      1024,      1025,      1'000'000, 1'000'001, 1'000'000'000,
                                        1LL << 32, 1LL << 50, 1LL << 51, INT64_MAX, 312'500,   1};
  base::Random any(4711);
  const auto text = [&] { return texts[any.below(texts.size())]; };
  const auto number = [&](int64_t usual) { return any.below(3) > 0 ? usual : numbers[any.below(numbers.size())]; };
  std::size_t published = 0;
  for (int i = 0; i < 400; ++i) {
    auto g = gpu(any.below(2) > 0 ? "GPU-" + std::to_string(i) : text());
    if (any.below(2) > 0) g.model = text();
    if (any.below(2) > 0) g.pciAddress = text();
    g.index = number(0);
    g.memory = number(kGiB);
    g.smCount = number(80);
    g.milliTflops = number(125'000);
    g.numaNode = number(-1);
    for (auto n = any.below(4); n > 0; --n) g.links.push_back({text(), text(), number(4)});
    for (auto n = any.below(4); n > 0; --n) g.attributes[text()] = text();
    const Answers answers{{"physical", answer({g}, {{g.uuid, any.below(2) > 0, text()}})}};
    published += merge(answers, "n1").cards.size();
    const auto status = publishBlind(answers);
    ASSERT_TRUE(status.ok()) << i << ": " << status.str();
  }
  EXPECT_GT(published, 20u);
}

/// The second plugin starts first.
TEST_F(PublisherTest, WhichPluginFoundItIsCorrected) {
  must(one());
  EXPECT_EQ(writes({{"gpushare", answer({gpu("GPU-A")})}, {"physical", answer({gpu("GPU-A")})}}), 1u);
  EXPECT_EQ(card("gpu-a")->metadata.label("elasticgpu.io/discovered-by"), "gpushare");
  EXPECT_EQ(writes({{"gpushare", answer({})}, {"physical", answer({gpu("GPU-A")})}}), 1u) << "physical has it";
}

/// A plugin that reports fewer attributes of the same card would otherwise replace those of the one that fails.
TEST_F(PublisherTest, ACardOfAPluginThatFailsPassesToAnotherAfterAWhile) {
  auto rich = gpu("GPU-A");
  rich.attributes["limiter"] = "available";
  must({{"gpushare", answer({rich})}, {"physical", answer({gpu("GPU-A")})}});
  const Answers failing{{"gpushare", failure()}, {"physical", answer({gpu("GPU-A")})}};
  EXPECT_EQ(writes(failing), 0u);
  EXPECT_EQ(card("gpu-a")->spec.card->attributes.at("limiter"), "available");
  EXPECT_EQ(writes({{"gpushare", failure()}, {"physical", answer({gpu("GPU-A")}, {{"GPU-A", false, "Lost: gone"}})}}),
            1u);
  EXPECT_EQ(healthy("gpu-a").reason, "Lost") << "its health comes from the one that answers";
  clock.advance(minutes(3));
  must(failing);
  EXPECT_EQ(card("gpu-a")->metadata.label("elasticgpu.io/discovered-by"), "physical");
  EXPECT_EQ(card("gpu-a")->spec.card->attributes.count("limiter"), 0u);
  EXPECT_EQ(healthy("gpu-a").reason, "Probation");
}

/// The card has no discovering plugin: an administrator created it.
TEST_F(PublisherTest, WhatTheAgentDidNotPublishIsNotDeleted) {
  ASSERT_TRUE(admin->create(v1alpha::cardObject(merge(one(), "n1").cards.at("gpu-a").card)).ok());
  EXPECT_EQ(writes({{"physical", answer({})}}), 0u);
}

class UsagePublisherTest : public PublisherTest {
 protected:
  UsagePublisherTest() { must(answers()); }
  Answers answers() const { return {{"physical", report}}; }
  /// Publishes the usage of GPU-A, as the agent does after the cards. Returns the number of changes that the server
  /// accepted.
  uint64_t usageWrites() { return usageWritesBy(publisher); }
  uint64_t usageWritesBy(Publisher& by) {
    watch();
    const auto before = server->resourceVersion();
    const auto found = merge(answers(), "n1");
    const auto usage = usage::attribute(readingsOf(found, answers()), shares, [](int64_t) { return "pod-a"; });
    const auto status = by.publishUsage(answers(), usage, {});
    EXPECT_TRUE(status.ok()) << status.str();
    return server->resourceVersion() - before;
  }
  void uses(int64_t memory, int64_t smPercent) {
    report.health.use = {{"GPU-A", memory, smPercent, 1}};
    report.health.processes = {{"GPU-A", 1, memory, smPercent}};
  }
  v1alpha::CardUsage usageOf() {
    const auto usage = card("gpu-a")->status.usage;
    return usage ? *usage : v1alpha::CardUsage{};
  }

  PluginReport report = answer({gpu("GPU-A")});
  std::vector<usage::Share> shares = {{"u1", "ns", "train", "GPU-A", 100, 4 * kGiB, {{"pod-a", "a"}}}};
};

TEST_F(UsagePublisherTest, OfWhichNobodySpeaksNothingIsWritten) {
  EXPECT_EQ(usageWrites(), 0u);
  EXPECT_FALSE(card("gpu-a")->status.usage);
}

TEST_F(UsagePublisherTest, WhatIsUsedStandsOnTheCard) {
  change("gpu-a", R"({"status":{"phase":"Available","allocated":{"claims":1}}})", "status");
  uses(3 * kGiB, 35);
  EXPECT_EQ(usageWrites(), 1u);
  EXPECT_EQ(usageOf().memory, 3 * kGiB);
  EXPECT_EQ(usageOf().smPercent, 35);
  EXPECT_EQ(usageOf().devices, (decltype(usageOf().devices){{"u1", {3 * kGiB, 35}}}));
  EXPECT_EQ(card("gpu-a")->status.phase, "Available");
  EXPECT_EQ(card("gpu-a")->status.allocated->claims, 1);
  EXPECT_EQ(healthy("gpu-a").status, "True");
  EXPECT_EQ(usageWrites(), 0u);
}

TEST_F(UsagePublisherTest, WhatIsUsedStandsOnACardThatIsBeingDeleted) {
  occupy("gpu-a");
  ASSERT_TRUE(admin->remove<Gpu>({"", "gpu-a"}).ok());
  uses(3 * kGiB, 35);
  EXPECT_EQ(usageWrites(), 1u);
  EXPECT_EQ(usageOf().memory, 3 * kGiB);
}

TEST_F(UsagePublisherTest, AnOlderServerThatStoresNoneIsNotWrittenToForEver) {
  OlderServer older(*transport);
  kube::Client toOlder(older, serverClock, random, metrics, client->options());
  Publisher newer(toOlder, store, events, clock, options);
  uses(3 * kGiB, 35);
  usageWritesBy(newer);
  EXPECT_EQ(std::exchange(older.writes, 0), 1);
  for (int i = 0; i < 24; ++i) {
    clock.advance(std::chrono::seconds(15));
    uses((i % 2 + 1) * 30 * kGiB, 35);
    usageWritesBy(newer);
  }
  EXPECT_EQ(std::exchange(older.writes, 0), 0);
  clock.advance(minutes(10));
  usageWritesBy(newer);
  EXPECT_EQ(older.writes, 1) << "a CRD is upgraded some day";
}

TEST_F(UsagePublisherTest, OnceAMinuteAndIfItMovedNoticeably) {
  uses(3 * kGiB, 35);
  EXPECT_EQ(usageWrites(), 1u);
  uses(70 * kGiB, 95);
  EXPECT_EQ(usageWrites(), 0u) << "a minute has not passed";
  clock.advance(std::chrono::seconds(60));
  EXPECT_EQ(usageWrites(), 1u);
  EXPECT_EQ(usageOf().memory, 70 * kGiB);
  clock.advance(std::chrono::seconds(60));
  uses(70 * kGiB + 1, 94);
  EXPECT_EQ(usageWrites(), 0u);
  report.health.processes.clear();
  report.health.use = {{"GPU-A", 0, 0, 0}};
  EXPECT_EQ(usageWrites(), 1u);
  EXPECT_TRUE(usageOf().devices.empty()) << "and what was written before is gone";
}

TEST_F(UsagePublisherTest, AnAgentThatStartsAnewRespectsTheMinute) {
  uses(3 * kGiB, 35);
  EXPECT_EQ(usageWrites(), 1u);
  Publisher next(*client, store, events, clock, options);
  uses(70 * kGiB, 95);
  EXPECT_EQ(usageWritesBy(next), 0u);
}

TEST_F(UsagePublisherTest, WhatIsNoLongerKnownGoes) {
  uses(3 * kGiB, 35);
  EXPECT_EQ(usageWrites(), 1u);
  clock.advance(std::chrono::seconds(60));
  const auto before = std::exchange(report, failure());
  must(answers());
  EXPECT_EQ(usageWrites(), 0u) << "its plugin does not answer at the moment";
  clock.advance(minutes(3));
  EXPECT_EQ(usageWrites(), 1u);
  EXPECT_FALSE(card("gpu-a")->status.usage);
  report = before;
  must(answers());
  EXPECT_EQ(usageWrites(), 1u);
  clock.advance(std::chrono::seconds(60));
  report.health.use.clear();
  report.health.processes.clear();
  EXPECT_EQ(usageWrites(), 1u);
  EXPECT_FALSE(card("gpu-a")->status.usage);
}

TEST_F(UsagePublisherTest, WithoutAnIntervalNothingIsWritten) {
  uses(3 * kGiB, 35);
  EXPECT_EQ(usageWrites(), 1u);
  options.usageEvery = std::chrono::milliseconds(0);
  Publisher never(*client, store, events, clock, options);
  EXPECT_EQ(usageWritesBy(never), 1u) << "what an agent before it wrote is taken away";
  EXPECT_FALSE(card("gpu-a")->status.usage);
  uses(70 * kGiB, 95);
  EXPECT_EQ(usageWritesBy(never), 0u);
}

TEST_F(UsagePublisherTest, OneThatChangedMeanwhileIsReadAnew) {
  uses(3 * kGiB, 35);
  watch();
  change("gpu-a", R"({"status":{"phase":"Full"}})", "status");
  const auto found = merge(answers(), "n1");
  const auto usage = usage::attribute(readingsOf(found, answers()), shares, [](int64_t) { return "pod-a"; });
  EXPECT_TRUE(publisher.publishUsage(answers(), usage, {}).ok());
  EXPECT_EQ(usageOf().memory, 3 * kGiB);
  EXPECT_EQ(card("gpu-a")->status.phase, "Full");
}

}  // namespace
}  // namespace egpu::agent::cards

#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "controller/codec/patch.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;

void allocation(support::World& world, const ClaimRef& claim, const std::string& from, const std::string& to) {
  auto rc = *world.resourceClaim(claim.name);
  std::string text = codec::encode(rc);
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  const auto status = text.substr(text.find("\"status\":"));
  world.json<core::ResourceClaim>({"default", claim.name}, R"({"status":{"allocation":null,"reservedFor":null}})",
                                  "status");
  world.json<core::ResourceClaim>({"default", claim.name}, "{" + status, "status");
}

TEST_F(PrepareTest, AReservedClaimOfABoundDeviceIsPrepared) {
  const auto claim = claimed("a");
  const auto prepared = preparer.prepare(claim, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().str();
  EXPECT_EQ(*prepared, ids(uidOf(claim)));
  EXPECT_EQ(plugin.calls(), (Calls{"stage", "mount"})) << "once per claim, for no container";
  EXPECT_EQ(plugin.last.claim, "default/a");
  EXPECT_EQ(plugin.last.cards.at(0).cardMemory, 16 * support::kGi);
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
  const auto entry = folder.find(uidOf(claim));
  ASSERT_TRUE(entry.ok() && *entry && (*entry)->spec.ok());
  const auto& spec = *(*entry)->spec;
  EXPECT_EQ(spec.claimUid, claim.uid);
  EXPECT_EQ(spec.device, deviceOf(claim).metadata.name);
  EXPECT_EQ(spec.cards.at(0).chargedCore, 100);
  EXPECT_EQ(spec.edits.deviceNodes.at(0).path, "/dev/nvidia0");
  EXPECT_TRUE(events.lines().empty());
}

TEST_F(PrepareTest, TheOwnerMayStandTheOtherWayRound) {
  core::ResourceClaim stock;  // as Kubernetes stamps it: the claim is created for it
  stock.metadata.name = "a";
  stock.metadata.namespace_ = "default";
  stock.deviceClassName = "elasticgpu.io";
  stock.requestName = "gpu";
  stock.config.push_back(
      {{}, "elasticgpu.io", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":10}}})"});
  (void)support::World::must(world.client.create(stock));
  world.addPod("a", {"a"});
  driver->settle();
  world.schedule("a");
  const ClaimRef claim{"default", "a", world.resourceClaim("a")->metadata.uid};
  const auto prepared = preparer.prepare(claim, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().str();
  EXPECT_EQ(*prepared, ids(uidOf(claim)));
  const auto owners = [&](const std::string& uid) {
    world.json<cache::Claim>({"default", "a"},
                             R"({"metadata":{"ownerReferences":[{"apiVersion":"resource.k8s.io/v1","kind":)"
                             R"("ResourceClaim","name":"a","uid":")" +
                                 uid + R"("}]}})");
  };
  owners("another");
  ClaimPreparer another(client, registry, events, folder, options);
  EXPECT_EQ(another.prepare(claim, {}).status().code(), Code::invalid) << "its claim was made for another";
  EXPECT_TRUE(hasEvent("a", "was not created for it"));
  owners(claim.uid);
  EXPECT_TRUE(another.prepare(claim, {}).ok());
  // A client that may write a ResourceClaim's status may name any device, but this device belongs to a claim of another
  // name.
  stock.metadata.name = "b";
  (void)support::World::must(world.client.create(stock));
  world.addPod("b", {"b"});
  driver->settle();
  world.schedule("b");
  const ClaimRef other{"default", "b", world.resourceClaim("b")->metadata.uid};
  allocation(world, other, deviceOf(other).metadata.name, deviceOf(claim).metadata.name);
  EXPECT_EQ(another.prepare(other, {}).status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("b", "is not the device of one with its name"));
}

TEST_F(PrepareTest, P5_ASecondPrepareIsAnsweredFromTheFile) {
  const auto claim = claimed("a");
  plugin.edits.cdiDevices = {"nvidia.com/gpu=GPU-n1-0"};
  const auto first = preparer.prepare(claim, {});
  (void)plugin.calls();
  ClaimPreparer another(client, registry, events, folder, options);
  const auto second = another.prepare(claim, {});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(second->back(), "nvidia.com/gpu=GPU-n1-0");
  EXPECT_EQ(plugin.calls(), Calls{});
}

TEST_F(PrepareTest, OfAResizedDeviceContainersGetWhatIsInForce) {
  const auto claim = claimed("a");
  const auto device = deviceOf(claim);
  const auto& uid = device.metadata.uid;
  v1alpha::DeviceSize size{1, {}, device.spec.cards};
  size.cards[0].core = size.cards[0].chargedCore = 300;
  const auto enter = [&](int64_t core) {
    const v1alpha::LedgerEntry entry{device.metadata.name, "default/a", core, size.cards[0].chargedMemory, 1};
    world.json<cache::Gpu>({"", "gpu-n1-0"}, codec::patch::ledgerEntry({}, uid, entry));
  };
  world.json<cache::Gpu>({"", device.metadata.name}, codec::patch::deviceTarget({}, {}, {}, size));
  enter(300);
  ASSERT_TRUE(preparer.prepare(claim, {}).ok()) << "on its way: the entry holds more";
  EXPECT_EQ(plugin.last.cards.at(0).core, 100);
  auto status = device.status;
  status.inForce = size;
  world.json<cache::Gpu>({"", device.metadata.name}, codec::patch::gpuStatus({}, {}, device.status, status), "status");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.last.cards.at(0).core, 300);
  const auto entry = folder.find(uid);
  ASSERT_TRUE(entry.ok() && *entry && (*entry)->spec.ok());
  EXPECT_EQ((*entry)->spec->cards.at(0).chargedCore, 300);
  enter(200);
  EXPECT_EQ(preparer.prepare(claim, {}).status().code(), Code::invalid) << "less than what is in force";
}

TEST_F(PrepareTest, WhatRunsSinceBeforeItWasMadeSmallerCountsUntilItIsUnprepared) {
  const auto claim = claimed("a", "60");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  const auto device = deviceOf(claim);
  v1alpha::DeviceSize size{1, {}, device.spec.cards};
  size.cards[0].core = size.cards[0].chargedCore = 200;
  auto status = device.status;
  status.inForce = size;
  world.json<cache::Gpu>({"", device.metadata.name}, codec::patch::deviceTarget({}, {}, {}, size));
  world.json<cache::Gpu>({"", device.metadata.name}, codec::patch::gpuStatus({}, {}, device.status, status), "status");
  for (const int64_t core : {600, 200}) {  // R2, R5
    const v1alpha::LedgerEntry entry{device.metadata.name, "default/a", core, size.cards[0].chargedMemory, 1};
    world.json<cache::Gpu>({"", "gpu-n1-0"}, codec::patch::ledgerEntry({}, device.metadata.uid, entry));
  }
  ASSERT_TRUE(preparer.prepare(claim, {}).ok()) << "for another pod";
  EXPECT_EQ(plugin.last.cards.at(0).core, 200) << "it gets what is in force";
  (void)plugin.calls();
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.calls(), Calls{}) << "answered from the file";
  const auto other = claimed("b", "80");
  EXPECT_EQ(preparer.prepare(other, {}).status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("b", "default/a with core 600"));
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_TRUE(preparer.prepare(other, {}).ok());
}

TEST_F(PrepareTest, ASecondPrepareHasTheSameChecks) {
  const auto claim = claimed("a");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"allocations":{")" + uidOf(claim) + R"(":null}}})");
  EXPECT_FALSE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))}) << "what runs is not touched";
}

/// A world with one error, and the expected message.
struct Wrong {
  const char* what;
  std::function<void(support::World&, const ClaimRef&, const v1alpha::ElasticGPU&)> make;
  const char* message;
  Code code = Code::invalid;
};

std::vector<Wrong> wrongs() {
  using World = support::World;
  using Gpu = v1alpha::ElasticGPU;
  const auto owner = [](const char* kind, const char* api, const std::string& name, const std::string& uid) {
    return R"({"metadata":{"ownerReferences":[{"kind":")" + std::string(kind) + R"(","apiVersion":")" + api +
           R"(","name":")" + name + R"(","uid":")" + uid + R"("}]}})";
  };
  const auto patch = [](World& w, const ClaimRef& c, const std::string& body) {
    w.json<core::ResourceClaim>({"default", c.name}, body);
  };
  return {
      {"no ledger entry",
       [](World& w, const ClaimRef&, const Gpu& d) {
         w.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"allocations":{")" + d.metadata.uid + R"(":null}}})");
       },
       "card gpu-n1-0 has no entry for ElasticGPU egpu-"},
      {"another amount in the ledger",
       [](World& w, const ClaimRef&, const Gpu& d) {
         w.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"allocations":{")" + d.metadata.uid + R"(":{"core":1}}}})");
       },
       "the ledger of card gpu-n1-0 has core 1, "},
      {"other slots in the ledger",
       [](World& w, const ClaimRef&, const Gpu& d) {
         // The slots of an entry are immutable, so this is another entry.
         const auto write = [&](const std::string& entry) {
           w.json<cache::Gpu>({"", "gpu-n1-0"},
                              R"({"spec":{"allocations":{")" + d.metadata.uid + R"(":)" + entry + "}}}");
         };
         const auto& card = d.spec.cards.front();
         write("null");
         write(R"({"device":")" + d.metadata.name + R"(","claim":"default/a","core":)" +
               std::to_string(card.chargedCore) + R"(,"memory":)" + std::to_string(card.chargedMemory) +
               R"(,"slots":[1]})");
       },
       "the ledger of card gpu-n1-0 has other MIG slots for "},
      {"no owner",
       [=](World& w, const ClaimRef& c, const Gpu&) { patch(w, c, R"({"metadata":{"ownerReferences":null}})"); },
       "is not owned by an ElasticGPUClaim"},
      {"an owner of another group",
       [=](World& w, const ClaimRef& c, const Gpu& d) {
         patch(w, c, owner("ElasticGPUClaim", "example.com/v1", c.name, d.spec.claimRef->uid));
       },
       "is not owned by an ElasticGPUClaim"},
      {"an owner of another uid",
       [=](World& w, const ClaimRef& c, const Gpu&) {
         patch(w, c, owner("ElasticGPUClaim", "elasticgpu.io/v1alpha", c.name, "another"));
       },
       "is not the device of ElasticGPUClaim default/a"},
      {"an owner of another name",
       [=](World& w, const ClaimRef& c, const Gpu& d) {
         patch(w, c, owner("ElasticGPUClaim", "elasticgpu.io/v1alpha", "other", d.spec.claimRef->uid));
       },
       "is not the device of ElasticGPUClaim default/other"},
      {"no claimRef",
       [](World& w, const ClaimRef&, const Gpu& d) {
         w.json<cache::Gpu>({"", d.metadata.name}, R"({"spec":{"claimRef":null}})");
       },
       "is not the device of ElasticGPUClaim"},
      {"not Bound",
       [](World& w, const ClaimRef&, const Gpu& d) {
         w.json<cache::Gpu>({"", d.metadata.name}, R"({"status":{"phase":"Released"}})", "status");
       },
       "is not Bound, but Released", Code::unavailable},
      {"another driver",
       [](World& w, const ClaimRef& c, const Gpu&) {
         allocation(w, c, R"("driver":"elasticgpu.io")", R"("driver":"x.example.com")");
       },
       "is allocated by the driver x.example.com"},
      {"allocated on another node",
       [](World& w, const ClaimRef& c, const Gpu&) { allocation(w, c, R"(["n1"])", R"(["n2"])"); },
       "is allocated on node n2, this is n1"},
      {"a card for a device",
       [](World& w, const ClaimRef& c, const Gpu& d) { allocation(w, c, d.metadata.name, "gpu-n1-0"); },
       "ElasticGPU gpu-n1-0 is not the device of"},
      {"a device that is not there",
       [](World& w, const ClaimRef& c, const Gpu& d) { allocation(w, c, d.metadata.name, "egpu-none"); },
       "ElasticGPU egpu-none does not exist"},
      {"not allocated",
       [](World& w, const ClaimRef& c, const Gpu&) {
         w.json<core::ResourceClaim>({"default", c.name}, R"({"status":{"allocation":null,"reservedFor":null}})",
                                     "status");
       },
       "is not allocated", Code::unavailable},
      {"not reserved", [](World& w, const ClaimRef& c, const Gpu&) { w.unreserve(c.name, c.name); },
       "is not reserved for a pod", Code::unavailable},
      {"no card",
       [](World& w, const ClaimRef&, const Gpu& d) {
         w.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"metadata":{"finalizers":null},"spec":{"allocations":{")" +
                                                  d.metadata.uid + R"(":null}}})");
         World::mustOk(w.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
       },
       "card gpu-n1-0 does not exist"},
      {"a card that was taken out",
       [](World& w, const ClaimRef&, const Gpu&) {
         w.json<cache::Gpu>({"", "gpu-n1-0"},
                            R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"CardGone",)"
                            R"("message":"provisioner x no longer finds it on node n1"}]}})",
                            "status");
       },
       "card gpu-n1-0 (GPU-n1-0) is no longer present on node n1: provisioner x no longer finds it on node n1"},
  };
}

class RefusedTest : public PrepareTest, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(RefusedTest, WithWordsAndAnEventOnThePod) {
  const Wrong wrong = wrongs().at(GetParam());
  SCOPED_TRACE(wrong.what);
  const auto claim = claimed("a");
  wrong.make(world, claim, deviceOf(claim));
  const auto answer = preparer.prepare(claim, {});
  EXPECT_EQ(answer.status().code(), wrong.code) << answer.status().str();
  EXPECT_NE(answer.status().message().find(wrong.message), std::string::npos) << answer.status().str();
  const auto resourceClaim = world.resourceClaim("a");
  const bool reserved = resourceClaim && !resourceClaim->reservedFor.empty();
  EXPECT_TRUE(!reserved || hasEvent("a", wrong.message));
  EXPECT_EQ(plugin.calls(), Calls{});
  EXPECT_TRUE(files().empty());
}

INSTANTIATE_TEST_SUITE_P(Prepare, RefusedTest, ::testing::Range<std::size_t>(0, wrongs().size()));

TEST_F(PrepareTest, ACardThatItsPluginFindsNoMoreIsRefusedBeforeTheApiKnows) {
  const auto claim = claimed("a");
  std::string gone = "is no longer present on node n1: the plugin that discovered it no longer reports it";
  options.gone = [&](const std::string& card) { return card == "gpu-n1-0" ? gone : ""; };
  ClaimPreparer watchful(client, registry, events, folder, options);
  const auto answer = watchful.prepare(claim, {});
  EXPECT_EQ(answer.status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("a", "card gpu-n1-0 (GPU-n1-0) is no longer present on node n1: the plugin that discovered it"));
  EXPECT_EQ(plugin.calls(), Calls{});
  gone.clear();
  EXPECT_TRUE(watchful.prepare(claim, {}).ok());
}

TEST_F(PrepareTest, AShareOfACardInMigModeIsRefused) {
  const auto claim = claimed("a");
  world.json<v1alpha::ElasticGPU>(
      {"", "gpu-n1-0"},
      R"({"spec":{"card":{"mig":[{"profile":"1g.10gb","memory":1,"compute":1,"size":1,"starts":[0]}]}}})");
  const auto answer = preparer.prepare(claim, {});
  EXPECT_EQ(answer.status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("a", "card gpu-n1-0 (GPU-n1-0) is in MIG mode, so that containers can only get instances"));
  EXPECT_EQ(plugin.calls(), Calls{});
}

/// The driver reserves 64 MiB more. Earlier each prepare of a whole-card claim failed.
TEST_F(PrepareTest, AWholeCardIsGivenWithTheMemoryThatItHas) {
  world.plugin.makes("physicalGPU");
  world.addClass("whole");
  world.addClaim("a", "whole", {{"gpu", "1"}});
  world.addPod("a", {"a"});
  driver->settle();
  world.schedule("a");
  const ClaimRef claim{"default", "a", world.resourceClaim("a")->metadata.uid};
  const int64_t less = 16 * support::kGi - (64 << 20);
  options.memoryFound = [&](const std::string&) { return std::optional(less); };
  ClaimPreparer agent(client, registry, events, folder, options);
  ASSERT_TRUE(agent.prepare(claim, {}).ok()) << "before the API knows";
  EXPECT_EQ(plugin.last.cards.at(0).memory, less);
  EXPECT_EQ(plugin.last.cards.at(0).cardMemory, less);
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"card":{"memory":)" + std::to_string(less) + "}}}");
  ASSERT_TRUE(agent.prepare(claim, {}).ok()) << "before the entry is charged again";
  driver->settle();
  (void)plugin.calls();
  ASSERT_TRUE(agent.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.calls(), Calls{}) << "the file is right already";
}

TEST_F(PrepareTest, AnotherWholeCardClaimIsPreparedOnceItsEntryFollowsItsCard) {
  world.addClaim("a", "share", {{"gpu", "1"}});
  world.addPod("a", {"a"});
  driver->settle();
  world.schedule("a");
  const ClaimRef claim{"default", "a", world.resourceClaim("a")->metadata.uid};
  const int64_t less = 16 * support::kGi - (64 << 20);
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"card":{"memory":)" + std::to_string(less) + "}}}");
  EXPECT_EQ(preparer.prepare(claim, {}).status().code(), Code::unavailable) << "soon";
  driver->settle();
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.last.cards.at(0).memory, less);
}

TEST_F(PrepareTest, ACardThatIsIllOtherwiseIsForItsClaimToKnow) {
  const auto claim = claimed("a");
  for (const char* reason : {"Xid79", "Probation", "ForeignUse"}) {
    world.json<cache::Gpu>(
        {"", "gpu-n1-0"},
        R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":")" + std::string(reason) + R"("}]}})",
        "status");
    EXPECT_TRUE(preparer.prepare(claim, {}).ok()) << reason;
  }
}

TEST_F(PrepareTest, AnotherNodesDevice) {
  const auto claim = claimed("a");
  auto other = preparerOn("n2");
  const auto answer = other.prepare(claim, {});
  EXPECT_EQ(answer.status().code(), Code::invalid);
  EXPECT_NE(answer.status().message().find("is allocated on node n1, this is n2"), std::string::npos);
  EXPECT_TRUE(hasEvent("a", "is allocated on node n1, this is n2"));
}

TEST_F(PrepareTest, AnotherUidIsAnotherResourceClaim) {
  auto claim = claimed("a");
  claim.uid = "0f3c8a52-0000-0000-0000-000000000000";
  EXPECT_NE(preparer.prepare(claim, {}).status().message().find("was recreated"), std::string::npos);
  EXPECT_TRUE(hasEvent("a", "was recreated")) << "the pod of this node that names it";
}

TEST_F(PrepareTest, NamesThatAreNoneGetNoFurther) {
  const auto claim = claimed("a");
  apiAway(true);
  for (const ClaimRef& bad : {ClaimRef{"", claim.name, claim.uid}, ClaimRef{"../x", claim.name, claim.uid},
                              ClaimRef{"default", "a/../b", claim.uid}, ClaimRef{"default", "", claim.uid},
                              ClaimRef{"default", claim.name, ""}, ClaimRef{"default", claim.name, "../../etc"}}) {
    EXPECT_EQ(preparer.prepare(bad, {}).status().code(), Code::invalid) << bad.str();
    EXPECT_EQ(preparer.unprepare(bad, {}).code(), Code::invalid) << bad.str();
  }
  EXPECT_EQ(line.refused, 0);
}

TEST_F(PrepareTest, WithoutTheApiNothingIsPrepared) {
  const auto claim = claimed("a");
  apiAway(true);
  EXPECT_FALSE(preparer.prepare(claim, {}).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.calls(), Calls{});
  apiAway(false);
  EXPECT_TRUE(preparer.prepare(claim, {}).ok());
}

TEST_F(PrepareTest, TheGuardHoldsWhateverTheApiReports) {
  const auto claim = claimed("a", "30");
  cdi::Spec holder;
  holder.device = "egpu-old";
  holder.deviceUid = "old";
  holder.claimNamespace = "team";
  holder.claimName = "holder";
  holder.claimUid = "u";
  holder.cards = {{"gpu-n1-0", "GPU-n1-0", 800, 0, 800, 0}};
  ASSERT_TRUE(folder.write(holder).ok() && folder.publish("old").ok());
  const auto answer = preparer.prepare(claim, {});
  EXPECT_EQ(answer.status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("a", "together with team/holder with core 800"));
  EXPECT_EQ(plugin.calls(), Calls{}) << "nothing is staged";
  EXPECT_EQ(files(), Calls{fileOf("old")});
  ASSERT_TRUE(folder.withdraw("old").ok());
  EXPECT_FALSE(preparer.prepare(claim, {}).ok()) << "a part counts: it is staged still";
  ASSERT_TRUE(folder.removePart("old").ok());
  EXPECT_TRUE(preparer.prepare(claim, {}).ok());
}

/// A wrong patch of the card's size, and entries that match it.
TEST_F(PrepareTest, ACardHasNoMoreThanWasFoundOfIt) {
  const auto claim = claimed("a", "30");
  std::optional<int64_t> memory = support::kGi / 2;
  options.memoryFound = [&](const std::string& card) { return card == "gpu-n1-0" ? memory : std::nullopt; };
  ClaimPreparer watchful(client, registry, events, folder, options);
  EXPECT_EQ(watchful.prepare(claim, {}).status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("a", "card GPU-n1-0 has core 1000, memory " + std::to_string(support::kGi / 2)));
  EXPECT_EQ(plugin.calls(), Calls{}) << "nothing is staged";
  memory = 100 * support::kGi;
  EXPECT_TRUE(watchful.prepare(claim, {}).ok());
  EXPECT_EQ(plugin.last.cards.at(0).cardMemory, 16 * support::kGi) << "nor more than the API says";
}

TEST_F(PrepareTest, AFileThatCantBeReadIsNamed) {
  const auto claim = claimed("a");
  std::ofstream(folder.path() + "/" + fileOf("b")) << "{";
  EXPECT_EQ(preparer.prepare(claim, {}).status().code(), Code::unavailable);
  EXPECT_TRUE(hasEvent("a", fileOf("b") + ": not a JSON object"));
  EXPECT_EQ(files(), Calls{fileOf("b")});
}

TEST_F(PrepareTest, ItsOwnFileThatCantBeReadIsMadeAnew) {
  const auto claim = claimed("a");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  std::ofstream(folder.path() + "/" + fileOf(uidOf(claim))) << "{";
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_TRUE(folder.find(uidOf(claim))->value().spec.ok());
}

TEST_F(PrepareTest, P2_ARefusedStageLeavesNothing) {
  const auto claim = claimed("a");
  plugin.stageAnswers = {plugin::ReplyCode::unavailable, "no daemon"};
  const auto answer = preparer.prepare(claim, {});
  EXPECT_EQ(answer.status().code(), Code::unavailable);
  EXPECT_TRUE(hasEvent("a", "ResourceClaim default/a: gpushare.provisioner.elasticgpu.io stage: "))
      << events.lines().at(0);
  EXPECT_TRUE(hasEvent("a", "no daemon"));
  EXPECT_TRUE(files().empty());
}

TEST_F(PrepareTest, P2_AStageThatMayGoOnRetainsItsPart) {
  const auto claim = claimed("a");
  for (const auto code : {plugin::ReplyCode::inProgress, plugin::ReplyCode::timeout, plugin::ReplyCode::crashed}) {
    plugin.stageAnswers = {code, ""};
    EXPECT_EQ(preparer.prepare(claim, {}).status().code(), Code::unavailable);
    EXPECT_EQ(files(), Calls{fileOf(uidOf(claim)) + ".part"});
  }
  plugin.stageAnswers = {};
  EXPECT_TRUE(preparer.prepare(claim, {}).ok());
  EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
}

TEST_F(PrepareTest, P3_EditsThatMayNotBeAreRefusedAndUnprepareCleans) {
  const auto claim = claimed("a");
  plugin.edits.deviceNodes = {{"/dev/sda", "", "rw"}};
  EXPECT_EQ(preparer.prepare(claim, {}).status().code(), Code::invalid);
  EXPECT_TRUE(hasEvent("a", "the device node /dev/sda is not permitted"));
  EXPECT_EQ(plugin.staged(), 1U);
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(plugin.staged(), 0U);
  EXPECT_TRUE(files().empty());
}

TEST_F(PrepareTest, TheClassPermitsMoreOfTheHost) {
  const auto claim = claimed("a", "10", {{"hostPaths", "/dev/vendor*"}});
  plugin.edits.deviceNodes = {{"/dev/vendor0", "", "rw"}};
  EXPECT_TRUE(preparer.prepare(claim, {}).ok());
}

TEST_F(PrepareTest, AMissingProvisionerIsNamed) {
  const auto claim = claimed("a");
  support::FakeRegistry none;
  ClaimPreparer without(client, none, events, folder, options);
  EXPECT_EQ(without.prepare(claim, {}).status().code(), Code::unavailable);
  EXPECT_TRUE(hasEvent("a", "provisioner gpushare.provisioner.elasticgpu.io: never seen"));
}

TEST_F(PrepareTest, P1_AFullDiskStagesNothing) {
  const auto claim = claimed("a");
  ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto answer = preparer.prepare(claim, {});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(answer.status().code(), Code::unavailable);
  EXPECT_TRUE(hasEvent("a", folder.path()));
  EXPECT_EQ(plugin.calls(), Calls{});
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(preparer.prepare(claim, {}).ok());
}

TEST_F(PrepareTest, AResourceClaimMadeAnewTakesTheFileOver) {
  const auto claim = claimed("a");
  ASSERT_TRUE(preparer.prepare(claim, {}).ok());
  world.json<core::ResourceClaim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  world.addPod("b", {"a"});
  driver->run(std::chrono::seconds(60));
  world.schedule("b");
  const ClaimRef anew{"default", "a", world.resourceClaim("a")->metadata.uid};
  ASSERT_NE(anew.uid, claim.uid);
  ASSERT_TRUE(preparer.prepare(anew, {}).ok());
  (void)plugin.calls();
  EXPECT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_EQ(plugin.calls(), Calls{}) << "the file is not that one's any more";
  EXPECT_EQ(files(), Calls{fileOf(uidOf(anew))});
}

}  // namespace
}  // namespace egpu::agent

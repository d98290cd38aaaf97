#include "controller/agent/limiter/limiter.h"

#include <gmock/gmock.h>

#include <memory>

#include "tests/agent/limiter/pages.h"
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent::limiter::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A plugin whose containers have the limiter, and which knows the processes on the cards.
class LimitingPlugin final : public plugin::Provisioner {
 public:
  const plugin::Description& description() const override { return description_; }
  plugin::Reply validate(const core::StringMap&) override { return {}; }
  plugin::Reply provision(const plugin::DeviceRequest&) override { return {}; }
  plugin::Reply deprovision(const std::string&) override { return {}; }
  plugin::ListReply list() override { return {}; }
  plugin::Reply stage(const plugin::DeviceRequest&) override { return {}; }
  plugin::MountReply mount(const plugin::DeviceRequest& request, const std::string&, const std::string&) override {
    const std::string file = "/var/lib/elasticgpu/limiter/devices/" + request.key + "/usage";
    return {{}, {{}, {}, {{file, EGPU_LIMITER_FOLDER "/usage", {"rw", "bind"}}}, {}}};
  }
  plugin::Reply unmount(const std::string&, const std::string&, const std::string&) override { return {}; }
  plugin::Reply unstage(const std::string&) override { return {}; }
  plugin::ProcessesReply processes() override {
    ++asked;
    return {{outcome, ""}, all};
  }

  plugin::ReplyCode outcome = plugin::ReplyCode::ok;
  std::vector<plugin::CardProcess> all;
  int asked = 0;

 private:
  plugin::Description description_{support::World::kPlugin, "1", "gpuShare", "Advisory"};
};

class AgentLimiterTest : public PrepareTest {
 protected:
  AgentLimiterTest() {
    registry.add(limiting);
    // A card with a uuid as drivers spell it.
    cache::Gpu gpu = world.gpu("gpu-n1-0");
    gpu.metadata = {};
    gpu.metadata.name = card;
    gpu.metadata.labels = world.gpu("gpu-n1-0").metadata.labels;
    gpu.spec.allocations.clear();
    gpu.spec.card->uuid = kUuid;
    gpu.spec.card->index = 1;
    gpu.spec.source->gpuNames = {card};
    EXPECT_TRUE(client.create(gpu).ok());
    world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Available"}})", "status");
  }
  /// A prepared claim of a quarter of the card and 1 GiB, its pod, and the files of its device.
  std::string prepared(const std::string& name) {
    addClaim(name);
    world.addPod(name, {name});
    driver->settle();
    world.schedule(name);
    return prepareFor(name);
  }
  void addClaim(const std::string& name) {
    world.addClaim(name, "share", {{"gpu-core", "25"}, {"gpu-memory", "1"}}, card);
  }
  std::string prepareFor(const std::string& name) {
    const ClaimRef claim{"default", name, world.resourceClaim(name)->metadata.uid};
    const auto done = preparer.prepare(claim, {});
    EXPECT_TRUE(done.ok()) << done.status().str();
    const auto uid = uidOf(claim);
    makeFiles(folderOf(uid), {cardOf(1, 1)});
    return uid;
  }
  std::string folderOf(const std::string& uid) const { return state + "/limiter/devices/" + uid; }
  std::string podUid(const std::string& name) { return world.pod(name).metadata.uid; }
  /// Performs rounds as the thread does, with the current objects of the cards.
  void rounds(int count = 1) {
    for (int i = 0; i < count; ++i) {
      for (const auto& name : {std::string("gpu-n1-0"), card}) cards.observed(world.gpu(name));
      limiter.round({});
      world.clock.advance(LimiterOptions().interval);
    }
  }
  std::string bypassOn(const std::string& uid) {
    const auto all = world.gpu(card).status.bypassed;
    const auto it = all.find(uid);
    return it == all.end() ? "" : it->second.pod + ": " + it->second.message;
  }

  const std::string card = "gpu-a11ce000-0000-4000-8000-000000000001";
  const std::string proc = scratch.path() + "/proc", state = scratch.path() + "/state";
  LimitingPlugin limiting;
  usage::Prepared shares{client, folder, world.clock, "n1"};
  cache::Store<Gpu> cards;
  bool isDeviceKnown = true;
  LimiterOptions limiterOptions{"n1", proc, state};
  Limiter limiter{client,
                  registry,
                  events,
                  folder,
                  shares,
                  cards,
                  [this](const std::string& name) {
                    return isDeviceKnown ? std::make_shared<const cache::Gpu>(world.gpu(name)) : nullptr;
                  },
                  world.clock,
                  limiterOptions};
};

TEST_F(AgentLimiterTest, LimitsFollowTheAmountsInForce) {
  const auto uid = prepared("a");
  isDeviceKnown = false;
  rounds();
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].memory, 1u) << "the last limits stay until the amounts are known";
  isDeviceKnown = true;
  rounds();
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].memory, uint64_t{1} << 30);
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].cores, 250u);
  const auto sequence = readPage<egpu_limiter_limits>(folderOf(uid) + "/limits").sequence;
  rounds(3);
  EXPECT_EQ(readPage<egpu_limiter_limits>(folderOf(uid) + "/limits").sequence, sequence) << "nothing changed";
  auto share = world.gpu("egpu-" + world.claim("a").metadata.uid).spec.cards.at(0);
  world.json<cache::Gpu>({"", "egpu-" + world.claim("a").metadata.uid},
                         R"({"status":{"inForce":{"number":1,"cards":[{"name":")" + share.name + R"(","uuid":")" +
                             share.uuid + R"(","core":500,"memory":2147483648}]}}})",
                         "status");
  rounds();
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].memory, uint64_t{2} << 30);
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].cores, 500u);
}

TEST_F(AgentLimiterTest, SlotsOfEndedProcessesAreFreed) {
  const auto uid = prepared("a");
  writeProcess(proc, 4711, 8, 77, 500);
  auto usage = readPage<egpu_limiter_usage>(folderOf(uid) + "/usage");
  usage.slot[0] = slotOf(8, 77, 500);
  usage.slot[1] = slotOf(9, 77, 500);
  usage.used[0][0] = usage.used[0][1] = 100;
  usage.high = 2;
  writePage(folderOf(uid) + "/usage", usage);
  rounds();
  auto after = readPage<egpu_limiter_usage>(folderOf(uid) + "/usage");
  EXPECT_EQ(egpu_limiter_used(&after, 0), 100u);
  EXPECT_NE(after.slot[0].owner, 0u);
  std::filesystem::remove_all(proc + "/4711");
  rounds();
  after = readPage<egpu_limiter_usage>(folderOf(uid) + "/usage");
  EXPECT_EQ(egpu_limiter_used(&after, 0), 0u);
}

TEST_F(AgentLimiterTest, TheFactorFollowsTheMeasurement) {
  const auto uid = prepared("a");
  writeProcess(proc, 4711, 8, 77, 500, podUid("a"));
  limiting.all = {{kUuid, 4711, 100, 25}};
  auto usage = readPage<egpu_limiter_usage>(folderOf(uid) + "/usage");
  usage.slot[0] = slotOf(8, 77, 500);
  writePage(folderOf(uid) + "/usage", usage);
  rounds(2);                               // the first one finds the pod
  usage.bucket[0].spent += 1'000'000'000;  // all of the second, of which the card measured a quarter
  writePage(folderOf(uid) + "/usage", usage);
  rounds(5);
  const auto factor = limitsIn(folderOf(uid)).card[0].factor;
  EXPECT_GT(factor, EGPU_LIMITER_FACTOR_ONE / 4);
  EXPECT_LT(factor, EGPU_LIMITER_FACTOR_ONE * 3 / 4);
  EXPECT_EQ(bypassOn(uid), "");
}

TEST_F(AgentLimiterTest, AProcessWithoutASlotIsReportedOnceAndUntilItEnds) {
  const auto uid = prepared("a"), other = prepared("b");
  writeProcess(proc, 4711, 8, 77, 500, podUid("a"));
  writeProcess(proc, 4712, 8, 78, 500, podUid("b"));
  auto usage = readPage<egpu_limiter_usage>(folderOf(other) + "/usage");
  usage.slot[0] = slotOf(8, 78, 500);
  writePage(folderOf(other) + "/usage", usage);
  limiting.all = {{kUuid, 4711, 100, 25}, {kUuid, 4712, 100, 25}};
  rounds(4);
  EXPECT_THAT(bypassOn(uid), HasSubstr(podUid("a") + ": process 4711 (program) uses card " + kUuid));
  EXPECT_EQ(bypassOn(other), "");
  const auto isEvent = HasSubstr("a Warning IsolationBypassed process 4711 (program) uses card");
  EXPECT_THAT(events.lines(), Contains(isEvent).Times(1));
  rounds(8);
  EXPECT_THAT(events.lines(), Contains(isEvent).Times(1));
  limiting.all.erase(limiting.all.begin());
  rounds(12);
  EXPECT_EQ(bypassOn(uid), "");
}

TEST_F(AgentLimiterTest, AProcessCountsForTheDeviceThatLimitsItAlthoughItsPodHasAnother) {
  addClaim("a");
  addClaim("b");
  world.addPod("both", {"a", "b"});
  driver->settle();
  world.schedule("both");
  const auto first = prepareFor("a"), second = prepareFor("b");
  const int64_t most = (int64_t{1} << 30) + kContextMemory;  // of each device
  int pid = 8;
  for (const auto& uid : {first, second}) {
    writeProcess(proc, 4700 + pid, pid, 77, 500, podUid("both"));
    auto usage = readPage<egpu_limiter_usage>(folderOf(uid) + "/usage");
    usage.slot[0] = slotOf(pid, 77, 500);
    writePage(folderOf(uid) + "/usage", usage);
    limiting.all.push_back({kUuid, 4700 + pid++, most, 25});
  }
  rounds(4);
  EXPECT_EQ(bypassOn(first), "");
  EXPECT_EQ(bypassOn(second), "");
  limiting.all.back().memory = most + 1;
  rounds(4);
  EXPECT_EQ(bypassOn(first), "");
  EXPECT_THAT(bypassOn(second), HasSubstr("its processes use"));
}

TEST_F(AgentLimiterTest, AReportEndsWithTheDeviceAndAfterARestart) {
  const auto uid = prepared("a");
  world.json<cache::Gpu>({"", card}, R"({"status":{"bypassed":{"gone":{"message":"of an earlier agent"}}}})", "status");
  rounds();
  EXPECT_THAT(world.gpu(card).status.bypassed, IsEmpty());
  writeProcess(proc, 4711, 8, 77, 500, podUid("a"));
  limiting.all = {{kUuid, 4711, 100, 25}};
  rounds(12);
  EXPECT_THAT(bypassOn(uid), Not(IsEmpty()));
  ASSERT_TRUE(folder.withdraw(uid).ok());
  rounds(12);
  EXPECT_EQ(bypassOn(uid), "");
}

TEST_F(AgentLimiterTest, WithoutAMeasurementLimitsAndSlotsAreStillServed) {
  const auto uid = prepared("a");
  limiting.outcome = plugin::ReplyCode::noChange;  // a plugin without the slot
  auto usage = readPage<egpu_limiter_usage>(folderOf(uid) + "/usage");
  std::filesystem::create_directories(proc);
  usage.slot[0] = slotOf(9, 77, 500);
  writePage(folderOf(uid) + "/usage", usage);
  rounds();
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].memory, uint64_t{1} << 30);
  EXPECT_EQ(readPage<egpu_limiter_usage>(folderOf(uid) + "/usage").slot[0].owner, 0u);
}

TEST_F(AgentLimiterTest, AContainerThatShortensItsFileHarmsNeitherTheAgentNorOthers) {
  const auto uid = prepared("a"), other = prepared("b");
  ASSERT_EQ(::truncate((folderOf(uid) + "/usage").c_str(), 10), 0);
  rounds(3);
  EXPECT_EQ(limitsIn(folderOf(other)).card[0].memory, uint64_t{1} << 30);
  EXPECT_EQ(limitsIn(folderOf(uid)).card[0].memory, 1u);
}

TEST_F(AgentLimiterTest, WithoutLimitedContainersNoPluginIsAsked) {
  const auto claim = claimed("plain");
  rounds(3);
  EXPECT_EQ(limiting.asked, 0);
}

}  // namespace
}  // namespace egpu::agent::limiter::testing

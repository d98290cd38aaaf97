#include "controller/plugin/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/plugin/in_process.h"
#include "tests/plugin/zoo.h"

namespace egpu::plugin {
namespace {

using testing::builtIn;
using testing::device;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::zoo;

Call call(Slot slot) {
  Call c;
  c.slot = slot;
  c.key = "key";
  c.device = device("key");
  c.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  return c;
}

struct RefusedPlugin {
  const char* plugin;
  const char* why;
};
class RefusedTest : public ::testing::TestWithParam<RefusedPlugin> {};

TEST_P(RefusedTest, ReportsWhy) {
  const auto loaded = LoadedPlugin::open(zoo(GetParam().plugin));
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.status().message(), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(Zoo, RefusedTest,
                         ::testing::Values(RefusedPlugin{"absent", "cannot be loaded"},
                                           RefusedPlugin{"no_entry", "no symbol egpu_provisioner_entry"},
                                           RefusedPlugin{"null_table", "gave no table"},
                                           RefusedPlugin{"refuses", "refused with code 6"},
                                           RefusedPlugin{"wrong_version", "ABI version 2, this host speaks version 1"},
                                           RefusedPlugin{"short_table", "lacks the required slot list"},
                                           RefusedPlugin{"missing_slot", "lacks the required slot mount"},
                                           RefusedPlugin{"bad_name", "\"Not A Name\""},
                                           RefusedPlugin{"null_name", "null text"}),
                         [](const auto& row) { return row.param.plugin; });

TEST(LoaderTest, AFileThatIsNoSharedObjectIsRefused) {
  EXPECT_THAT(LoadedPlugin::open(EGPU_SOURCE_DIR "/LICENSE").status().message(), HasSubstr("cannot be loaded"));
}

TEST(LoaderTest, ALongerTableThanOursIsTaken) {
  const auto loaded = LoadedPlugin::open(zoo("long_table"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_EQ(loaded.value()->description().name, "long.example.com");
}

TEST(LoaderTest, AbsentSlotsAreAnsweredAsTheHeaderStates) {
  const auto loaded = LoadedPlugin::open(zoo("good"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  const LoadedPlugin& plugin = *loaded.value();
  EXPECT_EQ(plugin.call(call(Slot::resize), nullptr).outcome, ReplyCode::invalid);
  EXPECT_FALSE(plugin.description().resizes);
  EXPECT_EQ(plugin.call(call(Slot::discover), nullptr).outcome, ReplyCode::ok);
  EXPECT_EQ(plugin.call(call(Slot::health), nullptr).outcome, ReplyCode::ok);
  for (const Slot slot : {Slot::stage, Slot::unmount, Slot::unstage})
    EXPECT_EQ(plugin.call(call(slot), nullptr).outcome, ReplyCode::noChange) << toString(slot);
  const Answer mounted = plugin.call(call(Slot::mount), nullptr);
  EXPECT_THAT(mounted.edits.env, ElementsAre(std::pair<std::string, std::string>("DEVICE", "egpu-key")));
}

TEST(LoaderTest, CardsComeWithAllThatIsKnownOfThem) {
  const auto loaded = LoadedPlugin::open(zoo("discovers"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  const Answer answer = loaded.value()->call(call(Slot::discover), nullptr);
  ASSERT_EQ(answer.outcome, ReplyCode::ok) << answer.message;
  Gpu a{"NPU-A", "Example-9000", 0, int64_t{64} << 30, 96, 1, "0000:41:00.0"};
  Gpu b = a, old = a;
  old.uuid = "NPU-OLD";  // built before cards had a rating, links and attributes
  b.uuid = "NPU-B", b.index = 1, b.pciAddress = "0000:42:00.0";
  a.milliTflops = b.milliTflops = 256'500;
  a.links = {{"NPU-B", "system", 1}, {"NPU-B", "hostbridge", 1}};
  b.links = {{"NPU-A", "hostbridge", 1}};
  a.attributes = {{"firmware", "7.3"}};
  constexpr int64_t kMemory = int64_t{10} << 30;
  a.mig = {{"1g.10gb", kMemory, 1, 1, {0x7f}, false}, {"1g.10gb+me", kMemory, 1, 1, {0x7f}, true}};
  EXPECT_THAT(answer.gpus, ElementsAre(a, b, old));
}

TEST(LoaderTest, CardsThatCannotBeAreGarbage) {
  const auto loaded = LoadedPlugin::open(zoo("discovers"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  for (const auto& [how, why] : {std::pair{"twice", "the card NPU-A twice"},
                                 {"unnamed", "an empty or unprintable uuid"},
                                 {"negative", "NPU-B a negative amount"},
                                 {"null-peer", "a null text"},
                                 {"null-profile", "a null text"},
                                 {"no-size", "NPU-A the MIG profile 1g.10gb+me with"},
                                 {"beyond", "starts beyond the memory slots"}}) {
    Call spoil = call(Slot::validate);
    spoil.parameters = {{"spoil", how}};
    loaded.value()->call(spoil, nullptr);
    const Answer answer = loaded.value()->call(call(Slot::discover), nullptr);
    EXPECT_EQ(answer.outcome, ReplyCode::garbage) << how;
    EXPECT_THAT(answer.message, HasSubstr(why));
  }
}

TEST(LoaderTest, WhatIsUsedOfCardsComesWithAllThatIsKnown) {
  const auto loaded = LoadedPlugin::open(zoo("discovers"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  const Answer answer = loaded.value()->call(call(Slot::health), nullptr);
  ASSERT_EQ(answer.outcome, ReplyCode::ok) << answer.message;
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_THAT(answer.use, ElementsAre(CardUse{"NPU-A", 3 * kGiB, 35, 2}, CardUse{"NPU-B", -1, -1, -1}));
  EXPECT_THAT(answer.processes,
              ElementsAre(CardProcess{"NPU-A", 4711, 2 * kGiB, 30}, CardProcess{"NPU-A", 12, kGiB, -1}));
}

TEST(LoaderTest, UseThatCannotBeIsGarbage) {
  const auto loaded = LoadedPlugin::open(zoo("discovers"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  for (const auto& [how, why] : {std::pair{"over", "the card NPU-A an SM utilisation of 101 %"},
                                 {"twice", "the use of the card NPU-A twice"},
                                 {"negative", "the card NPU-A -2 bytes in use"},
                                 {"short", "a process that it replied is null or too short"}}) {
    Call spoil = call(Slot::validate);
    spoil.parameters = {{"spoil", how}};
    loaded.value()->call(spoil, nullptr);
    const Answer answer = loaded.value()->call(call(Slot::health), nullptr);
    EXPECT_EQ(answer.outcome, ReplyCode::garbage) << how;
    EXPECT_THAT(answer.message, HasSubstr(why));
  }
}

Call wish(core::StringMap parameters) {
  Call c = call(Slot::prefer);
  c.wish.claim = "default/claim";
  for (const auto* node : {"n0", "vetoed", "n2"})
    c.wish.candidates.push_back({node, {{std::string("GPU-") + node, "m", 0, 500, 1 << 30, 2 << 30}}});
  c.wish.parameters = std::move(parameters);
  return c;
}

TEST(LoaderTest, APluginPutsPlacesIntoItsOrder) {
  const auto loaded = LoadedPlugin::open(zoo("prefers"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_TRUE(loaded.value()->description().prefers);
  const Answer answer = loaded.value()->call(wish({}), nullptr);
  ASSERT_EQ(answer.outcome, ReplyCode::ok) << answer.message;
  EXPECT_THAT(answer.order, ElementsAre(2, 0));
  EXPECT_THAT(answer.vetoes, ElementsAre(Veto{1, "GPU-vetoed"}));
}

TEST(LoaderTest, AnOrderThatCannotBeIsGarbage) {
  const auto loaded = LoadedPlugin::open(zoo("prefers"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  for (const auto& [how, why] : {std::pair{"beyond", "named a candidate that is not there"},
                                 {"twice", "named the candidate 0 twice"},
                                 {"null", "null text"}}) {
    const Answer answer = loaded.value()->call(wish({{"spoil", how}}), nullptr);
    EXPECT_EQ(answer.outcome, ReplyCode::garbage) << how;
    EXPECT_THAT(answer.message, HasSubstr(why));
  }
}

TEST(LoaderTest, WhoHasNoPreferenceIsNotToBeAsked) {
  const auto loaded = LoadedPlugin::open(zoo("good"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_FALSE(loaded.value()->description().prefers);
  EXPECT_EQ(loaded.value()->call(wish({}), nullptr).outcome, ReplyCode::noChange);
}

TEST(LoaderTest, GarbageIsNamedAsSuch) {
  const auto loaded = LoadedPlugin::open(zoo("garbage_code"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  Answer answer = loaded.value()->call(call(Slot::provision), nullptr);
  EXPECT_EQ(answer.outcome, ReplyCode::garbage);
  EXPECT_THAT(answer.message, HasSubstr("provision returned 4711"));
  answer = loaded.value()->call(call(Slot::mount), nullptr);
  EXPECT_EQ(answer.outcome, ReplyCode::garbage);
  EXPECT_THAT(answer.message, HasSubstr("../../dev/mem"));
  answer = loaded.value()->call(call(Slot::list), nullptr);
  EXPECT_EQ(answer.outcome, ReplyCode::garbage);
  EXPECT_THAT(answer.message, HasSubstr("null text"));
}

TEST(LoaderTest, AnExceptionThatEscapesIsGarbage) {
  const auto loaded = LoadedPlugin::open(zoo("throws"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_EQ(loaded.value()->call(call(Slot::provision), nullptr).outcome, ReplyCode::garbage);
}

TEST(LoaderTest, AnAnswerHasABound) {
  const auto loaded = LoadedPlugin::open(zoo("floods"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  const Answer answer = loaded.value()->call(call(Slot::list), nullptr);
  EXPECT_EQ(answer.outcome, ReplyCode::garbage);
  EXPECT_THAT(answer.message, HasSubstr("more than 8 MiB"));
  EXPECT_TRUE(answer.keys.empty());
}

TEST(LoaderTest, APluginThatWatchesItsDeadlineReturns) {
  const auto loaded = LoadedPlugin::open(zoo("late"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  std::atomic<bool> cancelled{true};
  EXPECT_EQ(loaded.value()->call(call(Slot::provision), &cancelled).outcome, ReplyCode::ok);
  Call past = call(Slot::provision);
  past.deadline = std::chrono::steady_clock::now();
  EXPECT_EQ(loaded.value()->call(past, nullptr).outcome, ReplyCode::ok);
}

TEST(FindGarbageTest, JudgesEditsNamesAndPaths) {
  Answer a;
  a.edits.env = {{"OK", "any=thing"}};
  a.edits.deviceNodes = {{"/dev/nvidia0", "/dev/nvidia0", "rw"}};
  a.edits.mounts = {{"/opt/lib", "/usr/lib/x", {"ro"}}};
  a.edits.cdiDevices = {"nvidia.com/gpu=GPU-1:0"};
  EXPECT_EQ(findGarbage(Slot::mount, a), "");
  const auto with = [&](auto spoil) {
    Answer bad = a;
    spoil(bad);
    return findGarbage(Slot::mount, bad);
  };
  EXPECT_NE(with([](Answer& b) { b.edits.env[0].first = "A=B"; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.env[0].first = ""; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.deviceNodes[0].path = "dev/nvidia0"; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.deviceNodes[0].hostPath = "/dev/../etc/shadow"; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.deviceNodes[0].permissions = "rwx"; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.mounts[0].hostPath = ""; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.mounts[0].containerPath = "/a/.."; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.cdiDevices[0] = "gpu=0"; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.cdiDevices[0] = "nvidia.com/gpu="; }), "");
  EXPECT_NE(with([](Answer& b) { b.edits.cdiDevices[0] = "nvidia.com/gpu=a b"; }), "");
}

TEST(FindGarbageTest, JudgesTheIsolationOfADevice) {
  Answer a;
  a.isolation = {"whole-card", "Enforced", "Soft", "None"};
  EXPECT_EQ(findGarbage(Slot::provision, a), "");
  for (const char* mode : {"", "MPS", "-a", "a-", "a b", "a.b"}) {
    Answer bad = a;
    bad.isolation->mode = mode;
    EXPECT_THAT(findGarbage(Slot::provision, bad), HasSubstr("provision gave the isolation mode \"")) << mode;
  }
  for (auto level : {&v1alpha::Isolation::memory, &v1alpha::Isolation::compute, &v1alpha::Isolation::faults}) {
    Answer bad = a;
    (*bad.isolation).*level = "Advisory";
    EXPECT_THAT(findGarbage(Slot::resize, bad), HasSubstr("known are Enforced, Soft, None"));
  }
}

TEST(FindGarbageTest, ManagedMemoryIsNeverMoreIsolatedThanMemory) {
  Answer a;
  for (const char* memory : {"Enforced", "Soft", "None"})
    for (const char* managed : {"", "Enforced", "Soft", "None"}) {
      a.isolation = {"driver", memory, "None", "Soft", managed};
      const auto garbage = findGarbage(Slot::provision, a);
      const auto rank = [](const std::string& level) { return level == "Enforced" ? 2 : level == "Soft" ? 1 : 0; };
      if (rank(managed) <= rank(memory))
        EXPECT_EQ(garbage, "");
      else
        EXPECT_THAT(garbage, HasSubstr("for managed memory, which is stronger than " + std::string(memory)));
    }
  a.isolation = {"driver", "Enforced", "None", "Soft", "enforced"};
  EXPECT_THAT(findGarbage(Slot::provision, a), HasSubstr("\"enforced\" for managed memory; known are Enforced"));
}

TEST(FindGarbageTest, JudgesDescriptions) {
  Answer a;
  a.description = {"gpushare.provisioner.elasticgpu.io", "1", "gpuShare", "Advisory"};
  EXPECT_EQ(findGarbage(Slot::describe, a), "");
  for (const char* name : {"", "nodot", "Upper.case", "-a.b", "a-.b", "a..b", ".a", "a.", "a.b c", "a.b/c"}) {
    Answer bad = a;
    bad.description.name = name;
    EXPECT_NE(findGarbage(Slot::describe, bad), "") << name;
  }
  Answer bad = a;
  bad.description.source = "gpushare";
  EXPECT_NE(findGarbage(Slot::describe, bad), "");
  bad = a;
  bad.description.isolation = "Total";
  EXPECT_NE(findGarbage(Slot::describe, bad), "");
}

TEST(InProcessRegistryTest, FindsByNameRefusesDuplicatesAndReportsWhyNot) {
  InProcessRegistry registry;
  std::vector<std::string> changes;
  registry.onChange([&](const std::string& name) { changes.push_back(name); });
  ASSERT_TRUE(registry.load(zoo("good")).ok());
  EXPECT_EQ(registry.load(zoo("second_good")).code(), base::Code::alreadyExists);
  EXPECT_FALSE(registry.load(zoo("wrong_version")).ok());
  ASSERT_TRUE(registry.load(builtIn("gpushare")).ok());
  ASSERT_TRUE(registry.load(builtIn("physical")).ok());
  EXPECT_THAT(registry.names(), ElementsAre("good.example.com", "gpushare.provisioner.elasticgpu.io",
                                            "physical.provisioner.elasticgpu.io"));
  EXPECT_THAT(changes, ElementsAre("good.example.com", "gpushare.provisioner.elasticgpu.io",
                                   "physical.provisioner.elasticgpu.io"));
  // Two SDK plugins in one process must not share their state.
  EXPECT_EQ(registry.find("physical.provisioner.elasticgpu.io", nullptr)->provision(device("p")).outcome,
            ReplyCode::ok);
  EXPECT_TRUE(registry.find("gpushare.provisioner.elasticgpu.io", nullptr)->list().keys.empty());
  EXPECT_EQ(registry.find("physical.provisioner.elasticgpu.io", nullptr)->deprovision("p").outcome, ReplyCode::ok);
  std::string why;
  EXPECT_EQ(registry.find("other.example.com", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("ABI version 2"));
  EXPECT_TRUE(registry.readiness("good.example.com").ok());
  EXPECT_EQ(registry.readiness("other.example.com").outcome, ReplyCode::unavailable);
}

TEST(OutcomeTest, OnlyWhatMayHaveHappenedIsIndefinite) {
  for (const ReplyCode o : {ReplyCode::inProgress, ReplyCode::timeout, ReplyCode::crashed, ReplyCode::garbage})
    EXPECT_TRUE(indefinite(o)) << toString(o);
  for (const ReplyCode o : {ReplyCode::ok, ReplyCode::noChange, ReplyCode::reschedule, ReplyCode::exists,
                            ReplyCode::invalid, ReplyCode::unavailable, ReplyCode::internal})
    EXPECT_FALSE(indefinite(o)) << toString(o);
}

}  // namespace
}  // namespace egpu::plugin

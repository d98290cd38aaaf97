#include "controller/cache/store.h"

#include <gtest/gtest.h>

#include "controller/cache/stores.h"

namespace egpu::cache {
namespace {

Claim claim(const std::string& name, const std::string& uid, int version, const std::string& phase = {}) {
  Claim c;
  c.metadata.name = name;
  c.metadata.namespace_ = "ns";
  c.metadata.uid = uid;
  c.metadata.resourceVersion = std::to_string(version);
  c.status.phase = phase;
  return c;
}

TEST(StoreTest, TheNewerOfInformerAndOwnWriteIsShown) {
  Store<Claim> store;
  store.informed(claim("a", "u", 7, "Pending"));
  store.observed(claim("a", "u", 9, "Bound"));
  store.informed(claim("a", "u", 8, "Lost"));  // late
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Bound");
  store.informed(claim("a", "u", 10, "Lost"));
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Lost");
  store.observed(claim("a", "u", 9, "Bound"));
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Lost");
}

TEST(StoreTest, AGoneUidNeverComesBack) {
  Store<Claim> store;
  store.informed(claim("a", "u1", 5));
  store.observedGone({"ns", "a"}, "u1");
  EXPECT_EQ(store.get({"ns", "a"}), nullptr);
  store.informed(claim("a", "u1", 6));  // an event that was on its way
  EXPECT_EQ(store.get({"ns", "a"}), nullptr);
  store.observed(claim("a", "u2", 8));
  store.informedGone(claim("a", "u1", 7));
  ASSERT_NE(store.get({"ns", "a"}), nullptr);
  EXPECT_EQ(store.get({"ns", "a"})->metadata.uid, "u2");
}

TEST(StoreTest, AListTakesAwayWhatItLacksUnlessThatIsYounger) {
  Store<Claim> store;
  store.informed(claim("old", "u1", 5));
  store.observed(claim("young", "u2", 20));
  std::vector<Claim> all{claim("other", "u3", 9)};
  store.replaced(std::move(all), "10");
  EXPECT_EQ(store.get({"ns", "old"}), nullptr);
  EXPECT_NE(store.get({"ns", "young"}), nullptr);
  EXPECT_NE(store.get({"ns", "other"}), nullptr);
  EXPECT_TRUE(store.synced());
}

TEST(StoreTest, ListenersHearEachChangeOnce) {
  Store<Claim> store;
  std::vector<std::string> heard;
  store.listen([&](const auto& before, const auto& after) {
    heard.push_back(!before ? "new" : !after ? "gone" : "changed");
  });
  store.informed(claim("a", "u", 1));
  store.informed(claim("a", "u", 1));
  store.observed(claim("a", "u", 2));
  store.informed(claim("a", "u", 2));
  store.informedGone(claim("a", "u", 3));
  store.informedGone(claim("a", "u", 3));
  EXPECT_EQ(heard, (std::vector<std::string>{"new", "changed", "gone"}));
}

TEST(StoreTest, IndexesFollow) {
  Store<Claim> store;
  const int byPhase = store.addIndex([](const Claim& c) { return std::vector<std::string>{c.status.phase}; });
  store.informed(claim("b", "u2", 1, "Pending"));
  store.informed(claim("a", "u1", 2, "Pending"));
  ASSERT_EQ(store.find(byPhase, "Pending").size(), 2u);
  EXPECT_EQ(store.find(byPhase, "Pending")[0]->metadata.name, "a");  // by key
  store.informed(claim("a", "u1", 3, "Bound"));
  EXPECT_EQ(store.find(byPhase, "Pending").size(), 1u);
  store.informedGone(claim("b", "u2", 4));
  EXPECT_FALSE(store.any(byPhase, "Pending"));
}

TEST(PackedTest, ABoundClaimComesBackAsItWasInLessThanAKilobyte) {
  Claim c = claim("gpushare-egpuc-1", "0b5e4f5a-1111-2222-3333-444455556666", 123456, "Bound");
  c.metadata.creationTimestamp = "2026-01-02T03:04:05Z";
  c.metadata.finalizers = {"elasticgpu.io/claim"};
  c.metadata.labels = {{"app", "x"}};
  c.metadata.annotations = {{"kubectl.kubernetes.io/last-applied-configuration", std::string(2000, 'x')},
                            {"kept", "yes"}};
  c.spec.className = "gpushare-egpuclass";
  c.spec.elasticGPUName = "egpu-0b5e4f5a-1111-2222-3333-444455556666";
  c.spec.requests = {{"gpushare.provisioner.elasticgpu.io/gpu-core", "10"},
                     {"gpushare.provisioner.elasticgpu.io/gpu-memory", "4"}};
  c.status.elasticGPUName = c.spec.elasticGPUName;
  c.status.nodeName = "node-1";
  c.status.className = "shares";
  c.status.capacity = {{"core", "10%"}, {"memory", "4Gi"}};
  c.status.conditions = {{"Accepted", "True", "Accepted", "", "2026-01-02T03:04:05Z", 1},
                         {"Bound", "True", "Bound", "", "2026-01-02T03:04:05Z", 1}};
  const auto packed = pack(c);
  EXPECT_LT(packed.size(), 700u);
  EXPECT_EQ(packedUid(packed), c.metadata.uid);
  const auto back = unpack<Claim>(packed);
  c.metadata.annotations.erase("kubectl.kubernetes.io/last-applied-configuration");
  EXPECT_EQ(back.metadata, c.metadata);
  EXPECT_EQ(back.spec, c.spec);
  EXPECT_EQ(back.status, c.status);
}

TEST(PackedTest, CardsAndDevicesComeBackAsTheyWere) {
  Gpu card;
  card.metadata.name = "gpu-1";
  card.metadata.uid = "u";
  card.spec.card.emplace();
  card.spec.card->uuid = "GPU-1";
  card.spec.card->topology.numa = -1;
  card.spec.card->topology.links = {{"GPU-2", "nvlink", 2}};
  card.spec.allocations["d"] = {"egpu-d", "ns/c", 100, int64_t{1} << 40};
  card.status.allocated = v1alpha::AllocatedSummary{100, 5, 1, "10%", "5/10"};
  EXPECT_EQ(unpack<Gpu>(pack(card)).spec, card.spec);
  EXPECT_EQ(unpack<Gpu>(pack(card)).status, card.status);
  Gpu device;
  device.spec.cards = {{"gpu-1", "GPU-1", 100, 200, 50, 100}};
  device.spec.source.kind = v1alpha::SourceKind::gpuShare;
  device.spec.source.gpuNames = {"gpu-1"};
  device.spec.claimRef = v1alpha::ClaimRef{"ns", "c", "u"};
  device.spec.nodeAffinityRequired = core::NodeSelector{{{{}, {{"metadata.name", "In", {"n"}}}}}};
  EXPECT_EQ(unpack<Gpu>(pack(device)).spec, device.spec);
}

}  // namespace
}  // namespace egpu::cache

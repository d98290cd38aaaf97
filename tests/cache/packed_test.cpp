// What a store keeps is exactly what it was given.
#include "controller/cache/packed.h"

#include <gtest/gtest.h>

#include "tests/codec/samples.h"

namespace egpu::cache {
namespace {

template <class T>
T back(const T& object) {
  Vocabulary words;
  std::string text;
  pack(object, words, text);
  T out;
  unpack(text, words, out);
  return out;
}

template <class T>
class EveryPackedKind : public ::testing::Test {};
using Kinds = ::testing::Types<v1alpha::ElasticGPU, v1alpha::ElasticGPUClaim, v1alpha::ElasticGPUClass, core::Node,
                               core::Pod, core::ResourceClaim, core::Namespace>;
TYPED_TEST_SUITE(EveryPackedKind, Kinds);

TYPED_TEST(EveryPackedKind, ComesBackWithEveryField) {
  const auto object = testing::fullSample<TypeParam>();
  EXPECT_TRUE(testing::same(back(object), object));
}

TYPED_TEST(EveryPackedKind, ComesBackIntoWhateverStoodThere) {
  testing::RandomObjects random(3);
  Vocabulary words;
  std::string text;
  TypeParam out;  // used again and again
  for (int i = 0; i < 500; ++i) {
    const auto one = random.next<TypeParam>();
    pack(one, words, text);
    unpack(text, words, out);
    ASSERT_TRUE(testing::same(out, one));
    ASSERT_TRUE(packedHasUid(text, words, one.metadata.uid));
    ASSERT_TRUE(packedNamed(text, words, one.metadata.namespace_, one.metadata.name));
    ASSERT_EQ(packedVersion(text, words), versionOf(one.metadata.resourceVersion));
  }
  EXPECT_GT(words.size(), 0u);
}

TEST(PackedTest, ABoundClaimComesBackAsItWas) {
  v1alpha::ElasticGPUClaim c;
  c.metadata.name = "gpushare-egpuc-1";
  c.metadata.namespace_ = "ns";
  c.metadata.uid = "0b5e4f5a-1111-2222-3333-444455556666";
  c.metadata.resourceVersion = "123456";
  c.status.phase = "Bound";
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
  Vocabulary words;
  std::string text;
  for (int time = 0; time < 3; ++time) pack(c, words, text);
  EXPECT_LT(text.size(), 120u);  // its words are known by then
  EXPECT_TRUE(packedHasUid(text, words, c.metadata.uid));
  EXPECT_FALSE(packedHasUid(text, words, "another"));
  EXPECT_TRUE(packedNamed(text, words, "ns", "gpushare-egpuc-1"));
  EXPECT_FALSE(packedNamed(text, words, "", "gpushare-egpuc-1"));
  EXPECT_FALSE(packedNamed(text, words, "ns", "gpushare-egpuc-2"));
  EXPECT_EQ(packedVersion(text, words), 123456u);
  v1alpha::ElasticGPUClaim back;
  unpack(text, words, back);
  c.metadata.annotations.erase("kubectl.kubernetes.io/last-applied-configuration");
  EXPECT_EQ(back.metadata, c.metadata);
  EXPECT_EQ(back.spec, c.spec);
  EXPECT_EQ(back.status, c.status);
}

TEST(PackedTest, CardsAndDevicesComeBackAsTheyWere) {
  v1alpha::ElasticGPU card;
  card.metadata.name = "gpu-1";
  card.metadata.uid = "u";
  card.spec.card.emplace();
  card.spec.card->uuid = "GPU-1";
  card.spec.card->topology.numa = -1;
  card.spec.card->topology.links = {{"GPU-2", "nvlink", 2}};
  card.spec.allocations["d"] = {"egpu-d", "ns/c", 100, int64_t{1} << 40};
  card.status.allocated = v1alpha::AllocatedSummary{100, 5, 1, "10%", "5/10"};
  EXPECT_EQ(back(card).spec, card.spec);
  EXPECT_EQ(back(card).status, card.status);
  v1alpha::ElasticGPU device;
  device.spec.cards = {{"gpu-1", "GPU-1", 100, 200, 50, 100}};
  device.spec.source.kind = v1alpha::SourceKind::gpuShare;
  device.spec.source.gpuNames = {"gpu-1"};
  device.spec.claimRef = v1alpha::ClaimRef{"ns", "c", "u"};
  device.spec.nodeAffinityRequired = core::NodeSelector{{{{}, {{"metadata.name", "In", {"n"}}}}}};
  EXPECT_EQ(back(device).spec, device.spec);
}

}  // namespace
}  // namespace egpu::cache

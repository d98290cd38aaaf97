// The annotations of gangs: their parsed values, and every mistake.
#include "api/v1alpha/gang.h"

#include <gtest/gtest.h>

namespace egpu::v1alpha {
namespace {

core::StringMap saying(const std::string& name, const std::string& size, const std::string& topology = {}) {
  core::StringMap annotations{{"elasticgpu.io/gang", name}, {"elasticgpu.io/gang-size", size}, {"other", "x"}};
  if (!topology.empty()) annotations["elasticgpu.io/gang-topology"] = topology;
  return annotations;
}

TEST(GangAnnotations, AreRead) {
  EXPECT_EQ(gangOf(saying("train", "8")), (Gang{"train", 8, ""}));
  EXPECT_EQ(gangOf(saying("a.b_c-D", "1024", "topology.kubernetes.io/zone")),
            (Gang{"a.b_c-D", 1024, "topology.kubernetes.io/zone"}));
  EXPECT_EQ(gangOf(saying("train", "2", "rack"))->topology, "rack");
  EXPECT_FALSE(gangOf(core::StringMap{{"other", "x"}}));
  EXPECT_FALSE(gangMistake({{"other", "x"}}));
}

TEST(GangAnnotations, OrAPodGroupIsNamed) {
  EXPECT_FALSE(gangMistake({{"elasticgpu.io/gang-pod-group", "train.v1"}}));
  EXPECT_FALSE(gangOf(core::StringMap{{"elasticgpu.io/gang-pod-group", "train"}}))
      << "what it says stands in the PodGroup";
  auto both = saying("train", "2");
  both["elasticgpu.io/gang-pod-group"] = "train";
  for (const auto& wrong : {both, core::StringMap{{"elasticgpu.io/gang-pod-group", "Train"}}}) {
    const auto mistake = gangMistake(wrong);
    ASSERT_TRUE(mistake);
    EXPECT_EQ(mistake->field, "metadata.annotations[elasticgpu.io/gang-pod-group]");
  }
  core::PodGroup group;
  group.metadata.name = "train";
  EXPECT_FALSE(gangOf(group)) << "basic";
  group.minCount = 1;
  EXPECT_FALSE(gangOf(group)) << "each is enough by itself";
  group.topology = "rack";
  EXPECT_EQ(gangOf(group), (Gang{"train", 1, "rack", true}));
  group.minCount = 3;
  EXPECT_EQ(gangOf(group)->text(), "PodGroup train");
}

TEST(GangAnnotations, MistakesNameTheAnnotation) {
  for (const auto* size : {"", "0", "1", "1025", "08", "+8", "-8", "8 ", "eight", "99999999999999999999"}) {
    const auto mistake = gangMistake(saying("train", size));
    ASSERT_TRUE(mistake) << size;
    EXPECT_EQ(mistake->field, "metadata.annotations[elasticgpu.io/gang-size]");
    EXPECT_EQ(mistake->message, "must be the number of claims in the gang: 2 to 1024");
    EXPECT_FALSE(gangOf(saying("train", size)));
  }
  for (const auto& name : {std::string(), std::string("-a"), std::string("a/b"), std::string(64, 'a')}) {
    const auto mistake = gangMistake(saying(name, "2"));
    ASSERT_TRUE(mistake) << name;
    EXPECT_EQ(mistake->field, "metadata.annotations[elasticgpu.io/gang]");
  }
  for (const auto* label : {"/", "a/", "/a", "A b", "UPPER.io/x"}) EXPECT_TRUE(gangMistake(saying("a", "2", label)));
  EXPECT_TRUE(gangMistake({{"elasticgpu.io/gang", "a"}}));
  EXPECT_TRUE(gangMistake({{"elasticgpu.io/gang-size", "2"}}));
  EXPECT_TRUE(gangMistake({{"elasticgpu.io/gang-topology", "rack"}}));
}

}  // namespace
}  // namespace egpu::v1alpha

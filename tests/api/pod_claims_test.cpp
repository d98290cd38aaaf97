// The claims of a pod in their three states, and those that annotations ask for.
#include "api/v1alpha/pod_claims.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace egpu::v1alpha {
namespace {

using Names = std::vector<std::string>;

/// Returns a pod as the codec reads it: entries of the spec, then those of the status.
core::Pod podOf(std::vector<core::PodResourceClaim> spec, std::vector<core::PodResourceClaim> status = {},
                core::StringMap annotations = {}) {
  core::Pod pod;
  pod.metadata.annotations = std::move(annotations);
  pod.resourceClaims = std::move(spec);
  pod.resourceClaims.insert(pod.resourceClaims.end(), status.begin(), status.end());
  return pod;
}

std::string text(const std::vector<PodClaim>& claims) {
  std::string all;
  for (const auto& each : claims) {
    const auto* state = each.state == PodClaimState::named     ? "named"
                        : each.state == PodClaimState::stamped ? "stamped"
                                                               : "pending";
    all += each.name + " " + state + " " + each.claim + " of " + each.templateName + "; ";
  }
  return all;
}

TEST(PodClaims, AreNamedStampedOrPendingInTheOrderOfTheSpec) {
  const auto pod = podOf({{"b", "", "t"}, {"own", "mine"}, {"a", "", "t"}}, {{"a", "p-a-x7x7x"}});
  EXPECT_EQ(text(podClaims(pod)), "b pending  of t; own named mine of ; a stamped p-a-x7x7x of t; ");
  EXPECT_EQ(claimNames(pod), (Names{"mine", "p-a-x7x7x"}));
  EXPECT_TRUE(hasPodClaims(pod));
  ASSERT_TRUE(pendingClaim(pod));
  EXPECT_EQ(pendingClaim(pod)->name, "b");
  EXPECT_TRUE(usesClaim(pod, "p-a-x7x7x"));
  EXPECT_TRUE(usesClaim(pod, "mine"));
  EXPECT_FALSE(usesClaim(pod, "")) << "a template's entry names no claim";
  EXPECT_FALSE(usesClaim(pod, "b"));
}

TEST(PodClaims, TwoOfOneTemplateAreTwoClaims) {
  const auto pod = podOf({{"a", "", "t"}, {"b", "", "t"}}, {{"b", "p-b"}, {"a", "p-a"}});
  EXPECT_EQ(text(podClaims(pod)), "a stamped p-a of t; b stamped p-b of t; ");
  EXPECT_FALSE(pendingClaim(pod));
}

TEST(PodClaims, AClaimUnderTwoNamesIsUsedOnce) {
  const auto pod = podOf({{"a", "mine"}, {"b", "mine"}});
  EXPECT_EQ(podClaims(pod).size(), 2u);
  EXPECT_EQ(claimNames(pod), (Names{"mine"}));
}

TEST(PodClaims, AnEntryThatNeedsNoClaimIsNeitherPendingNorUsed) {
  const auto pod = podOf({{"a", "", "t"}, {"b", "", "t"}}, {{"a", ""}, {"b", "p-b"}});
  EXPECT_EQ(text(podClaims(pod)), "b stamped p-b of t; ");
  EXPECT_FALSE(pendingClaim(pod));
  EXPECT_EQ(claimNames(pod), (Names{"p-b"}));
  EXPECT_EQ(text(podClaimsOnceAdmitted(podOf({{"a", "", "t"}}, {{"a", ""}}, {{"egpuct.elasticgpu.io/a", "t"}}))), "");
}

TEST(PodClaims, AStatusBeforeItsSpecIsStillItsTemplates) {
  core::Pod pod;  // a decoder does not guarantee the order of the list
  pod.resourceClaims = {{"a", "p-a"}, {"a", "", "t"}};
  EXPECT_EQ(text(podClaims(pod)), "a stamped p-a of t; ");
}

TEST(PodClaims, AnnotationsCountWhereNoEntryStandsForThem) {
  const core::StringMap annotations = {{"egpuc.elasticgpu.io/main", "mine"},  {"egpuc.elasticgpu.io/side", "alone"},
                                       {"egpuct.elasticgpu.io/a", "t"},       {"egpu.elasticgpu.io/gpu", "1"},
                                       {"egpucx.elasticgpu.io/other", "not"}, {"egpuc.example.com/gpu", "not"}};
  const auto before = podOf({}, {}, annotations);
  EXPECT_FALSE(hasPodClaims(before));
  EXPECT_EQ(annotatedClaims(before), (std::set<std::string>{"alone", "mine"}));
  EXPECT_EQ(onlyAnnotatedClaims(before), annotatedClaims(before));
  EXPECT_EQ(text(podClaimsOnceAdmitted(before)),
            "main named mine of ; side named alone of ; a pending  of t; egpu pending  of egpu-amounts.gpu-1; ");
  const auto after =
      podOf({{"main", "mine"}, {"a", "", "t"}, {"egpu", "", "egpu-amounts.gpu-1"}}, {{"a", "p-a"}}, annotations);
  EXPECT_EQ(onlyAnnotatedClaims(after), (std::set<std::string>{"alone"}));
  EXPECT_EQ(text(podClaimsOnceAdmitted(after)),
            "main named mine of ; a stamped p-a of t; egpu pending  of egpu-amounts.gpu-1; side named alone of ; ");
}

}  // namespace
}  // namespace egpu::v1alpha

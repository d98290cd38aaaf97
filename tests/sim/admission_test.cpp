#include "controller/standalone/sim/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/codec/codec.h"

namespace egpu::sim {
namespace {

core::Pod pod(const std::string& json) {
  auto p = codec::decode<core::Pod>(json);
  EXPECT_TRUE(p.ok()) << p.status().str();
  return p.ok() ? *p : core::Pod{};
}

const char* const kTwoContainers =
    R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"egpuc.elasticgpu.io/test1":"c1"}},)"
    R"("spec":{"initContainers":[{"name":"i","image":"x"}],"containers":[{"name":"a","image":"x","command":[)"
    R"("sleep"]},{"name":"b","image":"x"}]}})";

TEST(Admission, AnnotationBecomesResourceClaimGateAndContainerClaims) {
  std::string json = kTwoContainers;
  ASSERT_TRUE(admitPod("pods", "CREATE", json, {}).ok());
  const auto p = pod(json);
  ASSERT_EQ(p.resourceClaims.size(), 1U);
  EXPECT_EQ(p.resourceClaims[0], (core::PodResourceClaim{"test1", "c1"}));
  EXPECT_EQ(p.schedulingGates, std::vector<std::string>{"elasticgpu.io/claims"});
  for (const auto* list : {&p.initContainers, &p.containers})
    for (const auto& c : *list) EXPECT_EQ(c.resourceClaims, std::vector<std::string>{"test1"}) << c.name;
  EXPECT_NE(json.find("sleep"), std::string::npos);  // unknown fields are preserved
}

TEST(Admission, APodThatHasItsNodeAlreadyGetsNoGate) {
  std::string json = kTwoContainers;
  json.replace(json.find("\"spec\":{"), 8, "\"spec\":{\"nodeName\":\"n1\",");
  ASSERT_TRUE(admitPod("pods", "CREATE", json, {}).ok());
  EXPECT_EQ(pod(json).resourceClaims.size(), 1U);
  EXPECT_TRUE(pod(json).schedulingGates.empty());
}

TEST(Admission, NameOfAContainerGivesItToThatOneOnly) {
  for (const std::string name : {"b", "i"}) {
    std::string json = kTwoContainers;
    json.replace(json.find("test1"), 5, name);
    ASSERT_TRUE(admitPod("pods", "CREATE", json, {}).ok());
    const auto p = pod(json);
    for (const auto* list : {&p.initContainers, &p.containers})
      for (const auto& c : *list) EXPECT_EQ(c.resourceClaims.size(), c.name == name ? 1U : 0U) << c.name;
  }
}

TEST(Admission, Repeating_ItChangesNothing) {
  std::string once = kTwoContainers;
  ASSERT_TRUE(admitPod("pods", "CREATE", once, {}).ok());
  std::string twice = once;
  ASSERT_TRUE(admitPod("pods", "CREATE", twice, {}).ok());
  EXPECT_EQ(once, twice);
}

TEST(Admission, TemplatesBecomeResourceClaimsToo) {
  std::string json = R"({"kind":"Pod","metadata":{"name":"p","annotations":{"egpuct.elasticgpu.io/a":"tenth",)"
                     R"("egpuc.elasticgpu.io/x":"c1"}},)"
                     R"("spec":{"containers":[{"name":"a"},{"name":"b"}]}})";
  ASSERT_TRUE(admitPod("pods", "CREATE", json, {}).ok());
  const auto p = *codec::decode<core::Pod>(json);
  EXPECT_EQ(p.resourceClaims, (std::vector<core::PodResourceClaim>{{"x", "c1"}, {"a", "", "tenth"}}));
  EXPECT_EQ(p.containers[0].resourceClaims, (std::vector<std::string>{"x", "a"}));
  EXPECT_EQ(p.containers[1].resourceClaims, (std::vector<std::string>{"x"}));
  EXPECT_EQ(p.schedulingGates, (std::vector<std::string>{"elasticgpu.io/claims"}));
  std::string changed = json;
  changed.replace(changed.find("\"tenth\""), 7, "\"other\"");
  const auto frozen = admitPod("pods", "UPDATE", changed, json);
  EXPECT_EQ(frozen.message().rfind("metadata.annotations[egpuct.elasticgpu.io/…]: the claims of a pod are", 0), 0u);
  for (const auto& [annotations, message] :
       {std::pair{R"("egpuct.elasticgpu.io/A":"t")",
                  "metadata.annotations[egpuct.elasticgpu.io/A]: \"A\" must be a DNS"},
        {R"("egpuct.elasticgpu.io/a":"T")",
         "metadata.annotations[egpuct.elasticgpu.io/a]: \"T\" is not the name of an "
         "ElasticGPUClaimTemplate"},
        {R"("egpuct.elasticgpu.io/a":"t","egpuc.elasticgpu.io/a":"c")",
         "spec.resourceClaims: entry \"a\" does not reference the template \"t\""}}) {
    std::string bad = std::string(R"({"kind":"Pod","metadata":{"name":"p","annotations":{)") + annotations +
                      R"(}},"spec":{"containers":[{"name":"a"}]}})";
    const auto refused = admitPod("pods", "CREATE", bad, {});
    EXPECT_EQ(refused.message().rfind(message, 0), 0u) << refused.message();
  }
}

TEST(Admission, AmountsBecomeATemplateThatSpellsThem) {
  const auto of = [](const std::string& amounts, const std::string& spec) {
    return R"({"kind":"Pod","metadata":{"name":"p","annotations":{)" + amounts + R"(}},"spec":{)" + spec + "}}";
  };
  const std::string amounts = R"("egpu.elasticgpu.io/gpu-core":"10","egpu.elasticgpu.io/class":"share")";
  const std::string two = R"("initContainers":[{"name":"i"}],"containers":[{"name":"a"},{"name":"b"}])";
  auto json = of(amounts + R"(,"egpuc.elasticgpu.io/a":"c1")", two);
  ASSERT_TRUE(admitPod("pods", "CREATE", json, {}).ok());
  const auto p = pod(json);
  EXPECT_EQ(p.resourceClaims,
            (std::vector<core::PodResourceClaim>{{"a", "c1"}, {"egpu", "", "egpu-amounts.core-10.class-share"}}));
  EXPECT_EQ(p.containers[0].resourceClaims, (std::vector<std::string>{"a", "egpu"}));
  EXPECT_EQ(p.containers[1].resourceClaims, (std::vector<std::string>{"egpu"}));
  EXPECT_EQ(p.initContainers[0].resourceClaims, (std::vector<std::string>{"egpu"}));
  EXPECT_EQ(p.schedulingGates, std::vector<std::string>{"elasticgpu.io/claims"});
  auto twice = json;
  ASSERT_TRUE(admitPod("pods", "CREATE", twice, {}).ok());
  EXPECT_EQ(twice, json);
  auto changed = json;
  changed.replace(changed.find("\"10\""), 4, "\"20\"");
  EXPECT_EQ(
      admitPod("pods", "UPDATE", changed, json).message().rfind("metadata.annotations[egpu.elasticgpu.io/…]: ", 0), 0u);
  for (const auto* bad : {R"("egpu.elasticgpu.io/gpu-core":"10 %")", R"("egpu.elasticgpu.io/class":"share")",
                          R"("egpu.elasticgpu.io/gpu":"1","egpu.elasticgpu.io/other":"1")"}) {
    auto unreadable = of(bad, two);
    ASSERT_TRUE(admitPod("pods", "CREATE", unreadable, {}).ok());
    EXPECT_EQ(pod(unreadable).resourceClaims.at(0).templateName, "egpu-amounts.unreadable") << bad;
  }
  auto taken = of(amounts, R"("resourceClaims":[{"name":"egpu","resourceClaimName":"x"}],"containers":[{"name":"a"}])");
  EXPECT_EQ(admitPod("pods", "CREATE", taken, {}).message(),
            "spec.resourceClaims: entry \"egpu\" does not reference the template "
            "\"egpu-amounts.core-10.class-share\" of the annotation of that name; rename the entry or the annotation");
}

TEST(Admission, PodsWithoutAnnotationAndOtherResourcesAreLeftAlone) {
  std::string json = R"({"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a"}]}})";
  const std::string before = json;
  ASSERT_TRUE(admitPod("pods", "CREATE", json, {}).ok());
  EXPECT_EQ(json, before);
  std::string other = kTwoContainers;
  ASSERT_TRUE(admitPod("nodes", "CREATE", other, {}).ok());
  EXPECT_EQ(other, kTwoContainers);
}

TEST(Admission, BadNamesAndClaimsAreRefusedByField) {
  for (const auto& [key, claim] : {std::pair{"Test1", "c1"}, {"a.b", "c1"}, {"test1", "Not A Claim"}, {"test1", ""}}) {
    std::string json = std::string(R"({"kind":"Pod","metadata":{"name":"p","annotations":{"egpuc.elasticgpu.io/)") +
                       key + R"(":")" + claim + R"("}},"spec":{"containers":[{"name":"a"}]}})";
    const auto s = admitPod("pods", "CREATE", json, {});
    EXPECT_EQ(s.code(), base::Code::invalid) << key;
    EXPECT_EQ(s.message().rfind("metadata.annotations[egpuc.elasticgpu.io/" + std::string(key) + "]", 0), 0U)
        << s.message();
  }
}

TEST(Admission, ANameTakenBySomethingElseIsRefused) {
  std::string json =
      R"({"kind":"Pod","metadata":{"name":"p","annotations":{"egpuc.elasticgpu.io/x":"c1"}},)"
      R"("spec":{"resourceClaims":[{"name":"x","resourceClaimName":"other"}],"containers":[{"name":"a"}]}})";
  EXPECT_EQ(admitPod("pods", "CREATE", json, {}).code(), base::Code::invalid);
}

/// A pod whose init container and containers have these resources.
std::string asking(const std::string& init, const std::string& main) {
  return R"({"kind":"Pod","metadata":{"name":"p","annotations":{"egpuc.elasticgpu.io/x":"c1"}},"spec":{)"
         R"("initContainers":)"
         R"([{"name":"i","resources":{)" +
         init + R"(}}],"containers":[{"name":"a"},{"name":"b","resources":{)" + main + R"(}}]}})";
}

TEST(Admission, AGpuAmongAContainersOwnResourcesIsRefusedWithWhatToWrite) {
  const struct {
    std::string init, main;
    std::vector<std::string> words;
  } cases[] = {
      {"",
       R"("limits":{"elasticgpu.io/gpu-core":10})",
       {"container \"b\": resources.limits[elasticgpu.io/gpu-core]", "{elasticgpu.io/gpu-core: 10}",
        "{egpuc.elasticgpu.io/b: <claim>}"}},
      {"",
       R"("requests":{"elasticgpu.io/gpu-core":"10"})",
       {"container \"b\": resources.requests[elasticgpu.io/gpu-core]"}},
      {"",
       R"("limits":{"gpushare.provisioner.elasticgpu.io/gpu-memory":"4Gi",)"
       R"("gpushare.provisioner.elasticgpu.io/gpu-core":10,"cpu":1})",
       {"{gpushare.provisioner.elasticgpu.io/gpu-core: 10, gpushare.provisioner.elasticgpu.io/gpu-memory: 4Gi}"}},
      {R"("limits":{"elasticgpu.io/gpu":1})", R"("limits":{"elasticgpu.io/gpu":2})", {"container \"i\"", "gpu: 1"}},
      {R"("requests":{"elasticgpu.io/gpu":1})",
       R"("limits":{"elasticgpu.io/gpu":2})",
       {"container \"b\": resources.limits"}},
  };
  for (const auto& c : cases) {
    std::string json = asking(c.init, c.main);
    const auto s = admitPod("pods", "CREATE", json, {});
    EXPECT_EQ(s.code(), base::Code::invalid) << json;
    for (const auto& word : c.words) EXPECT_NE(s.message().find(word), std::string::npos) << s.message();
  }
}

TEST(Admission, AGpuAmongAPodsOwnResourcesIsRefusedAsAmongAContainers) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("resources":{"limits":{"elasticgpu.io/gpu-core":10,"cpu":1}})",
       "spec.resources.limits[elasticgpu.io/gpu-core]: GPUs can't be requested here; create an "
       "ElasticGPUClaim with spec.resources.requests: {elasticgpu.io/gpu-core: 10}, and reference it in the pod's "
       "metadata.annotations: {egpuc.elasticgpu.io/<container>: <claim>}"},
      {R"("resources":{"requests":{"x.elasticgpu.io/gpu-core":"10"}})", "spec.resources.requests[x.elasticgpu.io/gpu-"},
      {R"("overhead":{"elasticgpu.io/gpu-core":"10"})", "spec.overhead[elasticgpu.io/gpu-core]: "},
      {R"("resources":{"limits":{"cpu":1}},"overhead":{"cpu":"1"})", ""},
      {R"("resources":null,"overhead":null)", ""},
  };
  for (const auto& [fields, message] : cases) {
    std::string json = R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"}],)" + std::string(fields) + "}}";
    const auto s = admitPod("pods", "CREATE", json, {});
    EXPECT_EQ(s.ok(), std::string_view(message).empty()) << fields << " → " << s.message();
    EXPECT_EQ(s.message().rfind(message, 0), 0U) << s.message();
  }
}

TEST(Admission, OtherResourcesAndPodsThatStandAlreadyAreTaken) {
  for (const std::string main : {R"("limits":{"nvidia.com/gpu":1,"cpu":"1"})", R"("limits":{"notelasticgpu.io/gpu":1})",
                                 R"("limits":{"gpu-core":1})", R"("limits":{"elasticgpu.io.example.com/gpu":1})",
                                 R"("limits":null)", R"("claims":[{"name":"x"}])"}) {
    std::string json = asking("", main);
    EXPECT_TRUE(admitPod("pods", "CREATE", json, {}).ok()) << json;
  }
  std::string before = asking("", R"("limits":{"elasticgpu.io/gpu-core":10})"), same = before;
  EXPECT_TRUE(admitPod("pods", "UPDATE", same, before).ok());
}

TEST(Admission, AnnotationsAreFrozenAfterwards) {
  std::string before = kTwoContainers, same = kTwoContainers, changed = kTwoContainers;
  changed.replace(changed.find("\"c1\""), 4, "\"c2\"");
  EXPECT_TRUE(admitPod("pods", "UPDATE", same, before).ok());
  EXPECT_EQ(admitPod("pods", "UPDATE", changed, before).code(), base::Code::invalid);
}

}  // namespace
}  // namespace egpu::sim

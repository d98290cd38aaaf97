// Steps of the shares of qGPU (controller/scheduler/steps/share_steps.h).
#include "controller/scheduler/steps/share_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace egpu::scheduler {
namespace {

using ::testing::HasSubstr;

const std::string kQgpu = "qgpu.provisioner.elasticgpu.io/";

v1alpha::ElasticGPUClass qgpuClass() {
  v1alpha::ElasticGPUClass cls;
  cls.metadata.name = "qgpu";
  cls.provisioner = "qgpu.provisioner.elasticgpu.io";
  return cls;
}

std::variant<Request, Refusal> make(const core::StringMap& requests, const v1alpha::ElasticGPUClass& cls) {
  v1alpha::ElasticGPUClaim claim;
  claim.spec.requests = requests;
  return makeRequest(claim, cls);
}

struct Between {
  core::StringMap requests;
  std::string key, message;
};

TEST(ShareStepsTest, AmountsBetweenStepsAreRefusedWithTheNearest) {
  const Between cases[] = {
      {{{kQgpu + "gpu-core", "12"}, {kQgpu + "gpu-memory", "4"}}, kQgpu + "gpu-core", "nearest: 10 or 15"},
      {{{kQgpu + "gpu-core", "3"}, {kQgpu + "gpu-memory", "4"}}, kQgpu + "gpu-core", "nearest: 5"},
      {{{kQgpu + "gpu-core", "98"}, {kQgpu + "gpu-memory", "4"}}, kQgpu + "gpu-core", "nearest: 95 or 100"},
      {{{"elasticgpu.io/gpu-core", "7"}, {kQgpu + "gpu-memory", "4"}}, "elasticgpu.io/gpu-core", "nearest: 5 or 10"},
      {{{kQgpu + "gpu-core", "10"}, {kQgpu + "gpu-memory", "1536Mi"}}, kQgpu + "gpu-memory", "nearest: 1Gi or 2Gi"},
      {{{kQgpu + "gpu-core", "10"}, {kQgpu + "gpu-memory", "512Mi"}}, kQgpu + "gpu-memory", "nearest: 1Gi"},
      {{{kQgpu + "gpu-core", "10"}}, kQgpu + "gpu-core", "add qgpu.provisioner.elasticgpu.io/gpu-memory: 4Gi"},
      {{{kQgpu + "tflops", "10"}, {kQgpu + "gpu-memory", "4"}}, kQgpu + "tflops", "request gpu-core"},
  };
  for (const auto& each : cases) {
    const auto made = make(each.requests, qgpuClass());
    ASSERT_TRUE(std::holds_alternative<Refusal>(made)) << each.message;
    const auto& refusal = std::get<Refusal>(made);
    EXPECT_EQ(refusal.reason, "NotRepresentable");
    EXPECT_EQ(refusal.field, "spec.resources.requests[" + each.key + "]");
    EXPECT_THAT(refusal.message, HasSubstr(each.message));
  }
}

TEST(ShareStepsTest, StepsAreAcceptedAndLimitTheClaimsOfACard) {
  auto cls = qgpuClass();
  const core::StringMap share{{kQgpu + "gpu-core", "15"}, {kQgpu + "gpu-memory", "4"}};
  auto made = make(share, cls);
  ASSERT_TRUE(std::holds_alternative<Request>(made)) << std::get<Refusal>(made).message;
  EXPECT_EQ(std::get<Request>(made).maxClaimsPerCard, 16);
  for (const auto& [given, effective] : {std::pair("4", 4), std::pair("100", 16), std::pair("0", 16)}) {
    cls.parameters["maxClaimsPerCard"] = given;
    made = make(share, cls);
    ASSERT_TRUE(std::holds_alternative<Request>(made));
    EXPECT_EQ(std::get<Request>(made).maxClaimsPerCard, effective) << given;
  }
}

TEST(ShareStepsTest, WholeCardsAndOtherProvisionersHaveNoSteps) {
  const auto whole = make({{kQgpu + "gpu", "1"}}, qgpuClass());
  ASSERT_TRUE(std::holds_alternative<Request>(whole));
  EXPECT_EQ(std::get<Request>(whole).maxClaimsPerCard, 0);
  auto other = qgpuClass();
  other.provisioner = "gpushare.provisioner.elasticgpu.io";
  EXPECT_TRUE(std::holds_alternative<Request>(make({{"elasticgpu.io/gpu-core", "7"}}, other)));
}

TEST(ShareStepsTest, AClassCannotDivideTotals) {
  auto cls = qgpuClass();
  cls.parameters["split"] = "evenly";
  const auto refusals = checkParameters(cls);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].field, "parameters[split]");
  cls.parameters["split"] = "none";
  EXPECT_TRUE(checkParameters(cls).empty());
}

}  // namespace
}  // namespace egpu::scheduler

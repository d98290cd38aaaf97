#include "controller/whatif/question/question_body.h"

#include <gtest/gtest.h>

#include "controller/codec/codec.h"

namespace egpu::whatif {
namespace {

using Kind = AskedStep::Kind;

base::Result<Document> ask(const std::string& yaml) {
  const auto json = codec::yamlToJson(yaml);
  EXPECT_TRUE(json.ok()) << yaml;
  return decodeQuestion(*json);
}

TEST(QuestionTest, AClaimAloneIsAQuestion) {
  const auto q = ask(R"(
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: a, namespace: team}
spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 30, elasticgpu.io/gpu-memory: 8Gi}}})");
  ASSERT_TRUE(q.ok()) << q.status().str();
  ASSERT_TRUE(q->claim.has_value());
  EXPECT_EQ(q->claim->metadata.namespace_, "team");
  EXPECT_EQ(q->claim->spec.className, "share");
  EXPECT_EQ(q->claim->spec.requests.at("elasticgpu.io/gpu-core"), "30");
  EXPECT_TRUE(q->steps.empty());
}

TEST(QuestionTest, StepsRetainTheirOrderAndTheirAmounts) {
  const auto q = ask(R"(
claim: {spec: {egpuClassName: share}}
steps:
- drain: n1
- add: {name: new, count: 2, like: n2}
- add: {cards: [{model: T4, count: 2, memory: 16Gi, tflops: 65}, {memory: 24Gi, tflops: 30.3}]}
- release: team/a
- resize: {claim: b, requests: {gpu-core: 40, gpu-memory: 8Gi}}
- create: {metadata: {name: c}, spec: {egpuClassName: share}})");
  ASSERT_TRUE(q.ok()) << q.status().str();
  ASSERT_EQ(q->steps.size(), 6u);
  EXPECT_EQ(q->steps[0].kind, Kind::drain);
  EXPECT_EQ(q->steps[0].name, "n1");
  EXPECT_EQ(q->steps[1].count, 2);
  EXPECT_EQ(q->steps[1].like, "n2");
  ASSERT_EQ(q->steps[2].cards.size(), 3u);
  EXPECT_EQ(q->steps[2].name, "new");
  EXPECT_EQ(q->steps[2].cards[1].model, "T4");
  EXPECT_EQ(q->steps[2].cards[1].index, 1);
  EXPECT_EQ(q->steps[2].cards[1].milliTflops, 65'000);
  EXPECT_EQ(q->steps[2].cards[2].milliTflops, 30'300);
  EXPECT_EQ(q->steps[2].cards[1].core, 1000);
  EXPECT_EQ(q->steps[2].cards[2].memory, int64_t{24} << 30);
  EXPECT_EQ(q->steps[3].name, "team/a");
  EXPECT_EQ(q->steps[4].requests.at("gpu-core"), "40");
  EXPECT_EQ(q->steps[4].requests.at("gpu-memory"), "8Gi");
  EXPECT_EQ(q->steps[5].claim->metadata.name, "c");
  const auto nothing = ask("");
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->claim);
}

TEST(QuestionTest, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "must be an ElasticGPUClaim, a Pod, or a mapping"},
      {"stepps: []", "stepps: unknown; known are claim, pod, steps"},
      {"steps: {drain: n1}", "steps: must be a list"},
      {"steps: [{drian: n1}]", "steps[0].drian: unknown; known are drain"},
      {"steps: [{drain: n1, release: c}]", "steps[0]: must have one of"},
      {"steps: [{drain: 7}]", "steps[0].drain: must be the name of a node"},
      {"steps: [{release: ''}]", "steps[0].release: must be a claim's namespace/name"},
      {"steps: [{add: {name: x}}]", "steps[0].add: give one of like"},
      {"steps: [{add: {like: n1, count: 0}}]", "steps[0].add.count: must be a whole number from 1 to 100000"},
      {"steps: [{add: {like: n1, cuont: 1}}]", "steps[0].add.cuont: unknown; known are name, count, like, cards"},
      {"steps: [{add: {cards: []}}]", "steps[0].add.cards: must be a list such as"},
      {"steps: [{add: {cards: [{model: T4}]}}]", "steps[0].add.cards[0].memory: must be an amount of memory"},
      {"steps: [{add: {cards: [{memory: 2Pi}]}}]", "steps[0].add.cards[0].memory"},
      {"steps: [{add: {cards: [{memory: 1Gi, count: 2000}]}}]", "steps[0].add.cards[0].count"},
      {"steps: [{resize: {claim: c}}]", "steps[0].resize.requests: is missing"},
      {"steps: [{resize: {requests: {}}}]", "steps[0].resize.claim: is missing"},
      {"steps: [{resize: {claim: c, requests: {gpu-core: [1]}}}]",
       "steps[0].resize.requests.gpu-core: must be a quantity"},
      {"steps: [{create: {spec: {class: x}}}]", "steps[0].create.spec.class: unknown; known are egpuClassName"},
      {"{kind: Pod}", "spec: is missing"},
      {"{pod: {spec: {}}, claim: {spec: {}}}", "claim: give one of claim and pod"},
      {"{apiVersion: v1, spec: {}}", "apiVersion: must be elasticgpu.io/v1alpha"},
      {"{kind: ElasticGPUClaim}", "spec: is missing"},
      {"spec: {egpuClassName: 7}", "egpuClassName"},
      {"spec: {firstAvailable: [{name: a, model: T4}]}",
       "spec.firstAvailable[0].model: unknown; known are name, models, resources"},
      {"spec: {resources: {limits: {}}}", "spec.resources.limits: unknown; known are requests"},
  };
  for (const auto& [yaml, expected] : cases) {
    const auto q = ask(yaml);
    ASSERT_FALSE(q.ok()) << yaml;
    EXPECT_EQ(q.status().code(), base::Code::invalid) << yaml;
    EXPECT_NE(q.status().message().find(expected), std::string::npos) << yaml << " → " << q.status().message();
  }
  EXPECT_FALSE(decodeQuestion("{").ok());
  EXPECT_FALSE(decodeQuestion("{\"steps\":[{\"add\":{\"count\":18446744073709551615,\"like\":\"n\"}}]}").ok());
}

}  // namespace
}  // namespace egpu::whatif

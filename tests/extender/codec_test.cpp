// Messages of kube-scheduler, byte for byte as its Go types encode them, and invalid ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/codec/scheduling/extender.h"

namespace egpu::codec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Views = std::vector<std::string_view>;

constexpr const char* kPod = R"({"metadata":{"name":"p","namespace":"team","uid":"u-1"},"spec":{"containers":[]}})";

std::string args(const std::string& rest) { return R"({"Pod":)" + std::string(kPod) + "," + rest + "}"; }
std::string whyNot(const std::string& body) { return decodeExtenderArgs(body).status().message(); }

TEST(ExtenderCodec, NodeNamesAsACachingExtenderGetsThem) {
  const auto got = decodeExtenderArgs(args(R"("Nodes":null,"NodeNames":["n1","n-2.example.com"])"));
  ASSERT_TRUE(got.ok()) << got.status().str();
  EXPECT_EQ(got->pod.metadata.name, "p");
  EXPECT_EQ(got->pod.metadata.namespace_, "team");
  EXPECT_FALSE(got->objects);
  EXPECT_EQ(got->names, (Views{"n1", "n-2.example.com"}));
  EXPECT_EQ(encodeFilterResult(*got),
            R"({"NodeNames":["n1","n-2.example.com"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""})");
  const std::vector<uint8_t> fate = {0, 1};
  EXPECT_EQ(encodeFilterResult(*got, fate, {{"too \"full\"", true}}),
            R"({"NodeNames":["n1"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"n-2.example.com":"too \"full\""},)"
            R"("Error":""})");
  EXPECT_EQ(
      encodeFilterResult(*got, fate, {{"full", false}}),
      R"({"NodeNames":["n1"],"FailedNodes":{"n-2.example.com":"full"},"FailedAndUnresolvableNodes":{},"Error":""})");
  const std::vector<uint8_t> scores = {10, 7};
  EXPECT_EQ(encodeHostPriorities(*got, scores), R"([{"Host":"n1","Score":10},{"Host":"n-2.example.com","Score":7}])");
}

TEST(ExtenderCodec, WholeNodesComeBackAsTheyWereSent) {
  const std::string first = R"({"metadata":{"labels":{"name":"n1"},"name":"n1"},"status":{"x":[1,{"y":null}]}})";
  const std::string second = R"({"kind":"Node","metadata":{"name":"n2","annotations":{"a":"\"n2\" \\ é"}}})";
  const auto got = decodeExtenderArgs(
      args(R"("Nodes":{"metadata":{},"items":[ )" + first + " , " + second + R"( ]},"NodeNames":null)"));
  ASSERT_TRUE(got.ok()) << got.status().str();
  EXPECT_TRUE(got->objects);
  EXPECT_EQ(got->names, (Views{"n1", "n2"}));
  const std::vector<uint8_t> fate = {1, 0};
  EXPECT_EQ(encodeFilterResult(*got, fate, {{"full", true}}),
            R"({"Nodes":{"items":[)" + second +
                R"(]},"FailedNodes":{},"FailedAndUnresolvableNodes":{"n1":"full"},"Error":""})");
  const std::vector<uint8_t> scores = {0, 9};
  EXPECT_EQ(encodeHostPriorities(*got, scores), R"([{"Host":"n1","Score":0},{"Host":"n2","Score":9}])");
}

TEST(ExtenderCodec, FieldsInAnyCaseAndOrderAndUnknownOnesAreTakenAsGoTakesThem) {
  const auto got = decodeExtenderArgs(R"({"nodenames":["n1"],"new":[{}],"pod":)" + std::string(kPod) + "}");
  ASSERT_TRUE(got.ok()) << got.status().str();
  EXPECT_EQ(got->names, Views{"n1"});
  EXPECT_TRUE(decodeExtenderArgs(args(R"("NodeNames":[])"))->names.empty());
}

TEST(ExtenderCodec, WhatIsWrongIsNamed) {
  EXPECT_THAT(whyNot(R"({"NodeNames":["n1"]})"), HasSubstr("Pod: is missing"));
  EXPECT_THAT(whyNot(R"({"Pod":null,"NodeNames":["n1"]})"), HasSubstr("Pod: is missing"));
  EXPECT_THAT(whyNot(R"({"Pod":{"metadata":{"name":"p"}},"NodeNames":["n1"]})"),
              HasSubstr("Pod.metadata.namespace: is missing"));
  EXPECT_THAT(whyNot(R"({"Pod":{"metadata":{"namespace":"x"}},"NodeNames":["n1"]})"),
              HasSubstr("Pod.metadata.name: is missing"));
  EXPECT_THAT(whyNot(R"({"Pod":{"metadata":{"name":5}},"NodeNames":[]})"), HasSubstr("Pod: metadata.name"));
  EXPECT_THAT(whyNot(args(R"("Nodes":null)")), HasSubstr("NodeNames: is missing"));
  EXPECT_THAT(whyNot(args(R"("NodeNames":{})")), HasSubstr("NodeNames: must be an array"));
  EXPECT_THAT(whyNot(args(R"("NodeNames":["ok",7])")), HasSubstr("NodeNames[1]: must be the name of a node"));
  EXPECT_THAT(whyNot(args(R"("NodeNames":["a\"b"])")), HasSubstr("NodeNames[0]: must be the name of a node"));
  EXPECT_THAT(whyNot(args(R"("NodeNames":[""])")), HasSubstr("NodeNames[0]"));
  EXPECT_THAT(whyNot(args(R"("NodeNames":[")" + std::string(254, 'a') + R"("])")), HasSubstr("NodeNames[0]"));
  EXPECT_THAT(whyNot(args(R"("Nodes":{"items":[{"metadata":{}}]})")),
              HasSubstr("Nodes.items[0].metadata.name: is missing"));
  EXPECT_THAT(whyNot(args(R"("Nodes":{"items":[{"metadata":{"name":"n1"}}]},"NodeNames":["n1"])")),
              HasSubstr("NodeNames: must be null where Nodes are given"));
  EXPECT_THAT(whyNot("[]"), HasSubstr("must be an object"));
  for (const auto* body : {"", "nothing", "{", R"({"Pod":{)", "null", "7"})
    EXPECT_EQ(decodeExtenderArgs(body).status().code(), base::Code::malformed) << body;
  EXPECT_FALSE(decodeExtenderArgs(args(R"("NodeNames":[]} {)")).ok());
}

TEST(ExtenderCodec, Bindings) {
  const auto got = decodeExtenderBindingArgs(R"({"PodName":"p","PodNamespace":"team","PodUID":"u-1","Node":"n1"})");
  ASSERT_TRUE(got.ok()) << got.status().str();
  EXPECT_EQ(got->podName + got->podNamespace + got->podUid + got->node, "pteamu-1n1");
  EXPECT_EQ(encodeBindingResult(""), R"({"Error":""})");
  EXPECT_EQ(encodeBindingResult("no \"room\""), R"({"Error":"no \"room\""})");
  const auto why = [](const char* body) { return decodeExtenderBindingArgs(body).status().message(); };
  EXPECT_THAT(why(R"({"PodNamespace":"team","Node":"n1"})"), HasSubstr("PodName: must be"));
  EXPECT_THAT(why(R"({"PodName":"p/../q","PodNamespace":"team","Node":"n1"})"), HasSubstr("PodName: must be"));
  EXPECT_THAT(why(R"({"PodName":"p","PodNamespace":"","Node":"n1"})"), HasSubstr("PodNamespace: must be"));
  EXPECT_THAT(why(R"({"PodName":"p","PodNamespace":"team","Node":"a b"})"), HasSubstr("Node: must be"));
  EXPECT_THAT(why(R"({"PodName":1,"PodNamespace":"team","Node":"n1"})"), HasSubstr("PodName: must be a string"));
}

TEST(ExtenderCodec, VictimsByUidAndWhole) {
  const auto meta = decodeExtenderPreemptionArgs(
      args(R"("NodeNameToVictims":null,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],)"
           R"("NumPDBViolations":2},"n2":null})"));
  ASSERT_TRUE(meta.ok()) << meta.status().str();
  ASSERT_EQ(meta->nodes.size(), 2u);
  EXPECT_EQ(meta->nodes[0].node, "n1");
  EXPECT_THAT(meta->nodes[0].pods, ElementsAre("a", "b"));
  EXPECT_EQ(meta->nodes[0].pdbViolations, 2);
  EXPECT_TRUE(meta->nodes[1].pods.empty());
  EXPECT_EQ(encodePreemptionResult(meta->nodes),
            R"({"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":2},)"
            R"("n2":{"Pods":[],"NumPDBViolations":0}}})");
  const auto whole = decodeExtenderPreemptionArgs(args(
      R"("NodeNameToVictims":{"n1":{"Pods":[{"metadata":{"name":"v","uid":"a"},"spec":{}}],"NumPDBViolations":0}})"));
  ASSERT_TRUE(whole.ok()) << whole.status().str();
  ASSERT_EQ(whole->nodes.size(), 1u);
  EXPECT_THAT(whole->nodes[0].pods, ElementsAre("a"));
  const auto why = [](const std::string& rest) { return decodeExtenderPreemptionArgs(args(rest)).status().message(); };
  EXPECT_THAT(why(R"("NodeNameToMetaVictims":{"n1":{"Pods":[{}]}})"),
              HasSubstr("NodeNameToMetaVictims[n1].Pods[0].UID: is missing"));
  EXPECT_THAT(why(R"("NodeNameToVictims":{"n1":{"Pods":[{"metadata":{}}]}})"), HasSubstr("Pods[0].metadata.uid"));
  EXPECT_THAT(why(R"("NodeNameToMetaVictims":{"n1":{"Pods":7}})"), HasSubstr("Pods: must be an array"));
  EXPECT_THAT(why(R"("NodeNameToMetaVictims":{"a b":{}})"), HasSubstr("must be the name of a node"));
}

TEST(ExtenderCodec, TenThousandNodes) {
  std::string names;
  for (int i = 0; i < 10'000; ++i) names += (i > 0 ? ",\"node-" : "\"node-") + std::to_string(i) + "\"";
  const auto got = decodeExtenderArgs(args(R"("NodeNames":[)" + names + "]"));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->names.size(), 10'000u);
  EXPECT_EQ(got->names.back(), "node-9999");
  EXPECT_EQ(encodeFilterResult(*got),
            R"({"NodeNames":[)" + names + R"(],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""})");
}

TEST(ExtenderCodec, AnErrorReportsNothingOfNodes) {
  EXPECT_EQ(encodeFilterError("not yet"),
            R"({"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":"not yet"})");
}

}  // namespace
}  // namespace egpu::codec

// A pod's priority comes from its PriorityClass, as with Kubernetes' admission plugin Priority.
#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::HasSubstr;

const std::string kPriorityClasses = "/apis/scheduling.k8s.io/v1/priorityclasses";

class PriorityTest : public ApiTest {
 protected:
  Json priorityClass(const std::string& name, int64_t value, const Json& more = Json::object()) {
    Json out = {
        {"apiVersion", "scheduling.k8s.io/v1"}, {"kind", "PriorityClass"}, {"metadata", meta(name)}, {"value", value}};
    out.update(more);
    return out;
  }
  Json podOf(const std::string& name, const Json& spec) {
    Json out = pod(name);
    out["spec"].update(spec);
    return out;
  }
  Json spec(const std::string& name) { return get(kPods + "/" + name).body["spec"]; }
};

TEST_F(PriorityTest, APodGetsWhatItsClassStates) {
  make(kPriorityClasses, priorityClass("high", 1000, {{"preemptionPolicy", "Never"}}));
  EXPECT_EQ(make(kPods, podOf("p", {{"priorityClassName", "high"}})).status, 201);
  EXPECT_EQ(spec("p")["priority"], 1000);
  EXPECT_EQ(spec("p")["preemptionPolicy"], "Never");
  EXPECT_EQ(make(kPods, podOf("same", {{"priorityClassName", "high"}, {"priority", 1000}})).status, 201);
}

TEST_F(PriorityTest, WithoutAClassItIsZeroOrTheDefaultOne) {
  make(kPods, pod("p"));
  EXPECT_EQ(spec("p")["priority"], 0);
  EXPECT_EQ(spec("p")["preemptionPolicy"], "PreemptLowerPriority");
  EXPECT_FALSE(spec("p").contains("priorityClassName"));
  make(kPriorityClasses, priorityClass("usual", 50, {{"globalDefault", true}}));
  make(kPods, pod("q"));
  EXPECT_EQ(spec("q")["priority"], 50);
  EXPECT_EQ(spec("q")["priorityClassName"], "usual");
}

TEST_F(PriorityTest, AnUnknownClassIsRefused) {
  const Reply refused = call("POST", kPods, podOf("p", {{"priorityClassName", "nowhere"}}));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.reason(), "Forbidden");
  EXPECT_THAT(refused.message(), HasSubstr("pods \"p\" is forbidden: no PriorityClass with name nowhere was found"));
}

TEST_F(PriorityTest, ANumberOfOnesOwnIsRefused) {
  make(kPriorityClasses, priorityClass("high", 1000));
  const Reply number = call("POST", kPods, podOf("p", {{"priority", 5000}}));
  EXPECT_EQ(number.status, 403);
  EXPECT_THAT(number.message(),
              HasSubstr("the integer value of priority (5000) must not be provided in pod spec; "
                        "priority admission controller computed 0 from the given PriorityClass name"));
  EXPECT_EQ(call("POST", kPods, podOf("p", {{"priorityClassName", "high"}, {"priority", 0}})).status, 403);
  const Reply policy = call("POST", kPods, podOf("p", {{"priorityClassName", "high"}, {"preemptionPolicy", "Never"}}));
  EXPECT_EQ(policy.status, 403);
  EXPECT_THAT(policy.message(), HasSubstr("the string value of PreemptionPolicy (Never)"));
}

TEST_F(PriorityTest, EveryClusterHasTheSystemsClasses) {
  EXPECT_EQ(make(kPods, podOf("p", {{"priorityClassName", "system-node-critical"}})).status, 201);
  EXPECT_EQ(spec("p")["priority"], 2'000'001'000);
  make(kPods, podOf("q", {{"priorityClassName", "system-cluster-critical"}}));
  EXPECT_EQ(spec("q")["priority"], 2'000'000'000);
  const Reply refused = call("DELETE", kPriorityClasses + "/system-node-critical");
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.message(), HasSubstr("this is a system priority class and cannot be deleted"));
}

TEST_F(PriorityTest, WhatAClassMayBe) {
  EXPECT_EQ(call("POST", kPriorityClasses, priorityClass("system-mine", 5)).status, 422);
  const Reply high = call("POST", kPriorityClasses, priorityClass("mine", 1'000'000'001));
  EXPECT_EQ(high.status, 422);
  EXPECT_THAT(high.message(), HasSubstr("maximum allowed value of a user defined priority is 1000000000"));
  make(kPriorityClasses, priorityClass("mine", 5, {{"globalDefault", true}}));
  const Reply second = call("POST", kPriorityClasses, priorityClass("other", 6, {{"globalDefault", true}}));
  EXPECT_EQ(second.status, 403);
  EXPECT_THAT(second.message(), HasSubstr("PriorityClass mine is already marked as default"));
  EXPECT_EQ(merge(kPriorityClasses + "/mine", {{"description", "text"}}).status, 200);
  EXPECT_EQ(merge(kPriorityClasses + "/mine", {{"value", 7}}).status, 422);
  EXPECT_EQ(merge(kPriorityClasses + "/mine", {{"preemptionPolicy", "Never"}}).status, 422);
}

TEST_F(PriorityTest, AWholePodMayBeWrittenWithoutIt) {
  make(kPriorityClasses, priorityClass("high", 1000));
  make(kPods, podOf("p", {{"priorityClassName", "high"}}));
  Json whole = get(kPods + "/p").body;
  for (const char* key : {"priority", "preemptionPolicy"}) whole["spec"].erase(key);
  whole["metadata"]["labels"]["a"] = "b";
  const Reply written = call("PUT", kPods + "/p", whole);
  EXPECT_EQ(written.status, 200) << written.message();
  EXPECT_EQ(spec("p")["priority"], 1000);
}

}  // namespace
}  // namespace egpu::apiserver

// Strategic merge patches on pods and metadata, with the merge keys of the built-in kinds themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/verbs/patch.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class StrategicPatch : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(addBuiltinKinds(table_).ok()); }
  Json patched(const std::string& plural, const char* current, const char* patch) {
    auto result = applyPatch(*table_.find("", "v1", plural), kStrategicMergePatch, Json::parse(current), patch);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : Json();
  }
  std::string refusal(const char* current, const char* patch) {
    auto result = applyPatch(*table_.find("", "v1", "pods"), kStrategicMergePatch, Json::parse(current), patch);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.status().http, 400);
    return result.status().message();
  }
  ResourceTable table_;
};

TEST_F(StrategicPatch, MergesListsByTheirKeys) {
  EXPECT_EQ(
      patched("pods",
              R"({"spec":{"containers":[{"name":"a","image":"1","env":[{"name":"X","value":"1"}]},{"name":"b",)"
              R"("image":"2"}]}})",
              R"({"spec":{"containers":[{"name":"a","image":"3","env":[{"name":"Y","value":"2"}]},{"name":"c",)"
              R"("image":"4"}]}})"),
      Json::parse(
          R"({"spec":{"containers":[{"name":"a","image":"3","env":[{"name":"X","value":"1"},{"name":"Y","value":"2"}]},
                        {"name":"b","image":"2"},{"name":"c","image":"4"}]}})"));
  EXPECT_EQ(
      patched("nodes",
              R"({"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Disk","status":"False"}]}})",
              R"({"status":{"conditions":[{"type":"Ready","status":"False"}]}})"),
      Json::parse(R"({"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"Disk","status":"False"}]}})"));
}

TEST_F(StrategicPatch, ReplacesAtomicLists) {
  EXPECT_EQ(patched("nodes", R"({"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}})",
                    R"({"spec":{"taints":[{"key":"b","effect":"NoExecute"}]}})"),
            Json::parse(R"({"spec":{"taints":[{"key":"b","effect":"NoExecute"}]}})"));
  EXPECT_EQ(patched("pods", R"({"spec":{"tolerations":[{"key":"a"}]}})", R"({"spec":{"tolerations":[{"key":"b"}]}})"),
            Json::parse(R"({"spec":{"tolerations":[{"key":"b"}]}})"));
}

TEST_F(StrategicPatch, MergesMetadata) {
  EXPECT_EQ(
      patched("pods",
              R"({"metadata":{"labels":{"a":"1","b":"2"},"finalizers":["x/y"],"ownerReferences":[{"uid":"1",)"
              R"("name":"o"}]}})",
              R"({"metadata":{"labels":{"a":null,"c":"3"},"finalizers":["x/z","x/y"],"ownerReferences":[{"uid":"2",)"
              R"("name":"p"}]}})"),
      Json::parse(R"({"metadata":{"labels":{"b":"2","c":"3"},"finalizers":["x/y","x/z"],
                        "ownerReferences":[{"uid":"1","name":"o"},{"uid":"2","name":"p"}]}})"));
  EXPECT_EQ(patched("pods", R"({"metadata":{"finalizers":["x/y","x/z"]}})",
                    R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["x/y"]}})"),
            Json::parse(R"({"metadata":{"finalizers":["x/z"]}})"));
}

TEST_F(StrategicPatch, FollowsDirectives) {
  EXPECT_EQ(patched("pods", R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
                    R"({"spec":{"containers":[{"name":"a","$patch":"delete"}]}})"),
            Json::parse(R"({"spec":{"containers":[{"name":"b"}]}})"));
  EXPECT_EQ(patched("pods", R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
                    R"({"spec":{"containers":[{"$patch":"replace"},{"name":"c"}]}})"),
            Json::parse(R"({"spec":{"containers":[{"name":"c"}]}})"));
  EXPECT_EQ(patched("pods", R"({"spec":{"nodeSelector":{"a":"1"}}})",
                    R"({"spec":{"nodeSelector":{"$patch":"replace","b":"2"}}})"),
            Json::parse(R"({"spec":{"nodeSelector":{"b":"2"}}})"));
  EXPECT_EQ(
      patched("pods", R"({"spec":{"nodeSelector":{"a":"1"}}})", R"({"spec":{"nodeSelector":{"$patch":"delete"}}})"),
      Json::parse(R"({"spec":{"nodeSelector":{}}})"));
  EXPECT_EQ(patched("pods", R"({"spec":{"volumes":[{"name":"v","hostPath":{"path":"/a"}}]}})",
                    R"({"spec":{"volumes":[{"name":"v","$retainKeys":["name","emptyDir"],"emptyDir":{}}]}})"),
            Json::parse(R"({"spec":{"volumes":[{"name":"v","emptyDir":{}}]}})"));
}

TEST_F(StrategicPatch, OrdersElements) {
  EXPECT_EQ(patched("pods", R"({"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"s"}]}})",
                    R"({"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"b"},{"name":"a"}],"containers":[{)"
                    R"("name":"c"}]}})"),
            Json::parse(R"({"spec":{"containers":[{"name":"s"},{"name":"c"},{"name":"b"},{"name":"a"}]}})"));
  EXPECT_EQ(patched("pods", R"({"metadata":{"finalizers":["x/1","x/2"]}})",
                    R"({"metadata":{"$setElementOrder/finalizers":["x/2","x/1"]}})"),
            Json::parse(R"({"metadata":{"finalizers":["x/2","x/1"]}})"));
}

TEST_F(StrategicPatch, LeavesNoDirectiveBehind) {
  const Json result = patched("pods", "{}",
                              R"({"spec":{"$setElementOrder/containers":[{"name":"a"}],"$retainKeys":["containers"],
                                  "containers":[{"name":"a","resources":{"$patch":"replace","limits":{"cpu":"1"},
                                   "requests":null}}]}})");
  EXPECT_EQ(result, Json::parse(R"({"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}})"));
}

TEST_F(StrategicPatch, RefusesWhatItCannotMerge) {
  EXPECT_THAT(refusal("{}", R"({"spec":{"containers":[{"image":"x"}]}})"),
              HasSubstr("does not contain declared merge key: name"));
  EXPECT_THAT(refusal("{}", R"({"spec":{"$patch":"explode"}})"), HasSubstr("unknown patch type"));
  EXPECT_THAT(refusal("{}", R"({"spec":{"containers":["x"]}})"), HasSubstr("not an object"));
  EXPECT_THAT(refusal("{}", R"({"spec":{"$retainKeys":["a"],"hostname":"h"}})"), HasSubstr("$retainKeys"));
  std::string long_ = R"({"metadata":{"finalizers":[)";
  for (int i = 0; i < 5000; ++i) long_ += (i ? ",\"f/" : "\"f/") + std::to_string(i) + "\"";
  EXPECT_THAT(refusal("{}", (long_ + "]}}").c_str()), HasSubstr("at most 4096"));
}

}  // namespace
}  // namespace egpu::apiserver

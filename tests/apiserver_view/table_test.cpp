#include "controller/standalone/apiserver/show/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/schema/crd.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

constexpr const char* kCreated = "2026-01-01T00:00:00Z";
constexpr int64_t kNow = 1767225600 + 3 * 3600;  // three hours later

class Tables : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(addBuiltinKinds(table_).ok());
    ASSERT_TRUE(addCustomKinds(table_).ok());
  }
  Json tableOf(const char* group, const char* version, const char* plural, Json object, TableOptions options = {}) {
    object["metadata"]["creationTimestamp"] = kCreated;
    options.now = kNow;
    const Resource* r = table_.find(group, version, plural);
    EXPECT_NE(r, nullptr);
    return Json::parse(tableText(*r, {&object}, {{"resourceVersion", "7"}}, options));
  }
  // Maps column names to cells.
  std::map<std::string, Json> row(const char* group, const char* version, const char* plural, const char* object) {
    const Json t = tableOf(group, version, plural, Json::parse(object));
    std::map<std::string, Json> out;
    EXPECT_EQ(t["columnDefinitions"].size(), t["rows"][0]["cells"].size());
    for (size_t i = 0; i < t["columnDefinitions"].size(); ++i)
      out[t["columnDefinitions"][i]["name"]] = t["rows"][0]["cells"][i];
    return out;
  }
  Json podStatus(const char* pod) { return row("", "v1", "pods", pod)["Status"]; }
  ResourceTable table_;
};

TEST_F(Tables, ShowsPodsAsKubectlDoes) {
  auto r = row("", "v1", "pods",
               R"({"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"a"},{"name":"b"}]},
      "status":{"phase":"Running","podIP":"10.0.0.1","containerStatuses":[{"name":"a","ready":true,"restartCount":2,
       "state":{"running":{}}},
      {"name":"b","ready":false,"restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}})");
  EXPECT_EQ(r["Name"], "p");
  EXPECT_EQ(r["Ready"], "1/2");
  EXPECT_EQ(r["Status"], "CrashLoopBackOff");
  EXPECT_EQ(r["Restarts"], "3");
  EXPECT_EQ(r["Age"], "3h");
  EXPECT_EQ(r["IP"], "10.0.0.1");
  EXPECT_EQ(r["Node"], "n1");
  EXPECT_EQ(r["Nominated Node"], "<none>");

  EXPECT_EQ(podStatus(R"({"status":{"phase":"Pending"}})"), "Pending");
  EXPECT_EQ(podStatus(R"({"spec":{"schedulingGates":[{"name":"x"}]},"status":{"phase":"Pending"}})"),
            "SchedulingGated");
  EXPECT_EQ(podStatus(R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}})"),
            "Terminating");
  EXPECT_EQ(podStatus(R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Succeeded"}})"),
            "Succeeded");
  EXPECT_EQ(podStatus(R"({"status":{"phase":"Failed","reason":"Evicted"}})"), "Evicted");
}

TEST_F(Tables, ShowsTheOtherKinds) {
  auto node = row("", "v1", "nodes",
                  R"({"metadata":{"name":"n","labels":{"node-role.kubernetes.io/gpu":""}},"spec":{"unschedulable":true},
      "status":{"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1.34.0"}}})");
  EXPECT_EQ(node["Status"], "Ready,SchedulingDisabled");
  EXPECT_EQ(node["Roles"], "gpu");
  EXPECT_EQ(node["Version"], "v1.34.0");
  EXPECT_EQ(row("", "v1", "namespaces", R"({"metadata":{"name":"d"},"status":{"phase":"Active"}})")["Status"],
            "Active");
  auto event =
      row("", "v1", "events", R"({"metadata":{"name":"e"},"type":"Warning","reason":"NoFit","message":"m","count":3,
      "lastTimestamp":"2026-01-01T02:59:30Z","firstTimestamp":"2026-01-01T00:00:00Z",
      "involvedObject":{"kind":"Pod","name":"p"}})");
  EXPECT_EQ(event["Last Seen"], "30s");
  EXPECT_EQ(event["Object"], "pod/p");
  EXPECT_EQ(event["Count"], 3);
  auto claim = [&](const char* status) {
    return row("resource.k8s.io", "v1", "resourceclaims",
               (std::string(R"({"metadata":{"name":"c"},"status":)") + status + "}").c_str())["State"];
  };
  EXPECT_EQ(claim("{}"), "pending");
  EXPECT_EQ(claim(R"({"allocation":{}})"), "allocated");
  EXPECT_EQ(claim(R"({"allocation":{},"reservedFor":[{"uid":"1"}]})"), "allocated,reserved");
  EXPECT_EQ(row("coordination.k8s.io", "v1", "leases",
                R"({"metadata":{"name":"l"},"spec":{"holderIdentity":"h"}})")["Holder"],
            "h");
  EXPECT_EQ(row("resource.k8s.io", "v1", "devicetaintrules", R"({"metadata":{"name":"d"}})")["Name"], "d");
  EXPECT_EQ(row("resource.k8s.io", "v1", "deviceclasses", R"({"metadata":{"name":"d"}})")["Age"], "3h");
}

TEST_F(Tables, ShowsCustomColumns) {
  auto gpu =
      row("elasticgpu.io", "v1alpha", "elasticgpus", R"({"metadata":{"name":"g","labels":{"elasticgpu.io/role":"card"}},
      "status":{"phase":"Available","allocated":{"coreText":"35%","claims":2}}})");
  EXPECT_EQ(gpu["Role"], "card");
  EXPECT_EQ(gpu["Status"], "Available");
  EXPECT_EQ(gpu["Core"], "35%");
  EXPECT_EQ(gpu["Claims"], 2);
  EXPECT_EQ(gpu["Age"], "3h");
  EXPECT_TRUE(gpu["Memory"].is_null());
  auto claim = row("elasticgpu.io", "v1alpha1", "elasticgpuclaims", R"({"metadata":{"name":"c"},
      "status":{"reason":"NoFit","message":"too big","conditions":[{"type":"Accepted","reason":"no"}],
                "usage":{"core":"35%","memory":"3.1Gi","text":"35%, 3.1Gi"}}})");
  EXPECT_EQ(claim["Reason"], "NoFit");
  EXPECT_EQ(claim["Used"], "35%, 3.1Gi");
  EXPECT_EQ(claim["Message"], "too big");
}

TEST_F(Tables, CarriesWhatWasAskedFor) {
  Json t = tableOf("", "v1", "pods", Json::parse(R"({"metadata":{"name":"p"},"spec":{}})"));
  EXPECT_EQ(t["apiVersion"], "meta.k8s.io/v1");
  EXPECT_EQ(t["kind"], "Table");
  EXPECT_EQ(t["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(t["rows"][0]["object"]["kind"], "PartialObjectMetadata");
  EXPECT_FALSE(t["rows"][0]["object"].contains("spec"));
  TableOptions options;
  options.version = "v1beta1";
  options.include = IncludeObject::object;
  options.columns = false;
  t = tableOf("", "v1", "pods", Json::parse(R"({"metadata":{"name":"p"},"spec":{}})"), options);
  EXPECT_EQ(t["apiVersion"], "meta.k8s.io/v1beta1");
  EXPECT_TRUE(t["rows"][0]["object"].contains("spec"));
  EXPECT_TRUE(t["columnDefinitions"].is_null());
  options.include = IncludeObject::none;
  EXPECT_FALSE(
      tableOf("", "v1", "pods", Json::parse(R"({"metadata":{"name":"p"}})"), options)["rows"][0].contains("object"));
}

TEST(Accept, ReportsWhetherATableIsWanted) {
  EXPECT_EQ(tableVersion("application/json;as=Table;v=v1;g=meta.k8s.io,application/"
                         "json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"),
            "v1");
  EXPECT_EQ(tableVersion("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"), "v1beta1");
  EXPECT_EQ(tableVersion("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"), std::nullopt);
  EXPECT_EQ(tableVersion("application/json"), std::nullopt);
  EXPECT_EQ(tableVersion("application/json,application/json;as=Table;v=v1;g=meta.k8s.io"), std::nullopt);
  EXPECT_EQ(tableVersion(""), std::nullopt);
  EXPECT_EQ(parseIncludeObject("Object"), IncludeObject::object);
  EXPECT_EQ(parseIncludeObject(""), IncludeObject::metadata);
  EXPECT_EQ(parseIncludeObject("Everything"), std::nullopt);
}

TEST(JsonPath, SelectsWhatPrinterColumnsName) {
  const Json o =
      Json::parse(R"({"a":{"b":1,"c.d/e":"x"},"l":[{"t":"A","v":1},{"t":"B","v":2,"ok":true}],"n":[3,4,5]})");
  EXPECT_THAT(evaluateJsonPath(o, ".a.b"), ElementsAre(1));
  EXPECT_THAT(evaluateJsonPath(o, "{.a.b}"), ElementsAre(1));
  EXPECT_THAT(evaluateJsonPath(o, R"(.a.c\.d/e)"), ElementsAre("x"));
  EXPECT_THAT(evaluateJsonPath(o, ".a['c.d/e']"), ElementsAre("x"));
  EXPECT_THAT(evaluateJsonPath(o, R"(.l[?(@.t=="B")].v)"), ElementsAre(2));
  EXPECT_THAT(evaluateJsonPath(o, R"(.l[?(@.t != 'B')].v)"), ElementsAre(1));
  EXPECT_THAT(evaluateJsonPath(o, ".l[?(@.ok)].t"), ElementsAre("B"));
  EXPECT_THAT(evaluateJsonPath(o, ".l[?(@.v==2)].t"), ElementsAre("B"));
  EXPECT_THAT(evaluateJsonPath(o, ".n[1]"), ElementsAre(4));
  EXPECT_THAT(evaluateJsonPath(o, ".n[-1]"), ElementsAre(5));
  EXPECT_THAT(evaluateJsonPath(o, "..b"), ElementsAre(1));
  EXPECT_THAT(evaluateJsonPath(o, ".l..v"), ElementsAre(1, 2));
  EXPECT_THAT(evaluateJsonPath(o, ".a..absent"), ElementsAre());
  EXPECT_THAT(evaluateJsonPath(o, ".n[*]"), ElementsAre(3, 4, 5));
  EXPECT_THAT(evaluateJsonPath(o, ".l[*].t"), ElementsAre("A", "B"));
  for (const char* none : {".x", ".a.b.c", ".n[9]", ".n[", ".l[?(@.t==)]", ".l[?(@.t==\"B\"", "a", ".", "..", ".n[x]"})
    EXPECT_TRUE(evaluateJsonPath(o, none).empty()) << none;
}

TEST(HumanDuration, IsKubectls) {
  const std::pair<int64_t, const char*> cases[] = {
      {-5, "<invalid>"}, {-1, "0s"},      {0, "0s"},          {119, "119s"},    {120, "2m"},        {200, "3m20s"},
      {600, "10m"},      {10799, "179m"}, {10800, "3h"},      {11460, "3h11m"}, {28800, "8h"},      {172800, "2d"},
      {183600, "2d3h"},  {691200, "8d"},  {63071999, "729d"}, {63072000, "2y"}, {63158400, "2y1d"}, {315360000, "10y"}};
  for (const auto& [seconds, text] : cases) EXPECT_EQ(humanDuration(seconds), text) << seconds;
}

TEST(AgeSince, CountsWholeSeconds) {
  EXPECT_EQ(ageSince("2024-02-29T12:00:00.5+02:00", 1709200830), "30s");
  EXPECT_EQ(ageSince("yesterday", 0), std::nullopt);
}

}  // namespace
}  // namespace egpu::apiserver

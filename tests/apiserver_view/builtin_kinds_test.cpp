#include "controller/standalone/apiserver/kinds/builtin_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BuiltinKinds : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(addBuiltinKinds(table_).ok()); }
  const Resource& kind(const std::string& plural) {
    for (const auto& r : table_.all())
      if (r->plural == plural) return *r;
    ADD_FAILURE() << plural;
    return *table_.all()[0];
  }
  std::vector<std::string> fields(const std::string& plural, const Json& object, const Json* old = nullptr) {
    std::vector<std::string> out;
    for (const auto& e : validateMeta(kind(plural), object)) out.push_back(e.field);
    for (const auto& e : kind(plural).compiled->validate(object)) out.push_back(e.field);
    for (const auto& e : validateBuiltin(kind(plural), object, old)) out.push_back(e.field);
    return out;
  }
  static Json pod() {
    return Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},
        "spec":{"containers":[{"name":"c","image":"i"}]}})");
  }
  ResourceTable table_;
};

TEST_F(BuiltinKinds, AcceptsAPlainPod) { EXPECT_THAT(fields("pods", pod()), IsEmpty()); }

TEST_F(BuiltinKinds, NamesWhatIsWrongWithAPod) {
  Json p = pod();
  p["spec"].erase("containers");
  EXPECT_THAT(fields("pods", p), testing::Contains("spec.containers"));
  p = pod();
  p["spec"]["containers"] = Json::array();
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers"));
  p = pod();
  p["spec"]["containers"][0].erase("image");
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers[0].image"));
  p = pod();
  p["spec"]["containers"][0]["name"] = "Not_A_Label";
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers[0].name"));
  p = pod();
  p["spec"]["initContainers"] = p["spec"]["containers"];
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers[0].name"));
  p = pod();
  p["spec"]["containers"][0]["resources"]["claims"] = Json::array({{{"name", "x"}}});
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers[0].resources.claims[0]"));
  p["spec"]["resourceClaims"] = Json::array({{{"name", "x"}, {"resourceClaimName", "claim"}}});
  EXPECT_THAT(fields("pods", p), IsEmpty());
  p = pod();
  p["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "a lot";
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers[0].resources.requests.cpu"));
  p = pod();
  p["spec"]["restartPolicy"] = "Sometimes";
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.restartPolicy"));
}

TEST_F(BuiltinKinds, WeighsWhatAContainerAsksAgainstItsLimits) {
  const auto wrong = [this](const char* resources) {
    Json p = pod();
    p["spec"]["containers"][0]["resources"] = Json::parse(resources);
    return fields("pods", p);
  };
  EXPECT_THAT(wrong(R"({"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"cpu":1,"memory":"1024Mi"}})"), IsEmpty());
  EXPECT_THAT(wrong(R"({"requests":{"cpu":2},"limits":{"cpu":"1500m"}})"),
              ElementsAre("spec.containers[0].resources.requests"));
  EXPECT_THAT(wrong(R"({"limits":{"cpu":"-1"}})"), ElementsAre("spec.containers[0].resources.limits[cpu]"));
  EXPECT_THAT(wrong(R"({"requests":{"memory":-1}})"), ElementsAre("spec.containers[0].resources.requests[memory]"));
  EXPECT_THAT(wrong(R"({"requests":{"nvidia.com/gpu":1},"limits":{"nvidia.com/gpu":"2"}})"),
              ElementsAre("spec.containers[0].resources.requests"));
  EXPECT_THAT(wrong(R"({"requests":{"nvidia.com/gpu":1},"limits":{"nvidia.com/gpu":"1"}})"), IsEmpty());
  EXPECT_THAT(wrong(R"({"limits":{"nvidia.com/gpu":"500m","cpu":"500m"}})"),
              ElementsAre("spec.containers[0].resources.limits[nvidia.com/gpu]"));
  EXPECT_THAT(wrong(R"({"limits":{"nvidia.com/gpu":"1000m"}})"), IsEmpty());
}

TEST_F(BuiltinKinds, ReportsUnknownFieldsOfAPod) {
  Json p = pod();
  p["spec"]["contaners"] = 1;
  p["spec"]["containers"][0]["imag"] = "x";
  p["spec"]["volumes"] = Json::parse(R"([{"name":"v","hostPath":{"path":"/x"}}])");  // volume sources are not checked
  p["metadata"]["lables"] = Json::object();
  EXPECT_THAT(kind("pods").compiled->prune(p),
              ElementsAre("metadata.lables", "spec.containers[0].imag", "spec.contaners"));
}

TEST_F(BuiltinKinds, FreezesPods) {
  const Json old = pod();
  Json p = pod();
  p["spec"]["containers"][0]["image"] = "j";
  EXPECT_THAT(fields("pods", p, &old), IsEmpty());
  p["spec"]["containers"][0]["command"] = {"x"};
  EXPECT_THAT(fields("pods", p, &old), ElementsAre("spec"));
  p = pod();
  p["spec"]["schedulingGates"] = Json::array({{{"name", "x"}}});
  EXPECT_THAT(fields("pods", p, &old), ElementsAre("spec.schedulingGates"));
  p = pod();
  p["spec"]["nodeName"] = "n";
  EXPECT_THAT(fields("pods", p, &old), ElementsAre("spec"));
  p["status"]["conditions"] = Json::array({{{"type", "PodScheduled"}, {"status", "True"}}});
  EXPECT_THAT(fields("pods", p, &old), IsEmpty());  // as a binding writes it

  // Affinity may change only together with the gate.
  Json gated = pod();
  gated["spec"]["schedulingGates"] = Json::array({{{"name", "x"}}});
  p = pod();
  p["spec"]["affinity"]["nodeAffinity"] = Json::object();
  EXPECT_THAT(fields("pods", p, &gated), IsEmpty());
  EXPECT_THAT(fields("pods", p, &old), ElementsAre("spec"));
}

TEST_F(BuiltinKinds, GuardsResourceClaims) {
  Json claim = Json::parse(
      R"({"metadata":{"name":"c","namespace":"default"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{)"
      R"("deviceClassName":"k"}}]}}})");
  EXPECT_THAT(fields("resourceclaims", claim), IsEmpty());
  const Json unallocated = claim;
  const Json allocation =
      Json::parse(R"({"devices":{"results":[{"request":"gpu","driver":"d","pool":"n","device":"x"}]}})");
  claim["status"]["allocation"] = allocation;
  EXPECT_THAT(fields("resourceclaims", claim, &unallocated), IsEmpty());
  const Json allocated = claim;
  claim["status"]["allocation"]["devices"]["results"][0]["device"] = "y";
  EXPECT_THAT(fields("resourceclaims", claim, &allocated), ElementsAre("status.allocation"));
  claim["status"]["allocation"]["devices"]["results"][0]["request"] = "other";
  EXPECT_THAT(fields("resourceclaims", claim), ElementsAre("status.allocation.devices.results[0].request"));
  Json reserved = allocated;
  reserved["status"]["reservedFor"] = Json::parse(R"([{"resource":"pods","name":"p","uid":"1"}])");
  EXPECT_THAT(fields("resourceclaims", reserved, &allocated), IsEmpty());
  Json deleting = allocated;
  deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_THAT(fields("resourceclaims", reserved, &deleting), ElementsAre("status.reservedFor"));
  reserved["status"].erase("allocation");
  EXPECT_THAT(fields("resourceclaims", reserved), ElementsAre("status.reservedFor"));
  claim = unallocated;
  claim["spec"]["devices"]["requests"][0]["name"] = "gpu2";
  EXPECT_THAT(fields("resourceclaims", claim, &unallocated), ElementsAre("spec"));
}

TEST_F(BuiltinKinds, ChecksMetadata) {
  auto meta = [&](const char* text, const char* plural = "pods") {
    Json p = pod();
    if (std::string(plural) != "pods") p = {{"metadata", {{"name", "n"}}}};
    p["metadata"].update(Json::parse(text));
    std::vector<std::string> out;
    for (const auto& e : validateMeta(kind(plural), p)) out.push_back(e.field);
    return out;
  };
  EXPECT_THAT(meta("{}"), IsEmpty());
  EXPECT_THAT(meta(R"({"name":"Upper"})"), ElementsAre("metadata.name"));
  EXPECT_THAT(meta(R"({"name":"a.b"})"), IsEmpty());
  EXPECT_THAT(meta(R"({"name":"a.b"})", "namespaces"), ElementsAre("metadata.name"));
  EXPECT_THAT(meta(R"({"name":"a..b"})"), ElementsAre("metadata.name"));
  EXPECT_THAT(meta((R"({"name":")" + std::string(254, 'a') + "\"}").c_str()), ElementsAre("metadata.name"));
  EXPECT_THAT(meta(R"({"generateName":"a-"})"), IsEmpty());
  EXPECT_THAT(meta(R"({"generateName":"A-"})"), ElementsAre("metadata.generateName"));
  EXPECT_THAT(meta(R"({"labels":{"a/b/c":"x"}})"), ElementsAre("metadata.labels"));
  EXPECT_THAT(meta(R"({"labels":{"a":"-x"}})"), ElementsAre("metadata.labels"));
  EXPECT_THAT(meta(R"({"labels":{"example.com/a":"x","b":""}})"), IsEmpty());
  EXPECT_THAT(meta(R"({"annotations":{"egpuc.elasticgpu.io/x":"anything at all"}})"), IsEmpty());
  EXPECT_THAT(meta(R"({"annotations":{"sp ace":""}})"), ElementsAre("metadata.annotations"));
  EXPECT_THAT(meta((R"({"annotations":{"a":")" + std::string(256 * 1024, 'x') + "\"}}").c_str()),
              ElementsAre("metadata.annotations"));
  EXPECT_THAT(meta(R"({"finalizers":["x/y","bad finalizer"]})"), ElementsAre("metadata.finalizers[1]"));
  EXPECT_THAT(meta(R"({"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"","uid":"1"}]})"),
              ElementsAre("metadata.ownerReferences[0].name"));
  EXPECT_THAT(meta(R"({"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true},
                                          {"apiVersion":"v1","kind":"A","name":"b","uid":"2","controller":true}]})"),
              ElementsAre("metadata.ownerReferences"));
}

TEST_F(BuiltinKinds, FillsInWhatServersDo) {
  Json p = pod();
  kind("pods").compiled->applyDefaults(p);
  fillBuiltin(kind("pods"), p);
  EXPECT_EQ(p["spec"]["restartPolicy"], "Always");
  EXPECT_EQ(p["spec"]["schedulerName"], "default-scheduler");
  EXPECT_EQ(p["spec"]["containers"][0]["imagePullPolicy"], "Always");
  EXPECT_EQ(p["status"]["phase"], "Pending");
  EXPECT_EQ(p["status"]["qosClass"], "BestEffort");
  EXPECT_THAT(fields("pods", p), IsEmpty());

  p = pod();
  p["spec"]["schedulerName"] = "";
  kind("pods").compiled->applyDefaults(p, true);
  EXPECT_EQ(p["spec"]["schedulerName"], "default-scheduler");

  p = pod();
  p["spec"]["containers"][0]["image"] = "repo:5000/cuda:10.0-base";
  p["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1";
  p["spec"]["schedulingGates"] = Json::array({{{"name", "x"}}});
  fillBuiltin(kind("pods"), p);
  EXPECT_EQ(p["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
  EXPECT_EQ(p["status"]["qosClass"], "Burstable");
  EXPECT_EQ(p["status"]["conditions"][0]["reason"], "SchedulingGated");
  EXPECT_THAT(fields("pods", p), IsEmpty());

  p = pod();
  p["spec"]["containers"][0]["resources"] = {{"limits", {{"nvidia.com/gpu", 1}, {"cpu", "2"}}},
                                             {"requests", {{"cpu", "1"}}}};
  fillBuiltin(kind("pods"), p);
  EXPECT_EQ(p["spec"]["containers"][0]["resources"]["requests"], (Json{{"nvidia.com/gpu", 1}, {"cpu", "1"}}))
      << "a limit without a request asks for as much";

  Json ns = {{"metadata", {{"name", "team"}}}};
  fillBuiltin(kind("namespaces"), ns);
  EXPECT_EQ(ns["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
  EXPECT_EQ(ns["status"]["phase"], "Active");
}

TEST_F(BuiltinKinds, AStaticPodsMirrorHasANode) {
  Json p = pod();
  fillBuiltin(kind("pods"), p);
  Json mirror = p;
  mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "hash";
  const std::string field = "metadata.annotations[kubernetes.io/config.mirror]";
  EXPECT_THAT(fields("pods", mirror), ElementsAre(field));
  EXPECT_FALSE(validateBuiltin(kind("pods"), mirror, &p).empty()) << "it can't become one";
  mirror["spec"]["nodeName"] = "n1";
  EXPECT_THAT(fields("pods", mirror), IsEmpty());
  mirror["spec"]["resourceClaims"] = {{{"name", "gpu"}, {"resourceClaimName", "c"}}};
  EXPECT_THAT(fields("pods", mirror), ElementsAre("[]")) << "as Kubernetes reports it";
}

TEST_F(BuiltinKinds, AnExtendedResourceNeedsALimit) {
  Json p = pod();
  p["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = 1;
  fillBuiltin(kind("pods"), p);
  EXPECT_THAT(fields("pods", p), ElementsAre("spec.containers[0].resources.limits"));
}

TEST_F(BuiltinKinds, SurvivesNonsense) {
  for (const char* text :
       {R"({"metadata":{"name":"p","namespace":"default"},"spec":5})",
        R"({"metadata":{"name":"p","namespace":"default"},"spec":{"containers":[5,null,"x"]}})",
        R"({"metadata":{"name":5,"labels":[],"annotations":"x","finalizers":{},"ownerReferences":[5]},"spec":null})",
        R"({"metadata":7})", R"({})"}) {
    Json object = Json::parse(text);
    for (const auto& r : table_.all()) {
      Json copy = object;
      r->compiled->prune(copy);
      r->compiled->applyDefaults(copy);
      fillBuiltin(*r, copy);
      EXPECT_FALSE(validateMeta(*r, copy).empty() && r->compiled->validate(copy).empty() &&
                   validateBuiltin(*r, copy, &object).empty() && r->plural == "pods")
          << text;
    }
  }
}

TEST(Names, FollowTheRules) {
  for (const char* good : {"a", "a-b", "0a", "a1"}) EXPECT_TRUE(isDnsLabel(good)) << good;
  for (const char* bad : {"", "-a", "a-", "A", "a.b", "a_b", "\u00e4"}) EXPECT_FALSE(isDnsLabel(bad)) << bad;
  for (const char* good : {"a.b", "a-1.b"}) EXPECT_TRUE(isDnsSubdomain(good)) << good;
  for (const char* bad : {"", ".a", "a.", "a..b", "a.-b"}) EXPECT_FALSE(isDnsSubdomain(bad)) << bad;
  for (const char* good : {"a", "A_b.c", "x.io/Y"}) EXPECT_TRUE(isQualifiedName(good)) << good;
  for (const char* bad : {"", "/a", "a/", "X.io/y", "a/b/c", "a b"}) EXPECT_FALSE(isQualifiedName(bad)) << bad;
  EXPECT_TRUE(isLabelValue(""));
  EXPECT_FALSE(isLabelValue(std::string(64, 'a')));
}

}  // namespace
}  // namespace egpu::apiserver

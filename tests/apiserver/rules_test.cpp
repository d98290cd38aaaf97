// Refusals and their messages: the CRDs' rules, the ledger, pods, ResourceClaims.
#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RulesTest : public ApiTest {
 protected:
  Reply requests(const Json& r, const std::string& name = "bad") {
    Json c = claim(name);
    c["spec"]["resources"]["requests"] = r;
    return call("POST", kClaims, c);
  }
  Reply status(const std::string& path, const Json& s) { return merge(path + "/status", {{"status", s}}); }
};

TEST_F(RulesTest, RefusalsNameTheField) {
  Reply r = requests({{"elasticgpu.io/gpu-core", -5}});
  EXPECT_EQ(r.status, 422);
  EXPECT_EQ(r.reason(), "Invalid");
  EXPECT_THAT(r.message(), StartsWith("ElasticGPUClaim.elasticgpu.io \"bad\" is invalid: spec.resources.requests"));
  EXPECT_THAT(r.body["details"]["causes"][0]["field"].get<std::string>(), HasSubstr("spec.resources.requests"));
  EXPECT_EQ(r.body["details"]["kind"], "ElasticGPUClaim");
  EXPECT_EQ(r.body["details"]["name"], "bad");
  for (const Json& bad :
       {Json{{"elasticgpu.io/gpu-memory", "4Gib"}}, Json{{"elasticgpu.io/gpu-memory", "1.5"}}, Json{{"nonsense", 1}},
        Json{{"elasticgpu.io/gpu-core", "1e99"}}, Json{{"a.io/gpu", 1}, {"b.io/gpu-core", 5}},
        Json{{"elasticgpu.io/gpu", 0}}, Json{{"elasticgpu.io/gpu", true}}})
    EXPECT_EQ(requests(bad).status, 422) << bad;
  Json both = claim("both");
  both["spec"]["elasticGPUClassName"] = "another";
  EXPECT_THAT(call("POST", kClaims, both).message(), HasSubstr("spec.elasticGPUClassName"));
  EXPECT_EQ(requests({{"elasticgpu.io/gpu-core", 10}, {"elasticgpu.io/gpu-memory", 4}}, "good").status, 201);
  Reply moved = merge(kClaims + "/good", {{"spec", {{"egpuClassName", "other"}}}});
  EXPECT_EQ(moved.status, 422);
  EXPECT_THAT(moved.message(), HasSubstr("spec.egpuClassName"));
  EXPECT_EQ(merge(kClaims + "/good", {{"spec", {{"elasticGPUName", "egpu-1"}}}}).status, 200);
  EXPECT_EQ(merge(kClaims + "/good", {{"spec", {{"elasticGPUName", "egpu-2"}}}}).status, 422);
  EXPECT_EQ(call("POST", kClasses,
                 [] {
                   Json k = gpuClass("k");
                   k["reclaimPolicy"] = "Sometimes";
                   return k;
                 }())
                .status,
            422);
}

// The API server itself keeps a card's ledger from being over-committed.
TEST_F(RulesTest, FortyWritersOnCapacityForNine) {
  make(kGpus, card("gpu-1"));
  std::atomic<int> taken{0}, refused{0}, other{0};
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 40; ++i)
      writers.emplace_back([&, i] {
        Json entry = {{"device", "egpu-" + std::to_string(i)},
                      {"claim", "default/c" + std::to_string(i)},
                      {"core", 110},
                      {"memory", 1024}};
        int s = merge(kGpus + "/gpu-1", {{"spec", {{"allocations", {{"uid-" + std::to_string(i), entry}}}}}}).status;
        ++(s == 200 ? taken : s == 422 ? refused : other);
      });
  }
  EXPECT_EQ(taken, 9);
  EXPECT_EQ(refused, 31);
  EXPECT_EQ(other, 0);
  Json ledger = get(kGpus + "/gpu-1").body["spec"]["allocations"];
  EXPECT_EQ(ledger.size(), 9u);
  const std::string first = ledger.begin().key();
  EXPECT_EQ(merge(kGpus + "/gpu-1", {{"spec", {{"allocations", {{first, nullptr}}}}}}).status, 200);
  EXPECT_EQ(get(kGpus + "/gpu-1").body["spec"]["allocations"].size(), 8u);
}

TEST_F(RulesTest, PodsAreLargelyImmutable) {
  Json p = pod("p");
  p["spec"]["schedulingGates"] = {{{"name", "elasticgpu.io/claims"}}};
  make(kPods, p);
  EXPECT_EQ(merge(kPods + "/p", {{"spec", {{"nodeName", "n"}}}}).status, 422);
  EXPECT_EQ(
      merge(kPods + "/p", {{"spec", {{"schedulingGates", {{{"name", "elasticgpu.io/claims"}}, {{"name", "more"}}}}}}})
          .status,
      422);
  Json pin = {{{"op", "add"},
               {"path", "/spec/affinity"},
               {"value",
                {{"nodeAffinity",
                  {{"requiredDuringSchedulingIgnoredDuringExecution",
                    {{"nodeSelectorTerms",
                      {{{"matchFields", {{{"key", "metadata.name"}, {"operator", "In"}, {"values", {"n1"}}}}}}}}}}}}}}},
              {{"op", "remove"}, {"path", "/spec/schedulingGates"}}};
  Reply pinned = call("PATCH", kPods + "/p", pin, kJsonPatchType);
  EXPECT_EQ(pinned.status, 200) << pinned.raw.body;
  EXPECT_EQ(call("PATCH", kPods + "/p", {{{"op", "remove"}, {"path", "/spec/affinity"}}}, kJsonPatchType).status, 422);
  EXPECT_EQ(
      call("PATCH", kPods + "/p", {{"spec", {{"tolerations", {{{"key", "k"}, {"operator", "Exists"}}}}}}}, kStrategic)
          .status,
      200);
}

TEST_F(RulesTest, BindingsHappenOnce) {
  Json gated = pod("gated");
  gated["spec"]["schedulingGates"] = {{{"name", "g"}}};
  make(kPods, gated);
  Reply made = make(kPods, pod("p"));
  auto bind = [&](const std::string& name, const Json& m, const std::string& node) {
    return call("POST", kPods + "/" + name + "/binding",
                {{"apiVersion", "v1"},
                 {"kind", "Binding"},
                 {"metadata", m},
                 {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}});
  };
  EXPECT_EQ(bind("gated", meta("gated"), "n").status, 409);
  EXPECT_EQ(bind("p", meta("p", {{"uid", "other"}}), "n").status, 409);
  EXPECT_EQ(bind("p", meta("p"), "").status, 422);
  EXPECT_EQ(bind("p", meta("p", {{"uid", made.uid()}}), "n1").status, 201);
  EXPECT_EQ(get(kPods + "/p").body["spec"]["nodeName"], "n1");
  EXPECT_THAT(get(kPods + "/p").raw.body, HasSubstr("PodScheduled"));
  EXPECT_EQ(bind("p", meta("p"), "n2").status, 409);
  EXPECT_EQ(bind("none", meta("none"), "n2").status, 404);
  EXPECT_EQ(get(kPods + "/p/binding").status, 405);
  EXPECT_EQ(status(kPods + "/p", {{"phase", "Running"}}).body["status"]["phase"], "Running");
}

TEST_F(RulesTest, ResourceClaimsAllocationsAndReservations) {
  make(kResourceClaims,
       {{"apiVersion", "resource.k8s.io/v1"},
        {"kind", "ResourceClaim"},
        {"metadata", meta("c")},
        {"spec",
         {{"devices", {{"requests", {{{"name", "gpu"}, {"exactly", {{"deviceClassName", "elasticgpu.io"}}}}}}}}}}});
  const std::string c = kResourceClaims + "/c";
  auto allocation = [](const std::string& node) -> Json {
    return {{"devices",
             {{"results", {{{"request", "gpu"}, {"driver", "elasticgpu.io"}, {"pool", node}, {"device", "egpu-1"}}}}}},
            {"nodeSelector",
             {{"nodeSelectorTerms",
               {{{"matchFields", {{{"key", "metadata.name"}, {"operator", "In"}, {"values", {node}}}}}}}}}}};
  };
  Json user = {{{"resource", "pods"}, {"name", "p"}, {"uid", "u"}}};
  EXPECT_EQ(merge(c, {{"spec", {{"devices", {{"requests", Json::array()}}}}}}).status, 422);
  EXPECT_EQ(status(c, {{"reservedFor", user}}).status, 422);
  Reply set = status(c, {{"allocation", allocation("n1")}});
  EXPECT_EQ(set.status, 200) << set.raw.body;
  EXPECT_EQ(status(c, {{"allocation", allocation("n2")}}).status, 422);
  EXPECT_EQ(status(c, {{"reservedFor", user}}).status, 200);
  EXPECT_EQ(status(c, {{"allocation", nullptr}}).status, 422);
  EXPECT_EQ(status(c, {{"reservedFor", nullptr}}).status, 200);
  EXPECT_EQ(status(c, {{"allocation", nullptr}}).status, 200);
  EXPECT_EQ(status(c, {{"allocation", allocation("n2")}}).status, 200);
  merge(c, {{"metadata", {{"finalizers", {"elasticgpu.io/resource-claim"}}}}});
  call("DELETE", c);
  EXPECT_EQ(status(c, {{"reservedFor", user}}).status, 422);
}

TEST_F(RulesTest, ObjectsHaveASize) {
  make(kClaims, claim("a"));
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"annotations", {{"big", std::string(300'000, 'x')}}}}}}).status, 422);
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"labels", {{"bad key!", "x"}}}}}}).status, 422);
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"labels", {{"k", 5}}}}}}).status / 100, 4);
}

}  // namespace
}  // namespace egpu::apiserver

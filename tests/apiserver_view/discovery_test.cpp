#include "controller/standalone/apiserver/kinds/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/schema/crd.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

constexpr const char* kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/"
    "json;g=apidiscovery.k8s.io;v=v2beta1;as="
    "APIGroupDiscoveryList,application/json";

class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(addBuiltinKinds(table_).ok());
    ASSERT_TRUE(addCustomKinds(table_).ok());
  }
  Json get(const char* path, const char* accept = "application/json") {
    auto answer = discover(table_, path, accept, "127.0.0.1:7443");
    EXPECT_TRUE(answer) << path;
    return answer ? answer->body : Json();
  }
  static const Json& byName(const Json& list, const char* key, const std::string& name) {
    static const Json none;
    for (const auto& v : list)
      if (v[key] == name) return v;
    ADD_FAILURE() << name << " not found in " << list;
    return none;
  }
  ResourceTable table_;
};

TEST_F(Discovery, ListsGroupsPlainly) {
  EXPECT_EQ(get("/api")["versions"], Json::array({"v1"}));
  EXPECT_EQ(get("/api")["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:7443");
  const Json groups = get("/apis");
  EXPECT_EQ(groups["kind"], "APIGroupList");
  const Json& ours = byName(groups["groups"], "name", "elasticgpu.io");
  EXPECT_EQ(ours["preferredVersion"]["groupVersion"], "elasticgpu.io/v1alpha1");
  EXPECT_EQ(ours["versions"].size(), 2u);
  EXPECT_EQ(get("/apis/elasticgpu.io")["kind"], "APIGroup");
  EXPECT_EQ(get("/apis/")["kind"], "APIGroupList");
}

TEST_F(Discovery, ListsResources) {
  const Json list = get("/apis/elasticgpu.io/v1alpha");
  EXPECT_EQ(list["kind"], "APIResourceList");
  EXPECT_EQ(list["groupVersion"], "elasticgpu.io/v1alpha");
  const Json& claims = byName(list["resources"], "name", "elasticgpuclaims");
  EXPECT_EQ(claims["shortNames"], Json::array({"egpuc"}));
  EXPECT_EQ(claims["singularName"], "elasticgpuclaim");
  EXPECT_EQ(claims["namespaced"], true);
  EXPECT_EQ(claims["categories"], Json::array({"elastic-gpu"}));
  EXPECT_EQ(claims["verbs"].size(), 8u);
  EXPECT_EQ(byName(list["resources"], "name", "elasticgpuclaims/status")["verbs"],
            Json::array({"get", "patch", "update"}));
  const Json core = get("/api/v1");
  EXPECT_EQ(byName(core["resources"], "name", "pods/binding")["kind"], "Binding");
  EXPECT_EQ(byName(core["resources"], "name", "pods/binding")["verbs"], Json::array({"create"}));
}

TEST_F(Discovery, Aggregates) {
  auto answer = discover(table_, "/apis", kAggregated, "");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->contentType, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
  EXPECT_EQ(answer->body["kind"], "APIGroupDiscoveryList");
  const Json* ours = nullptr;
  for (const auto& g : answer->body["items"])
    if (g["metadata"]["name"] == "elasticgpu.io") ours = &g;
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ((*ours)["versions"][0]["version"], "v1alpha1");
  const Json& claims = byName((*ours)["versions"][0]["resources"], "resource", "elasticgpuclaims");
  EXPECT_EQ(claims["scope"], "Namespaced");
  EXPECT_EQ(claims["responseKind"]["kind"], "ElasticGPUClaim");
  EXPECT_EQ(claims["subresources"][0]["subresource"], "status");
  EXPECT_EQ(get("/api", kAggregated)["items"].size(), 1u);
}

// kubectl then requests them and shows why they are refused. Without verbs no client lists or deletes them
// automatically.
TEST_F(Discovery, NamesWhatEveryClusterHasWithoutVerbs) {
  const Json deployments = byName(get("/apis/apps/v1")["resources"], "name", "deployments");
  EXPECT_EQ(deployments["verbs"], Json::array());
  EXPECT_EQ(deployments["kind"], "Deployment");
  EXPECT_EQ(deployments["singularName"], "deployment");
  EXPECT_EQ(deployments["shortNames"], Json::array({"deploy"}));
  EXPECT_EQ(byName(get("/api/v1")["resources"], "name", "secrets")["namespaced"], true);
  EXPECT_EQ(byName(get("/apis/resource.k8s.io/v1")["resources"], "name", "resourceslices")["verbs"], Json::array());
  EXPECT_EQ(byName(get("/apis")["groups"], "name", "apps")["preferredVersion"]["groupVersion"], "apps/v1");
  const Json all = get("/apis", kAggregated);
  for (const auto& g : all["items"])
    if (g["metadata"]["name"] == "apiextensions.k8s.io") {
      const Json& crds = byName(g["versions"][0]["resources"], "resource", "customresourcedefinitions");
      EXPECT_EQ(crds["scope"], "Cluster");
      EXPECT_EQ(crds["verbs"], Json::array());
      EXPECT_EQ(crds["responseKind"]["kind"], "CustomResourceDefinition");
      return;
    }
  ADD_FAILURE() << all;
}

TEST_F(Discovery, NamesAlsoWhatFewEverAskFor) {
  const std::pair<const char*, const char*> cases[] = {
      {"authorization.k8s.io/v1", "localsubjectaccessreviews"},
      {"autoscaling/v1", "horizontalpodautoscalers"},
      {"autoscaling/v2", "horizontalpodautoscalers"},
      {"certificates.k8s.io/v1beta1", "clustertrustbundles"},
      {"coordination.k8s.io/v1beta1", "leasecandidates"},
      {"flowcontrol.apiserver.k8s.io/v1", "flowschemas"},
      {"flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations"},
      {"networking.k8s.io/v1", "ipaddresses"},
      {"networking.k8s.io/v1", "servicecidrs"},
      {"node.k8s.io/v1", "runtimeclasses"},
      {"resource.k8s.io/v1", "resourceslices"},
      {"storage.k8s.io/v1", "csistoragecapacities"},
      {"storage.k8s.io/v1", "volumeattributesclasses"},
  };
  for (const auto& [at, plural] : cases) {
    ASSERT_TRUE(discover(table_, ("/apis/" + std::string(at)).c_str(), "application/json", "")) << at;
    EXPECT_EQ(byName(get(("/apis/" + std::string(at)).c_str())["resources"], "name", plural)["verbs"], Json::array())
        << plural;
  }
  const Json groups = get("/apis")["groups"];
  for (const char* best :
       {"autoscaling/v2", "certificates.k8s.io/v1", "coordination.k8s.io/v1", "resource.k8s.io/v1"}) {
    const std::string name(best, std::string_view(best).find('/'));
    EXPECT_EQ(byName(groups, "name", name)["preferredVersion"]["groupVersion"], best);
  }
}

TEST_F(Discovery, DoesNotNameTwiceWhatItServes) {
  for (const char* path : {"/api/v1", "/apis/resource.k8s.io/v1", "/apis/coordination.k8s.io/v1"}) {
    std::set<std::string> seen;
    const auto resources = get(path)["resources"];
    for (const auto& r : resources)
      EXPECT_TRUE(seen.insert(r["name"].get<std::string>()).second) << path << " " << r["name"];
  }
}

TEST_F(Discovery, KnowsItsVersionAndNothingElse) {
  EXPECT_EQ(get("/version")["major"], "1");
  for (const char* path : {"/", "/api/v2", "/apis/unknown", "/apis/elasticgpu.io/v9",
                           "/apis/elasticgpu.io/v1alpha/elasticgpus", "/api/v1/pods", "/apis//v1", "/metrics"})
    EXPECT_FALSE(discover(table_, path, "application/json", "")) << path;
}

}  // namespace
}  // namespace egpu::apiserver

#include "controller/standalone/apiserver/schema/crd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/schema/crd_texts.h"
#include "controller/standalone/apiserver/schema/schema.h"

namespace egpu::apiserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Crd, LoadsTheProjectsOwn) {
  ResourceTable table;
  auto status = addCustomKinds(table);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(table.all().size(), 5u);
  const Resource* claims = table.find("elasticgpu.io", "v1alpha", "elasticgpuclaims");
  ASSERT_NE(claims, nullptr);
  EXPECT_EQ(table.find("elasticgpu.io", "v1alpha1", "elasticgpuclaims"), claims);
  EXPECT_EQ(table.find("elasticgpu.io", "v1", "elasticgpuclaims"), nullptr);
  EXPECT_THAT(claims->versions, ElementsAre("v1alpha1", "v1alpha"));  // Kubernetes' order of versions
  EXPECT_EQ(claims->storageVersion, "v1alpha");
  EXPECT_EQ(claims->kind, "ElasticGPUClaim");
  EXPECT_EQ(claims->listKind, "ElasticGPUClaimList");
  EXPECT_THAT(claims->shortNames, ElementsAre("egpuc"));
  EXPECT_TRUE(claims->namespaced);
  EXPECT_TRUE(claims->hasStatus);
  EXPECT_TRUE(claims->custom);
  EXPECT_THAT(claims->selectableFields, testing::Contains("status.phase"));
  EXPECT_EQ(claims->columns.front().name, "Status");
  EXPECT_FALSE(table.find("elasticgpu.io", "v1alpha", "elasticgpus")->namespaced);
}

TEST(Crd, LoadsTheBuiltInKinds) {
  ResourceTable table;
  auto status = addBuiltinKinds(table);
  ASSERT_TRUE(status.ok()) << status.message();
  for (const char* plural : {"namespaces", "nodes", "pods", "events"})
    EXPECT_NE(table.find("", "v1", plural), nullptr) << plural;
  EXPECT_NE(table.find("coordination.k8s.io", "v1", "leases"), nullptr);
  EXPECT_NE(table.find("resource.k8s.io", "v1", "resourceclaims"), nullptr);
  EXPECT_NE(table.find("resource.k8s.io", "v1", "deviceclasses"), nullptr);
  EXPECT_NE(table.find("resource.k8s.io", "v1", "devicetaintrules"), nullptr);
  for (const auto& r : table.all()) EXPECT_FALSE(r->custom);
}

std::string crd(const std::string& scope, const std::string& versions) {
  return "kind: CustomResourceDefinition\nmetadata: {name: things.x.io}\nspec:\n  group: x.io\n  scope: " + scope +
         "\n  names: {kind: Thing, plural: things}\n  versions: " + versions + "\n";
}

TEST(Crd, NamesWhatIsWrong) {
  const std::string good = "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}";
  EXPECT_TRUE(loadCrd(crd("Cluster", "[" + good + "]")).ok());
  EXPECT_THAT(loadCrd(crd("Galaxy", "[" + good + "]")).status().message(), HasSubstr("scope"));
  EXPECT_THAT(loadCrd(crd("Cluster", "[]")).status().message(), HasSubstr("no version is served"));
  EXPECT_THAT(loadCrd(crd("Cluster", "[" + good +
                                         ", {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: "
                                         "object, title: other}}}]"))
                  .status()
                  .message(),
              HasSubstr("differ in schema"));
  EXPECT_THAT(
      loadCrd(crd("Cluster",
                  "[{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, not: {}}}}]"))
          .status()
          .message(),
      HasSubstr("not enforced"));
  EXPECT_FALSE(loadCrd("kind: Pod").ok());
  EXPECT_FALSE(loadCrd("[").ok());
}

TEST(Crd, OrdersVersionsAsKubernetesDoes) {
  auto r = loadCrd(crd(
      "Cluster",
      "[{name: v1alpha, served: true, storage: true, schema: &s {openAPIV3Schema: {type: object}}},"
      "{name: v1beta1, served: true, storage: false, schema: *s},{name: v2, served: true, storage: false, schema: *s},"
      "{name: v10, served: true, storage: false, schema: *s},{name: v11, served: false, storage: false, schema: *s}]"));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(r->versions, ElementsAre("v10", "v2", "v1beta1", "v1alpha"));
  EXPECT_EQ(r->columns.size(), 1u);  // Age, as for any CRD without columns
}

TEST(Crd, HoldsAClaimToItsSchema) {
  ResourceTable table;
  ASSERT_TRUE(addCustomKinds(table).ok());
  const Schema& schema = *table.find("elasticgpu.io", "v1alpha", "elasticgpuclaims")->compiled;
  auto claim =
      nlohmann::json::parse(R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPUClaim","metadata":{"name":"c"},
      "spec":{"egpuClassName":"k",
               "resources":{"requests":{"elasticgpu.io/gpu-core":10,"elasticgpu.io/gpu-memory":"4Gi"}},
       "typo":1}})");
  EXPECT_THAT(schema.prune(claim), ElementsAre("spec.typo"));
  EXPECT_TRUE(schema.validate(claim).empty());
  claim["spec"]["resources"]["requests"]["elasticgpu.io/gpu-memory"] = true;
  auto errors = schema.validate(claim);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].field, "spec.resources.requests.elasticgpu.io/gpu-memory");
  claim["metadata"]["labels"] = {{"a", 5}};
  EXPECT_EQ(schema.validate(claim).size(), 2u);
}

}  // namespace
}  // namespace egpu::apiserver

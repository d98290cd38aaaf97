// Single objects: their JSON, lossless round trips, and the errors for invalid ones.
#include <gtest/gtest.h>

#include "controller/codec/codec.h"
#include "tests/codec/samples.h"

namespace egpu::codec {
namespace {

using testing::fullSample;
using testing::same;

template <class T>
class EveryKind : public ::testing::Test {};
using Kinds = ::testing::Types<v1alpha::ElasticGPU, v1alpha::ElasticGPUClaim, v1alpha::ElasticGPUClass,
                               v1alpha::ElasticGPUQuota, v1alpha::ElasticGPUClaimTemplate, core::ResourceClaimTemplate,
                               core::Namespace, core::Node, core::Pod, core::PersistentVolumeClaim,
                               core::PersistentVolume, core::ResourceClaim, core::DeviceClass, core::DeviceTaintRule,
                               core::PriorityClass, core::PodGroup, core::Event, core::Lease>;
TYPED_TEST_SUITE(EveryKind, Kinds);

TYPED_TEST(EveryKind, comesBackWithEveryField) {
  const auto object = fullSample<TypeParam>();
  const auto back = decode<TypeParam>(encode(object));
  ASSERT_TRUE(back) << back.status().str();
  EXPECT_TRUE(same(object, *back)) << encode(object) << "\n" << encode(*back);
}

TYPED_TEST(EveryKind, comesBackEmpty) {
  const TypeParam object{};
  const auto back = decode<TypeParam>(encode(object));
  ASSERT_TRUE(back) << back.status().str();
  EXPECT_TRUE(same(object, *back)) << encode(object);
}

TYPED_TEST(EveryKind, comesBackWhateverIsSet) {
  egpu::testing::RandomObjects random(11);
  for (int i = 0; i < 500; ++i) {
    const auto object = random.next<TypeParam>();
    const std::string json = encode(object);
    const auto back = decode<TypeParam>(json);
    ASSERT_TRUE(back) << back.status().str() << "\n" << json;
    ASSERT_TRUE(same(object, *back)) << json << "\n" << encode(*back);
    ASSERT_EQ(encode(*back), json);
  }
}

TYPED_TEST(EveryKind, doesNotPassForAnother) {
  const auto got = decode<TypeParam>(R"({"kind":"Status","status":"Failure","code":404})");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.status().code(), base::Code::malformed);
  EXPECT_NE(got.status().message().find("kind: is Status"), std::string::npos) << got.status().str();
}

TYPED_TEST(EveryKind, brokenTextIsMalformed) {
  const std::string whole = encode(fullSample<TypeParam>());
  // A prefix of any length is invalid.
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const auto got = decode<TypeParam>(whole.substr(0, n));
    ASSERT_FALSE(got) << n;
    ASSERT_EQ(got.status().code(), base::Code::malformed);
  }
  for (const char* text :
       {"", " ", "null", "[]", "7", "\"x\"", "{", "{}}", "{} {}", "{\"metadata\":}", "{\"metadata\":{]}"})
    EXPECT_FALSE(decode<TypeParam>(text)) << text;
}

TEST(Decode, theProposalsOwnClaim) {
  const auto claim = decode<v1alpha::ElasticGPUClaim>(R"({
    "apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim",
    "metadata": {"name": "gpushare-egpuc-1", "namespace": "default", "unknown": [1, {"a": null}],
                 "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:egpuClassName": {}}}}]},
    "spec": {"egpuClassName": "gpushare-egpuclass", "resources": {"limits": {"x": 1}, "requests": {
      "gpushare.provisioner.elasticgpu.io/gpu-core": 10, "gpushare.provisioner.elasticgpu.io/gpu-memory": 4 }}},
    "status": {"phase": "Pending", "conditions": [{"type": "Bound", "status": "False", "observedGeneration": 2}]}})");
  ASSERT_TRUE(claim) << claim.status().str();
  EXPECT_EQ(claim->metadata.name, "gpushare-egpuc-1");
  EXPECT_EQ(claim->spec.effectiveClass(), "gpushare-egpuclass");
  EXPECT_EQ(claim->spec.requests.at("gpushare.provisioner.elasticgpu.io/gpu-core"), "10");
  EXPECT_EQ(claim->spec.requests.at("gpushare.provisioner.elasticgpu.io/gpu-memory"), "4");
  ASSERT_EQ(claim->status.conditions.size(), 1u);
  EXPECT_EQ(claim->status.conditions[0].observedGeneration, 2);
}

TEST(Decode, numbersInRequestsRetainTheirText) {
  const auto claim = decode<v1alpha::ElasticGPUClaim>(
      R"({"spec":{"resources":{"requests":{"a":4,"b":0.5,"c":1e3,"d":1E+3 ,"e":-7,"f":18446744073709551616,)"
      R"("g":"1.50Gi"}}}})");
  ASSERT_TRUE(claim) << claim.status().str();
  const core::StringMap want = {{"a", "4"},     {"b", "0.5"}, {"c", "1e3"},
                                {"d", "1E+3"},  {"e", "-7"},  {"f", "18446744073709551616"},
                                {"g", "1.50Gi"}};
  EXPECT_EQ(claim->spec.requests, want);
}

TEST(Decode, wrongTypesNameTheField) {
  const auto why = [](const auto& result) { return result ? "accepted" : result.status().str(); };
  EXPECT_EQ(why(decode<v1alpha::ElasticGPU>(R"({"spec":{"cards":[{"core":1},{"core":"1"}]}})")),
            "malformed: spec.cards[1].core: must be an integer");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPU>(R"({"spec":{"card":{"memory":1.5}}})")),
            "malformed: spec.card.memory: must be an integer");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPU>(R"({"spec":{"card":{"memory":9223372036854775808}}})")),
            "malformed: spec.card.memory: must be an integer");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPU>(R"({"spec":{"allocations":{"u":{"core":true}}}})")),
            "malformed: spec.allocations.u.core: must be an integer");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPU>(R"({"spec":{"card":[]}})")), "malformed: spec.card: must be an object");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPUClaim>(R"({"spec":{"resources":{"requests":{"a/gpu":true}}}})")),
            "malformed: spec.resources.requests[a/gpu]: must be a quantity: a string or a number");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPUClaim>(R"({"metadata":{"labels":{"a/b":1}}})")),
            "malformed: metadata.labels[a/b]: must be a string");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPUClaim>(R"({"metadata":{"finalizers":{}}})")),
            "malformed: metadata.finalizers: must be an array");
  EXPECT_EQ(why(decode<v1alpha::ElasticGPUClaim>(R"({"metadata":{"finalizers":["a",1]}})")),
            "malformed: metadata.finalizers[1]: must be a string");
  EXPECT_EQ(why(decode<core::Pod>(R"({"spec":{"containers":[{"resources":{"claims":[{"name":[]}]}}]}})")),
            "malformed: spec.containers[0].resources.claims[0].name: must be a string");
  EXPECT_EQ(why(decode<core::Node>(R"({"spec":{"unschedulable":"yes"}})")),
            "malformed: spec.unschedulable: must be true or false");
  EXPECT_EQ(why(decode<core::Node>(R"({"status":{"allocatable":{"cpu":"4 cores"}}})")).substr(0, 60),
            "malformed: status.allocatable.cpu: must be a quantity: suffi");
}

TEST(Decode, nullLeavesAFieldUnset) {
  const auto gpu = decode<v1alpha::ElasticGPU>(
      R"({"metadata":{"creationTimestamp":null,"labels":null,"finalizers":null,"generation":null},
          "spec":{"card":null,"cards":null,"claimRef":null,"capacity":null,"gpuShare":null,
           "nodeAffinity":{"required":null},
                  "allocations":{"gone":null}},"status":null})");
  ASSERT_TRUE(gpu) << gpu.status().str();
  EXPECT_TRUE(same(*gpu, v1alpha::ElasticGPU{}));
  EXPECT_FALSE(decode<v1alpha::ElasticGPU>(R"({"spec":{"card":nul}})"));
}

TEST(Decode, emptyObjectsAreThere) {
  const auto gpu = decode<v1alpha::ElasticGPU>(R"({"spec":{"card":{},"claimRef":{},"remote":{}}})");
  ASSERT_TRUE(gpu);
  EXPECT_TRUE(gpu->isCard());
  EXPECT_TRUE(gpu->spec.claimRef);
  EXPECT_EQ(gpu->spec.source->kind, v1alpha::SourceKind::remote);
  const auto pod = decode<core::Pod>(R"({"spec":{"affinity":{"podAffinity":{}}}})");
  ASSERT_TRUE(pod);
  EXPECT_TRUE(pod->hasAffinity);
  EXPECT_FALSE(pod->hasNodeAffinity);
}

TEST(Decode, integersMayBeWrittenAsReals) {
  const auto gpu = decode<v1alpha::ElasticGPU>(R"({"spec":{"card":{"core":1.0e3,"memory":-0.0}}})");
  ASSERT_TRUE(gpu) << gpu.status().str();
  EXPECT_EQ(gpu->spec.card->core, 1000);
  EXPECT_EQ(gpu->spec.card->memory, 0);
}

TEST(Decode, severalSourcesAreDistinguished) {
  const auto gpu = decode<v1alpha::ElasticGPU>(R"({"spec":{"gpuShare":{"gpuName":"a"},"mig":{"gpuName":"b"}}})");
  ASSERT_TRUE(gpu);
  EXPECT_TRUE(gpu->spec.source->ambiguous);
  EXPECT_FALSE(
      decode<v1alpha::ElasticGPU>(R"({"spec":{"gpuShare":{"gpuName":"a"},"mig":null}})")->spec.source->ambiguous);
}

TEST(Decode, keysAndTextsMayBeEscaped) {
  const auto claim =
      decode<v1alpha::ElasticGPUClaim>(R"({"met\u0061data":{"name":"\ud83d\ude00\u0000\/","labels":{"\u0061":"1"}}})");
  ASSERT_TRUE(claim) << claim.status().str();
  EXPECT_EQ(claim->metadata.name, std::string("\U0001F600\0/", 6));
  EXPECT_EQ(claim->metadata.label("a"), "1");
  EXPECT_FALSE(decode<v1alpha::ElasticGPUClaim>("{\"metadata\":{\"name\":\"\xff\"}}"));
  EXPECT_FALSE(decode<v1alpha::ElasticGPUClaim>("{\"metadata\":{\"name\":\"a\nb\"}}"));
}

TEST(Decode, kubectlsCopyOfTheObjectIsNotStored) {
  const auto claim = decode<v1alpha::ElasticGPUClaim>(
      R"({"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","keep":"me"}}})");
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->metadata.annotations, (core::StringMap{{"keep", "me"}}));
}

TEST(Decode, amountsOfANodeAreRoundedDown) {
  const auto node = decode<core::Node>(
      R"({"status":{"allocatable":{"cpu":"3920100u","memory":"1.5Ki","pods":110},
          "conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}]}})");
  ASSERT_TRUE(node) << node.status().str();
  EXPECT_EQ(node->cpuMilli, 3920);
  EXPECT_EQ(node->memoryBytes, 1536);
  EXPECT_EQ(node->maxPods, 110);
  EXPECT_TRUE(node->ready);
}

TEST(Decode, aKubernetesPod) {
  const auto pod = decode<core::Pod>(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{
    "schedulingGates":[{"name":"elasticgpu.io/claims"}],
    "resourceClaims":[{"name":"g","resourceClaimName":"train"},{"name":"t","resourceClaimTemplateName":"x"}],
    "containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"500m","memory":1},"claims":[{"name":"g"}]}}],
    "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
      {"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}]}]}}},
    "tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":300}]},
    "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","lastProbeTime":null}],
      "resourceClaimStatuses":[{"name":"t","resourceClaimName":"p-t-x7k2p"}]}})");
  ASSERT_TRUE(pod) << pod.status().str();
  EXPECT_EQ(pod->schedulingGates, std::vector<std::string>{"elasticgpu.io/claims"});
  const std::vector<core::PodResourceClaim> claims = {{"g", "train"}, {"t", "", "x"}, {"t", "p-t-x7k2p"}};
  EXPECT_EQ(pod->resourceClaims, claims);
  EXPECT_EQ(pod->containers[0].resourceClaims, std::vector<std::string>{"g"});
  EXPECT_EQ(pod->containers[0].requests, (core::StringMap{{"cpu", "500m"}, {"memory", "1"}}));
  ASSERT_TRUE(pod->requiredNodeAffinity);
  EXPECT_EQ(pod->requiredNodeAffinity->terms[0].matchExpressions[0].values, (std::vector<std::string>{"a", "b"}));
}

TEST(Decode, aPodsClaimsInWhicheverOrderSpecAndStatusCome) {
  const auto pod = decode<core::Pod>(R"({"status":{"resourceClaimStatuses":[{"name":"t","resourceClaimName":"x"}]},
    "spec":{"resourceClaims":[{"name":"t","resourceClaimTemplateName":"y"}]}})");
  ASSERT_TRUE(pod) << pod.status().str();
  EXPECT_EQ(pod->resourceClaims, (std::vector<core::PodResourceClaim>{{"t", "x"}, {"t", "", "y"}}));
}

TEST(Encode, theResourceClaimAsKubernetesWantsIt) {
  core::ResourceClaim claim;
  claim.metadata.name = "train";
  claim.metadata.namespace_ = "default";
  claim.requestName = "gpu";
  claim.deviceClassName = "elasticgpu.io";
  claim.allocation =
      core::ResourceClaimAllocation{"gpu", "elasticgpu.io", "n1", "egpu-1", "n1", "2026-01-02T03:04:05Z"};
  EXPECT_EQ(
      encode(claim),
      R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"train","namespace":"default"},)"
      R"("spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"elasticgpu.io"}}]}},)"
      R"("status":{"allocation":{"allocationTimestamp":"2026-01-02T03:04:05Z","devices":{"results":[)"
      R"({"request":"gpu","driver":"elasticgpu.io","pool":"n1","device":"egpu-1"}]},"nodeSelector":{)"
      R"("nodeSelectorTerms":[)"
      R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}}}})");
}

TEST(Encode, anAllocationWithoutNodeRequiresAnAgent) {
  core::ResourceClaim claim;
  claim.metadata.name = "train";
  claim.allocation =
      core::ResourceClaimAllocation{"gpu", "elasticgpu.io", "remote", "egpu-1", "", "2026-01-02T03:04:05Z"};
  const auto text = encode(claim);
  EXPECT_NE(text.find(R"("nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"elasticgpu.io/agent",)"
                      R"("operator":"In","values":["true"]}]},)"),
            std::string::npos)
      << text;
  const auto read = decode<core::ResourceClaim>(text);
  ASSERT_TRUE(read.ok()) << read.status().str();
  EXPECT_EQ(read->allocation, claim.allocation);
}

TEST(Encode, aDeviceAsTheCrdHasIt) {
  v1alpha::ElasticGPU gpu;
  gpu.metadata.name = "egpu-1";
  auto& source = gpu.spec.source.emplace();
  source.kind = v1alpha::SourceKind::gpuShare;
  source.gpuNames = {"gpu-0"};
  gpu.spec.nodeName = "n1";
  gpu.spec.cards.push_back({"gpu-0", "GPU-0", 100, 4, 50, 2});
  gpu.spec.className = "shared";
  gpu.spec.claimRef = v1alpha::ClaimRef{"default", "train", "u"};
  EXPECT_EQ(
      encode(gpu),
      R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPU","metadata":{"name":"egpu-1"},"spec":{)"
      R"("gpuShare":{"gpuName":"gpu-0"},"nodeName":"n1","cards":[{"name":"gpu-0","uuid":"GPU-0","core":100,"memory":4,)"
      R"("chargedCore":50,"chargedMemory":2}],"egpuClassName":"shared",)"
      R"("claimRef":{"namespace":"default","name":"train","uid":"u"}}})");
}

}  // namespace
}  // namespace egpu::codec

// Each body is applied as a server would, by a library that codec's writer does not use.
#include "controller/codec/patch.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controller/codec/codec.h"
#include "tests/codec/samples.h"

namespace egpu::codec::patch {
namespace {

using egpu::testing::same;
using nlohmann::json;

/// Applies a merge patch to `object`.
template <class T>
T merged(const T& object, const std::string& body) {
  json j = json::parse(encode(object));
  j.merge_patch(json::parse(body));
  auto out = decode<T>(j.dump());
  EXPECT_TRUE(out) << out.status().str();
  return out ? *out : T{};
}

v1alpha::ElasticGPU card() {
  v1alpha::ElasticGPU out;
  out.metadata.name = "gpu-1";
  out.metadata.uid = "card-uid";
  out.spec.card = v1alpha::Card{};
  out.spec.card->uuid = "GPU-1";
  out.spec.allocations["a"] = {"egpu-a", "ns/a", 100, 200};
  return out;
}

TEST(LedgerPatch, entryIsAddedAndNothingElseTouched) {
  const v1alpha::LedgerEntry entry{"egpu-b", "ns/b", 300, 400};
  const std::string body = ledgerEntry("card-uid", "b", entry);
  EXPECT_EQ(body,
            R"({"metadata":{"uid":"card-uid"},"spec":{"allocations":{"b":{"device":"egpu-b","claim":"ns/b","core":300,)"
            R"("memory":400,"resize":null}}}})");
  auto want = card();
  want.spec.allocations["b"] = entry;
  EXPECT_TRUE(same(merged(card(), body), want));
  EXPECT_TRUE(same(merged(merged(card(), body), body), want)) << "writing it again changes nothing";
}

TEST(LedgerPatch, zeroAmountsAreWritten) {
  EXPECT_EQ(json::parse(ledgerEntry("", "b", {"egpu-b", "ns/b", 0, 0}))["spec"]["allocations"]["b"]["core"], 0);
}

TEST(LedgerPatch, releaseRemovesItsEntryOnly) {
  auto before = card();
  before.spec.allocations["b"] = {"egpu-b", "ns/b", 300, 400};
  EXPECT_EQ(ledgerRelease("b"), R"({"spec":{"allocations":{"b":null}}})");
  EXPECT_EQ(ledgerRelease("b", true), R"({"spec":{"allocations":{"b":null},"mode":null}})");
  EXPECT_EQ(json::parse(ledgerEntry("", "b", {"egpu-b", "ns/b", 1, 1}, "limiter"))["spec"]["mode"], "limiter");
  EXPECT_TRUE(same(merged(before, ledgerRelease("b")), card()));
}

TEST(FinalizersPatch, replacesAllWithPreconditions) {
  EXPECT_EQ(finalizers("u", "7", {"a", "b"}),
            R"({"metadata":{"uid":"u","resourceVersion":"7","finalizers":["a","b"]}})");
  EXPECT_EQ(finalizers("u", "", {}), R"({"metadata":{"uid":"u","finalizers":[]}})");
}

TEST(ClaimBindPatch, nameOnlyIfGiven) {
  EXPECT_EQ(claimBind("u", "7", {"f"}, "egpu-1"),
            R"({"metadata":{"uid":"u","resourceVersion":"7","finalizers":["f"]},"spec":{"elasticGPUName":"egpu-1"}})");
  EXPECT_EQ(claimBind("u", "7", {"f"}, std::nullopt),
            R"({"metadata":{"uid":"u","resourceVersion":"7","finalizers":["f"]}})");
}

TEST(StatusPatch, outcomeEqualsWhatIsWanted) {
  egpu::testing::RandomObjects random(3);
  for (int i = 0; i < 300; ++i) {
    auto claim = random.next<v1alpha::ElasticGPUClaim>();
    const auto wanted = random.next<v1alpha::ElasticGPUClaim>().status;
    auto want = claim;
    want.status = wanted;
    want.metadata.uid = "u";
    want.metadata.resourceVersion = "7";
    ASSERT_TRUE(same(merged(claim, claimStatus("u", "7", claim.status, wanted)), want)) << encode(claim);

    auto gpu = random.next<v1alpha::ElasticGPU>();
    const auto gpuWanted = random.next<v1alpha::ElasticGPU>().status;
    auto gpuWant = gpu;
    gpuWant.status = gpuWanted;
    ASSERT_TRUE(same(merged(gpu, gpuStatus("", "", gpu.status, gpuWanted)), gpuWant)) << encode(gpu);
  }
}

TEST(StatusPatch, versionOnlyIfGiven) {
  EXPECT_EQ(claimStatus("u", "", {}, {}), R"({"metadata":{"uid":"u"},"status":{}})");
  EXPECT_EQ(classStatus("u", "", {}), R"({"metadata":{"uid":"u"},"status":{"conditions":[]}})");
  EXPECT_EQ(
      classStatus("u", "4", {{"Ready", "True", "", "", "", 0}}),
      R"({"metadata":{"uid":"u","resourceVersion":"4"},"status":{"conditions":[{"type":"Ready","status":"True"}]}})");
}

TEST(ClaimRefPatch, setAndCleared) {
  v1alpha::ElasticGPU device;
  auto want = device;
  want.metadata.uid = "u";
  want.metadata.resourceVersion = "7";
  want.spec.claimRef = v1alpha::ClaimRef{"ns", "a", "claim-uid"};
  EXPECT_TRUE(same(merged(device, claimRef("u", "7", want.spec.claimRef)), want));
  auto cleared = want;
  cleared.spec.claimRef.reset();
  EXPECT_TRUE(same(merged(want, claimRef("u", "7", std::nullopt)), cleared));
}

TEST(CardPatch, leavesTheLedgerAndForgetsOldHardwareFacts) {
  auto before = card();
  before.metadata.labels = {{"kept", "yes"}};
  before.spec.card->model = "old";
  before.spec.card->topology.links = {{"GPU-2", "nvlink", 4}};
  before.spec.card->topology.pcie = "0000:17:00.0";
  auto published = card();
  published.spec.allocations.clear();
  published.metadata.labels = {{"elasticgpu.io/role", "card"}};
  auto& source = published.spec.source.emplace();
  source.kind = v1alpha::SourceKind::physicalGPU;
  source.gpuNames = {"gpu-1"};
  published.spec.capacity = {{"gpu-core", "100"}};
  const auto after = merged(before, cardSpec(published));
  EXPECT_EQ(after.spec.card, published.spec.card);
  EXPECT_EQ(after.spec.source, published.spec.source);
  EXPECT_EQ(after.spec.allocations, before.spec.allocations);
  EXPECT_EQ(after.metadata.label("kept"), "yes");
  EXPECT_EQ(after.metadata.label("elasticgpu.io/role"), "card");
}

TEST(PublishedCardPatch, writesWhatDiffersAndNothingElse) {
  auto before = card();
  before.metadata.uid = "u";
  EXPECT_EQ(publishedCard(before, before), R"([{"op":"test","path":"/metadata/uid","value":"u"}])");
  auto after = before;
  after.metadata.labels = {{"a~b/c", "1"}};
  after.spec.capacity = {{"gpu-core", "100"}};
  after.spec.card->attributes = {{"migMode", "enabled"}};
  after.spec.allocations.clear();
  const std::string first = publishedCard(before, after);
  EXPECT_NE(first.find(R"({"op":"add","path":"/metadata/labels","value":{"a~b/c":"1"}})"), std::string::npos) << first;
  EXPECT_NE(first.find(R"({"op":"add","path":"/spec/capacity","value":{"gpu-core":"100"}})"), std::string::npos);
  EXPECT_NE(first.find(R"({"op":"add","path":"/spec/card/attributes","value":{"migMode":"enabled"}})"),
            std::string::npos)
      << first;
  EXPECT_EQ(first.find("allocations"), std::string::npos);
  before.metadata.labels = {{"kept", "yes"}};
  before.spec = after.spec;
  EXPECT_EQ(publishedCard(before, after), R"([{"op":"test","path":"/metadata/uid","value":"u"},)"
                                          R"({"op":"add","path":"/metadata/labels/a~0b~1c","value":"1"}])");
}

/// A newer agent wrote the object earlier, or an agent of another version runs on the same node.
TEST(PublishedCardPatch, retainsWhatThisVersionDoesNotKnow) {
  auto before = card();
  before.metadata.uid = "u";
  before.spec.card->model = "A100";
  before.spec.card->topology.pcie = "0000:3b:00.0";
  before.spec.card->topology.numa = 1;
  auto stored = nlohmann::json::parse(encode(before));
  stored["spec"]["card"]["partitions"] = {{"profile", "1g"}};
  stored["spec"]["card"]["topology"]["fabric"] = "clique-1";
  stored["metadata"]["labels"]["new"] = "label";
  auto after = before;
  after.spec.card->model.clear();
  after.spec.card->milliTflops = 19'500;
  after.spec.card->topology.pcie.clear();
  after.spec.card->topology.links = {{"GPU-2", "nvlink", 4}};
  const auto patched = stored.patch(nlohmann::json::parse(publishedCard(before, after)));
  EXPECT_EQ(patched["spec"]["card"]["partitions"], stored["spec"]["card"]["partitions"]);
  EXPECT_EQ(patched["spec"]["card"]["topology"]["fabric"], "clique-1");
  EXPECT_EQ(patched["metadata"]["labels"]["new"], "label");
  const auto decoded = decode<v1alpha::ElasticGPU>(patched.dump());
  ASSERT_TRUE(decoded.ok()) << decoded.status().str();
  EXPECT_EQ(decoded->spec, after.spec);
  EXPECT_FALSE(patched["spec"]["card"].contains("model"));
}

TEST(AllocationPatch, setAndCleared) {
  core::ResourceClaim claim;
  claim.requestName = "gpu";
  claim.reservedFor = {{"pods", "p", "pod-uid"}};
  auto want = claim;
  want.allocation = core::ResourceClaimAllocation{"gpu", "elasticgpu.io", "n1", "egpu-1", "n1", "2026-01-02T03:04:05Z"};
  EXPECT_TRUE(same(merged(claim, allocation("", "", want.allocation)), want));
  EXPECT_TRUE(same(merged(want, allocation("", "", std::nullopt)), claim)) << "reservedFor is never touched";
}

TEST(AnnotationsPatch, setsAndRemoves) {
  core::Pod pod;
  pod.metadata.annotations = {{"gone", "1"}, {"kept", "2"}};
  const auto after = merged(pod, annotations("u", {{"gone", std::nullopt}, {"new/key", "v\n"}}));
  EXPECT_EQ(after.metadata.annotations, (core::StringMap{{"kept", "2"}, {"new/key", "v\n"}}));
}

TEST(LeasePatch, isTheWholeRecordAnEmptyHolderIncluded) {
  core::Lease l;
  l.metadata.name = "lock";
  l.metadata.uid = "u";
  l.metadata.resourceVersion = "7";
  l.leaseDurationSeconds = 1;
  l.acquireTime = l.renewTime = "2026-01-02T03:04:05.000000Z";
  l.leaseTransitions = 3;
  EXPECT_EQ(lease(l),
            R"({"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"holderIdentity":"","leaseDurationSeconds":1,)"
            R"("acquireTime":"2026-01-02T03:04:05.000000Z","renewTime":"2026-01-02T03:04:05.000000Z",)"
            R"("leaseTransitions":3}})");
}

TEST(DeleteOptions, preconditions) {
  EXPECT_EQ(deleteOptions("u", "7"),
            R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"7"}})");
  EXPECT_EQ(deleteOptions("", ""), R"({"apiVersion":"v1","kind":"DeleteOptions"})");
}

// ---- pin and lift ----

constexpr std::string_view kGate = "elasticgpu.io/claims";

/// Returns a pod as the server holds it, with fields that the struct does not know.
json pod(const char* affinity, const char* gates = R"([{"name":"other"},{"name":"elasticgpu.io/claims"}])") {
  json out = json::parse(R"({"kind":"Pod","metadata":{"name":"p","uid":"pod-uid"},"spec":{"restartPolicy":"Never"}})");
  out["spec"]["schedulingGates"] = json::parse(gates);
  if (affinity) out["spec"]["affinity"] = json::parse(affinity);
  return out;
}
json pinned(const json& before) {
  const auto decoded = decode<core::Pod>(before.dump());
  EXPECT_TRUE(decoded);
  return before.patch(json::parse(pinAndLift(*decoded, "n1", kGate)));
}
const json kPin = json::parse(R"({"key":"metadata.name","operator":"In","values":["n1"]})");
const json kPinTerm = {{"matchFields", json::array({kPin})}};
json requiredOf(const json& pod) {
  return pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
}

TEST(PinAndLift, withoutAnyAffinity) {
  const json after = pinned(pod(nullptr));
  EXPECT_EQ(requiredOf(after), json::array({kPinTerm}));
  EXPECT_EQ(after["spec"]["schedulingGates"], json::parse(R"([{"name":"other"}])"));
  EXPECT_EQ(after["spec"]["restartPolicy"], "Never");
}

TEST(PinAndLift, retainsWhatTheAffinityHolds) {
  const json podAffinity =
      json::parse(R"({"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]})");
  json after = pinned(pod((R"({"podAffinity":)" + podAffinity.dump() + "}").c_str()));
  EXPECT_EQ(requiredOf(after), json::array({kPinTerm}));
  EXPECT_EQ(after["spec"]["affinity"]["podAffinity"], podAffinity);

  after = pinned(pod(R"({"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}})"));
  EXPECT_EQ(requiredOf(after), json::array({kPinTerm}));
  EXPECT_EQ(after["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"],
            1);
}

TEST(PinAndLift, everyTermIsPinnedOnTopOfWhatItAsks) {
  const json zone = json::parse(R"([{"key":"zone","operator":"In","values":["a"]}])");
  const json named = json::parse(R"([{"key":"metadata.name","operator":"NotIn","values":["n2"]}])");
  json terms = json::array({{{"matchExpressions", zone}}, {{"matchFields", named}}});
  const json before =
      pod((R"({"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":)" + terms.dump() +
           "}}}")
              .c_str());
  terms[0]["matchFields"] = json::array({kPin});
  terms[1]["matchFields"].push_back(kPin);
  EXPECT_EQ(requiredOf(pinned(before)), terms);
}

TEST(PinAndLift, aTermThatMatchesNothingStaysSo) {
  const json before =
      pod(R"({"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{},{)"
          R"("matchExpressions":[{"key":"a","operator":"Exists"}]}]}}})");
  const json after = pinned(before);
  EXPECT_EQ(requiredOf(after)[0], json::object());
  EXPECT_EQ(requiredOf(after)[1]["matchFields"], json::array({kPin}));
}

TEST(PinAndLift, isRefusedForAnotherPodOrOtherGates) {
  const auto seen = decode<core::Pod>(pod(nullptr).dump());
  const auto body = json::parse(pinAndLift(*seen, "n1", kGate));
  json other = pod(nullptr);
  other["metadata"]["uid"] = "another";
  EXPECT_THROW((void)other.patch(body), json::exception);
  EXPECT_THROW((void)pod(nullptr, R"([{"name":"elasticgpu.io/claims"},{"name":"other"}])").patch(body),
               json::exception);
  EXPECT_THROW((void)pod(nullptr, "[]").patch(body), json::exception);
  EXPECT_NO_THROW((void)pod(nullptr).patch(body));
}

TEST(LiftGate, removesTheGateOnly) {
  const json before = pod(nullptr);
  const json after = before.patch(json::parse(liftGate(*decode<core::Pod>(before.dump()), kGate)));
  json want = before;
  want["spec"]["schedulingGates"] = json::parse(R"([{"name":"other"}])");
  EXPECT_EQ(after, want);
  const json without = pod(nullptr, R"([{"name":"other"}])");
  EXPECT_EQ(without.patch(json::parse(liftGate(*decode<core::Pod>(without.dump()), kGate))), without);
}

}  // namespace
}  // namespace egpu::codec::patch

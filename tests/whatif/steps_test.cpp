// /simulate: effects of steps on claims that are more than an amount: members of gangs, claims of deleted classes, new
// claims.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/reconcile/claim/resolve.h"
#include "tests/whatif/questions.h"

namespace egpu::whatif {
namespace {

class StepsTest : public QuestionsTest {
 protected:
  template <class F>
  void change(const std::string& name, F f) {
    auto changed = *stores.claims.get({"default", name});
    changed.metadata.resourceVersion = next();
    f(changed);
    stores.claims.informed(changed);
  }
  void ofGang(const std::string& name) {
    change(name, [](auto& claim) {
      claim.metadata.annotations = {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "4"}};
    });
  }
  void quota(const core::StringMap& hard, const std::vector<std::string>& classes = {}) {
    cache::Quota made;
    made.metadata.name = made.metadata.uid = "team";
    made.metadata.namespace_ = "default";
    made.metadata.resourceVersion = next();
    made.spec.hard = hard;
    made.spec.classes = classes;
    stores.quotas.informed(made);
  }
  std::string created(const std::string& metadata, const std::string& spec) {
    return answer("/simulate", "", "steps: [{create: {metadata: {" + metadata + "}, spec: {" + spec + "}}}]");
  }
  static std::string share(const std::string& percent) {
    return "egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: " + percent + "}}";
  }
};

TEST_F(StepsTest, AResizePlacesNobodyWhoIsNotDecidedByItself) {
  has(answer("/simulate", "resize=waits,gpu-core=10"), R"("bound":[{"claim":"default/waits")");
  ofGang("waits");
  const auto member = answer("/simulate", "resize=waits,gpu-core=10");
  has(member, R"("why":"it is scheduled with all members of gang train"},"bound":[],"waiting":0)");
  has(answer("/simulate", "resize=waits,gpu-core=10&format=text&columns=0"),
      "it requests the new size from now on, and is not placed: it is scheduled with all members of gang train");
  change("waits", [](auto& claim) { claim.metadata.annotations.clear(); });
  change("waits", [](auto& claim) { claim.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"; });
  has(answer("/simulate", "resize=waits,gpu-core=10"), R"("why":"it is being deleted"},"bound":[])");
  has(answer("/simulate", "claim=waits&resize=waits,gpu-core=10"), R"("notDecided":"it is being deleted")");
}

TEST_F(StepsTest, AResizePlacesNobodyWhoWaitsForItsFirstPod) {
  bindsForItsPod("share");
  has(answer("/simulate", "resize=waits,gpu-core=10"),
      R"("why":"it waits for the first pod that uses it"},"bound":[],"waiting":0)");
}

TEST_F(StepsTest, WhatWasRefusedForItsSizeIsPlacedWithAnother) {
  claim("odd", "150");
  has(answer("/simulate", "resize=odd,gpu-core=10"), R"("bound":[{"claim":"default/odd")");
}

TEST_F(StepsTest, ABoundClaimIsAskedAboutWhateverItsClassHasBecome) {
  stores.classes.informedGone(*stores.classes.get({"", "share"}));
  has(answer("/simulate", "resize=a,gpu-core=40"), R"("resized":{"claim":"default/a","node":"n1","inPlace":true)");
  const auto both = answer("/simulate", "claim=a&resize=a,gpu-core=40");
  has(both, R"("resized":{"claim":"default/a","node":"n1","inPlace":true)");
  has(both, R"("notDecided":"ElasticGPUClass \"share\" not found)");
}

TEST_F(StepsTest, ADeviceWhosePluginCantResizeIsRefused) {
  movable("a", {{"resizable", "true"}});
  QuestionService plugins{stores, view, clock, [](const cache::Gpu& device) {
                            return device.metadata.name == "egpu-a" ? "it can't" : std::string();
                          }};
  http::Request r;
  r.method = "GET";
  r.path = "/simulate";
  r.query = "resize=a,gpu-core=70";
  has(plugins.answer(r).body, R"("refused":"it can't")");
  EXPECT_EQ(answer("/simulate", "resize=a,gpu-core=70").find("refused"), std::string::npos);
}

TEST_F(StepsTest, WhatGrowsWhereItsNamespaceMayUseTheClassNoMoreIsRefused) {
  movable("a", {{"resizable", "true"}});
  auto cls = *stores.classes.get({"", "share"});
  cls.metadata.resourceVersion = next();
  cls.allowedNamespaces.emplace();
  cls.allowedNamespaces->matchLabels = {{"team", "other"}};
  stores.classes.informed(cls);
  has(answer("/simulate", "resize=a,gpu-core=70"), R"("refused":"class share is for some namespaces only)");
  EXPECT_EQ(answer("/simulate", "resize=a,gpu-core=50").find("refused"), std::string::npos) << "a shrink is allowed";
}

/// Compares with the controller's own answer, with capacity nominated to a preemptor.
TEST_F(StepsTest, AResizeLeavesCapacityThatIsReservedForOthersAsTheControllerDoes) {
  movable("a", {{"resizable", "true"}});
  change("waits", [](auto& claim) {
    claim.status.priority = 5;
    claim.status.nominated = v1alpha::Nomination{"n1", {{"n1-c0", 300, 1}, {"n2-c0", 100, 1}}, {"somebody"}};
  });
  const auto device = *stores.devices.get({"", "egpu-a"});
  for (const auto& [percent, fits] : {std::pair{"70", true}, {"71", false}, {"50", true}}) {
    auto claim = *stores.claims.get({"default", "a"});
    claim.spec.requests = {{"elasticgpu.io/gpu-core", percent}};
    allocator::Allocator::SchedulingRequest ask{"a", "default/a", {}, {}, "share"};
    ask.request = std::get<scheduler::Request>(scheduler::makeRequest(claim, reconcile::classOfDevice(device)));
    const auto decided = view.decideResize(ask, device, true).value();
    view.forgetResize(device);
    EXPECT_EQ(decided.inPlace, fits) << percent;
    const auto reply = answer("/simulate", std::string("resize=a,gpu-core=") + percent);
    has(reply, std::string(R"("inPlace":)") + (fits ? "true" : "false"));
    if (!fits) has(reply, decided.why);
  }
  has(answer("/simulate", "resize=b,gpu-core=100"), R"("inPlace":true)");
}

TEST_F(StepsTest, ANewClaimIsHeldToTheQuotasOfItsNamespaceAndClass) {
  quota({{"gpu-core", "250"}});  // 210 are used
  has(created("", share("40")), R"("created":{"claim":"default/new-1","to":{"fits":true)");
  has(created("", share("70")), R"("fits":false,"cards":[]},"why":"quota team allows gpu-core 250)");
  has(created("namespace: other", share("70")), R"("created":{"claim":"other/new-1","to":{"fits":true)");
  quota({{"gpu-core", "0"}}, {"another"});
  has(created("name: e", share("70")), R"("created":{"claim":"default/e","to":{"fits":true)");
}

TEST_F(StepsTest, NewClaimsWithoutNamesAreNobodyElses) {
  claim("new-1", "10");
  const auto two = answer("/simulate", "",
                          "steps: [{create: {spec: {" + share("10") + "}}}, {create: {spec: {" + share("10") + "}}}]");
  has(two, R"("created":{"claim":"default/new-2")");
  has(two, R"("created":{"claim":"default/new-3")");
}

TEST_F(StepsTest, ANewClaimGoesWhereItsClassTolerates) {
  has(created("name: e", share("70")), R"("to":{"fits":true,"node":"n2")");
  auto tainted = *stores.nodes.get({"", "n2"});
  tainted.metadata.resourceVersion = next();
  tainted.taints = {{"gpu", "yes", "NoSchedule"}};
  stores.nodes.informed(tainted);
  has(created("name: e", share("70")), R"("to":{"fits":false)");
}

TEST_F(StepsTest, ANewClaimGetsTheFirstOfItsAlternativesThatFits) {
  has(created("name: e",
              "egpuClassName: share, firstAvailable: [{name: most, resources: {requests: {elasticgpu.io/gpu-core: "
              "90}}}, {name: some, resources: {requests: {elasticgpu.io/gpu-core: 70}}}]"),
      R"("created":{"claim":"default/e","to":{"fits":true,"node":"n2")");
}

TEST_F(StepsTest, OfAPodsClaimItIsReportedThatItsGangDecides) {
  bindsForItsPod("share");
  const std::string pod =
      "kind: Pod\nmetadata: {name: p, annotations: {egpuc.elasticgpu.io/gpu: waits}}\nspec: {containers: [{name: "
      "main}]}\n";
  EXPECT_EQ(answer("/simulate", "", pod).find("waits for the first pod"), std::string::npos) << "this is its pod";
  ofGang("waits");
  const std::string note =
      R"("note":"it is scheduled with all members of gang train; this answer is for the claim alone")";
  has(answer("/simulate", "", pod), note);
  has(answer("/simulate", "",
             "kind: ElasticGPUClaim\nmetadata: {name: new, annotations: {elasticgpu.io/gang: train, "
             "elasticgpu.io/gang-size: \"4\"}}\nspec: {" +
                 share("10") + "}\n"),
      note);
}

}  // namespace
}  // namespace egpu::whatif

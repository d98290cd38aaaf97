#include "controller/whatif/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stop_token>
#include <utility>
#include <vector>

#include "controller/server/allocation_map.h"
#include "controller/server/operations/operations.h"
#include "controller/server/operations/prometheus_metrics.h"
#include "tests/whatif/questions.h"

namespace egpu::whatif {
namespace {

TEST_F(QuestionsTest, ExplainsAClaimThatWaitsPerStageAndByName) {
  const auto json = answer("/explain", "claim=waits");
  has(json, R"("claim":"default/waits")");
  has(json, R"("fits":false)");
  has(json, R"j({"stage":"core","before":4,"after":0,"reasons":[{"reason":"short of free core )j"
            R"j((need 90%, best has 70%)","count":4}])j");
  has(json, R"j({"node":"n2","card":"n2-c0","reason":"short of free core (need 90%, has 70%)"})j");
  has(json, R"j("smallestChange":"gpu-core 70 would fit now (node n2)j");
  const auto text = answer("/explain", "claim=waits&format=text&names=1");
  has(text, "claim default/waits of class share: gpu-core 90\nPending\nfits nowhere: 0/2 nodes fit\n");
  has(text, "  core            4      0  4 short of free core (need 90%, best has 70%)\n");
  has(text, "  and 3 more (--names shows more)\n");
  has(text, "gpu-core 70 would fit now (node n2)");
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(answer("/explain", "claim=waits&format=text&color=1").find("\033[31m"), std::string::npos);
}

TEST_F(QuestionsTest, NoCardIsChosenForAClassOfRemoteGpus) {
  stores.remoteProvisioners.set("remote", true);
  cache::Class cls;
  cls.metadata.name = cls.metadata.uid = "pool";
  cls.metadata.resourceVersion = next();
  cls.provisioner = "remote";
  stores.classes.informed(cls);
  const std::string why = "class pool provides remote GPUs: no card and no node is chosen";
  has(answer("/explain", "class=pool&gpu=1&format=text"), why);
  has(answer("/explain", "class=pool&gpu=1"), why);
  has(answer("/simulate", "class=pool&gpu=1&format=text"), why);
}

TEST_F(QuestionsTest, ExplainsWhatIsNotThereYet) {
  has(answer("/explain", "class=share&gpu-core=70"), R"("fits":true,"node":"n2")");
  has(answer("/explain", "class=share&gpu-core=70&node=n1"), R"("fits":false)");
  has(answer("/explain", "class=share&gpu-core=10&card=n1-c1"), R"("name":"n1-c1")");
  const std::string manifest =
      "kind: ElasticGPUClaim\nmetadata: {name: x, namespace: t}\nspec: {egpuClassName: share, resources: {requests: "
      "{elasticgpu.io/gpu: 1}}}\n";
  has(answer("/explain", "", manifest), R"("claim":"t/x")");
  has(answer("/explain", "namespace=u", manifest), R"("claim":"t/x")");
  const std::string nowhere =
      "metadata: {name: x}\nspec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu: 1}}}\n";
  has(answer("/explain", "namespace=u", nowhere), R"("claim":"u/x")");
  has(answer("/explain", "", nowhere), R"("claim":"default/x")");
  has(answer("/explain", "", manifest), R"("reason":"in use")");
}

TEST_F(QuestionsTest, OfAlternativesTheFirstThatFitsIsAnswered) {
  const std::string either =
      "metadata: {name: x}\nspec: {egpuClassName: share, firstAvailable: [{name: most, resources: {requests: "
      "{elasticgpu.io/gpu-core: 90}}}, {name: some, resources: {requests: {elasticgpu.io/gpu-core: 70}}}]}\n";
  const auto explained = answer("/explain", "", either);
  has(explained, R"("fits":true,"node":"n2")");
  has(explained, R"("note":"this is about some of its alternatives most, some")");
  has(answer("/simulate", "", either), R"("fits":true,"node":"n2")");
  has(answer("/explain", "node=n1", either), R"("note":"this is about most of its alternatives most, some")");
  has(answer("/forecast", "", either), "this is about most");
  has(answer("/simulate", "",
             either + "---\nkind: Pod\nmetadata: {name: p, annotations: {egpuc.elasticgpu.io/gpu: x}}\nspec: "
                      "{containers: [{name: main}]}\n"),
      R"("fits":true)");
}

TEST_F(QuestionsTest, AClaimThatAsksForNothingDecidableReportsWhy) {
  claim("odd", "150");
  has(answer("/explain", "claim=odd"), "above 100 only whole cards are given");
  auto c = *stores.claims.get({"default", "waits"});
  c.metadata.resourceVersion = next();
  c.spec.className = "gone";
  stores.claims.informed(c);
  has(answer("/explain", "claim=waits&format=text"), "not decided: ElasticGPUClass \"gone\" not found");
}

TEST_F(QuestionsTest, AClaimWhoseOnlyPodIsHeldByAQueueIsAskedAboutButNotPlaced) {
  bindsForItsPod("share");
  core::Pod pod;
  pod.metadata.name = pod.metadata.uid = "p";
  pod.metadata.namespace_ = "default";
  pod.metadata.resourceVersion = next();
  pod.resourceClaims = {{"waits", "waits"}};
  pod.schedulingGates = {"elasticgpu.io/claims", "kueue.x-k8s.io/admission"};
  stores.pods.informed(pod);
  const std::string why = "pod p is held by scheduling gate kueue.x-k8s.io/admission";
  has(answer("/explain", "claim=waits"), R"("note":")" + why);
  has(answer("/simulate", "release=c"), R"("bound":[],"waiting":0})");
  const std::string manifest =
      "kind: Pod\nmetadata: {name: q, annotations: {egpuc.elasticgpu.io/gpu: waits}}\nspec: {schedulingGates: [{name: "
      "kueue.x-k8s.io/admission}], containers: [{name: main}]}\n";
  has(answer("/simulate", "", manifest), "pod q is held by scheduling gate kueue.x-k8s.io/admission");
}

TEST_F(QuestionsTest, AClaimThatWaitsForItsFirstPodIsAskedAboutButNotPlaced) {
  bindsForItsPod("share");
  has(answer("/explain", "claim=waits"), R"("note":"it waits for the first pod that uses it; the node conditions)");
  has(answer("/explain", "claim=waits"), R"("before":4,"after":0)");
  has(answer("/simulate", "release=c"), R"("bound":[],"waiting":0})");
}

TEST_F(QuestionsTest, AMemberOfAGangIsAskedAboutButNotPlacedByItself) {
  claim("member", "20");
  auto member = *stores.claims.get({"default", "member"});
  member.metadata.annotations = {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "4"}};
  member.metadata.resourceVersion = next();
  stores.claims.informed(member);
  has(answer("/explain", "claim=member"),
      R"("note":"it is scheduled with all members of gang train; this answer is for the claim alone")");
  has(answer("/simulate", "resize=c,gpu-core=90"), R"("inPlace":true)");
  has(answer("/simulate", "release=c"), R"("bound":[{"claim":"default/waits")");
}

TEST_F(QuestionsTest, ItsPodsConditionsCount) {
  bindsForItsPod("share");
  core::Pod pod;
  pod.metadata.name = pod.metadata.uid = "p";
  pod.metadata.namespace_ = "default";
  pod.metadata.resourceVersion = next();
  pod.nodeSelector = {{"zone", "far"}};
  pod.resourceClaims = {{"gpu", "waits"}};
  stores.pods.informed(pod);
  has(answer("/explain", "claim=waits"), R"("reasons":[{"reason":"not suitable for the pod","count":2}])");
  has(answer("/simulate", "release=c&add=new,like=n1"),
      R"("bound":[{"claim":"default/waits","to":{"fits":true,"node":"new")");
}

TEST_F(QuestionsTest, TheProblemOfABoundClaimIsNamed) {
  for (const char* type : {"AccessLost", "IsolationBypassed"}) {
    auto claim = *stores.claims.get({"default", "c"});
    claim.status.conditions.push_back({type, "True", "MpsServerFault", "restart the pods", "", 0});
    claim.metadata.resourceVersion = next();
    stores.claims.informed(claim);
    has(answer("/explain", "claim=c"), R"("message":"MpsServerFault: restart the pods")");
    has(answer("/explain", "claim=c&format=text"), "(MpsServerFault: restart the pods)");
    claim.status.conditions.back().status = "False";
    claim.metadata.resourceVersion = next();
    stores.claims.informed(claim);
    EXPECT_EQ(answer("/explain", "claim=c").find("restart the pods"), std::string::npos) << type;
  }
}

TEST_F(QuestionsTest, SimulatesFilterScoreAndWhoWouldHaveToGo) {
  const auto fits = answer("/simulate", "class=share&gpu-core=30");
  has(fits, R"("ranking":[{"node":"n1")");
  has(fits, R"({"name":"n1-c0","index":0,"healthy":true,"given":true,"fill":600,"fillAfter":900,"score":60,)");
  has(fits, R"({"node":"n2","fill":450,"fillAfter":600)");
  const auto not_ = answer("/simulate", "claim=waits");
  has(not_,
      R"("preemption":{"possible":true,"node":"n2","exact":true,"victims":[{"device":"device-c","holder":"default/c")");
  const auto text = answer("/simulate", "claim=waits&format=text");
  has(text, "smallest set to evict, on node n2:\n  CLAIM      CARD       HOLDS\n  default/c  n2-c0 [0]  30% 4.8Gi\n");
}

TEST_F(QuestionsTest, EachPolicysScoreIsShownPerNodeAndCard) {
  // Both cards of n1 are 60 % full; those of n2 are 30 % and 60 % full.
  const auto json = answer("/simulate", "class=share&gpu-core=30");
  has(json, R"("policies":{"node":"binpack","card":"binpack"},"ranking":[{"node":"n1","fill":600,)");
  has(json, R"("score":60,"scores":{"binpack":60,"compact-first":60,"low-load-first":40,"spread":40},"decision")");
  has(json, R"("score":45,"scores":{"binpack":45,"compact-first":45,"low-load-first":55,"spread":55},"decision")");
  has(json, R"("score":30,"scores":{"binpack":30,"compact-first":30,"low-load-first":70,"simple":100,"spread":70,)");
  const auto text = answer("/simulate", "class=share&gpu-core=30&format=text");
  has(text, "score of nodes by binpack, best first:\n  #  NODE  SCORE  FILL  AFTER\n  1  n1       60   60%    75%\n");
  has(text,
      "score of their cards by binpack:\n  NODE  CARD       GIVEN  SCORE  FILL  AFTER\n  n1    n1-c0 [0]  yes       60 "
      "  60%   "
      " 90%\n");
  has(answer("/simulate", "class=share&gpu-core=30&format=text&wide=1"),
      "AFTER  binpack  compact-first  low-load-first  spread\n");
  addClass("low", {{"preset", "low-load-first"}});
  const auto low = answer("/simulate", "class=low&gpu-core=30");
  has(low, R"("policies":{"node":"low-load-first","card":"low-load-first"},"ranking":[{"node":"n2")");
  has(low, R"("score":55,"scores":{"binpack":45,)");
}

namespace {
const std::string kPod = R"(
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {egpuc.elasticgpu.io/gpu: waits}}
spec: {containers: [{name: main, image: x}]}
)";
std::string podWith(const std::string& claims, const std::string& spec = {}) {
  return "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main, image: x}], resourceClaims: [" + claims +
         "]" + spec + "}\n";
}
}  // namespace

TEST_F(QuestionsTest, APodIsSimulatedWithItsClaims) {
  const auto before = server::toJson(view.allocationMap().map());
  const auto waits = answer("/simulate", "", kPod);
  has(waits, R"({"pod":"default/p","fits":false,"why":"0/2 nodes fit)");
  has(waits, R"("claims":[{"bound":false,"subject":{"claim":"default/waits")");
  has(waits, R"({"stage":"core","before":4,"after":0,)");
  // A bound claim determines the pod's node.
  has(answer("/simulate", "", podWith("{name: gpu, resourceClaimName: c}")),
      R"({"pod":"default/p","fits":true,"node":"n2","claims":[{"bound":true,"subject":{"claim":"default/c")");
  // A remote one does not.
  cache::Claim remote;
  remote.metadata.name = remote.metadata.uid = "remote";
  remote.metadata.namespace_ = "default";
  remote.metadata.resourceVersion = next();
  remote.spec.className = "share";
  remote.status.phase = "Bound";
  remote.status.elasticGPUName = "egpu-remote";
  stores.claims.informed(remote);
  has(answer("/simulate", "format=text", podWith("{name: gpu, resourceClaimName: remote}")),
      "would go to any node with an agent");
  has(answer("/simulate", "", podWith("{name: gpu, resourceClaimName: c}, {name: net, resourceClaimName: remote}")),
      R"("fits":true,"node":"n2")");
  // A claim in the same body as the pod is found there, and is not asked about separately.
  const auto beside = answer("/simulate", "", kSmall + "---\n" + podWith("{name: gpu, resourceClaimName: small}"));
  has(beside,
      R"({"pod":"default/p","fits":true,"node":"n1","claims":[{"bound":false,"subject":{"claim":"default/small")");
  has(beside, R"("score":60,"scores":{)");
  EXPECT_EQ(beside.find("answers"), std::string::npos);
  // Amounts can be given instead.
  const std::string plain = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main, image: x}]}\n";
  has(answer("/simulate", "class=share&gpu-core=70", plain), R"({"pod":"default/p","fits":true,"node":"n2")");
  has(answer("/simulate", "class=share&gpu-core=70&format=text", plain),
      "pod default/p: 1 claim\nwould go to node n2\n\na claim of class share: gpu-core 70\n");
  has(answer("/simulate", "release=c", kPod), R"("pod":"default/p","fits":true,"node":"n2")");
  // tensor-fusion's path for this question.
  EXPECT_EQ(answer("/api/simulate-schedule", "", kPod), answer("/simulate", "", kPod));
  refuses(400, "takes a Pod as its body", "/api/simulate-schedule", "", kSmall);
  refuses(400, "takes a Pod as its body", "/api/simulate-schedule", "class=share&gpu-core=10");
  EXPECT_EQ(server::toJson(view.allocationMap().map()), before);
}

TEST_F(QuestionsTest, APodIsSimulatedWithTheClaimsThatWouldBeStampedForIt) {
  bindsForItsPod("share");
  cache::ClaimTemplate tenth;
  tenth.metadata.name = tenth.metadata.uid = "thirty";
  tenth.metadata.namespace_ = "default";
  tenth.metadata.resourceVersion = next();
  tenth.spec.className = "share";
  tenth.spec.requests = {{"elasticgpu.io/gpu-core", "30"}};
  stores.templates.informed(tenth);
  const auto of = [](const std::string& annotations, const std::string& spec = {}) {
    return "kind: Pod\nmetadata: {name: p, annotations: {" + annotations + "}}\nspec: {containers: [{name: main}]" +
           spec + "}\n";
  };
  has(answer("/simulate", "", of("egpuct.elasticgpu.io/gpu: thirty")),
      R"("pod":"default/p","fits":true,"node":"n1","claims":[{"bound":false,)"
      R"("subject":{"claim":"default/p-gpu","class":"share")");
  const auto two = answer("/simulate", "", of("egpuct.elasticgpu.io/a: thirty, egpuct.elasticgpu.io/b: thirty"));
  has(two, R"("claim":"default/p-a")");
  has(two, R"("claim":"default/p-b")");
  // The template chooses policies that its class doesn't allow.
  tenth.metadata.resourceVersion = next();
  tenth.annotations["elasticgpu.io/node-policy"] = "spread";
  stores.templates.informed(tenth);
  refuses(400, "metadata.annotations[elasticgpu.io/node-policy]", "/simulate", "",
          of("egpuct.elasticgpu.io/gpu: thirty"));
  tenth.metadata.resourceVersion = next();
  tenth.annotations.clear();
  stores.templates.informed(tenth);
  const std::string ninety = R"(egpu.elasticgpu.io/class: share, egpu.elasticgpu.io/gpu-core: "90")";
  has(answer("/simulate", "", of(ninety)), R"("fits":false,"why":"0/2 nodes fit)");
  // The pod as the admission policy changes it, and as Kubernetes completes it.
  const std::string entry = "{name: egpu, resourceClaimTemplateName: egpu-amounts.core-40.class-share}";
  has(answer("/simulate", "", of("", ", resourceClaims: [" + entry + "]")),
      R"("claim":"default/p-egpu","class":"share")");
  const auto stamped = of(
      "", ", resourceClaims: [" + entry + "]}\nstatus: {resourceClaimStatuses: [{name: egpu, resourceClaimName: c}]");
  const auto there = answer("/simulate", "", stamped);
  has(there, R"("claim":"default/c")");
  EXPECT_EQ(there.find("p-egpu"), std::string::npos) << there;
  // The ResourceClaim is stamped, and the ElasticGPUClaim does not exist yet.
  core::ResourceClaim fresh;
  fresh.metadata.name = fresh.metadata.uid = "p-egpu-x7x7x";
  fresh.metadata.namespace_ = "default";
  fresh.metadata.resourceVersion = next();
  fresh.deviceClassName = "elasticgpu.io";
  fresh.config.push_back(
      {{}, "elasticgpu.io", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":40}}})"});
  stores.resourceClaims.informed(fresh);
  const auto unmade = answer("/simulate", "",
                             of("", ", resourceClaims: [" + entry +
                                        "]}\nstatus: {resourceClaimStatuses: [{name: egpu, resourceClaimName: "
                                        "p-egpu-x7x7x}]"));
  has(unmade, R"("fits":true)");
  has(unmade, R"("claim":"default/p-egpu-x7x7x","class":"share")");
  // The pod's status states that the entry needs no claim.
  refuses(400, "the pod names no claim", "/simulate", "",
          of("", ", resourceClaims: [" + entry + "]}\nstatus: {resourceClaimStatuses: [{name: egpu}]"));
  core::ResourceClaimTemplate other;
  other.metadata.name = other.metadata.uid = "nic";
  other.metadata.namespace_ = "default";
  other.metadata.resourceVersion = next();
  other.claim.deviceClassName = "nic.example.com";
  stores.resourceClaimTemplates.informed(other);
  has(answer("/simulate", "", of("egpuct.elasticgpu.io/a: thirty, egpuct.elasticgpu.io/n: nic")),
      "ResourceClaimTemplate nic requests no ElasticGPU and is ignored");
  refuses(404, "there is no ElasticGPUClaimTemplate or ResourceClaimTemplate \"default/none\"", "/simulate", "",
          of("egpuct.elasticgpu.io/gpu: none"));
  refuses(400, "metadata.annotations[egpu.elasticgpu.io/gpu-core]: must be a quantity", "/simulate", "",
          of("egpu.elasticgpu.io/gpu-core: ten"));
  refuses(400, "metadata.annotations[egpu.elasticgpu.io/cores]: unknown", "/simulate", "",
          of("egpu.elasticgpu.io/cores: some"));
  refuses(400, "claim p-egpu: spec.egpuClassName: ElasticGPUClass \"none\" not found", "/simulate", "",
          of("egpu.elasticgpu.io/gpu: \"1\", egpu.elasticgpu.io/class: none"));
}

TEST_F(QuestionsTest, WhatAQuotaWouldStopIsAnsweredSo) {
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "default";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "250"}};
  stores.quotas.informed(quota);
  // 210 are used: 40 more fit beside c.
  const std::string exceeded =
      R"("quota":"QuotaExceeded: quota team allows gpu-core 250, 210 is used: 30 too little for another 70; )";
  for (const auto* path : {"/explain", "/simulate"}) {
    const auto fits = answer(path, "class=share&gpu-core=40");
    has(fits, R"("fits":true)");
    EXPECT_EQ(fits.find("QuotaExceeded"), std::string::npos) << fits;
    const auto stopped = answer(path, "class=share&gpu-core=70");
    has(stopped, exceeded);
    has(stopped,
        "held by default/a 60, default/b 60, default/d 60 and 1 more: without default/a it would be within its "
        "quotas");
    EXPECT_NE(stopped.find(R"("decision":{"fits":false)"), std::string::npos) << stopped;
    has(answer(path, "class=share&gpu-core=70&format=text"), "QuotaExceeded: quota team allows gpu-core 250");
    has(answer(path, "class=share&gpu-core=70&namespace=other"), R"("fits":true,"node":"n2")");
  }
  // Some releases would help, and simulate names the fewest.
  const auto let = answer("/simulate", "class=share&gpu-core=70");
  has(let, R"("preemption":{"possible":true,"node":)");
  has(answer("/simulate", "class=share&gpu-core=70&format=text"), "smallest set to evict, on node ");
  has(answer("/simulate", "class=share&gpu=3&format=text"), "releasing other claims would not make it fit");
  movable("c");  // capacity is not missing
  has(answer("/defrag", "class=share&gpu-core=70"), R"("text":"QuotaExceeded: quota team allows gpu-core 250, )");
  has(answer("/defrag", "class=share&gpu-core=90&namespace=other"), R"("text":"1 move would make it fit")");
  // Quota that the steps release counts.
  has(answer("/simulate", "class=share&gpu-core=70&release=waits&release=a"), R"("fits":true)");
  has(answer("/simulate", "class=share&gpu-core=70&release=waits&release=a"), R"("decision":{"fits":true,"node":"n1")");
  // The quota also applies to waiting claims: 90 would fit in c's place, but not beside 180 and 40.
  claim("waits-too", "40");
  const auto both = answer("/simulate", "release=c");
  has(both, R"({"before":[{"claim":"default/waits-too")");
  has(both, R"("bound":[],"waiting":1)");
  has(answer("/simulate", "release=waits-too&release=c&release=a"), R"("bound":[{"claim":"default/waits")");
  stores.claims.observedGone({"default", "waits-too"}, "waits-too");
  // A pod with two claims: each alone is within the quota, both together are not.
  const auto pod =
      "kind: Pod\nmetadata: {name: p, annotations: {egpu.elasticgpu.io/class: share, "
      "egpu.elasticgpu.io/gpu-core: \"30\"}}\nspec: {containers: [{name: main}], resourceClaims: [{name: x, "
      "resourceClaimTemplateName: egpu-amounts.core-31.class-share}]}\n";
  has(answer("/simulate", "", pod),
      R"("fits":false,"why":"QuotaExceeded: quota team allows gpu-core 250, 240 is used)");
}

TEST_F(QuestionsTest, AForecastForANamespaceIsWithinItsQuotas) {
  has(answer("/forecast", "class=share&gpu-core=10&namespace=default"), R"("count":19,)");
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "default";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "255"}};
  stores.quotas.informed(quota);
  const auto four = answer("/forecast", "class=share&gpu-core=10&namespace=default");
  has(four, R"("count":4,"more":false,"byModel":{"T4":4},"quota":"quota team allows gpu-core 255,)"
            R"( 250 is used: 5 too little for another 10")");
  has(answer("/forecast", "class=share&gpu-core=10&namespace=default&format=text"), "after these, quota team allows");
  has(answer("/forecast", "class=share&gpu-core=10&namespace=other"), R"("count":19,)");
  has(answer("/forecast", "class=share&gpu-core=10"), R"("count":19,)");
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "1000"}};
  stores.quotas.informed(quota);
  const auto all = answer("/forecast", "class=share&gpu-core=10&namespace=default");
  has(all, R"("count":19,"more":false,"byModel":{"T4":19}})");
}

TEST_F(QuestionsTest, APodsClaimsGoToOneNodeThatSuitsIt) {
  bindsForItsPod("share");
  claim("x", "40");
  claim("v", "35");
  // 40 and 35 fit on n1's two cards only one by one; on n2 they fit together.
  const auto two = podWith("{name: a, resourceClaimName: x}, {name: b, resourceClaimName: v}");
  const auto both = answer("/simulate", "", two);
  has(both, R"("fits":true,"node":"n1")");
  claim("z", "70");
  const auto three = podWith("{name: a, resourceClaimName: x}, {name: c, resourceClaimName: z}");
  has(answer("/simulate", "", three), R"("fits":true,"node":"n2")");
  has(answer("/simulate", "", three),
      R"({"node":"n1","reason":"not enough capacity for all of the pod's claims together"})");
  const auto far = podWith("{name: a, resourceClaimName: x}", ", nodeSelector: {zone: far}");
  has(answer("/simulate", "", far), R"({"node":"n1","reason":"not labelled zone=far as the pod selects"})");
  has(answer("/simulate", "", far), R"("reasons":[{"reason":"not labelled zone=far as the pod selects","count":2}])");
  has(answer("/simulate", "", podWith("{name: a, resourceClaimName: a}, {name: c, resourceClaimName: c}")),
      R"("why":"claim default/c is on node n2, and not on n1")");
}

TEST_F(QuestionsTest, ImmediateClaimsThatAreStampedForAPodGoWhereItCanRun) {
  auto n2 = *stores.nodes.get({"", "n2"});
  n2.metadata.resourceVersion = next();
  n2.metadata.labels = {{"zone", "far"}};
  stores.nodes.informed(n2);
  const auto of = [](const std::string& selector, const std::string& entries, const std::string& names = "") {
    return "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main}], nodeSelector: {zone: " + selector +
           "}, resourceClaims: [" + entries + "]}\nstatus: {resourceClaimStatuses: [" + names + "]}\n";
  };
  const std::string entry = "{name: egpu, resourceClaimTemplateName: egpu-amounts.core-40.class-share}";
  has(answer("/simulate", "", of("far", entry)), R"("fits":true,"node":"n2")");
  const auto nowhere = answer("/simulate", "", of("none", entry));
  has(nowhere, R"("reasons":[{"reason":"not labelled zone=none as the pod selects","count":2}])");
  EXPECT_EQ(nowhere.find("Immediate"), std::string::npos) << nowhere;
  core::ResourceClaim made;
  made.metadata.name = made.metadata.uid = "p-egpu-x7x7x";
  made.metadata.namespace_ = "default";
  made.metadata.resourceVersion = next();
  made.metadata.ownerReferences.push_back({"v1", "Pod", "p", "p", true, false});
  made.deviceClassName = "elasticgpu.io";
  made.config.push_back(
      {{}, "elasticgpu.io", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":40}}})"});
  stores.resourceClaims.informed(made);
  const std::string name = "{name: egpu, resourceClaimName: p-egpu-x7x7x}";
  has(answer("/simulate", "", of("far", entry, name)), R"("fits":true,"node":"n2")");
  // An existing claim.
  claim("p-egpu-x7x7x", "40");
  auto existing = *stores.claims.get({"default", "p-egpu-x7x7x"});
  existing.metadata.resourceVersion = next();
  existing.metadata.ownerReferences.push_back({"resource.k8s.io/v1", "ResourceClaim", "p-egpu-x7x7x", "p-egpu-x7x7x"});
  stores.claims.informed(existing);
  has(answer("/simulate", "", of("far", entry, name)), R"("fits":true,"node":"n2")");
}

TEST_F(QuestionsTest, ImmediateClaimsOfAPodAreBoundWithoutReadingIt) {
  auto n2 = *stores.nodes.get({"", "n2"});
  n2.metadata.resourceVersion = next();
  n2.metadata.labels = {{"zone", "far"}};
  stores.nodes.informed(n2);
  claim("x", "40");
  const auto far = podWith("{name: a, resourceClaimName: x}", ", nodeSelector: {zone: far}");
  const auto gated = answer("/simulate", "", far);
  has(gated, R"("fits":false,"why":"pod p can't run on node n1: not labelled zone=far as the pod selects;)");
  has(gated, R"("decision":{"fits":true,"node":"n1")");
  has(gated, R"("ranking":[{"node":"n1")");
  has(answer("/simulate", "format=text", far), "pod default/p: 1 claim\nwould wait: pod p can't run on node n1: not ");
  has(answer("/simulate", "node=n2", far), R"("fits":true,"node":"n2")");
  // Each claim is bound separately, so they may end up on different nodes.
  claim("z", "70");
  has(answer("/simulate", "", podWith("{name: a, resourceClaimName: x}, {name: c, resourceClaimName: z}")),
      R"("why":"claim default/z would be bound on node n2, and not on n1;)");
  has(answer("/simulate", "", podWith("{name: a, resourceClaimName: c}, {name: b, resourceClaimName: x}")),
      R"("why":"claim default/x would be bound on node n1, and not on n2;)");
  // A claim that waits for the pod is bound on the node of the others.
  addClass("later");
  bindsForItsPod("later");
  claim("k", "40");
  auto later = *stores.claims.get({"default", "k"});
  later.metadata.resourceVersion = next();
  later.spec.className = "later";
  stores.claims.informed(later);
  has(answer("/simulate", "", podWith("{name: a, resourceClaimName: z}, {name: b, resourceClaimName: k}")),
      R"("fits":true,"node":"n2")");
  claim("w", "40");
  has(answer("/simulate", "",
             podWith("{name: a, resourceClaimName: x}, {name: b, resourceClaimName: w}, "
                     "{name: c, resourceClaimName: k}")),
      R"("fits":false,"why":"0/2 nodes fit: )");
}

TEST_F(QuestionsTest, WhatIsWrongWithAPodIsReportedOfTheBody) {
  refuses(404, "body: claim none: there is no ElasticGPUClaim \"default/none\", nor does one come with the pod",
          "/simulate", "",
          "kind: Pod\nmetadata: {annotations: {egpuc.elasticgpu.io/a: none}}\nspec: {containers: []}\n");
  refuses(400, "body: the pod names no claim: annotate it", "/simulate", "", "kind: Pod\nspec: {containers: []}\n");
  refuses(400, "body: pod default/p: the pod names its claims", "/simulate", "class=share&gpu-core=10", kPod);
  refuses(400, "body: spec: is missing", "/simulate", "", "kind: Pod\n");
  refuses(400, "body: a Pod is for /simulate only", "/explain", "", kPod);
}

TEST_F(QuestionsTest, WhatIfADrainAReleaseAnAdditionAResize) {
  const auto drained = answer("/simulate", "drain=n1");
  has(drained,
      R"("step":"drain n1","nodes":["n1"],"moved":[{"claim":"default/a","from":"n1","to":{"fits":true,"node":"n2")");
  has(drained, R"({"claim":"default/b","from":"n1","to":{"fits":false,"cards":[]},"why":"0/2 nodes fit)");
  has(drained, R"("waiting":2})");
  const auto released = answer("/simulate", "release=c&format=text");
  has(released, "default/c leaves node n2\n");
  has(released, "now fits  default/waits  -     n2  n2-c0 [0]\n");
  has(answer("/simulate", "add=new,like=n1,count=2"),
      R"("bound":[{"claim":"default/waits","to":{"fits":true,"node":"new-0")");
  has(answer("/simulate", "add=big,model=T4,cards=2,memory=8Gi&format=text"), "step 1: add node big with 2 cards\n");
  const auto resized = answer("/simulate", "resize=default/c,gpu-core=40");
  has(resized, R"("resized":{"claim":"default/c","node":"n2","inPlace":true)");
  has(resized, R"("left":{"core":600,)");
  has(resized, R"("refused":"class )");  // it fits, but is not allowed
  const auto tooBig =
      answer("/simulate", "resize=a,gpu-core=40,gpu-memory=15Gi&resize=a,gpu-core=100&drain=n2&format=text");
  has(tooBig, "step 1: resize default/a to gpu-core 40, gpu-memory 15Gi");
  has(tooBig, "step 2: resize default/a to gpu-core 100");
  has(tooBig, "step 3: drain n2");
}

TEST_F(QuestionsTest, AResizeChangesWhatItNamesAndNothingElse) {
  auto c = *stores.claims.get({"default", "c"});
  c.metadata.resourceVersion = next();
  c.spec.requests = {{"gpushare.provisioner.elasticgpu.io/gpu-core", "30"},
                     {"gpushare.provisioner.elasticgpu.io/gpu-memory", "4Gi"}};
  stores.claims.informed(c);
  const auto core = answer("/simulate", "resize=c,gpu-core=40");
  has(core, R"("step":"resize default/c to gpu-core 40, gpu-memory 4Gi")");
  has(core, R"("wanted":{"core":400,"memory":4294967296})");
  const auto memory = answer("/simulate", "resize=c,gpu-memory=6Gi");
  has(memory, R"("step":"resize default/c to gpu-core 30, gpu-memory 6Gi")");
  has(memory, R"("wanted":{"core":300,"memory":6442450944})");
  // Steps accumulate, under any spelling of the key.
  const auto both = answer("/simulate", "resize=c,gpu-core=40&resize=c,elasticgpu.io/gpu-memory=6Gi");
  has(both, R"("step":"resize default/c to gpu-core 40, gpu-memory 6Gi")");
  has(both, R"("wanted":{"core":400,"memory":6442450944})");
  has(answer("/simulate", "resize=c,gpu-memory="), R"("step":"resize default/c to gpu-core 30")");
  has(answer("/simulate", "", "steps: [{resize: {claim: c, requests: {gpu-core: 40}}}]"),
      R"("step":"resize default/c to gpu-core 40, gpu-memory 4Gi")");
  has(answer("/simulate", "resize=c,tflops=5"), "to gpu-memory 4Gi, tflops 5");
}

TEST_F(QuestionsTest, AClaimThatAStepResizesIsAskedAboutAsItAsksThen) {
  has(answer("/simulate", "claim=waits"), R"("decision":{"fits":false)");
  const auto smaller = answer("/simulate", "claim=waits&resize=waits,gpu-core=70");
  has(smaller, R"("requests":{"elasticgpu.io/gpu-core":"70"})");
  has(smaller, R"("decision":{"fits":true,"node":"n2")");
  has(answer("/simulate", "resize=e,gpu-core=80",
             "steps: [{create: {metadata: {name: e}, spec: {egpuClassName: share, resources: {requests: "
             "{elasticgpu.io/gpu-core: 10}}}}}]"),
      R"("step":"resize default/e to gpu-core 80")");
}

TEST_F(QuestionsTest, TheClaimIsAskedAboutAfterTheSteps) {
  const std::string question = R"(
claim: {spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 70}}}}
steps:
- create: {metadata: {name: e}, spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 70}}}}
)";
  has(answer("/simulate", "", question), R"("created":{"claim":"default/e","to":{"fits":true,"node":"n2")");
  has(answer("/simulate", "", question), R"("decision":{"fits":false)");
  has(answer("/simulate", "class=share&gpu-core=70"), R"("decision":{"fits":true)");
  // A waiting claim that is bound by a step is itself the subject, not an additional claim.
  has(answer("/simulate", "claim=waits&release=c"), R"("decision":{"fits":true,"node":"n2")");
}

TEST_F(QuestionsTest, ForecastsTheUsualOrAGivenSize) {
  addClass("idle");
  addClass("pairs", {{"maxClaimsPerCard", "1"}});
  const auto text = answer("/forecast", "format=text");
  has(text, "CLASS  FIT  BY MODEL  EACH         SIZE\n");
  has(text, "share    1  1 T4      gpu-core 60  the most frequent of its 5 claims\n");
  has(text, "idle     0  -         gpu 1        a whole card: the class has no claims yet\n");
  has(answer("/forecast", "class=share&gpu-core=10"),
      R"("of":"as requested","subject":{"class":"share",)"
      R"("requests":{"elasticgpu.io/gpu-core":"10"}},"count":19,"more":false,"byModel":{"T4":19})");
  has(answer("/forecast", "gpu-core=10"), R"("class":"pairs","of":"as requested","subject":{"class":"pairs",)"
                                          R"("requests":{"elasticgpu.io/gpu-core":"10"}},"count":0,)");
  has(answer("/forecast", "claim=c"), R"("of":"as claim default/c")");
  has(answer("/forecast", "class=share&gpu-core=10&node=n1"), R"("count":8,)");
}

TEST_F(QuestionsTest, AClassThatIsNotReadyHasNoCapacity) {
  addClass("idle");
  auto cls = *stores.classes.get({"", "idle"});
  cls.metadata.resourceVersion = next();
  cls.conditions = {{"Ready", "False", "ProvisionerUnavailable", "provisioner nope.example.com is not loaded", {}, 0}};
  stores.classes.informed(cls);
  const std::string why = "the class is not ready: provisioner nope.example.com is not loaded";
  for (const char* query : {"", "class=idle", "class=idle&gpu-core=10"}) {
    const auto r = ask("/forecast", query + std::string("&columns=0&format=text"));
    has(r.body, why);
    EXPECT_EQ(r.body.find(" FIT 0"), std::string::npos);
    EXPECT_TRUE(std::any_of(r.headers.begin(), r.headers.end(), [](const auto& h) {
      return h.first == QuestionService::kErrorHeader;
    })) << query;
  }
  has(answer("/forecast", "class=idle"), R"("notDecided":")" + why);
  has(answer("/explain", "class=idle&gpu-core=10"), R"("note":")" + why);
  auto c = *stores.claims.get({"default", "waits"});
  c.metadata.resourceVersion = next();
  c.spec.className = "idle";
  stores.claims.informed(c);
  has(answer("/forecast", "claim=waits"), R"("notDecided":")" + why);
  server::PrometheusMetrics metrics;
  questions.publish(metrics);
  EXPECT_EQ(metrics.text().find("elasticgpu_claims_that_fit{class=\"idle\"}"), std::string::npos);
  has(metrics.text(), "elasticgpu_claims_that_fit{class=\"share\"}");
}

TEST_F(QuestionsTest, TheMetricLeavesOutNodesThatTheClassDoesNotTolerate) {
  auto n2 = *stores.nodes.get({"", "n2"});
  n2.metadata.resourceVersion = next();
  n2.taints = {{"gpu", "yes", "NoSchedule"}};
  stores.nodes.informed(n2);
  has(answer("/forecast", "class=share"), R"("count":0,)");
  server::PrometheusMetrics metrics;
  questions.publish(metrics);
  has(metrics.text(), "elasticgpu_claims_that_fit{class=\"share\"} 0\n");
}

TEST_F(QuestionsTest, TheMetricIsWorkedOutNowAndThenAndReportsHowOldItIs) {
  server::PrometheusMetrics metrics;
  questions.publish(metrics);
  has(metrics.text(), "elasticgpu_claims_that_fit{class=\"share\"} 1\n");
  auto card = *stores.cards.get({"", "n1-c0"});
  stores.devices.informedGone(*stores.devices.get({"", "egpu-a"}));
  card.metadata.resourceVersion = next();
  card.spec.allocations.clear();
  stores.cards.informed(card);
  clock.advance(std::chrono::seconds(5));
  questions.publish(metrics);
  has(metrics.text(), "elasticgpu_claims_that_fit{class=\"share\"} 1\n");
  has(metrics.text(), "elasticgpu_claims_that_fit_age_seconds 5\n");
  clock.advance(std::chrono::seconds(11));
  questions.publish(metrics);
  has(metrics.text(), "elasticgpu_claims_that_fit{class=\"share\"} 2\n");
  has(metrics.text(), "elasticgpu_claims_that_fit_age_seconds 0\n");
  stores.classes.informedGone(*stores.classes.get({"", "share"}));
  clock.advance(std::chrono::seconds(16));
  questions.publish(metrics);
  EXPECT_EQ(metrics.text().find("elasticgpu_claims_that_fit{"), std::string::npos);
}

TEST_F(QuestionsTest, NothingChangesByAsking) {
  const auto before = server::toJson(view.allocationMap().map());
  for (const char* query : {"claim=waits", "class=share&gpu-core=30", "drain=n1&drain=n2", "release=a&release=b",
                            "add=x,like=n1", "resize=a,gpu-core=10", "claim=waits&release=c"})
    answer("/simulate", query);
  answer("/explain", "claim=waits");
  answer("/forecast");
  EXPECT_EQ(server::toJson(view.allocationMap().map()), before);
  EXPECT_EQ(stores.claims.get({"default", "a"})->spec.requests.at("elasticgpu.io/gpu-core"), "60");
  EXPECT_EQ(stores.claims.size(), 5u);
}

TEST_F(QuestionsTest, AreServedOnceEverythingIsListed) {
  std::string missing = "the claims are not listed yet";
  server::Operations operations({[](const allocator::MapPage&) { return server::AllocationMap{}; },
                                 [] { return std::string(); },
                                 [] { return std::string(); },
                                 [&] { return missing; },
                                 {},
                                 [this](const http::Request& request, std::stop_token stop) {
                                   return questions.answer(request, std::move(stop));
                                 }});
  http::Request request;
  request.method = "GET";
  request.path = "/forecast";
  EXPECT_EQ(operations.handle(request, {}).status, 503);
  missing.clear();
  EXPECT_EQ(operations.handle(request, {}).status, 200);
  request.method = "DELETE";
  EXPECT_EQ(operations.handle(request, {}).status, 405);
  request.path = "/nothing";
  request.method = "GET";
  has(operations.handle(request, {}).body, "/simulate");
}

/// A clock that advances one second with each read.
class HurriedClock final : public base::Clock {
 public:
  Steady now() const override { return Steady(std::chrono::seconds(++reads_)); }
  Wall wall() const override { return {}; }
  bool sleepUntil(Steady, std::stop_token) override { return true; }

 private:
  mutable std::atomic<int> reads_{1000};
};

TEST_F(QuestionsTest, AQuestionIsGivenUpAtItsDeadline) {
  HurriedClock hurried;
  QuestionService impatient{stores, view, hurried};
  for (int i = 0; i < 20; ++i) claim("more" + std::to_string(i), "90");
  http::Request r;
  r.method = "GET";
  for (const auto& [path, query] : {std::pair{"/simulate", "add=new,like=n1,count=50"},
                                    {"/simulate", "drain=n1"},
                                    {"/forecast", "class=share&gpu=2&gpu-core=1"}}) {
    r.path = path;
    r.query = query;
    const auto answer = impatient.answer(r);
    EXPECT_EQ(answer.status, 504) << path << ": " << answer.body;
    has(answer.body, "no answer within 10 s");
  }
}

TEST_F(QuestionsTest, AQuestionThatNobodyWaitsForIsGivenUp) {
  std::stop_source gone;
  gone.request_stop();
  http::Request r;
  r.method = "GET";
  for (const auto& [path, query] :
       {std::pair{"/simulate", "class=share&gpu-core=100"}, {"/simulate", "release=c"}, {"/forecast", "class=share"}}) {
    r.path = path;
    r.query = query;
    EXPECT_EQ(questions.answer(r, gone.get_token()).status, 503) << path;
  }
}

TEST_F(QuestionsTest, AddedNodesCountAsTheyAreMade) {
  refuses(400, "steps[1].add.count: more than 100000 cards in all", "/simulate",
          "add=big,model=T4,cards=1000,memory=16Gi&add=many,like=big,count=100");
  refuses(400, "steps[2].add.count: more than 100000 nodes in all", "/simulate",
          "add=one,model=T4,cards=1,memory=16Gi,count=2&add=two,like=one-0&add=more,like=two,count=99998");
  answer("/simulate", "add=big,model=T4,cards=1000,memory=16Gi&add=some,like=big,count=2");
}

TEST_F(QuestionsTest, TaintedNodesAreLeftOutAsImmediateBindingLeavesThemOut) {
  const auto taint = [this](const std::string& node) {
    auto tainted = *stores.nodes.get({"", node});
    tainted.metadata.resourceVersion = next();
    tainted.taints = {{"gpu", "yes", "NoSchedule"}};
    stores.nodes.informed(tainted);
  };
  has(answer("/explain", "class=share&gpu-core=40&format=text"), "fits");
  taint("n2");
  const auto explained = answer("/explain", "class=share&gpu-core=40&format=text");
  has(explained, "does not tolerate are left out: 1 with taint");
  has(explained, "gpu=yes:NoSchedule (n2)");
  taint("n1");
  has(answer("/simulate", "class=share&gpu-core=40"), R"("fits":false)");
  has(answer("/simulate", "drain=n1"), R"("fits":false)");
}

TEST_F(QuestionsTest, AClassThatItsNamespaceMayNotUseIsRefused) {
  auto cls = *stores.classes.get({"", "share"});
  cls.metadata.resourceVersion = next();
  cls.allowedNamespaces.emplace().matchLabels = {{"tier", "gold"}};
  stores.classes.informed(cls);
  refuses(400, "namespace default has not been seen yet", "/explain", "class=share&gpu-core=40");
  for (const auto& [name, labels] :
       std::map<std::string, core::StringMap>{{"default", {}}, {"team-a", {{"tier", "gold"}}}}) {
    core::Namespace ns;
    ns.metadata.name = ns.metadata.uid = name;
    ns.metadata.resourceVersion = next();
    ns.metadata.labels = labels;
    stores.namespaces.informed(ns);
  }
  refuses(400, "class share is for namespaces with labels tier=gold", "/explain", "class=share&gpu-core=40");
  has(answer("/explain", "class=share&gpu-core=40&namespace=team-a"), R"("fits")");
  has(answer("/forecast"), R"("class":"share")");
}

}  // namespace
}  // namespace egpu::whatif

// User actions of the crash tests, and the check that no card was ever over-committed.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/world.h"

namespace egpu::crash {

using support::World;

inline void furnish(World& world) {
  world.addNamespace("default");
  world.addNode("n1");
  world.addNode("n2");
  for (int i = 0; i < 2; ++i) {
    world.addCard("n1", i);
    world.addCard("n2", i);
  }
  world.addClass("share");
  world.addClass("keep", "Retain");
  world.addClass("late", "Delete", "WaitForFirstConsumer");
}

struct Act {
  std::string what;
  std::function<void(World&)> run;
};

/// Binds on one and two cards, re-binds, releases with Delete and Retain, uses a ResourceClaim with a gated pod, and
/// WaitForFirstConsumer.
inline std::vector<Act> workload() {
  return {
      {"bind one card",
       [](World& w) {
         w.addClaim("one", "share", {{"gpu-core", "10"}, {"gpu-memory", "4"}});
       }},
      {"bind two cards",
       [](World& w) {
         w.addClaim("two", "share", {{"gpu", "2"}});
       }},
      {"bind with Retain",
       [](World& w) {
         w.addClaim("kept", "keep", {{"gpu-core", "20"}});
       }},
      {"pod on a bound claim", [](World& w) { w.addPod("p1", {"one"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"first consumer",
       [](World& w) {
         w.addClaim("late", "late", {{"gpu-core", "30"}});
         w.addPod("p2", {"late"});
       }},
      {"it is scheduled", [](World& w) { w.schedule("p2"); }},
      {"release in use", [](World& w) { w.removeClaim("one"); }},
      {"its pod ends", [](World& w) { w.removePod("p1"); }},
      {"release two cards", [](World& w) { w.removeClaim("two"); }},
      {"release with Retain", [](World& w) { w.removeClaim("kept"); }},
      {"re-bind under the same names",
       [](World& w) {
         w.addClaim("one", "share", {{"gpu-core", "10"}});
         w.addClaim("two", "share", {{"gpu", "2"}, {"gpu-core", "40"}});
       }},
      {"claimRef of the kept device cleared",
       [](World& w) {
         for (const auto& g : World::must(w.client.listAll<cache::Gpu>({})))
           if (g.isDevice() && g.status.phase == "Released")
             w.json<cache::Gpu>({"", g.metadata.name}, R"({"spec":{"claimRef":null}})");
       }},
      {"the kept device bound by name",
       [](World& w) {
         for (const auto& g : World::must(w.client.listAll<cache::Gpu>({})))
           if (g.isDevice() && g.status.phase == "Available") w.addClaim("again", "keep", {}, g.metadata.name);
       }},
      {"all leave",
       [](World& w) {
         w.removePod("p2");
         w.removeClaim("late");
         w.removeClaim("again");
       }},
      {"the kept device deleted",
       [](World& w) {
         for (const auto& g : World::must(w.client.listAll<cache::Gpu>({})))
           if (g.isDevice() && g.status.phase == "Released")
             World::mustOk(w.client.remove<cache::Gpu>({"", g.metadata.name}));
       }},
  };
}

/// Changes that a tenant may make to the objects between the tenant's running pod and its card: marks removed, claim
/// and ResourceClaim deleted despite their finalizers, another claim of that name; and a deletion that orphans.
inline std::vector<Act> tornOut() {
  const auto strip = [](World& w, const char* marks) {
    (void)w.client.patch<core::ResourceClaim>({"default", "one"}, kube::PatchType::merge, marks);
  };
  return {
      {"bind",
       [](World& w) {
         w.addClaim("one", "share", {{"gpu", "1"}});
         w.addPod("p1", {"one"});
       }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"marks taken off",
       [strip](World& w) { strip(w, R"({"metadata":{"finalizers":null,"ownerReferences":null}})"); }},
      {"claim and ResourceClaim torn out",
       [strip](World& w) {
         strip(w, R"({"metadata":{"finalizers":null}})");
         (void)w.client.patch<cache::Claim>({"default", "one"}, kube::PatchType::merge,
                                            R"({"metadata":{"finalizers":null}})");
         World::mustOk(w.client.remove<cache::Claim>({"default", "one"}));
       }},
      {"another claim of that name",
       [](World& w) {
         w.addClaim("one", "share", {{"gpu", "1"}});
         w.addPod("p2", {"one"});
       }},
      {"the first pod ends", [](World& w) { w.removePod("p1"); }},
      {"the second is scheduled", [](World& w) { w.schedule("p2"); }},
      {"deleted without its dependents",
       [](World& w) {
         World::mustOk(w.client.remove<cache::Claim>({"default", "one"}, R"({"propagationPolicy":"Orphan"})"));
       }},
      {"disowned, torn out and still reserved",
       [strip](World& w) {
         strip(w, R"({"metadata":{"ownerReferences":null}})");
         (void)w.client.patch<cache::Claim>({"default", "one"}, kube::PatchType::merge,
                                            R"({"metadata":{"finalizers":null}})");
       }},
      {"the second pod ends", [](World& w) { w.removePod("p2"); }},
  };
}

/// ResourceClaims of users with parameters of their own, and a pod with amounts, for which a template is created.
inline std::vector<Act> askedForByOthers() {
  const auto stock = [](const std::string& name) {
    core::ResourceClaim claim;
    claim.metadata.name = name;
    claim.metadata.namespace_ = "default";
    claim.deviceClassName = "elasticgpu.io";
    claim.requestName = "gpu";
    claim.config.push_back(
        {{}, "elasticgpu.io", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":10}}})"});
    return claim;
  };
  const std::string source = "egpu-amounts.core-20.class-share";
  return {
      {"a ResourceClaim of somebody's", [stock](World& w) { (void)World::must(w.client.create(stock("others"))); }},
      {"its claim deleted by a user: it comes back",
       [](World& w) {
         World::mustOk(w.client.remove<cache::Claim>({"default", "others"}));
       }},
      {"a pod with amounts",
       [source](World& w) {
         auto pod = World::podOf("p", {}, true);
         pod.resourceClaims.push_back({"egpu", "", source});
         (void)World::must(w.client.create(pod));
       }},
      {"stamped from their template",
       [source](World& w) {
         auto made = World::must(w.client.get<core::ResourceClaimTemplate>({"default", source})).claim;
         made.metadata.name = "p-egpu-x7x7x";
         made.metadata.namespace_ = "default";
         made.metadata.ownerReferences.push_back({"v1", "Pod", "p", w.pod("p").metadata.uid, true, false});
         (void)World::must(w.client.create(made));
         w.json<core::Pod>(
             {"default", "p"},
             R"({"status":{"resourceClaimStatuses":[{"name":"egpu","resourceClaimName":"p-egpu-x7x7x"}]}})", "status");
       }},
      {"the ResourceClaim goes",
       [](World& w) {
         World::mustOk(w.client.remove<core::ResourceClaim>({"default", "others"}));
       }},
      {"another of that name", [stock](World& w) { (void)World::must(w.client.create(stock("others"))); }},
      {"the pod goes", [](World& w) { w.removePod("p"); }},
      {"nobody has used the template for long", [](World& w) { w.clock.advance(std::chrono::minutes(11)); }},
      {"all goes",
       [](World& w) {
         World::mustOk(w.client.remove<core::ResourceClaim>({"default", "others"}));
       }},
  };
}

/// Claims of higher priority arrive. Three claims are preempted: two in use by pods and one unused. One nomination ends
/// early because capacity becomes free elsewhere. Preempted claims wait and are bound again.
inline std::vector<Act> preemption() {
  const auto claim = [](World& w, const std::string& name, const std::string& priority, const std::string& cards) {
    w.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.className = priority.empty() ? "spare" : "share";
    made.spec.priorityClassName = priority;
    made.spec.requests["elasticgpu.io/gpu"] = cards;
    (void)World::must(w.client.create(made));
  };
  const auto ends = [](World& w, const std::string& pod, const std::string& of) {
    w.removePod(pod);
    w.unreserve(of, pod);
  };
  return {
      {"its kinds",
       [](World& w) {
         w.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
         core::PriorityClass high;
         high.metadata.name = "high";
         high.value = 1000;
         (void)World::must(w.client.create(high));
       }},
      {"a fixed one", [claim](World& w) { claim(w, "fixed", "high", "2"); }},
      {"one", [claim](World& w) { claim(w, "one", "", "1"); }},
      {"a pod of it", [](World& w) { w.addPod("p1", {"one"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"two", [claim](World& w) { claim(w, "two", "", "1"); }},
      {"a pod of it", [](World& w) { w.addPod("p2", {"two"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p2"); }},
      {"the younger makes room", [claim](World& w) { claim(w, "big", "high", "1"); }},
      {"its pod ends", [ends](World& w) { ends(w, "p2", "two"); }},
      {"the other makes room, too", [claim](World& w) { claim(w, "bigger", "high", "1"); }},
      {"there is room elsewhere", [](World& w) { w.removeClaim("fixed"); }},
      {"its pod ends", [ends](World& w) { ends(w, "p1", "one"); }},
      {"both leave",
       [](World& w) {
         w.removeClaim("big");
         w.removeClaim("bigger");
       }},
      {"without pods", [claim](World& w) { claim(w, "biggest", "high", "2"); }},
      {"a second", [claim](World& w) { claim(w, "last", "high", "2"); }},
      {"all leave",
       [](World& w) {
         w.removeClaim("biggest");
         w.removeClaim("last");
       }},
  };
}

/// Claims are asked to move: an unused one, one that a pod uses until it ends while the next pod waits, and one whose
/// request is withdrawn before its pod ends.
inline std::vector<Act> moves() {
  const auto ask = [](World& w, const std::string& claim, bool moves) {
    const auto device = w.gpu("egpu-" + w.claim(claim).metadata.uid).metadata.uid;
    w.json<cache::Claim>({"default", claim}, R"({"metadata":{"annotations":{"elasticgpu.io/move":)" +
                                                 (moves ? '"' + device + '"' : std::string("null")) + "}}}");
  };
  const auto ends = [](World& w, const std::string& pod, const std::string& of) {
    w.removePod(pod);
    w.unreserve(of, pod);
  };
  return {
      {"its kind",
       [](World& w) {
         w.addClass("fluid", "Delete", "Immediate", {{"movable", "true"}});
       }},
      {"one",
       [](World& w) {
         w.addClaim("one", "fluid", {{"gpu", "1"}});
       }},
      {"it moves", [ask](World& w) { ask(w, "one", true); }},
      {"a pod of it", [](World& w) { w.addPod("p1", {"one"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"it is to move", [ask](World& w) { ask(w, "one", true); }},
      {"the next one comes", [](World& w) { w.addPod("p2", {"one"}); }},
      {"its pod ends", [ends](World& w) { ends(w, "p1", "one"); }},
      {"the next one is scheduled", [](World& w) { w.schedule("p2"); }},
      {"it is to move again", [ask](World& w) { ask(w, "one", true); }},
      {"or not", [ask](World& w) { ask(w, "one", false); }},
      {"its pod ends", [ends](World& w) { ends(w, "p2", "one"); }},
      {"it leaves", [](World& w) { w.removeClaim("one"); }},
  };
}

/// Gangs of higher priority arrive. For the first, three of four claims are preempted, two of which have pods. The
/// second is deleted before those pods end and leaves all claims as they were. The third is too large and preempts
/// nothing.
inline std::vector<Act> gangPreemption() {
  const auto claim = [](World& w, const std::string& name, const std::string& gang, const std::string& size) {
    w.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.className = gang.empty() ? "spare" : "share";
    if (!gang.empty()) {
      made.metadata.annotations = {{"elasticgpu.io/gang", gang}, {"elasticgpu.io/gang-size", size}};
      made.spec.priorityClassName = "high";
    }
    made.spec.requests["elasticgpu.io/gpu"] = "1";
    (void)World::must(w.client.create(made));
  };
  const auto runs = [](World& w, const std::string& of) { w.addPod("p-" + of, {of}); };
  const auto ends = [](World& w, const std::string& of) {
    w.removePod("p-" + of);
    w.unreserve(of, "p-" + of);
  };
  return {
      {"its kinds",
       [](World& w) {
         w.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
         core::PriorityClass high;
         high.metadata.name = "high";
         high.value = 1000;
         (void)World::must(w.client.create(high));
       }},
      {"one on each card",
       [claim](World& w) {
         for (const auto* name : {"s1", "s2", "s3", "s4"}) claim(w, name, "", "");
       }},
      {"two with pods",
       [runs](World& w) {
         for (const auto* name : {"s3", "s4"}) runs(w, name);
       }},
      {"that are scheduled",
       [](World& w) {
         for (const auto* name : {"p-s3", "p-s4"}) w.schedule(name);
       }},
      {"three of a gang",
       [claim](World& w) {
         for (const auto* name : {"a", "b", "c"}) claim(w, name, "train", "3");
       }},
      {"one pod ends", [ends](World& w) { ends(w, "s4"); }},
      {"the other, too", [ends](World& w) { ends(w, "s3"); }},
      {"one that is too large",
       [claim](World& w) {
         for (const auto* name : {"d", "e"}) claim(w, name, "large", "2");
       }},
      {"it goes",
       [](World& w) {
         for (const auto* name : {"d", "e"}) w.removeClaim(name);
       }},
      {"the first goes",
       [](World& w) {
         for (const auto* name : {"a", "b", "c"}) w.removeClaim(name);
       }},
      {"those who made room run again",
       [runs](World& w) {
         for (const auto* name : {"s3", "s4"}) runs(w, name);
       }},
      {"and are scheduled",
       [](World& w) {
         for (const auto* name : {"p-s3", "p-s4"}) w.schedule(name);
       }},
      {"another gang",
       [claim](World& w) {
         for (const auto* name : {"f", "g"}) claim(w, name, "short", "2");
       }},
      {"one of it goes again", [](World& w) { w.removeClaim("g"); }},
      {"all go",
       [ends](World& w) {
         for (const auto* name : {"s3", "s4"}) ends(w, name);
         for (const auto* name : {"f", "s1", "s2", "s3", "s4"}) w.removeClaim(name);
       }},
  };
}

/// A pod of higher priority with two claims preempts two claims on one node, one of which has a pod. Then a claim of
/// another such pod is deleted before its preemption ends.
inline std::vector<Act> podPreemption() {
  const auto claim = [](World& w, const std::string& name, const std::string& cls, const std::string& priority,
                        const std::string& cards) {
    w.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.className = cls;
    made.spec.priorityClassName = priority;
    made.spec.requests["elasticgpu.io/gpu"] = cards;
    (void)World::must(w.client.create(made));
  };
  const auto two = [claim](World& w, const std::string& a, const std::string& b) {
    for (const auto& name : {a, b}) claim(w, name, "late", "high", "1");
    w.addPod("p-" + a, {a, b});
  };
  return {
      {"its kinds",
       [](World& w) {
         w.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
         core::PriorityClass high;
         high.metadata.name = "high";
         high.value = 1000;
         (void)World::must(w.client.create(high));
       }},
      {"one node is full", [claim](World& w) { claim(w, "fixed", "share", "high", "2"); }},
      {"the other, too",
       [claim](World& w) {
         for (const auto* name : {"s1", "s2"}) claim(w, name, "spare", "", "1");
       }},
      {"one with a pod", [](World& w) { w.addPod("p-s1", {"s1"}); }},
      {"that is scheduled", [](World& w) { w.schedule("p-s1"); }},
      {"both make room", [two](World& w) { two(w, "x", "y"); }},
      {"its pod ends",
       [](World& w) {
         w.removePod("p-s1");
         w.unreserve("s1", "p-s1");
       }},
      {"they are reserved", [](World& w) { w.schedule("p-x"); }},
      {"all leave",
       [](World& w) {
         w.removePod("p-x");
         for (const auto* name : {"x", "y"}) {
           w.unreserve(name, "p-x");
           w.removeClaim(name);
         }
       }},
      {"one runs again", [](World& w) { w.addPod("p-s1", {"s1"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p-s1"); }},
      {"another pod", [two](World& w) { two(w, "v", "w"); }},
      {"a claim of it goes", [](World& w) { w.removeClaim("w"); }},
      {"all go",
       [](World& w) {
         for (const auto* name : {"p-v", "p-s1"}) w.removePod(name);
         w.unreserve("s1", "p-s1");
         for (const auto* name : {"v", "s1", "s2", "fixed"}) w.removeClaim(name);
       }},
  };
}

/// Cards lose and regain memory while claims of whole cards are bound, used and deleted.
inline std::vector<Act> cardsChange() {
  const auto memory = [](World& w, const char* card, int64_t bytes) {
    w.shrunk.insert(card);
    w.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"memory":)" + std::to_string(bytes) + "}}}");
  };
  using support::kGi;
  return {
      {"bind two shares",
       [](World& w) {
         w.addClaim("a", "share", {{"gpu-core", "40"}, {"gpu-memory", "8Gi"}}, "gpu-n2-0");
         w.addClaim("b", "share", {{"gpu-core", "40"}, {"gpu-memory", "8Gi"}}, "gpu-n2-0");
       }},
      {"bind two whole cards",
       [](World& w) {
         w.addClaim("two", "share", {{"gpu", "2"}});
         w.addPod("p1", {"two"});
       }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"all cards have less",
       [memory](World& w) {
         for (const char* card : {"gpu-n1-0", "gpu-n1-1", "gpu-n2-0", "gpu-n2-1"}) memory(w, card, 15 * kGi);
       }},
      {"and more again",
       [memory](World& w) {
         for (const char* card : {"gpu-n1-0", "gpu-n1-1", "gpu-n2-0", "gpu-n2-1"}) memory(w, card, 17 * kGi);
       }},
      {"the claims leave",
       [](World& w) {
         w.removePod("p1");
         for (const char* name : {"two", "a", "b"}) w.removeClaim(name);
       }},
      {"whole cards again",
       [](World& w) {
         w.addClaim("two", "share", {{"gpu", "2"}});
       }},
  };
}

/// Claims grow, shrink, ask for too much, change their requests, and are deleted while they are resized.
inline std::vector<Act> resizes() {
  const auto edit = [](const std::string& name, const std::string& core) {
    return [name, core](World& w) {
      w.json<cache::Claim>({"default", name},
                           R"({"spec":{"resources":{"requests":{"elasticgpu.io/gpu-core":")" + core + R"("}}}})");
    };
  };
  return {
      {"its class",
       [](World& w) {
         w.addClass("flex", "Delete", "Immediate", {{"resizable", "true"}});
       }},
      {"one",
       [](World& w) {
         w.addClaim("one", "flex", {{"gpu", "2"}, {"gpu-core", "30"}});
       }},
      {"two",
       [](World& w) {
         w.addClaim("two", "flex", {{"gpu", "2"}, {"gpu-core", "40"}});
       }},
      {"grows", edit("one", "50")},
      {"too large", edit("two", "70")},
      {"shrinks, and lets the other grow", edit("one", "20")},
      {"a plugin that refuses",
       [edit](World& w) {
         w.plugin.answerResizes({{plugin::ReplyCode::invalid, "no"}});
         edit("two", "75")(w);
       }},
      {"its time is over", [](World& w) { w.clock.advance(std::chrono::minutes(10)); }},
      {"shrinks", edit("two", "10")},
      {"grows and goes",
       [edit](World& w) {
         edit("two", "60")(w);
         w.removeClaim("two");
       }},
      {"the other goes", [](World& w) { w.removeClaim("one"); }},
  };
}

/// A PodGroup is created after some of its pods. All are bound with the last pod, another pod follows, one succeeds.
inline std::vector<Act> podGroups() {
  const auto claimOf = [](const std::string& pod) { return pod + "-gpu-x7x7x"; };
  const auto pod = [claimOf](World& w, const std::string& name) {
    w.nextSecond();
    auto made = World::podOf(name, {}, true);
    made.podGroupName = "train";
    made.resourceClaims.push_back({"gpu", "", "template"});
    (void)World::must(w.client.create(made));
    core::ResourceClaim stamped;
    stamped.metadata.name = claimOf(name);
    stamped.metadata.namespace_ = "default";
    stamped.metadata.ownerReferences.push_back({"v1", "Pod", name, w.pod(name).metadata.uid, true, false});
    stamped.deviceClassName = "elasticgpu.io";
    stamped.requestName = "gpu";
    stamped.config.push_back(
        {{}, "elasticgpu.io", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":10}}})"});
    (void)World::must(w.client.create(stamped));
    w.json<core::Pod>(
        {"default", name},
        R"({"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":")" + claimOf(name) + R"("}]}})",
        "status");
  };
  const auto goes = [claimOf](World& w, const std::string& name) {
    World::mustOk(w.client.remove<core::ResourceClaim>({"default", claimOf(name)}));
  };
  return {
      {"two of three pods",
       [pod](World& w) {
         for (const auto* name : {"p0", "p1"}) pod(w, name);
       }},
      {"their PodGroup",
       [](World& w) {
         core::PodGroup group;
         group.metadata.name = "train";
         group.metadata.namespace_ = "default";
         group.minCount = 3;
         (void)World::must(w.client.create(group));
       }},
      {"the third pod", [pod](World& w) { pod(w, "p2"); }},
      {"a further one", [pod](World& w) { pod(w, "p3"); }},
      {"one is scheduled, and succeeds",
       [goes, claimOf](World& w) {
         w.schedule("p0");
         w.finishPod("p0");
         w.unreserve(claimOf("p0"), "p0");
         goes(w, "p0");
       }},
      {"one more", [pod](World& w) { pod(w, "p4"); }},
      {"all go",
       [goes](World& w) {
         for (const auto* name : {"p1", "p2", "p3", "p4"}) {
           w.removePod(name);
           goes(w, name);
         }
       }},
  };
}

/// Gangs of both binding modes: they are bound with the last member, their pods' gates are removed together, they
/// release their devices while a member is missing and none of their pods runs, and they are bound again.
inline std::vector<Act> gangs() {
  const auto member = [](World& w, const std::string& name, const std::string& cls, const std::string& size) {
    w.nextSecond();
    w.addMember(name, cls, {{"gpu", "1"}}, {{"elasticgpu.io/gang", cls}, {"elasticgpu.io/gang-size", size}});
  };
  const auto ends = [](World& w, const std::string& of) {
    w.removePod("p-" + of);
    w.unreserve(of, "p-" + of);
  };
  const auto nothing = [](World&) {};
  return {
      {"two of three, with their pods",
       [member](World& w) {
         for (const auto* name : {"a", "b"}) member(w, name, "share", "3");
         for (const auto* name : {"a", "b", "c"}) w.addPod(std::string("p-") + name, {name});
       }},
      {"the third", [member](World& w) { member(w, "c", "share", "3"); }},
      {"they are scheduled",
       [](World& w) {
         for (const auto* name : {"a", "b", "c"}) w.schedule(std::string("p-") + name);
       }},
      {"one ends, its claim goes",
       [ends](World& w) {
         ends(w, "c");
         w.removeClaim("c");
       }},
      {"the others run", nothing},
      {"it is made anew",
       [member](World& w) {
         member(w, "c", "share", "3");
         w.addPod("p-c", {"c"});
       }},
      {"all end, one claim goes",
       [ends](World& w) {
         for (const auto* name : {"a", "b"}) ends(w, name);
         w.removePod("p-c");
         w.removeClaim("c");
       }},
      {"a minute is over", nothing},
      {"and another", nothing},
      {"whole again", [member](World& w) { member(w, "c", "share", "3"); }},
      {"all go",
       [](World& w) {
         for (const auto* name : {"a", "b", "c"}) w.removeClaim(name);
       }},
      {"of a late class",
       [member](World& w) {
         for (const auto* name : {"d", "e"}) member(w, name, "late", "2");
         w.addPod("p-d", {"d"});
       }},
      {"with both pods", [](World& w) { w.addPod("p-e", {"e"}); }},
      {"all go",
       [ends](World& w) {
         for (const auto* name : {"d", "e"}) {
           ends(w, name);
           w.removeClaim(name);
         }
       }},
  };
}

/// Claims with several alternatives, in both binding modes; their first alternative becomes free later. Also claims
/// with admin access.
inline std::vector<Act> alternatives() {
  const auto either = [](World& w, const std::string& name, const std::string& cls) {
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.className = cls;
    made.spec.firstAvailable = {{"two", {}, {{"elasticgpu.io/gpu", "2"}}}, {"one", {}, {{"elasticgpu.io/gpu", "1"}}}};
    (void)World::must(w.client.create(made));
  };
  return {
      {"one card is left on each node",
       [](World& w) {
         w.addClaim("hog-1", "share", {{"gpu", "1"}});
         w.addClaim("hog-2", "share", {{"gpu", "1"}});
         w.addClaim("hog-3", "share", {{"gpu", "1"}});
       }},
      {"one of two", [either](World& w) { either(w, "either", "share"); }},
      {"none of two", [either](World& w) { either(w, "waits", "share"); }},
      {"a card is given back", [](World& w) { w.removeClaim("hog-1"); }},
      {"observers",
       [](World& w) {
         w.labelNamespace("default", R"({"resource.kubernetes.io/admin-access":"true"})");
         cache::Claim eye;
         eye.metadata.name = "eye";
         eye.metadata.namespace_ = "default";
         eye.spec.className = "share";
         eye.spec.requests["elasticgpu.io/gpu"] = "2";
         eye.spec.adminAccess = true;
         (void)World::must(w.client.create(eye));
         w.addPod("p1", {"eye"});
       }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"all else leaves",
       [](World& w) {
         for (const auto* name : {"hog-2", "hog-3", "either"}) w.removeClaim(name);
       }},
      {"first consumer",
       [either](World& w) {
         either(w, "late", "late");
         w.addPod("p2", {"late"});
       }},
      {"it is scheduled", [](World& w) { w.schedule("p2"); }},
      {"the observer leaves",
       [](World& w) {
         w.removePod("p1");
         w.removeClaim("eye");
       }},
      {"all leave",
       [](World& w) {
         w.removePod("p2");
         w.removeClaim("late");
         w.removeClaim("waits");
       }},
  };
}

/// Returns the first version after `from` at which a card was over-committed, or empty.
inline std::string overCommitSince(World& world, const std::string& from) {
  std::map<std::string, cache::Gpu> before;  // by card
  http::Request request;
  request.method = "GET";
  request.path = kube::Client::path(core::kindOf<cache::Gpu>, {});
  request.query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=" + from;
  std::stop_source stop;
  auto response = world.server->handle(request, stop.get_token());
  if (!response.stream) return "no history";
  for (bool more = true; more;) {
    std::string chunk;
    response.stream->next(chunk, stop.get_token());
    more = false;
    std::size_t at = 0;
    while (at < chunk.size()) {
      const auto end = chunk.find('\n', at);
      auto event = codec::decodeWatchEvent<cache::Gpu>(std::string_view(chunk).substr(at, end - at));
      at = end + 1;
      if (!event.ok() || event->type == codec::EventType::error) return "history lost";
      if (event->type == codec::EventType::bookmark) continue;
      more = true;
      if (!event->object.isCard()) continue;
      int64_t core = 0, memory = 0;
      for (const auto& [uid, entry] : event->object.spec.allocations) {
        core += entry.core;
        memory += entry.memory;
      }
      // A card that shrank may exceed its capacity, but its ledger must not grow.
      const auto& was = before[event->object.metadata.name].spec.allocations;
      const bool grew = std::any_of(event->object.spec.allocations.begin(), event->object.spec.allocations.end(),
                                    [&](const auto& entry) {
                                      const auto known = was.find(entry.first);
                                      return known == was.end() || known->second.core < entry.second.core ||
                                             known->second.memory < entry.second.memory;
                                    });
      if (grew && (core > event->object.spec.card->core || memory > event->object.spec.card->memory))
        return event->object.metadata.name + " at " + event->object.metadata.resourceVersion;
      before[event->object.metadata.name] = event->object;
    }
  }
  return {};
}

}  // namespace egpu::crash

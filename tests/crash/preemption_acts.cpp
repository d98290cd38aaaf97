// Actions that lead to preemptions and moves.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/workload.h"

namespace egpu::crash {

namespace {

void addKinds(World& w) {
  w.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  core::PriorityClass high;
  high.metadata.name = "high";
  high.value = 1000;
  (void)World::must(w.client.create(high));
}

void addClaim(World& w, const std::string& name, const std::string& cls, const std::string& priority,
              const std::string& cards, const core::StringMap& annotations = {}) {
  w.nextSecond();
  cache::Claim claim;
  claim.metadata.name = name;
  claim.metadata.namespace_ = "default";
  claim.metadata.annotations = annotations;
  claim.spec.className = cls;
  claim.spec.priorityClassName = priority;
  claim.spec.requests["elasticgpu.io/gpu"] = cards;
  (void)World::must(w.client.create(claim));
}

void ends(World& w, const std::string& pod, const std::string& claim) {
  w.removePod(pod);
  w.unreserve(claim, pod);
}

}  // namespace

std::vector<Act> preemption() {
  const auto claim = [](World& w, const std::string& name, const std::string& priority, const std::string& cards) {
    addClaim(w, name, priority.empty() ? "spare" : "share", priority, cards);
  };
  return {
      {"its kinds", addKinds},
      {"a fixed one", [claim](World& w) { claim(w, "fixed", "high", "2"); }},
      {"one", [claim](World& w) { claim(w, "one", "", "1"); }},
      {"a pod of it", [](World& w) { w.addPod("p1", {"one"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"two", [claim](World& w) { claim(w, "two", "", "1"); }},
      {"a pod of it", [](World& w) { w.addPod("p2", {"two"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p2"); }},
      {"the younger makes room", [claim](World& w) { claim(w, "big", "high", "1"); }},
      {"its pod ends", [](World& w) { ends(w, "p2", "two"); }},
      {"the other makes room, too", [claim](World& w) { claim(w, "bigger", "high", "1"); }},
      {"there is room elsewhere", [](World& w) { w.removeClaim("fixed"); }},
      {"its pod ends", [](World& w) { ends(w, "p1", "one"); }},
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

std::vector<Act> moves() {
  const auto ask = [](World& w, const std::string& claim, bool moves) {
    const auto device = w.gpu("egpu-" + w.claim(claim).metadata.uid).metadata.uid;
    w.json<cache::Claim>({"default", claim}, R"({"metadata":{"annotations":{"elasticgpu.io/move":)" +
                                                 (moves ? '"' + device + '"' : std::string("null")) + "}}}");
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
      {"its pod ends", [](World& w) { ends(w, "p1", "one"); }},
      {"the next one is scheduled", [](World& w) { w.schedule("p2"); }},
      {"it is to move again", [ask](World& w) { ask(w, "one", true); }},
      {"or not", [ask](World& w) { ask(w, "one", false); }},
      {"its pod ends", [](World& w) { ends(w, "p2", "one"); }},
      {"it leaves", [](World& w) { w.removeClaim("one"); }},
  };
}

std::vector<Act> gangPreemption() {
  const auto claim = [](World& w, const std::string& name, const std::string& gang, const std::string& size) {
    if (gang.empty())
      addClaim(w, name, "spare", "", "1");
    else
      addClaim(w, name, "share", "high", "1", {{"elasticgpu.io/gang", gang}, {"elasticgpu.io/gang-size", size}});
  };
  const auto runs = [](World& w, const std::string& of) { w.addPod("p-" + of, {of}); };
  const auto podEnds = [](World& w, const std::string& of) { ends(w, "p-" + of, of); };
  return {
      {"its kinds", addKinds},
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
      {"one pod ends", [podEnds](World& w) { podEnds(w, "s4"); }},
      {"the other, too", [podEnds](World& w) { podEnds(w, "s3"); }},
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
       [podEnds](World& w) {
         for (const auto* name : {"s3", "s4"}) podEnds(w, name);
         for (const auto* name : {"f", "s1", "s2", "s3", "s4"}) w.removeClaim(name);
       }},
  };
}

std::vector<Act> podPreemption() {
  const auto two = [](World& w, const std::string& a, const std::string& b) {
    for (const auto& name : {a, b}) addClaim(w, name, "late", "high", "1");
    w.addPod("p-" + a, {a, b});
  };
  return {
      {"its kinds", addKinds},
      {"one node is full", [](World& w) { addClaim(w, "fixed", "share", "high", "2"); }},
      {"the other, too",
       [](World& w) {
         for (const auto* name : {"s1", "s2"}) addClaim(w, name, "spare", "", "1");
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

}  // namespace egpu::crash

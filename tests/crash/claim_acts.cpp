// Actions on claims, cards and ResourceClaims.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/workload.h"

namespace egpu::crash {

std::vector<Act> workload() {
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

std::vector<Act> tornOut() {
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

std::vector<Act> askedForByOthers() {
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

std::vector<Act> cardsChange() {
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

std::vector<Act> resizes() {
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

std::vector<Act> alternatives() {
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

}  // namespace egpu::crash

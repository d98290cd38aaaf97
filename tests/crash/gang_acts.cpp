// Actions on gangs and PodGroups.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/workload.h"

namespace egpu::crash {

std::vector<Act> podGroups() {
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

std::vector<Act> gangs() {
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

}  // namespace egpu::crash

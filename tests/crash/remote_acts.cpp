// Actions on claims of remote GPUs.
#include <string>
#include <vector>

#include "tests/crash/workload.h"

namespace egpu::crash {

std::vector<Act> remoteGpus() {
  const core::StringMap one{{"gpu", "1"}};
  return {
      {"bind",
       [one](World& w) {
         w.addClaim("one", "pool", one);
         w.addClaim("card", "share", one);
       }},
      {"pod on a bound claim", [](World& w) { w.addPod("p1", {"one"}); }},
      {"it is scheduled", [](World& w) { w.schedule("p1"); }},
      {"first consumer, beside a card",
       [one](World& w) {
         w.addClaim("late", "late-pool", one);
         w.addPod("p2", {"late", "card"});
       }},
      {"it is scheduled", [](World& w) { w.schedule("p2"); }},
      {"release in use", [](World& w) { w.removeClaim("one"); }},
      {"its pod ends", [](World& w) { w.removePod("p1"); }},
      {"bound again under the same name", [one](World& w) { w.addClaim("one", "pool", one); }},
      {"a device is made by hand",
       [](World& w) {
         cache::Gpu device;
         device.metadata.name = "by-hand";
         device.spec.source.emplace();
         device.spec.source->kind = v1alpha::SourceKind::remote;
         device.spec.source->endpoint = "10.9.9.9:1";
         device.spec.className = "pool";
         device.spec.provisioner = World::kRemotePlugin;
         device.spec.reclaimPolicy = "Retain";
         (void)World::must(w.client.create(device));
       }},
      {"a claim of its class gets it", [one](World& w) { w.addClaim("two", "pool", one); }},
      {"all leave",
       [](World& w) {
         w.removePod("p2");
         for (const char* claim : {"one", "two", "late", "card"}) w.removeClaim(claim);
       }},
  };
}

}  // namespace egpu::crash

// Classes and PriorityClasses, some of which permit preemption, and the actions of the preemption tests.
#pragma once

#include <string>
#include <vector>

#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {

class PreemptionTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}, {"movable", "true"}});
    world.addClass("spare-late", "Delete", "WaitForFirstConsumer", {{"preemptible", "true"}});
    world.addClass("spare-keep", "Retain", "Immediate", {{"preemptible", "true"}});
    priorityClass("high", 1000);
    priorityClass("middle", 500);
    settle();
  }
  void priorityClass(const std::string& name, int64_t value, bool preempts = true, bool byDefault = false) {
    core::PriorityClass made;
    made.metadata.name = name;
    made.value = value;
    made.preempts = preempts;
    made.globalDefault = byDefault;
    (void)support::World::must(world.client.create(made));
  }
  /// Creates a claim younger than all earlier ones. The controller has seen it.
  void claim(const std::string& name, const std::string& cls, const std::string& priority = {},
             const core::StringMap& requests = {{"gpu", "1"}}, const std::string& namespace_ = "default") {
    world.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = namespace_;
    made.spec.className = cls;
    made.spec.priorityClassName = priority;
    for (const auto& [key, value] : requests) made.spec.requests["elasticgpu.io/" + key] = value;
    (void)support::World::must(world.client.create(made));
    settle();
  }
  /// Creates a pod that runs with the claim.
  void pod(const std::string& name, const std::string& of) {
    world.addPod(name, {of});
    settle();
    world.schedule(name);
    settle();
  }
  void asksToMove(const std::string& claim) {
    world.json<cache::Claim>({"default", claim}, R"({"metadata":{"annotations":{"elasticgpu.io/move":")" +
                                                     world.gpu(deviceOf(claim)).metadata.uid + R"("}}})");
    settle();
  }
  bool podIsThere(const std::string& name) {
    const auto found = world.client.get<core::Pod>({"default", name});
    return found.ok() && !found->metadata.deleting();
  }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
  std::vector<std::string> victims(const std::string& claim) {
    const auto now = world.claim(claim).status.nominated;
    return now ? now->victims : std::vector<std::string>{};
  }
  /// Ends the evicted pod, as its node does.
  void ends(const std::string& pod, const std::string& claim) {
    world.removePod(pod);
    world.unreserve(claim, pod);
    settle();
  }
  /// Lets evictions fail with 429, as by a disruption budget. `dry`: also those with dryRun.
  void budget(bool holds) {
    line.code = 429;
    line.message = "Cannot evict pod as it would violate the pod's disruption budget.";
    line.refuses = nullptr;
    if (holds) line.refuses = [](const kube::HttpRequest& request) { return request.target.ends_with("/eviction"); };
  }
  support::RefusingTransport line{*world.transport};
};

}  // namespace egpu::reconcile

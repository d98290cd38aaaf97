// A world with a node of two cards, claims bound and reserved for pods there, and the node's preparer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/prepare/preparer.h"
#include "tests/support/refusing_transport.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/world.h"

namespace egpu::agent {

/// A plugin on its node: records the staged devices, and every call by name. Thread-safe.
class NodePlugin final : public plugin::Provisioner {
 public:
  explicit NodePlugin(const std::string& name = support::World::kPlugin) { description_.name = name; }
  const plugin::Description& description() const override { return description_; }
  plugin::Reply validate(const core::StringMap&) override { return {}; }
  plugin::Reply provision(const plugin::DeviceRequest&) override { return {}; }
  plugin::Reply deprovision(const std::string&) override { return {}; }
  plugin::ListReply list() override { return {}; }
  plugin::Reply stage(const plugin::DeviceRequest& request) override {
    return pass("stage", [&] {
      last = request;
      if (stageAnswers.ok() || plugin::indefinite(stageAnswers.outcome)) staged_.insert(request.key);
      return stageAnswers;
    });
  }
  plugin::MountReply mount(const plugin::DeviceRequest& request, const std::string& pod,
                           const std::string& container) override {
    plugin::ContainerEdits given = editsOf ? editsOf(request) : edits;
    given.env.emplace_back("DEVICE", request.device);
    const auto reply = pass("mount" + (pod.empty() ? "" : " " + pod) + container, [&] { return mountAnswers; });
    return {reply, given};
  }
  plugin::Reply unmount(const std::string&, const std::string&, const std::string&) override {
    return pass("unmount", [&] { return unmountAnswers; });
  }
  plugin::Reply unstage(const std::string& key) override {
    return pass("unstage", [&] {
      staged_.erase(key);
      if (onUnstage) onUnstage(key);
      return plugin::Reply{};
    });
  }

  std::vector<std::string> calls() {
    std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  std::size_t staged() const {
    std::lock_guard lock(mutex_);
    return staged_.size();
  }

  plugin::ContainerEdits edits{{}, {{"/dev/nvidia0", "", "rw"}}, {}, {}};
  std::function<plugin::ContainerEdits(const plugin::DeviceRequest&)> editsOf;  ///< overrides `edits`
  plugin::Reply stageAnswers, mountAnswers, unmountAnswers;
  plugin::DeviceRequest last;
  std::function<void(const std::string& key)> onUnstage;
  /// Called around each call: crash points.
  std::function<void(const std::string& call, bool after)> around;

 private:
  template <class F>
  plugin::Reply pass(const std::string& call, const F& effect) {
    if (around) around(call, false);
    plugin::Reply reply;
    {
      std::lock_guard lock(mutex_);
      calls_.push_back(call);
      reply = effect();
    }
    if (around) around(call, true);
    return reply;
  }

  plugin::Description description_;
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::set<std::string> staged_;
};

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    world.addNamespace("default");
    world.addNode("n1");
    world.addCard("n1", 0);
    world.addClass("share");
    driver = std::make_unique<support::Driver>(world.handler(), *world.transport, world.registry, world.clock);
    driver->start();
    registry.add(plugin);
    EXPECT_TRUE(folder.open().ok());
  }
  ~PrepareTest() override { world.registry.forgetListeners(); }

  /// Creates a claim of that many percent, bound, with its pod on the node. The pod has the claim's name.
  ClaimRef claimed(const std::string& name, const std::string& core = "10", const core::StringMap& parameters = {}) {
    std::string cls = "share";
    if (!parameters.empty()) world.addClass(cls = "of-" + name, "Delete", "Immediate", parameters);
    world.addClaim(name, cls, {{"gpu-core", core}, {"gpu-memory", "1"}});
    world.addPod(name, {name});
    driver->settle();
    world.schedule(name);
    return {"default", name, world.resourceClaim(name)->metadata.uid};
  }
  v1alpha::ElasticGPU deviceOf(const ClaimRef& claim) {
    return world.gpu("egpu-" + world.claim(claim.name).metadata.uid);
  }
  std::string uidOf(const ClaimRef& claim) { return deviceOf(claim).metadata.uid; }
  ClaimPreparer preparerOn(const std::string& node) {
    PreparerOptions onNode;
    onNode.node = node;
    return ClaimPreparer(client, registry, events, folder, onNode);
  }
  /// Sets a container state as the kubelet reports it.
  void setState(const std::string& pod, const std::string& state) {
    world.json<core::Pod>({"default", pod},
                          R"({"status":{"phase":"Running","containerStatuses":[{"name":"main","state":{")" + state +
                              R"(":{}},"image":"x","imageID":"","ready":true,"restartCount":0}]}})",
                          "status");
  }
  /// Makes the API server unreachable for reads.
  void apiAway(bool away) {
    line.code = 0;
    line.refuses = [away](const kube::HttpRequest&) { return away; };
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& each : std::filesystem::directory_iterator(folder.path()))
      if (const auto name = each.path().filename().string(); name.front() != '.') out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string fileOf(const std::string& uid) const { return "elasticgpu.io-device_" + uid + ".json"; }
  bool hasEvent(const std::string& pod, const std::string& words) const {
    const auto lines = events.lines();
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) {
      return l.rfind(pod + " Warning FailedPrepareDevices ", 0) == 0 && l.find(words) != std::string::npos;
    });
  }
  static std::vector<std::string> ids(const std::string& uid) { return {"elasticgpu.io/device=" + uid}; }

  support::World world;
  std::unique_ptr<support::Driver> driver;
  support::RefusingTransport line{*world.transport};
  kube::Client client{line, world.clock, world.random, world.metrics, support::Driver::options()};
  support::ScratchFolder scratch;
  cdi::Folder folder{scratch.path() + "/cdi"};
  NodePlugin plugin;
  support::FakeRegistry registry;
  support::EventLog events;
  PreparerOptions options{"n1", {}};
  ClaimPreparer preparer{client, registry, events, folder, options};
};

using Calls = std::vector<std::string>;

}  // namespace egpu::agent

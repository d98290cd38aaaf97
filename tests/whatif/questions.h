// A small cluster for tests of questions to the operations server.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/whatif/service.h"

namespace egpu::whatif {

inline constexpr int64_t kGi = int64_t{1} << 30;
/// A claim that is not in the cluster and would fit.
inline const std::string kSmall = R"(
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: small}
spec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 30}}}
)";

/// Two nodes of two cards each. Claims a and b are bound on n1; claim `waits` does not fit.
class QuestionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string node : {"n1", "n2"}) {
      core::Node n;
      n.metadata.name = n.metadata.uid = node;
      n.metadata.resourceVersion = next();
      n.ready = true;
      stores.nodes.informed(n);
      for (int64_t i = 0; i < 2; ++i) {
        cache::Gpu gpu;
        gpu.metadata.name = gpu.metadata.uid = node + "-c" + std::to_string(i);
        gpu.metadata.resourceVersion = next();
        gpu.spec.card.emplace();
        gpu.spec.card->uuid = gpu.metadata.name;
        gpu.spec.card->nodeName = node;
        gpu.spec.card->index = i;
        gpu.spec.card->model = "T4";
        gpu.spec.card->memory = 16 * kGi;
        stores.cards.informed(gpu);
      }
    }
    addClass("share");
    claim("a", "60", "n1", "n1-c0");
    claim("b", "60", "n1", "n1-c1");
    claim("c", "30", "n2", "n2-c0");
    claim("d", "60", "n2", "n2-c1");
    claim("waits", "90");
  }
  std::string next() { return std::to_string(++version); }
  void addClass(const std::string& name, const core::StringMap& parameters = {}) {
    cache::Class cls;
    cls.metadata.name = cls.metadata.uid = name;
    cls.metadata.resourceVersion = next();
    cls.provisioner = "gpushare.provisioner.elasticgpu.io";
    cls.parameters = parameters;
    stores.classes.informed(cls);
  }
  void bindsForItsPod(const std::string& name) {
    auto cls = *stores.classes.get({"", name});
    cls.metadata.resourceVersion = next();
    cls.bindingMode = "WaitForFirstConsumer";
    stores.classes.informed(cls);
  }
  void claim(const std::string& name, const std::string& percent, const std::string& node = {},
             const std::string& card = {}) {
    cache::Claim c;
    c.metadata.name = name;
    c.metadata.namespace_ = "default";
    c.metadata.uid = name;
    c.metadata.resourceVersion = next();
    c.spec.className = "share";
    c.spec.requests = {{"elasticgpu.io/gpu-core", percent}};
    c.status.phase = card.empty() ? "Pending" : "Bound";
    if (!card.empty()) {
      c.status.elasticGPUName = "egpu-" + name;
      c.status.nodeName = node;
      cache::Gpu device;
      device.metadata.name = "egpu-" + name;
      device.metadata.uid = "device-" + name;
      device.metadata.resourceVersion = next();
      device.spec.nodeName = node;
      const int64_t core = std::stoll(percent) * 10;
      device.spec.cards = {{card, card, core, 16 * kGi * core / 1000, core, 16 * kGi * core / 1000}};
      device.spec.claimRef = v1alpha::ClaimRef{"default", name, c.metadata.uid};
      device.spec.className = "share";
      device.spec.provisioner = "gpushare.provisioner.elasticgpu.io";
      device.status.phase = "Bound";
      auto ledger = *stores.cards.get({"", card});
      ledger.metadata.resourceVersion = next();
      ledger.spec.allocations[device.metadata.uid] = {device.metadata.name, "default/" + name, core,
                                                      16 * kGi * core / 1000};
      stores.cards.informed(ledger);
      stores.devices.informed(device);
    }
    stores.claims.informed(c);
  }
  /// Makes the claim's device movable, or sets the device's parameters to `parameters`.
  void movable(const std::string& name, const core::StringMap& parameters = {{"movable", "true"}}) {
    auto device = *stores.devices.get({"", "egpu-" + name});
    device.metadata.resourceVersion = next();
    device.spec.parameters = parameters;
    device.spec.reclaimPolicy = "Delete";
    stores.devices.informed(device);
  }
  /// A pod that runs on n2 and uses these claims. It is pinned to n2, as removal of its scheduling gate does.
  core::Pod podOn2(const std::string& name, const std::vector<std::string>& claims, const std::string& owner) {
    core::Pod pod;
    pod.metadata.name = pod.metadata.uid = name;
    pod.metadata.namespace_ = "default";
    pod.metadata.resourceVersion = next();
    if (!owner.empty()) pod.metadata.ownerReferences = {{"apps/v1", owner, "owner", "uid-of-owner", true}};
    pod.nodeName = "n2";
    pod.phase = "Running";
    pod.requiredNodeAffinity = {{{{}, {{"metadata.name", "In", {"n2"}}}}}};
    for (const auto& claim : claims) pod.resourceClaims.push_back({claim, claim});
    return pod;
  }
  http::Response ask(const std::string& path, const std::string& query = {}, const std::string& body = {}) {
    http::Request r;
    r.method = body.empty() ? "GET" : "POST";
    r.path = path;
    r.query = query;
    r.body = body;
    return questions.answer(r);
  }
  /// Returns the answer and expects status 200.
  std::string answer(const std::string& path, const std::string& query = {}, const std::string& body = {}) {
    const auto r = ask(path, query, body);
    EXPECT_EQ(r.status, 200) << r.body;
    return r.body;
  }
  void refuses(int status, const std::string& message, const std::string& path, const std::string& query = {},
               const std::string& body = {}) {
    const auto r = ask(path, query, body);
    EXPECT_EQ(r.status, status) << path << "?" << query;
    EXPECT_NE(r.body.find(message), std::string::npos) << path << "?" << query << " → " << r.body;
  }
  static void has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "no\n" << part << "\nin\n" << text;
  }

  int version = 0;
  cache::Stores stores;
  allocator::Allocator view{stores};
  base::ManualClock clock;
  QuestionService questions{stores, view, clock};
};

}  // namespace egpu::whatif

// A cluster for tests: the embedded API server in process (or a real one, see real_handler.h), and what users, node
// agents and the scheduler do to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/codec/simulated.h"
#include "controller/reconcile/claim/carrier.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/support/driver.h"
#include "tests/support/real_handler.h"

namespace egpu::support {

namespace keys = v1alpha::keys;
inline constexpr int64_t kGi = 1024LL * 1024 * 1024;

/// Everything throws on what the server refuses unless it says otherwise.
class World {
 public:
  World() : client([this]() -> kube::Transport& { return makeServer(); }(), clock, random, metrics, Driver::options()) {
    registry.add(plugin);
  }

  http::Handler& handler() {
    if (real) return *real;
    return *server;
  }
  /// Changes that the server has taken.
  uint64_t writes() const { return real ? real->writes() : server->resourceVersion(); }

  /// What is made from here on is younger: creation times have whole seconds, and a real server's are the system's.
  void nextSecond() {
    clock.advance(std::chrono::seconds(1));
    if (real) base::SystemClock().sleepFor(std::chrono::milliseconds(1001), {});
  }
  void addNamespace(const std::string& name) {
    core::Namespace ns;
    ns.metadata.name = name;
    (void)client.create(ns);
  }
  void labelNamespace(const std::string& name, const std::string& labels) {
    json<core::Namespace>({"", name}, R"({"metadata":{"labels":)" + labels + "}}");
  }
  void taint(const std::string& node, const std::string& taints) {
    json<core::Node>({"", node}, R"({"spec":{"taints":)" + taints + "}}");
  }
  void setClass(const std::string& name, const std::string& body) { json<cache::Class>({"", name}, body); }
  void addNode(const std::string& name, core::StringMap labels = {}) {
    core::Node node;
    node.metadata.name = name;
    node.metadata.labels = std::move(labels);
    node.cpuMilli = 64'000;
    node.memoryBytes = 256 * kGi;
    must(client.create(node));
    json<core::Node>(
        {"", name},
        R"({"status":{"allocatable":{"cpu":"64","memory":"256Gi","ephemeral-storage":"100Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}})",
        "status");
  }
  void removeNode(const std::string& name) { mustOk(client.remove<core::Node>({"", name})); }
  /// "gpu-<node>-<index>" in lower case.
  std::string addCard(const std::string& node, int index, int64_t memory = 16 * kGi) {
    cache::Gpu gpu;
    v1alpha::Card card;
    card.uuid = "GPU-" + node + "-" + std::to_string(index);
    card.nodeName = node;
    card.index = index;
    card.model = "T4";
    card.memory = memory;
    gpu.spec.card = card;
    gpu.metadata.name = "gpu-" + node + "-" + std::to_string(index);
    gpu.metadata.labels = {{std::string(keys::kRoleLabel), "card"},
                           {std::string(keys::kNodeLabel), v1alpha::labelValueOf(node)}};
    gpu.metadata.finalizers = {std::string(keys::kLedgerFinalizer)};
    gpu.spec.source.kind = v1alpha::SourceKind::physicalGPU;
    gpu.spec.source.gpuNames = {gpu.metadata.name};
    must(client.create(gpu));
    json<cache::Gpu>({"", gpu.metadata.name}, R"({"status":{"phase":"Available"}})", "status");
    return gpu.metadata.name;
  }
  void addClass(const std::string& name, const std::string& reclaim = "Delete", const std::string& mode = "Immediate",
                core::StringMap parameters = {}, const std::string& provisioner = kPlugin) {
    cache::Class cls;
    cls.metadata.name = name;
    cls.provisioner = provisioner;
    cls.reclaimPolicy = reclaim;
    cls.bindingMode = mode;
    cls.parameters = std::move(parameters);
    must(client.create(cls));
  }
  cache::Claim addClaim(const std::string& name, const std::string& cls, core::StringMap requests,
                        const std::string& gpu = {}) {
    cache::Claim claim;
    claim.metadata.name = name;
    claim.metadata.namespace_ = "default";
    claim.spec.className = cls;
    claim.spec.elasticGPUName = gpu;
    for (auto& [key, value] : requests) claim.spec.requests["elasticgpu.io/" + key] = value;
    return must(client.create(claim));
  }
  void removeClaim(const std::string& name) { mustOk(client.remove<cache::Claim>({"default", name})); }
  /// As the admission policy leaves it.
  void addPod(const std::string& name, const std::vector<std::string>& claims, bool gate = true,
              core::StringMap selector = {}) {
    auto pod = podOf(name, claims, gate);
    pod.nodeSelector = std::move(selector);
    must(client.create(pod));
  }
  /// The same to be changed before it is created.
  static core::Pod podOf(const std::string& name, const std::vector<std::string>& claims, bool gate = true) {
    core::Pod pod;
    pod.metadata.name = name;
    pod.metadata.namespace_ = "default";
    if (gate) pod.schedulingGates = {std::string(keys::kSchedulingGate)};
    core::Container container;
    container.name = "main";
    container.image = "x";
    for (const auto& claim : claims) {
      pod.resourceClaims.push_back({claim, claim});
      container.resourceClaims.push_back(claim);
    }
    pod.containers.push_back(container);
    return pod;
  }
  /// A pod without claims that runs on a node already and takes this much CPU of it.
  void occupy(const std::string& name, const std::string& node, const std::string& cpu, int64_t priority = 0) {
    auto pod = podOf(name, {}, false);
    pod.nodeName = node;
    pod.priority = priority;
    pod.containers[0].requests["cpu"] = cpu;
    must(client.create(pod));
  }
  void removePod(const std::string& name) {
    if (auto pod = client.get<core::Pod>({"default", name}); pod.ok())
      for (const auto& claim : pod->resourceClaims) unreserve(claim.resourceClaimName, name);
    (void)client.remove<core::Pod>({"default", name}, R"({"gracePeriodSeconds":0})");
  }
  void finishPod(const std::string& name) {
    json<core::Pod>({"default", name}, R"({"status":{"phase":"Succeeded"}})", "status");
    for (const auto& claim : pod(name).resourceClaims) unreserve(claim.resourceClaimName, name);
  }
  /// The scheduler reserves the pod's claims and binds it.
  void schedule(const std::string& name) {
    const auto p = pod(name);
    std::string node;
    for (const auto& claim : p.resourceClaims) {
      auto rc = must(client.get<core::ResourceClaim>({"default", claim.resourceClaimName}));
      if (!rc.allocation) throw std::runtime_error("not allocated: " + claim.resourceClaimName);
      node = rc.allocation->nodeName;
      rc.reservedFor.push_back({"pods", name, p.metadata.uid});
      reserve(rc);
    }
    kube::HttpRequest bind;
    bind.method = kube::Method::post;
    bind.target = "/api/v1/namespaces/default/pods/" + name + "/binding";
    bind.headers = {{"Content-Type", "application/json"}};
    bind.body = R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":")" + name +
                R"("},"target":{"kind":"Node","name":")" + node + R"("}})";
    auto answer = client.call(bind);
    if (!answer.ok() || answer->status >= 300)
      throw std::runtime_error("bind: " + (answer.ok() ? answer->body : answer.status().str()));
  }
  /// As the controller manager does once the pod is gone or finished.
  void unreserve(const std::string& claim, const std::string& podName) {
    auto rc = carrier(claim);
    if (!rc) return;
    auto& all = rc->reservedFor;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& one) { return one.name == podName; }), all.end());
    reserve(*rc);
  }
  void reserve(const core::ResourceClaim& rc) {
    (void)client.patch<core::ResourceClaim>(
        core::keyOf(rc.metadata), kube::PatchType::merge,
        codec::patch::reservedFor(rc.metadata.uid, rc.metadata.resourceVersion, rc.reservedFor, false), "status");
  }
  /// As the scheduler does when no node suits ("deallocation of ResourceClaim completed").
  void clearAllocation(const std::string& claim) {
    json<core::ResourceClaim>({"default", claim}, R"({"status":{"allocation":null}})", "status");
  }

  cache::Claim claim(const std::string& name) { return must(client.get<cache::Claim>({"default", name})); }
  core::Pod pod(const std::string& name) { return must(client.get<core::Pod>({"default", name})); }
  cache::Gpu gpu(const std::string& name) { return must(client.get<cache::Gpu>({"", name})); }
  std::optional<core::ResourceClaim> carrier(const std::string& name) {
    auto result = client.get<core::ResourceClaim>({"default", name});
    return result.ok() ? std::optional<core::ResourceClaim>(*result) : std::nullopt;
  }
  bool exists(const std::string& gpuName) { return client.get<cache::Gpu>({"", gpuName}).ok(); }
  /// Of a claim's condition; empty if there is none.
  std::string reason(const std::string& name, std::string_view type = "Bound") {
    const auto c = claim(name);
    const auto* condition = reconcile::findCondition(c.status.conditions, type);
    return condition == nullptr ? "" : condition->reason;
  }
  std::string message(const std::string& name, std::string_view type = "Bound") {
    const auto c = claim(name);
    const auto* condition = reconcile::findCondition(c.status.conditions, type);
    return condition == nullptr ? "" : condition->message;
  }
  template <class T>
  T json(const core::ObjectKey& key, const std::string& body, std::string_view sub = {}) {
    return must(client.patch<T>(key, kube::PatchType::merge, body, sub));
  }

  /// What must hold at any time; the first broken rule, or empty.
  std::string violation() {
    const auto all = must(client.listAll<cache::Gpu>({}));
    const auto claims = must(client.listAll<cache::Claim>({}));
    std::map<std::string, const cache::Gpu*> byUid, byName;
    for (const auto& g : all) {
      byUid[g.metadata.uid] = &g;
      byName[g.metadata.name] = &g;
    }
    std::map<std::string, std::string> ownerOf;
    for (const auto& g : all) {
      if (g.isDevice() && g.spec.claimRef && (g.status.phase == "Bound")) {
        auto [it, fresh] = ownerOf.emplace(g.spec.claimRef->uid, g.metadata.name);
        if (!fresh) return "claim bound twice: " + it->second + " and " + g.metadata.name;
      }
      if (!g.isCard()) continue;
      int64_t core = 0, memory = 0;
      for (const auto& [uid, entry] : g.spec.allocations) {
        core += entry.core;
        memory += entry.memory;
      }
      if (core > g.spec.card->core || memory > g.spec.card->memory) return "over-committed: " + g.metadata.name;
    }
    for (const auto& c : claims) {
      if (c.status.phase != "Bound" || c.metadata.deleting()) continue;
      auto it = byName.find(c.status.elasticGPUName);
      if (it == byName.end()) return "bound claim without its device: " + c.metadata.name;
      if (!it->second->spec.claimRef || it->second->spec.claimRef->uid != c.metadata.uid)
        return "device of another claim: " + c.metadata.name;
      for (const auto& share : it->second->spec.cards)
        if (byName.count(share.name) != 0 && byName[share.name]->spec.allocations.count(it->second->metadata.uid) == 0)
          return "bound device without its entry: " + it->first;
    }
    return {};
  }
  /// What must hold at rest besides.
  std::string garbage() {
    if (auto broken = violation(); !broken.empty()) return broken;
    const auto all = must(client.listAll<cache::Gpu>({}));
    const auto claims = must(client.listAll<cache::Claim>({}));
    std::map<std::string, const cache::Gpu*> byUid;
    for (const auto& g : all) byUid[g.metadata.uid] = &g;
    for (const auto& g : all)
      for (const auto& [uid, entry] : g.spec.allocations)
        if (byUid.count(uid) == 0) return "garbage entry on " + g.metadata.name + ": " + uid;
    for (const auto& key : plugin.made())
      if (byUid.count(key) == 0) return "provisioned but no device: " + key;
    for (const auto& g : all) {
      if (!g.isDevice() || !g.spec.claimRef || g.spec.claimRef->reserves() || g.status.phase == "Released") continue;
      if (reconcile::findCondition(g.status.conditions, reconcile::kHeld) != nullptr) continue;  // for a pod that runs
      if (std::none_of(claims.begin(), claims.end(),
                       [&](const auto& c) { return c.metadata.uid == g.spec.claimRef->uid; }))
        return "orphan device " + g.metadata.name;
    }
    return {};
  }
  /// The world without uids and times: what two runs must agree on.
  std::string picture() {
    std::map<std::string, std::string> names;  // uid → claim
    std::vector<std::string> lines;
    const auto claims = must(client.listAll<cache::Claim>({}));
    const auto all = must(client.listAll<cache::Gpu>({}));
    const auto claimText = [](const v1alpha::ClaimRef& ref) { return ref.namespace_ + "/" + ref.name; };
    for (const auto& c : claims)
      lines.push_back("claim " + c.metadata.name + " " + c.status.phase + " node=" + c.status.nodeName +
                      (c.metadata.deleting() ? " deleting" : "") +
                      " named=" + (c.spec.elasticGPUName.empty() ? "no" : "yes"));
    for (const auto& g : all) {
      std::string line;
      if (g.isCard()) {
        int64_t core = 0, memory = 0;
        for (const auto& [uid, entry] : g.spec.allocations) {
          core += entry.core;
          memory += entry.memory;
        }
        line = "card " + g.metadata.name + " core=" + std::to_string(core) + " memory=" + std::to_string(memory) +
               " entries=" + std::to_string(g.spec.allocations.size());
      } else {
        line = "device of " + (g.spec.claimRef ? claimText(*g.spec.claimRef) : "nobody") + " " + g.status.phase;
        for (const auto& share : g.spec.cards)
          line += " " + std::to_string(share.core) + "/" + std::to_string(share.memory);
      }
      lines.push_back(line);
    }
    for (const auto& rc : must(client.listAll<core::ResourceClaim>({})))
      lines.push_back("carrier " + rc.metadata.name +
                      (rc.allocation ? " on " + rc.allocation->nodeName : " unallocated"));
    for (const auto& p : must(client.listAll<core::Pod>({})))
      lines.push_back("pod " + p.metadata.name + (p.schedulingGates.empty() ? "" : " gated"));
    lines.push_back("provisioned " + std::to_string(plugin.made().size()));
    std::sort(lines.begin(), lines.end());
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
  }

  template <class T>
  static T must(base::Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.status().str());
    return std::move(result).value();
  }
  static void mustOk(const base::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.str());
  }

  static constexpr const char* kPlugin = "gpushare.provisioner.elasticgpu.io";
  base::ManualClock clock;
  base::Random random{7};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server;  ///< null where the server is a real one
  std::unique_ptr<RealHandler> real;          ///< null where it is not
  std::unique_ptr<HandlerTransport> transport;
  FakeProvisioner plugin{kPlugin};
  FakeRegistry registry;
  kube::Client client;

 private:
  kube::Transport& makeServer() {
    if ((real = RealHandler::fromEnvironment())) {
      transport = std::make_unique<HandlerTransport>(*real);
      return *transport;
    }
    apiserver::Options options;
    options.bookmarkInterval = std::chrono::milliseconds(0);  // watches answer at once, see ManualInformer
    options.historyLength = 100'000;
    auto made = apiserver::Server::create(options, clock, random);
    server = must(std::move(made));
    transport = std::make_unique<HandlerTransport>(*server);
    return *transport;
  }
};

}  // namespace egpu::support

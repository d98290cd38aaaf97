#include "tests/support/world.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/size.h"
#include "api/v1alpha/validation.h"
#include "controller/codec/simulated.h"
#include "controller/reconcile/claim/conditions.h"
#include "tests/support/history_length.h"

namespace egpu::support {

World::World()
    : client([this]() -> kube::Transport& { return makeServer(); }(), clock, random, metrics, Driver::options()) {
  registry.add(plugin);
}

World::~World() = default;

http::Handler& World::handler() {
  if (real) return *real;
  return *server;
}

uint64_t World::writes() const { return real ? real->writes() : server->resourceVersion(); }

void World::nextSecond() {
  clock.advance(std::chrono::seconds(1));
  if (real) base::SystemClock().sleepFor(std::chrono::milliseconds(1001), {});
}

void World::addNamespace(const std::string& name) {
  core::Namespace ns;
  ns.metadata.name = name;
  (void)client.create(ns);
}

void World::labelNamespace(const std::string& name, const std::string& labels) {
  json<core::Namespace>({"", name}, R"({"metadata":{"labels":)" + labels + "}}");
}

void World::taint(const std::string& node, const std::string& taints) {
  json<core::Node>({"", node}, R"({"spec":{"taints":)" + taints + "}}");
}

void World::setClass(const std::string& name, const std::string& body) { json<cache::Class>({"", name}, body); }

void World::addNode(const std::string& name, core::StringMap labels) {
  core::Node node;
  node.metadata.name = name;
  node.metadata.labels = std::move(labels);
  node.cpuMilli = 64'000;
  node.memoryBytes = 256 * kGi;
  must(client.create(node));
  json<core::Node>({"", name},
                   R"({"status":{"allocatable":{"cpu":"64","memory":"256Gi","ephemeral-storage":"100Gi","pods":"110"},)"
                   R"("conditions":[{"type":"Ready","status":"True"}]}})",
                   "status");
}

void World::removeNode(const std::string& name) { mustOk(client.remove<core::Node>({"", name})); }

std::string World::addCard(const std::string& node, int index, int64_t memory, const std::string& model) {
  cache::Gpu gpu;
  v1alpha::Card card;
  card.uuid = "GPU-" + node + "-" + std::to_string(index);
  card.nodeName = node;
  card.index = index;
  card.model = model;
  card.memory = memory;
  gpu.spec.card = card;
  gpu.metadata.name = "gpu-" + node + "-" + std::to_string(index);
  gpu.metadata.labels = {{std::string(keys::kRoleLabel), "card"},
                         {std::string(keys::kNodeLabel), v1alpha::labelValueOf(node)}};
  gpu.metadata.finalizers = {std::string(keys::kLedgerFinalizer)};
  auto& source = gpu.spec.source.emplace();
  source.kind = v1alpha::SourceKind::physicalGPU;
  source.gpuNames = {gpu.metadata.name};
  must(client.create(gpu));
  json<cache::Gpu>({"", gpu.metadata.name}, R"({"status":{"phase":"Available"}})", "status");
  return gpu.metadata.name;
}

void World::addClass(const std::string& name, const std::string& reclaim, const std::string& mode,
                     core::StringMap parameters, const std::string& provisioner) {
  cache::Class cls;
  cls.metadata.name = name;
  cls.provisioner = provisioner;
  cls.reclaimPolicy = reclaim;
  cls.bindingMode = mode;
  cls.parameters = std::move(parameters);
  must(client.create(cls));
}

cache::Claim World::addClaim(const std::string& name, const std::string& cls, core::StringMap requests,
                             const std::string& gpu) {
  cache::Claim claim;
  claim.metadata.name = name;
  claim.metadata.namespace_ = "default";
  claim.spec.className = cls;
  claim.spec.elasticGPUName = gpu;
  for (auto& [key, value] : requests) claim.spec.requests["elasticgpu.io/" + key] = value;
  return must(client.create(claim));
}

cache::Claim World::addMember(const std::string& name, const std::string& cls, core::StringMap requests,
                              core::StringMap annotations) {
  cache::Claim claim;
  claim.metadata.name = name;
  claim.metadata.namespace_ = "default";
  claim.metadata.annotations = std::move(annotations);
  claim.spec.className = cls;
  for (auto& [key, value] : requests) claim.spec.requests["elasticgpu.io/" + key] = value;
  return must(client.create(claim));
}

void World::removeClaim(const std::string& name) { mustOk(client.remove<cache::Claim>({"default", name})); }

void World::addPod(const std::string& name, const std::vector<std::string>& claims, bool gate,
                   core::StringMap selector) {
  auto pod = podOf(name, claims, gate);
  pod.nodeSelector = std::move(selector);
  must(client.create(pod));
}

core::Pod World::podOf(const std::string& name, const std::vector<std::string>& claims, bool gate) {
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

void World::occupy(const std::string& name, const std::string& node, const std::string& cpu, int64_t priority) {
  auto pod = podOf(name, {}, false);
  pod.nodeName = node;
  pod.priority = priority;
  pod.containers[0].requests["cpu"] = cpu;
  must(client.create(pod));
}

void World::removePod(const std::string& name) {
  if (auto pod = client.get<core::Pod>({"default", name}); pod.ok())
    for (const auto& claim : v1alpha::claimNames(*pod)) unreserve(claim, name);
  (void)client.remove<core::Pod>({"default", name}, R"({"gracePeriodSeconds":0})");
}

void World::finishPod(const std::string& name) {
  json<core::Pod>({"default", name}, R"({"status":{"phase":"Succeeded"}})", "status");
  for (const auto& claim : v1alpha::claimNames(pod(name))) unreserve(claim, name);
}

void World::schedule(const std::string& name) {
  const auto p = pod(name);
  std::string node = must(client.listAll<core::Node>({})).front().metadata.name;  // for remote devices, any node
  for (const auto& claim : v1alpha::claimNames(p)) {
    auto rc = must(client.get<core::ResourceClaim>({"default", claim}));
    if (!rc.allocation) throw std::runtime_error("not allocated: " + claim);
    if (!rc.allocation->nodeName.empty()) node = rc.allocation->nodeName;
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

void World::unreserve(const std::string& claim, const std::string& podName) {
  if (claim.empty()) return;
  auto rc = resourceClaim(claim);
  if (!rc) return;
  auto& all = rc->reservedFor;
  all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& one) { return one.name == podName; }), all.end());
  reserve(*rc);
}

void World::reserve(const core::ResourceClaim& rc) {
  (void)client.patch<core::ResourceClaim>(
      core::keyOf(rc.metadata), kube::PatchType::merge,
      codec::patch::reservedFor(rc.metadata.uid, rc.metadata.resourceVersion, rc.reservedFor, false), "status");
}

void World::clearAllocation(const std::string& claim) {
  json<core::ResourceClaim>({"default", claim}, R"({"status":{"allocation":null}})", "status");
}

cache::Claim World::claim(const std::string& name) { return must(client.get<cache::Claim>({"default", name})); }

core::Pod World::pod(const std::string& name) { return must(client.get<core::Pod>({"default", name})); }

cache::Gpu World::gpu(const std::string& name) { return must(client.get<cache::Gpu>({"", name})); }

std::optional<core::ResourceClaim> World::resourceClaim(const std::string& name) {
  auto result = client.get<core::ResourceClaim>({"default", name});
  return result.ok() ? std::optional<core::ResourceClaim>(*result) : std::nullopt;
}

bool World::exists(const std::string& gpuName) { return client.get<cache::Gpu>({"", gpuName}).ok(); }

std::string World::reason(const std::string& name, std::string_view type) {
  const auto c = claim(name);
  const auto* condition = reconcile::findCondition(c.status.conditions, type);
  return condition == nullptr ? "" : condition->reason;
}

std::string World::message(const std::string& name, std::string_view type) {
  const auto c = claim(name);
  const auto* condition = reconcile::findCondition(c.status.conditions, type);
  return condition == nullptr ? "" : condition->message;
}

template <class T>
T World::json(const core::ObjectKey& key, const std::string& body, std::string_view sub) {
  return must(client.patch<T>(key, kube::PatchType::merge, body, sub));
}
template cache::Gpu World::json<cache::Gpu>(const core::ObjectKey&, const std::string&, std::string_view);
template cache::Claim World::json<cache::Claim>(const core::ObjectKey&, const std::string&, std::string_view);
template cache::Class World::json<cache::Class>(const core::ObjectKey&, const std::string&, std::string_view);
template cache::ClaimTemplate World::json<cache::ClaimTemplate>(const core::ObjectKey&, const std::string&,
                                                                std::string_view);
template cache::Quota World::json<cache::Quota>(const core::ObjectKey&, const std::string&, std::string_view);
template core::Pod World::json<core::Pod>(const core::ObjectKey&, const std::string&, std::string_view);
template core::Node World::json<core::Node>(const core::ObjectKey&, const std::string&, std::string_view);
template core::ResourceClaim World::json<core::ResourceClaim>(const core::ObjectKey&, const std::string&,
                                                              std::string_view);
template core::Namespace World::json<core::Namespace>(const core::ObjectKey&, const std::string&, std::string_view);

std::string World::violation() {
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
    if (shrunk.count(g.metadata.name) > 0) continue;
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
    if (auto broken = sizeBroken(*it->second, byName); !broken.empty()) return broken;
  }
  return {};
}

std::string World::sizeBroken(const cache::Gpu& device, const std::map<std::string, const cache::Gpu*>& byName) const {
  const auto given = plugin.size(device.metadata.uid);
  for (std::size_t i = 0; i < device.spec.cards.size(); ++i) {
    const auto& has = v1alpha::cardsInForce(device)[i];
    const auto card = byName.find(has.name);
    if (card == byName.end()) continue;
    const auto& entry = card->second->spec.allocations.at(device.metadata.uid);
    if (entry.core < has.chargedCore || entry.memory < has.chargedMemory)
      return "more is in force than the entry: " + device.metadata.name;
    // If the class overcommits, the entry is smaller than the grant.
    if (!given.cards.empty() && (given.cards[i].core > std::max(entry.core, has.core) ||
                                 given.cards[i].memory > std::max(entry.memory, has.memory)))
      return "the plugin gives more than the entry: " + device.metadata.name;
  }
  return {};
}

std::string World::garbage() {
  if (auto broken = violation(); !broken.empty()) return broken;
  const auto all = must(client.listAll<cache::Gpu>({}));
  const auto claims = must(client.listAll<cache::Claim>({}));
  std::map<std::string, const cache::Gpu*> byUid;
  for (const auto& g : all) byUid[g.metadata.uid] = &g;
  for (const auto& g : all)
    for (const auto& [uid, entry] : g.spec.allocations)
      if (byUid.count(uid) == 0) return "garbage entry on " + g.metadata.name + ": " + uid;
  for (const auto* each : {&plugin, &remote})
    for (const auto& key : each->made())
      if (byUid.count(key) == 0) return "provisioned but no device: " + key;
  for (const auto& g : all)
    if (g.isDevice() && g.status.phase == "Bound" && v1alpha::isResizing(g)) return "still resized: " + g.metadata.name;
  for (const auto& g : all) {
    if (!g.isDevice() || !g.spec.claimRef || g.spec.claimRef->reserves() || g.status.phase == "Released") continue;
    if (reconcile::findCondition(g.status.conditions, reconcile::kHeld) != nullptr) continue;  // held for a running pod
    if (std::none_of(claims.begin(), claims.end(),
                     [&](const auto& c) { return c.metadata.uid == g.spec.claimRef->uid; }))
      return "orphan device " + g.metadata.name;
  }
  return {};
}

std::string World::picture() {
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
      for (const auto& share : v1alpha::cardsInForce(g))
        line += " " + std::to_string(share.core) + "/" + std::to_string(share.memory);
    }
    lines.push_back(line);
  }
  for (const auto& rc : must(client.listAll<core::ResourceClaim>({})))
    lines.push_back("ResourceClaim " + rc.metadata.name +
                    (rc.allocation ? " on " + rc.allocation->nodeName : " unallocated"));
  for (const auto& p : must(client.listAll<core::Pod>({})))
    lines.push_back("pod " + p.metadata.name + (p.schedulingGates.empty() ? "" : " gated"));
  lines.push_back("provisioned " + std::to_string(plugin.made().size() + remote.made().size()));
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

void World::mustOk(const base::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.str());
}

kube::Transport& World::makeServer() {
  if ((real = RealHandler::fromEnvironment())) {
    transport = std::make_unique<HandlerTransport>(*real);
    return *transport;
  }
  apiserver::Options options;
  options.priorityAdmission = false;  // as in tests/reconcile/real_server.py: pods here have plain priorities
  options.bookmarkInterval = std::chrono::milliseconds(0);  // watches answer immediately, see ManualInformer
  options.historyLength = historyLength;
  auto made = apiserver::Server::create(options, clock, random);
  server = must(std::move(made));
  transport = std::make_unique<HandlerTransport>(*server);
  return *transport;
}

}  // namespace egpu::support

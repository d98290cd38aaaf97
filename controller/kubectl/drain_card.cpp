// drain-card: takes one card out of use. A DeviceTaintRule keeps new claims off the card; then the pods that use it are
// evicted, one at a time, with the rights of the user.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1alpha/quantity.h"
#include "controller/base/printable.h"
#include "controller/kube/eviction.h"
#include "controller/kubectl/cluster_mirror.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"
#include "controller/server/claim_pods.h"

namespace egpu::kubectl {

namespace {

using base::Code;
using base::Status;

constexpr std::chrono::milliseconds kPoll{500};
constexpr const char* kRulePrefix = "egpu-drain-";

/// One claim on the card.
struct Tenant {
  std::string claim, device, deviceUid;  ///< claim: "namespace/name"
  int64_t core = 0, memory = 0;          ///< charged, milli-cards and bytes
  std::vector<std::string> pods{};       ///< "namespace/name"
  bool outlivesPods = false;             ///< created by hand: it keeps the card unless it is asked to move
  std::string obstacle{};                ///< why it can't leave; empty = it can
  std::string to{};                      ///< node that it would get; empty = none
  std::string why{};                     ///< why there is none
};

struct Plan {
  std::string card, node;
  int64_t index = 0;
  std::vector<Tenant> tenants{};
};

/// API versions of DeviceTaintRules that the controller reads, the first that is served; empty: none is.
base::Result<std::string> ruleVersion(const Connection& connection) {
  for (const char* version : {"resource.k8s.io/v1", "resource.k8s.io/v1beta2"}) {
    const auto kinds = connection.get(std::string("/apis/") + version);
    if (!kinds && kinds.status().code() != Code::notFound) return kinds.status();
    if (!kinds) continue;
    for (const auto& kind : at(*kinds, {"resources"}))
      if (textAt(kind, {"name"}) == "devicetaintrules") return std::string(version);
  }
  return Status(Code::notFound,
                "the API server serves no DeviceTaintRules. Kubernetes 1.37 does; 1.36 with the feature gate "
                "DeviceTaintRules and --runtime-config=resource.k8s.io/v1beta2=true");
}

std::string ruleName(const std::string& card) { return kRulePrefix + card; }

Json ruleOf(const Plan& plan, const std::string& version) {
  return {{"apiVersion", version},
          {"kind", "DeviceTaintRule"},
          {"metadata", {{"name", ruleName(plan.card)}}},
          {"spec",
           {{"deviceSelector", {{"driver", "elasticgpu.io"}, {"pool", plan.node}, {"device", plan.card}}},
            {"taint", {{"key", "elasticgpu.io/drain"}, {"effect", "NoSchedule"}}}}}};
}

/// Returns why the class keeps a claim that outlives its pods on its card; empty if it does not.
std::string notMovable(const cache::Stores& stores, const cache::Claim& claim) {
  const auto cls = stores.classes.get({"", claim.status.className});
  if (cls)
    if (const auto it = cls->parameters.find("movable"); it != cls->parameters.end() && it->second == "true") return {};
  return "its class does not allow moves (movable: \"true\"): delete the claim";
}

/// Finds out whether evictions free the card of the claim.
void judge(const cache::Stores& stores, Tenant& tenant) {
  const auto claim = stores.claims.get(core::ObjectKey::of(tenant.claim));
  if (!claim) {
    tenant.obstacle = "the claim is gone: the device is kept until its pods end";
    return;
  }
  tenant.outlivesPods = true;
  for (const auto& owner : claim->metadata.ownerReferences) {
    if (owner.kind != "ResourceClaim") continue;
    const auto resource = stores.resourceClaims.get(core::keyOf(claim->metadata));
    tenant.outlivesPods = !resource || resource->metadata.ownerReferences.empty();
    if (tenant.outlivesPods) tenant.obstacle = "it belongs to a ResourceClaim that was written by hand: delete that";
  }
  if (tenant.outlivesPods && tenant.obstacle.empty()) tenant.obstacle = notMovable(stores, *claim);
  for (const auto& name : tenant.pods) {
    const auto pod = stores.pods.get(core::ObjectKey::of(name));
    if (pod && pod->metadata.controller() == nullptr && tenant.obstacle.empty())
      tenant.obstacle = "pod " + name + " has no controller, so nothing would create it again: delete it yourself";
  }
}

/// Tries all claims of the card elsewhere, together, the largest first.
void tryElsewhere(ClusterMirror& mirror, Plan& plan) {
  core::DeviceTaintRule rule;
  rule.metadata.name = ruleName(plan.card);
  rule.metadata.uid = rule.metadata.name;
  rule.selects = true;
  rule.driver = "elasticgpu.io";
  rule.pool = plan.node;
  rule.device = plan.card;
  rule.taint.key = "elasticgpu.io/drain";
  rule.taint.effect = "NoSchedule";
  mirror.stores().observed(rule);
  Json steps = Json::array();
  std::vector<Tenant*> asked;
  for (auto& tenant : plan.tenants) {
    const auto claim = mirror.stores().claims.get(core::ObjectKey::of(tenant.claim));
    if (!claim) continue;
    Json requests = Json::object();
    for (const auto& [key, value] : claim->spec.requests) requests[key] = value;
    Json spec = {{"egpuClassName", claim->status.className}};
    if (!requests.empty()) spec["resources"] = {{"requests", requests}};
    steps.push_back({{"release", tenant.claim}});
    steps.push_back(
        {{"create",
          {{"metadata", {{"name", claim->metadata.name + "-moved"}, {"namespace", claim->metadata.namespace_}}},
           {"spec", spec}}}});
    asked.push_back(&tenant);
  }
  if (steps.empty()) return;
  const auto answer = mirror.ask("/simulate?format=json", Json({{"steps", steps}}).dump());
  const auto value = Json::parse(answer.body, nullptr, false);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (answer.status != 200 || at(value, {"steps"}).size() <= 2 * i + 1) {
      asked[i]->why = answer.status == 200 ? "not tried" : answer.body.substr(0, answer.body.find('\n'));
      continue;
    }
    const auto& created = at(at(value, {"steps"})[2 * i + 1], {"created"});
    asked[i]->to = textAt(created, {"to", "node"});
    asked[i]->why = textAt(created, {"why"});
  }
}

base::Result<Plan> planFor(ClusterMirror& mirror, const std::string& name) {
  const auto card = mirror.stores().cards.get({"", name});
  if (!card)
    return Status(Code::notFound, "there is no card \"" + name + "\": kubectl egpu map -o wide lists the names");
  Plan plan{.card = name, .node = card->spec.card->nodeName, .index = card->spec.card->index};
  const auto map = mirror.allocator().allocationMap().map({.node = plan.node});
  const auto pods = server::podsOf(map, mirror.stores());
  for (const auto& node : map.nodes)
    for (const auto& each : node.cards) {
      if (each.name != name) continue;
      for (const auto& a : each.allocations) {
        Tenant tenant{
            .claim = a.claim, .device = a.device, .deviceUid = a.deviceUid, .core = a.core, .memory = a.memory};
        if (const auto it = pods.find(a.claim); it != pods.end()) tenant.pods = it->second;
        judge(mirror.stores(), tenant);
        plan.tenants.push_back(std::move(tenant));
      }
    }
  std::stable_sort(plan.tenants.begin(), plan.tenants.end(), [](const auto& a, const auto& b) {
    return std::pair(a.core, a.memory) > std::pair(b.core, b.memory);
  });
  tryElsewhere(mirror, plan);
  return plan;
}

std::string textOf(const Plan& plan, const OutputFlags& flags) {
  KubectlTable table;
  for (const char* header : {"CLAIM", "CORE", "MEMORY", "PODS", "TO", "OBSTACLE"}) table.column(header);
  for (const auto& t : plan.tenants)
    table.row({base::printable(t.claim), v1alpha::formatMilliCards(t.core), v1alpha::readableBytes(t.memory),
               base::printable(joined(t.pods)), t.to,
               base::printable(!t.obstacle.empty() ? t.obstacle
                               : t.to.empty()      ? t.why
                                                   : "")});
  return table.text(flags);
}

Json valueOf(const Plan& plan) {
  Json claims = Json::array();
  for (const auto& t : plan.tenants) {
    Json one = {{"claim", t.claim}, {"device", t.device}, {"core", t.core}, {"memory", t.memory}, {"pods", t.pods}};
    if (!t.to.empty()) one["to"] = t.to;
    if (!t.why.empty()) one["why"] = t.why;
    if (!t.obstacle.empty()) one["obstacle"] = t.obstacle;
    claims.push_back(std::move(one));
  }
  return {{"card", plan.card}, {"node", plan.node}, {"index", plan.index}, {"claims", claims}};
}

/// Drains the card of a plan. The Status contains the reason if it stops.
class Draining {
 public:
  Draining(const Connection& connection, const Plan& plan, std::chrono::seconds timeout)
      : connection_(connection), plan_(plan), end_(std::chrono::steady_clock::now() + timeout) {}

  Status run() {
    for (const auto& tenant : plan_.tenants)  // dry-run all writes before the first one
      if (auto s = leave(tenant, true); !s.ok()) return {s.code(), "nothing is evicted: " + s.message()};
    auto version = ruleVersion(connection_);
    if (!version) return version.status();
    const auto made =
        connection_.send(kube::Method::post, pathOf(*version, {}, "devicetaintrules"), ruleOf(plan_, *version));
    if (!made && made.status().code() != Code::alreadyExists) return made.status();
    print("DeviceTaintRule " + ruleName(plan_.card) + " keeps new claims off card " + plan_.card);
    for (const auto& tenant : plan_.tenants) {
      if (!tenant.obstacle.empty()) continue;
      if (auto s = leave(tenant, false); !s.ok()) return s;
      if (auto s = waitUntilGone(tenant); !s.ok()) return s;
    }
    return Status::okay();
  }

 private:
  static void print(const std::string& text) { printText(base::printable(text)); }

  Status leave(const Tenant& tenant, bool dry) {
    if (!tenant.obstacle.empty()) return Status::okay();
    auto& client = connection_.client();
    if (tenant.outlivesPods) {
      const auto claim = client.get<v1alpha::ElasticGPUClaim>(core::ObjectKey::of(tenant.claim));
      if (!claim) return {claim.status().code(), "claim " + tenant.claim + ": " + claim.status().message()};
      if (const auto answer = client.call(kube::askToMove(*claim, tenant.deviceUid, dry)); !answer)
        return {answer.status().code(), "claim " + tenant.claim + " may not be changed: " + answer.status().message()};
    }
    for (const auto& name : tenant.pods) {
      const auto pod = client.get<core::Pod>(core::ObjectKey::of(name));
      if (!pod && pod.status().code() == Code::notFound) continue;
      if (!pod) return {pod.status().code(), "pod " + name + ": " + pod.status().message()};
      if (!dry) print("claim " + tenant.claim + ": pod " + name + " is evicted");
      if (auto s = evict(*pod, name, dry); !s.ok()) return s;
    }
    return Status::okay();
  }

  /// Evicts a pod. Waits while a disruption budget blocks it, except in a dry run.
  Status evict(const core::Pod& pod, const std::string& name, bool dry) {
    for (;;) {
      const auto answer = connection_.client().call(kube::evictionOf(pod, dry));
      if (answer || answer.status().code() == Code::notFound) return Status::okay();
      if (dry || answer.status().code() != Code::throttled || isOver())
        return {answer.status().code(), "pod " + name + " may not be evicted now: " + answer.status().message()};
      std::this_thread::sleep_for(kPoll);
    }
  }

  Status waitUntilGone(const Tenant& tenant) {
    const auto card = pathOf(kOurs, {}, "elasticgpus", plan_.card);
    for (;;) {
      const auto now = connection_.get(card);
      if (!now) return now.status();
      if (at(*now, {"spec", "allocations", tenant.deviceUid}).is_null()) return Status::okay();
      if (isOver())
        return {Code::deadline,
                "claim " + tenant.claim + " is still on card " + plan_.card + "; the DeviceTaintRule stays"};
      std::this_thread::sleep_for(kPoll);
    }
  }

  bool isOver() const { return std::chrono::steady_clock::now() >= end_; }

  const Connection& connection_;
  const Plan& plan_;
  const std::chrono::steady_clock::time_point end_;
};

int undo(const Connection& connection, const std::string& card) {
  const auto version = ruleVersion(connection);
  if (!version) return fail("", version.status());
  const auto gone =
      connection.send(kube::Method::del, pathOf(*version, {}, "devicetaintrules", ruleName(card)), nullptr);
  if (!gone && gone.status().code() == Code::notFound)
    return fail("card \"" + card + "\" is not out of use: there is no DeviceTaintRule " + ruleName(card));
  if (!gone) return fail("", gone.status());
  printText("DeviceTaintRule " + ruleName(card) + " deleted: the card is offered again");
  return kDone;
}

int execute(const Connection& connection, const DrainCardOptions& options, const Plan& plan) {
  if (const auto done = Draining(connection, plan, options.timeout).run(); !done.ok()) return fail("", done);
  const auto stays =
      std::count_if(plan.tenants.begin(), plan.tenants.end(), [](const auto& t) { return !t.obstacle.empty(); });
  if (stays == 0) {
    printText("card " + base::printable(plan.card) + " is empty. kubectl egpu drain-card " +
              base::printable(plan.card) + " --undo offers it again");
    return kDone;
  }
  for (const auto& t : plan.tenants)
    if (!t.obstacle.empty()) fail("claim " + t.claim + " stays: " + t.obstacle);
  return kNegative;
}

}  // namespace

int drainCardVerb(const DrainCardOptions& options) {
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  const auto card = withoutKind(options.card, "elasticgpu");
  if (options.undo) return undo(**connection, card);
  auto mirror = ClusterMirror::read(**connection);
  if (!mirror) return fail("", mirror.status());
  const auto plan = planFor(**mirror, card);
  if (!plan) return fail("", plan.status());
  if (options.execute) return execute(**connection, options, *plan);
  if (isStructured(options.output)) {
    printValue(valueOf(*plan), options.output);
    return kDone;
  }
  if (plan->tenants.empty()) {
    printText("No claim has card " + base::printable(plan->card) + ".");
  } else {
    printText(textOf(*plan, options.output));
  }
  if (!options.output.noHeaders)
    printText("\nNothing is changed. --execute takes the card out of use and evicts these pods.");
  return kDone;
}

}  // namespace egpu::kubectl

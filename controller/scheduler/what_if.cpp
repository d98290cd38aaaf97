#include "controller/scheduler/what_if.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "controller/scheduler/explain.h"
#include "controller/scheduler/first_available.h"
#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

using base::Code;
using base::Status;

constexpr const char* kWithheld = "kept for others";

Amount totalOf(const std::vector<Holding>& holdings) {
  Amount sum;
  for (const Holding& each : holdings) {
    sum.core += each.charged.core;
    sum.memory += each.charged.memory;
  }
  return sum;
}

class TryingSteps {
 public:
  TryingSteps(Situation situation, const Pause& pause) : now_(std::move(situation)), pause_(pause) {
    std::stable_sort(now_.claims.begin(), now_.claims.end(),
                     [](const ClaimRecord& a, const ClaimRecord& b) { return a.name < b.name; });
  }

  base::Result<WhatIf> run(const std::vector<Step>& steps) {
    WhatIf result;
    placeWaiting(result.before);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      at_ = "steps[" + std::to_string(i) + "].";
      StepReport report;
      const Status status = std::visit([&](const auto& step) { return apply(step, report); }, steps[i]);
      if (!status.ok()) return status;
      placeWaiting(report.bound);
      report.waiting = std::count_if(now_.claims.begin(), now_.claims.end(),
                                     [](const ClaimRecord& c) { return c.device.empty() && c.request; });
      result.steps.push_back(std::move(report));
    }
    result.after = std::move(now_);
    return result;
  }

 private:
  Status apply(const DrainNode& step, StepReport& report) {
    const NodeId id = now_.cluster.state().findNode(step.node);
    if (id == kNone) return missing("drain", "node", step.node);
    const NodeAmount capacity = now_.cluster.state().nodes[id].capacity;
    now_.cluster.upsertNode({step.node, false, capacity.cpuMilli, capacity.memory});
    report.nodes.push_back(step.node);

    struct Leaving {
      ClaimRecord* claim;
      std::vector<Holding> holdings;
      Amount total;
    };
    std::vector<Leaving> leaving;
    for (auto& [device, holdings] : holdingsOn(now_.cluster, step.node)) {
      const auto claim = std::find_if(now_.claims.begin(), now_.claims.end(),
                                      [&name = device](const ClaimRecord& c) { return c.device == name; });
      if (claim == now_.claims.end()) {
        report.moved.push_back({"device " + device, step.node, {}, "its claim is not known"});
      } else if (!claim->request) {
        report.moved.push_back({claim->name, step.node, {}, claim->why});
      } else {
        leaving.push_back({&*claim, std::move(holdings), {}});
      }
    }
    for (Leaving& each : leaving) {
      each.total = totalOf(each.holdings);
      giveBack(each.claim->device, each.holdings);
    }
    std::stable_sort(leaving.begin(), leaving.end(), [](const Leaving& a, const Leaving& b) {
      return std::make_tuple(-a.total.core, -a.total.memory, std::string_view(a.claim->name)) <
             std::make_tuple(-b.total.core, -b.total.memory, std::string_view(b.claim->name));
    });
    for (Leaving& each : leaving) {
      breathe();
      // The pod's CPU and memory move with the claim.
      const NodeAmount pod = nodeAmountOf(each.holdings);
      each.claim->request->cpuMilli = pod.cpuMilli;
      each.claim->request->podMemory = pod.memory;
      report.moved.push_back(place(*each.claim, step.node));
    }
    return Status::okay();
  }

  Status apply(const AddNodes& step, StepReport& report) {
    if (step.count < 1 || step.count > AddNodes::kMaxNodes)
      return wrong("add.count",
                   std::to_string(step.count) + " is not between 1 and " + std::to_string(AddNodes::kMaxNodes));
    if (step.name.empty()) return wrong("add.name", "is missing");
    std::vector<v1alpha::Card> cards = step.cards;
    NodeAmount capacity = step.capacity;
    if (!step.like.empty()) {
      const Cluster::State& state = now_.cluster.state();
      const NodeId id = state.findNode(step.like);
      if (id == kNone) return missing("add.like", "node", step.like);
      cards.clear();
      for (CardId c : state.nodes[id].cards) cards.push_back(state.cardOf(c));
      capacity = state.nodes[id].capacity;
    }
    if (cards.empty())
      return wrong("add.cards", step.like.empty() ? "is missing" : "node " + step.like + " has no cards");
    // Counts before creation, over all steps: a node can be like one that an earlier step added.
    nodesMade_ += step.count;
    cardsMade_ += step.count * static_cast<int64_t>(cards.size());
    if (nodesMade_ > AddNodes::kMaxNodes)
      return wrong("add.count", "more than " + std::to_string(AddNodes::kMaxNodes) + " nodes in all");
    if (cardsMade_ > AddNodes::kMaxCards)
      return wrong("add.count", "more than " + std::to_string(AddNodes::kMaxCards) + " cards in all");
    for (int64_t i = 0; i < step.count; ++i) {
      breathe();
      const std::string node = step.count == 1 ? step.name : step.name + "-" + std::to_string(i);
      if (now_.cluster.state().findNode(node) != kNone)
        return wrong("add.name", "there is a node \"" + node + "\" already");
      now_.cluster.upsertNode({node, true, capacity.cpuMilli, capacity.memory});
      addCards(node, cards);
      report.nodes.push_back(node);
    }
    return Status::okay();
  }

  void addCards(const std::string& node, std::vector<v1alpha::Card> cards) {
    std::map<std::string, std::string> renamed;
    for (std::size_t i = 0; i < cards.size(); ++i) {
      std::string uuid = "new-" + node + "-" + std::to_string(i);
      renamed[cards[i].uuid] = uuid;
      cards[i].uuid = std::move(uuid);
      cards[i].nodeName = node;
    }
    for (v1alpha::Card& card : cards) {
      for (v1alpha::CardLink& link : card.topology.links)
        if (const auto it = renamed.find(link.peer); it != renamed.end()) link.peer = it->second;
      std::string name = card.uuid;
      now_.cluster.upsertCard({std::move(name), std::move(card), true});
    }
  }

  Status apply(const ReleaseClaim& step, StepReport& report) {
    const auto claim = find(step.claim);
    if (claim == now_.claims.end()) return missing("release", "claim", step.claim);
    report.released = {claim->name, {}, {}, {}};
    if (!claim->device.empty()) {
      const std::vector<Holding> holdings = holdingsOfDevice(claim->device);
      report.released->from = nodeOf(holdings);
      giveBack(claim->device, holdings);
    }
    now_.claims.erase(claim);
    return Status::okay();
  }

  Status apply(const ResizeClaim& step, StepReport& report) {
    const auto claim = find(step.claim);
    if (claim == now_.claims.end()) return missing("resize", "claim", step.claim);
    if (claim->device.empty()) {  // a pending claim: only its request changes
      asks(*claim, step);
      report.resized = Resizing{};
      report.resized->claim = claim->name;
      report.resized->inPlace = true;
      report.resized->why = step.undecided;
      return Status::okay();
    }
    report.resized = resize(*claim, step);
    return Status::okay();
  }

  static void asks(ClaimRecord& claim, const ResizeClaim& step) {
    claim.request = step.undecided.empty() ? std::optional(step.request) : std::nullopt;
    claim.why = step.undecided;
  }

  /// Raises each placement to the old amounts.
  static void restoreOld(Decision& there, const std::vector<Holding>& old) {
    for (auto& placement : there.placements)
      for (const Holding& had : old)
        if (had.card == placement.card)
          placement.charged = {std::max(placement.charged.core, had.charged.core),
                               std::max(placement.charged.memory, had.charged.memory)};
  }

  void setAside(const std::vector<Holding>& holdings) {
    for (const Holding& each : holdings) {
      const Amount amount = freeUpTo(now_.cluster, each.card, each.charged);
      if (!(amount == Amount{})) now_.cluster.take(each.card, kWithheld, amount);
    }
  }

  Resizing resize(ClaimRecord& claim, const ResizeClaim& step) {
    const std::vector<Holding> old = holdingsOfDevice(claim.device);
    const QuotaClaim owner = quotaClaim(claim.name, claim.className);
    setAside(step.holdings);
    Resizing result = resizeInPlace(now_.cluster, old, step.request);
    result.claim = claim.name;
    result.refused = step.refused.empty() && result.grows() ? step.refusedToGrow : step.refused;
    if (result.inPlace && result.grows() && !step.nodeReservedText.empty()) {
      result.inPlace = false;
      result.why = step.nodeReservedText;
    }
    if (result.inPlace) result.excess = excessOf(now_.cluster, now_.quotas, owner, result);
    result.inPlace = result.inPlace && !result.excess;
    if (!result.inPlace && !result.excess) result.smallestChange = smallestChangeFor(now_.cluster, old, step.request);
    for (const Holding& each : step.holdings) now_.cluster.giveBack(each.card, kWithheld);
    giveBack(claim.device, old);
    if (result.inPlace) {
      Decision there{true, result.node, result.placements};
      if (step.runs) restoreOld(there, old);
      hold(now_.cluster, claim.device, there, nodeAmountOf(old));
      count(now_.quotas, now_.cluster, claim.device, owner, there);
      asks(claim, step);
      return result;
    }
    Request anywhere = step.request;
    anywhere.cpuMilli = nodeAmountOf(old).cpuMilli;
    anywhere.podMemory = nodeAmountOf(old).memory;
    result.elsewhere = decide(now_.cluster, anywhere, claim.suits);
    hold(now_.cluster, claim.device, old);
    count(now_.quotas, now_.cluster, claim.device, owner, old);
    return result;
  }

  Status apply(const CreateClaim& step, StepReport& report) {
    if (find(step.claim.name) != now_.claims.end())
      return wrong("create", "there is a claim \"" + step.claim.name + "\" already");
    const auto after = std::upper_bound(now_.claims.begin(), now_.claims.end(), step.claim.name,
                                        [](const std::string& name, const ClaimRecord& c) { return name < c.name; });
    ClaimRecord& claim = *now_.claims.insert(after, step.claim);
    claim.device.clear();
    report.created = claim.request ? place(claim, {}) : Placed{claim.name, {}, {}, claim.why};
    return Status::okay();
  }

  /// Decides for a claim without allocations, and allocates the result.
  Placed place(ClaimRecord& claim, const std::string& from) {
    Placed placed{claim.name, from, decideFor(claim), {}};
    if (!placed.to.fits) {
      placed.why = placed.to.excess
                       ? placed.to.excess->text()
                       : explain(now_.cluster, *claim.request, claim.suits, 0, pause_, claim.whyUnsuited).text();
      claim.device.clear();
      return placed;
    }
    take(claim, placed.to);
    return placed;
  }

  Decision decideFor(ClaimRecord& claim) {
    if (claim.request->adminAccess) return decide(now_.cluster, *claim.request, claim.suits);
    const auto decideOn = [&](const Request& request) {
      return decideWithin(now_.cluster, now_.quotas, quotaClaim(claim.name, claim.className), request, claim.suits,
                          pause_);
    };
    if (claim.alternatives.empty()) return decideOn(*claim.request);
    for (Request& each : claim.alternatives) {
      each.cpuMilli = claim.request->cpuMilli;
      each.podMemory = claim.request->podMemory;
    }
    auto tried = decideFirst(claim.alternatives.size(),
                             [&](std::size_t which) { return std::optional(decideOn(claim.alternatives[which])); });
    if (tried.back().fits) claim.request = claim.alternatives[tried.back().alternative];
    return tried.back().fits ? std::move(tried.back()) : std::move(tried.front());
  }

  void giveBack(const std::string& device, const std::vector<Holding>& holdings) {
    release(now_.cluster, device, holdings);
    now_.quotas.drop(device);
  }

  void take(ClaimRecord& claim, const Decision& decision) {
    if (claim.device.empty()) claim.device = "claim/" + claim.name;
    if (claim.request->adminAccess) return;
    hold(now_.cluster, claim.device, decision, {claim.request->cpuMilli, claim.request->podMemory});
    count(now_.quotas, now_.cluster, claim.device, quotaClaim(claim.name, claim.className), decision);
  }

  void placeWaiting(std::vector<Placed>& bound) {
    for (ClaimRecord& claim : now_.claims) {
      if (!claim.device.empty() || !claim.request) continue;
      breathe();
      Decision decision = decideFor(claim);
      if (!decision.fits) continue;
      take(claim, decision);
      bound.push_back({claim.name, {}, std::move(decision), {}});
    }
  }

  void breathe() const {
    if (pause_) pause_();
  }

  std::vector<ClaimRecord>::iterator find(const std::string& name) {
    return std::find_if(now_.claims.begin(), now_.claims.end(),
                        [&](const ClaimRecord& claim) { return claim.name == name; });
  }

  std::vector<Holding> holdingsOfDevice(const std::string& device) const {
    Holdings all = holdingsOf(now_.cluster);
    const auto it = all.find(device);
    return it == all.end() ? std::vector<Holding>() : std::move(it->second);
  }

  std::string nodeOf(const std::vector<Holding>& holdings) const {
    return holdings.empty() ? std::string() : std::string(now_.cluster.findCard(holdings.front().card).node);
  }

  Status missing(const std::string& field, const std::string& kind, const std::string& name) const {
    return {Code::notFound, at_ + field + ": there is no " + kind + " \"" + name + "\""};
  }
  Status wrong(const std::string& field, const std::string& what) const {
    return {Code::invalid, at_ + field + ": " + what};
  }

  Situation now_;
  const Pause& pause_;
  std::string at_;
  int64_t nodesMade_ = 0, cardsMade_ = 0;
};

}  // namespace

base::Result<WhatIf> whatIf(Situation situation, const std::vector<Step>& steps, const Pause& pause) {
  return TryingSteps(std::move(situation), pause).run(steps);
}

}  // namespace egpu::scheduler

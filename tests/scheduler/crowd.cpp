#include "tests/scheduler/crowd.h"

#include "api/v1alpha/keys.h"
#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::testing {

std::string dump(const Cluster& cluster) {
  std::string out;
  auto number = [&out](int64_t n) { out += std::to_string(n) + ' '; };
  for (const std::string& node : cluster.nodes()) {
    out += node + (cluster.nodeSchedulable(node) ? " open " : " closed ");
    const NodeAmount used = cluster.nodeUsed(node);
    number(used.cpuMilli);
    number(used.memory);
    for (const std::string& name : cluster.cardsOf(node)) {
      const CardView view = cluster.findCard(name);
      const v1alpha::Card card = cluster.describe(name).value();
      out += "\n  " + name + ' ' + card.uuid + ' ' + card.model + (view.healthy ? " " : " ill ");
      out += std::string(view.isolation) + ' ';
      for (int64_t n :
           {card.index, card.core, card.memory, card.milliTflops, view.used.core, view.used.memory, view.claims})
        number(n);
    }
    for (const auto& [device, holdings] : holdingsOn(cluster, node))
      for (const Holding& each : holdings) {
        out += "\n  " + device + " on " + each.card + ' ';
        for (int64_t n : {each.charged.core, each.charged.memory, each.ofNode.cpuMilli, each.ofNode.memory}) number(n);
      }
    out += '\n';
  }
  return out;
}

Crowd::Crowd(uint64_t seed, CrowdShape shape) : random(seed), shape_(shape) {
  static const char* const kModels[] = {"V100", "A100", "T4"};
  for (int64_t n = 0; n < shape.nodes; ++n) {
    const std::string node = "node-" + std::to_string(n);
    NodeInfo info{node, pick(random, 0, 7) != 0};
    if (shape.limits && pick(random, 0, 3) != 0) info.cpuMilli = pick(random, 8, 64) * 1000;
    if (shape.limits && pick(random, 0, 3) != 0) info.memory = pick(random, 16, 64) * kGi;
    situation.cluster.upsertNode(info);
    const int64_t limiter = shape.modes ? pick(random, 0, 2) : 0;
    for (int64_t c = 0; c < shape.cardsPerNode; ++c) {
      const int64_t kind = pick(random, 0, 3) == 0 ? pick(random, 0, 2) : n % 3;
      CardInfo card = makeCard(node + "-card-" + std::to_string(c), node, c, (16 + 16 * kind) * kGi, kModels[kind]);
      card.card.milliTflops = kind == 2 ? 0 : 65'500 * (kind + 1);
      card.healthy = pick(random, 0, 9) != 0;
      if (limiter > 0)
        card.card.attributes[v1alpha::keys::kLimiterAttribute] =
            limiter == 1 ? v1alpha::keys::kLimiterAvailable : "the driver is too old";
      if (shape.modes && pick(random, 0, 2) == 0)
        card.card.attributes[v1alpha::keys::kMemoryLimitsAttribute] = v1alpha::keys::kMemoryLimitsAvailable;
      situation.cluster.upsertCard(card);
    }
  }
  for (int64_t i = 0; i < shape.claims; ++i) {
    ClaimRecord claim;
    claim.name = "team-" + std::to_string(pick(random, 0, 2)) + "/claim-" + std::to_string(i);
    claim.request = request();
    const Decision decision = decide(situation.cluster, *claim.request);
    if (decision.fits) {
      claim.device = "device-" + std::to_string(i);
      hold(situation.cluster, claim.device, decision, {claim.request->cpuMilli, claim.request->podMemory});
    }
    situation.claims.push_back(std::move(claim));
  }
}

Request Crowd::request() {
  Request r;
  if (shape_.everyPolicy) {
    const auto nodes = nodePolicyNames();
    const auto cards = cardPolicyNames();
    r.nodePolicy = nodes[static_cast<std::size_t>(pick(random, 0, static_cast<int64_t>(nodes.size()) - 1))];
    r.cardPolicy = cards[static_cast<std::size_t>(pick(random, 0, static_cast<int64_t>(cards.size()) - 1))];
    if (pick(random, 0, 3) == 0) r.memoryWeight = pick(random, 0, 4) * 250;
  }
  if (shape_.severalCards && pick(random, 0, 2) == 0) r.cards = pick(random, 2, shape_.cardsPerNode);
  switch (pick(random, 0, 6)) {
    case 0:
      r.wholeCards = true;
      break;
    case 1:
      r.perCard = {pick(random, 1, 10) * 100, 0};
      r.memoryFromCore = true;
      break;
    case 2:
      r.perCard = {0, pick(random, 1, 20) * kGi};
      break;
    case 3:
      r.milliTflopsPerCard = pick(random, 1, 130) * 1000;
      r.memoryFromCore = true;
      break;
    default:
      r.perCard = {pick(random, 1, 90) * 10, pick(random, 1, 16) * kGi};
  }
  if (shape_.severalCards && r.cards == 1 && !r.wholeCards && pick(random, 0, 3) == 0) {
    r.split = pick(random, 0, 1) == 0 ? Split::evenly : Split::fill;
    r.perCard.core *= pick(random, 1, 3);
  }
  if (pick(random, 0, 4) == 0) r.models = {"A100"};
  if (pick(random, 0, 5) == 0) r.models = {"A100", "V100"};
  if (pick(random, 0, 5) == 0) r.minMemory = 32 * kGi;
  if (pick(random, 0, 4) == 0) r.coreOvercommit = pick(random, 1000, 2000);
  if (pick(random, 0, 4) == 0) r.memoryOvercommit = pick(random, 1000, 2000);
  static const char* const kModes[] = {"", "", "none", "auto", "limiter", "mps", "driver"};
  if (shape_.modes) r.isolation = kModes[pick(random, 0, 6)];
  if (!shape_.limits) return r;
  if (pick(random, 0, 3) == 0) r.maxClaimsPerCard = pick(random, 1, 4);
  if (pick(random, 0, 3) == 0) r.maxClaimsPerNode = pick(random, 1, 8);
  if (pick(random, 0, 2) == 0) r.cpuMilli = pick(random, 1, 8) * 1000;
  if (pick(random, 0, 2) == 0) r.podMemory = pick(random, 1, 8) * kGi;
  return r;
}

}  // namespace egpu::scheduler::testing

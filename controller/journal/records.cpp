#include "controller/journal/records.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace egpu::journal {

namespace {

using codec::JournalRecord;

/// Returns the exact number in hexadecimal digits, as the C locale formats it.
std::string textOf(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", number);
  return text;
}

struct ToRecord {
  JournalRecord& out;
  void operator()(const scheduler::NodeInfo& node) const {
    out.node = {node.name, node.schedulable, node.cpuMilli, node.memory};
  }
  void operator()(const allocator::NodeGone& gone) const { out.nodeGone = gone.name; }
  void operator()(const scheduler::CardInfo& card) const { out.card = {card.name, card.healthy, card.card}; }
  void operator()(const allocator::CardGone& gone) const { out.cardGone = gone.name; }
  void operator()(const allocator::Took& took) const { out.take = {took.card, took.uid, took.charged, took.isolation}; }
  void operator()(const allocator::GaveBack& gave) const { out.giveBack = {gave.card, gave.uid, {}, {}}; }
  void operator()(const allocator::CardMode& changed) const { out.mode = {changed.card, changed.mode}; }
  void operator()(const allocator::Asked& asked) const { out.asked = asked.request; }
  void operator()(const allocator::DeviceMade& made) const { out.device = {made.device, made.claim}; }
  void operator()(const allocator::ClaimGone& gone) const { out.claimGone = gone.uid; }
  void operator()(const allocator::HolderChanged& changed) const {
    auto& holder =
        out.holder.emplace(codec::JournalHolder{changed.uid, changed.claim, changed.claimUid, changed.className});
    if (changed.usedCore >= 0) holder.usedCore = changed.usedCore;
  }
  void operator()(const allocator::PodChanged& uses) const { out.pod = {uses.pod, uses.claims}; }
};

}  // namespace

JournalRecord recordOf(const allocator::Change& change) {
  JournalRecord record;
  std::visit(ToRecord{record}, change);
  return record;
}

JournalRecord recordOf(const allocator::Decided& decided) {
  JournalRecord record;
  auto& decision = record.decision.emplace();
  for (std::size_t i = 0; i < decided.asks.size(); ++i) {
    const auto& from = decided.asks[i];
    auto& ask =
        decision.asks.emplace_back(codec::JournalAsk{from.claim, from.claimUid, from.request, {}, {}, from.className});
    if (decided.decisions.empty()) continue;
    ask.node = decided.decisions[i].node;
    for (const auto& placement : decided.decisions[i].placements)
      ask.cards.push_back({placement.card, placement.charged});
  }
  decision.suited = decided.nodes.suited;
  decision.refused = decided.nodes.refused;
  decision.onlySuited = decided.nodes.onlySuited;
  decision.given = decided.meanwhile || decided.nodes.lost;
  return record;
}

void eachRecord(const scheduler::Cluster& cluster, const allocator::ClaimUsers& users,
                const std::function<void(const JournalRecord&)>& write) {
  JournalRecord demand;
  demand.demand = demandOf(cluster.learned());
  write(demand);
  for (const auto& holder : users.holders) write(recordOf(allocator::Change(*holder)));
  for (const auto& pod : users.pods) write(recordOf(allocator::Change(*pod)));
  const auto writeCard = [&](const std::string& name) {
    JournalRecord record;
    const auto view = cluster.findCard(name);
    record.card = {name, view.healthy, *cluster.describe(name)};
    write(record);
    for (const auto& taken : cluster.allocationsOn(name)) {
      JournalRecord take;
      take.take = {name, taken.uid, taken.charged, std::string(view.isolation)};
      write(take);
    }
  };
  for (const auto& name : cluster.nodes()) {
    if (const auto node = cluster.describeNode(name)) write(recordOf(allocator::Change(*node)));
    for (const auto& card : cluster.cardsOf(name)) writeCard(card);
  }
  for (const auto& card : cluster.cardsOfNoNode()) writeCard(card);
  JournalRecord complete;
  complete.complete = true;
  write(complete);
}

codec::JournalDemand demandOf(const scheduler::Learned& learned) {
  codec::JournalDemand demand;
  for (const auto& each : learned.classes) demand.classes.push_back({each.request, textOf(each.weight)});
  demand.seen = learned.seen;
  demand.unit = textOf(learned.unit);
  demand.priced = learned.priced;
  demand.types = learned.types;
  return demand;
}

scheduler::Learned learnedOf(const codec::JournalDemand& demand) {
  scheduler::Learned learned;
  for (const auto& each : demand.classes)
    learned.classes.push_back({each.request, std::strtod(each.weight.c_str(), nullptr)});
  learned.seen = demand.seen;
  learned.unit = std::strtod(demand.unit.c_str(), nullptr);
  learned.priced = demand.priced;
  learned.types = demand.types;
  return learned;
}

}  // namespace egpu::journal

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "api/v1alpha/quantity.h"
#include "api/v1alpha/usage.h"
#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/kubectl/cluster_mirror.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"
#include "controller/server/allocation_map.h"
#include "controller/server/claim_pods.h"

namespace egpu::kubectl {

namespace {

constexpr std::size_t kBar = 10;  ///< cells of the bar in a table
constexpr std::size_t kBarsColumns = 100;

/// "[####......]": the used part of the whole.
std::string barOf(int64_t used, int64_t whole) {
  const auto full = whole <= 0 ? 0
                               : static_cast<std::size_t>(std::clamp<int64_t>(
                                     (used * static_cast<int64_t>(kBar) + whole - 1) / whole, 0, kBar));
  return "[" + std::string(full, '#') + std::string(kBar - full, '.') + "]";
}

/// "2x1g.10gb", or "1g.10gb" for one instance. The number follows from the slots, because the ledger has no number.
std::string instancesOf(const allocator::MapAllocation& allocation, const cache::Gpu* card) {
  int64_t slots = 0, size = 0;
  for (unsigned slot = 0; slot < v1alpha::Slots::kMemory; ++slot) slots += allocation.slots.has(slot) ? 1 : 0;
  if (card != nullptr)
    for (const auto& profile : card->spec.card->mig) {
      std::string key = profile.name;
      std::replace(key.begin(), key.end(), '+', '.');
      if (key == allocation.profile) size = profile.size;
    }
  const auto number = size > 0 ? slots / size : 0;
  return (number > 1 ? std::to_string(number) + "x" : "") + base::printable(allocation.profile);
}

std::string claimsOf(const allocator::MapCard& card, const cache::Stores& stores) {
  std::string out;
  const auto known = stores.cards.get({"", card.name});
  for (const auto& each : card.allocations)
    out += (out.empty() ? "" : ",") + base::printable(each.claim) +
           (each.adminAccess()      ? " (admin access)"
            : !each.profile.empty() ? "=" + instancesOf(each, known.get())
                                    : "=" + v1alpha::formatMilliCards(each.core));
  return out;
}

std::string podsOf(const allocator::MapCard& card, const server::ClaimPods& pods) {
  std::string out;
  for (const auto& each : card.allocations)
    if (const auto it = pods.find(each.claim); it != pods.end())
      for (const auto& pod : it->second) out += (out.empty() ? "" : ",") + base::printable(pod);
  return out;
}

std::string stateOf(const allocator::MapNode& node, const allocator::MapCard& card) {
  if (!card.offered) return card.why.empty() ? "NotOffered" : base::printable(card.why);
  return node.schedulable ? "Offered" : "NodeCordoned";
}

KubectlTable tableOf(const allocator::AllocationMap& map, const server::ClaimPods& pods, const cache::Stores& stores) {
  KubectlTable table;
  for (const char* header : {"NODE", "CARD", "MODEL", "CORE", "MEMORY", "CLAIMS"}) table.column(header);
  table.column("ISOLATION", KubectlTable::Show::wide);
  table.column("USED", KubectlTable::Show::wide);
  table.column("PODS", KubectlTable::Show::wide);
  table.column("NAME", KubectlTable::Show::wide);
  table.column("STATE");
  for (const auto& node : map.nodes)
    for (const auto& card : node.cards)
      table.row({node.name.empty() ? "" : base::printable(node.name), std::to_string(card.index),
                 base::printable(card.model),
                 barOf(card.usedCore, card.core) + " " + v1alpha::formatMilliCards(card.usedCore),
                 v1alpha::readableBytes(card.usedMemory) + "/" + v1alpha::readableBytes(card.memory),
                 claimsOf(card, stores), base::printable(card.mode),
                 card.usage ? v1alpha::usageText(card.usage->smPercent, card.usage->memory) : std::string(),
                 podsOf(card, pods), base::printable(card.name), stateOf(node, card)});
  return table;
}

KubectlTable remoteTableOf(const allocator::AllocationMap& map, const server::ClaimPods& pods) {
  KubectlTable table;
  for (const char* header : {"REMOTE", "POOL", "ENDPOINT", "CLASS", "CLAIM"}) table.column(header);
  table.column("PODS", KubectlTable::Show::wide);
  table.column("STATE");
  for (const auto& each : map.remote) {
    std::string users;
    if (const auto it = pods.find(each.claim); it != pods.end())
      for (const auto& pod : it->second) users += (users.empty() ? "" : ",") + base::printable(pod);
    table.row({each.device, base::printable(each.pool), base::printable(each.endpoint), base::printable(each.className),
               base::printable(each.claim), users, each.phase});
  }
  return table;
}

}  // namespace

int mapVerb(const MapOptions& options) {
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  const auto mirror = ClusterMirror::read(**connection);
  if (!mirror) return fail("", mirror.status());
  if (!options.node.empty() && !(*mirror)->stores().nodes.get({"", options.node}))
    return fail("--node: there is no node \"" + options.node + "\"");
  const auto map = (*mirror)->allocator().allocationMap().map({.node = options.node, .idle = options.idle});
  const auto pods = server::podsOf(map, (*mirror)->stores());
  if (isStructured(options.output)) {
    printValue(Json::parse(server::toJson(map, pods)), options.output);
  } else if (options.output.output == "backendai") {
    printText(server::toBackendAi(map));
  } else if (options.output.output == "bars") {
    const auto columns = base::terminalColumns(kBarsColumns);
    printText(server::toText(map, {.color = base::wantsColor(options.output.color), .columns = columns}, pods));
  } else {
    const auto table = tableOf(map, pods, (*mirror)->stores()), remote = remoteTableOf(map, pods);
    if (table.empty() && remote.empty()) {
      std::fputs("No cards found.\n", stderr);
      return kDone;
    }
    if (!table.empty()) printText(table.text(options.output));
    if (!table.empty() && !remote.empty()) printText("\n");
    if (!remote.empty()) printText(remote.text(options.output));
  }
  return kDone;
}

}  // namespace egpu::kubectl

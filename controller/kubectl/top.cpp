#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "api/v1alpha/quantity.h"
#include "api/v1alpha/usage.h"
#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/base/timestamp.h"
#include "controller/codec/codec.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"

namespace egpu::kubectl {

namespace {

/// Use of one claim beside its grant.
struct UsageRow {
  std::string space, name, node;
  std::string core, memory;          ///< granted, as text
  std::string usedCore, usedMemory;  ///< empty = not reported
  std::string time;                  ///< of the report
};

/// The agents' own report about one claim. It is newer than the claim's copy.
struct LiveUse {
  int64_t core = -1, memory = -1;
  std::string time;
};

/// Returns the agents' reports by "namespace/claim"; empty without the right to read cards.
std::map<std::string, LiveUse> liveUse(const Connection& connection) {
  std::map<std::string, LiveUse> live;
  const auto cards = connection.list(pathOf(kOurs, {}, "elasticgpus"), "labelSelector=elasticgpu.io%2Frole%3Dcard");
  if (!cards) return live;
  for (const auto& card : *cards)
    for (const auto& [device, entry] : at(card, {"spec", "allocations"}).items()) {
      const auto& usage = at(card, {"status", "usage", "devices", device});
      if (usage.is_null()) continue;
      auto& sum = live[textAt(entry, {"claim"})];
      const auto core = numberAt(usage, {"smPercent"}, -1), memory = numberAt(usage, {"memory"}, -1);
      if (core >= 0) sum.core = std::max<int64_t>(0, sum.core) + core;
      if (memory >= 0) sum.memory = std::max<int64_t>(0, sum.memory) + memory;
      sum.time = std::max(sum.time, textAt(card, {"status", "usage", "time"}));
    }
  return live;
}

base::Result<std::vector<UsageRow>> read(const Connection& connection, const TopOptions& options) {
  const std::string space = options.client.allNamespaces ? std::string() : connection.space();
  base::Result<std::vector<Json>> claims = std::vector<Json>();
  if (options.claim.empty()) {
    claims = connection.list(pathOf(kOurs, space, "elasticgpuclaims"));
  } else if (auto one = connection.get(
                 pathOf(kOurs, space, "elasticgpuclaims", withoutKind(options.claim, "elasticgpuclaim")))) {
    claims->push_back(std::move(*one));
  } else {
    return one.status();
  }
  if (!claims) return claims.status();
  const auto live = liveUse(connection);
  std::vector<UsageRow> all;
  for (const auto& claim : *claims) {
    if (textAt(claim, {"status", "phase"}) != "Bound") continue;
    UsageRow use{.space = textAt(claim, {"metadata", "namespace"}),
                 .name = textAt(claim, {"metadata", "name"}),
                 .node = textAt(claim, {"status", "nodeName"}),
                 .core = textAt(claim, {"status", "capacity", "core"}),
                 .memory = textAt(claim, {"status", "capacity", "memory"}),
                 .usedCore = textAt(claim, {"status", "usage", "core"}),
                 .usedMemory = textAt(claim, {"status", "usage", "memory"}),
                 .time = textAt(claim, {"status", "usage", "time"})};
    if (const auto it = live.find(use.space + "/" + use.name); it != live.end()) {
      use.usedCore = v1alpha::coreUsageText(it->second.core);
      use.usedMemory = v1alpha::memoryUsageText(it->second.memory);
      use.time = it->second.time;
    }
    all.push_back(std::move(use));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return std::tie(a.space, a.name) < std::tie(b.space, b.name); });
  return all;
}

std::string textOf(const std::vector<UsageRow>& all, const TopOptions& options, int64_t now) {
  KubectlTable table;
  if (options.client.allNamespaces) table.column("NAMESPACE");
  for (const char* header : {"NAME", "CORE", "CORE USED", "MEMORY", "MEMORY USED", "REPORTED"}) table.column(header);
  table.column("NODE", KubectlTable::Show::wide);
  for (const auto& use : all) {
    std::vector<std::string> cells;
    if (options.client.allNamespaces) cells.push_back(base::printable(use.space));
    const auto unknown = [](const std::string& text) { return text.empty() ? std::string("<unknown>") : text; };
    for (const auto& cell :
         {base::printable(use.name), use.core, unknown(use.usedCore), use.memory, unknown(use.usedMemory),
          use.time.empty() ? "<unknown>" : ageOf(use.time, now), base::printable(use.node)})
      cells.push_back(cell);
    table.row(std::move(cells));
  }
  return table.text(options.output);
}

Json valueOf(const std::vector<UsageRow>& all) {
  Json items = Json::array();
  for (const auto& use : all)
    items.push_back({{"namespace", use.space},
                     {"name", use.name},
                     {"node", use.node},
                     {"granted", {{"core", use.core}, {"memory", use.memory}}},
                     {"used", {{"core", use.usedCore}, {"memory", use.usedMemory}, {"time", use.time}}}});
  return {{"claims", items}};
}

int once(const Connection& connection, const TopOptions& options) {
  const auto all = read(connection, options);
  if (!all) return fail("", all.status());
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(connection.clock().wall().time_since_epoch()).count();
  if (isStructured(options.output)) {
    printValue(valueOf(*all), options.output);
  } else if (all->empty()) {
    std::fprintf(stderr, "No bound claims found%s.\n",
                 options.client.allNamespaces ? "" : (" in namespace " + base::printable(connection.space())).c_str());
  } else {
    printText(textOf(*all, options, now));
  }
  return kDone;
}

}  // namespace

int topVerb(const TopOptions& options) {
  if (!options.claim.empty() && options.client.allNamespaces)
    return fail("a claim is in one namespace: give -n NAMESPACE instead of -A", kUsage);
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  if (!options.watch) return once(**connection, options);
  const bool terminal = base::terminalColumns(0) > 0;
  for (;;) {
    if (terminal) std::fputs("\033[H\033[2J", stdout);
    if (const int status = once(**connection, options); status != kDone) return status;
    if (std::ferror(stdout) != 0) return kFailed;
    std::this_thread::sleep_for(options.interval);
  }
}

}  // namespace egpu::kubectl

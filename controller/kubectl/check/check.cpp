#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/kubectl/check/finding.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"

namespace egpu::kubectl {

namespace {

using Level = Finding::Level;

constexpr std::chrono::seconds kWaitStep{5};

const char* levelName(Level level) {
  return level == Level::error ? "Error" : level == Level::warning ? "Warning" : "NotChecked";
}

int64_t count(const Findings& found, Level level) {
  return std::count_if(found.begin(), found.end(), [&](const auto& each) { return each.level == level; });
}

void print(const Findings& found, const OutputFlags& flags) {
  if (isStructured(flags)) {
    Json list = Json::array();
    for (const auto& f : found)
      list.push_back({{"level", levelName(f.level)},
                      {"check", f.check},
                      {"object", f.object},
                      {"problem", f.problem},
                      {"fix", f.fix}});
    printValue({{"checks", kChecks},
                {"errors", count(found, Level::error)},
                {"warnings", count(found, Level::warning)},
                {"notChecked", count(found, Level::notChecked)},
                {"findings", list}},
               flags);
    return;
  }
  KubectlTable table;
  for (const char* header : {"LEVEL", "CHECK", "OBJECT", "PROBLEM", "MEND"}) table.column(header);
  const bool color = base::wantsColor(flags.color);
  for (const auto& f : found)
    table.row({toned(levelName(f.level),
                     f.level == Level::error     ? Tone::bad
                     : f.level == Level::warning ? Tone::waiting
                                                 : Tone::plain,
                     color),
               f.check, base::printable(f.object), base::printable(f.problem), base::printable(f.fix)});
  std::string out = table.empty() ? "" : table.text(flags) + "\n";
  if (!flags.noHeaders)
    out += std::to_string(kChecks) + " checks: " + std::to_string(count(found, Level::error)) + " errors, " +
           std::to_string(count(found, Level::warning)) + " warnings, " +
           std::to_string(count(found, Level::notChecked)) + " kinds not checked.\n";
  if (!out.empty()) printText(out);
}

}  // namespace

Findings checkAll(const Inventory& inventory) {
  Findings all;
  for (const auto check :
       {checkVersion, checkDefinitions, checkPolicies, checkRights, checkController, checkAgents, checkDrivers,
        checkRuntime, checkForeign, checkVisibleDevices, checkClocks, checkCertificates}) {
    auto found = check(inventory);
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  for (const auto& [kind, why] : inventory.unreadable)
    all.push_back({Level::notChecked, "read", kind, why,
                   "kubectl egpu check  # as a user who may read it, such as cluster-admin"});
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.level < b.level; });
  return all;
}

int checkVerb(const CheckOptions& options) {
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  for (;;) {
    const auto inventory = takeInventory(**connection);
    const auto found = inventory ? checkAll(*inventory) : Findings();
    const bool good = inventory.ok() && count(found, Level::error) == 0;
    if (!good && options.wait && std::chrono::steady_clock::now() + kWaitStep < end) {
      std::this_thread::sleep_for(kWaitStep);
      continue;
    }
    if (!inventory) return fail("", inventory.status());
    print(found, options.output);
    return good ? kDone : kNegative;
  }
}

}  // namespace egpu::kubectl

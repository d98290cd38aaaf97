#include "controller/agent/health/repairs.h"

#include <algorithm>
#include <utility>

#include "controller/base/text.h"
#include "controller/base/timestamp.h"

namespace egpu::agent::health {

namespace {

constexpr std::size_t kMaxMessage = 900;  ///< bounds the illness, so that the start fits behind it

/// The end of the condition's message: the start that the event belongs to.
std::string startOf(const Report& report) {
  return " (of boot " + (report.boot.empty() ? "unknown" : report.boot) + ", driver " +
         (report.driver.empty() ? "unknown" : report.driver) + ")";
}

core::Condition remembered(const core::Condition* before, const Report& report, base::Clock::Wall wall) {
  core::Condition out;
  out.type = kNeedsRepair;
  out.status = "True";
  out.reason = report.finding.reason;
  out.message = base::shortened(report.finding.message, kMaxMessage) + startOf(report);
  out.lastTransitionTime = before ? before->lastTransitionTime : base::rfc3339(wall);
  return out;
}

}  // namespace

bool isEvent(std::string_view reason) { return !reason.empty() && reason.back() >= '0' && reason.back() <= '9'; }

Counted Repairs::count(const std::string& card, const std::vector<core::Condition>& conditions, const Report& report,
                       base::Clock::Wall wall) {
  Counted out{report.finding, conditions};
  const auto needs = std::find_if(out.conditions.begin(), out.conditions.end(),
                                  [](const auto& condition) { return condition.type == kNeedsRepair; });
  const auto* before = needs == out.conditions.end() ? nullptr : &*needs;
  auto& known = known_[card];
  const auto& told = report.finding;
  const bool event = !told.healthy && isEvent(told.reason);
  bool over = told.healthy && known.heard && known.process == report.process;
  over = over || (before && !report.word.empty() && before->reason == report.word);
  if (event) {
    known.heard = true;
    known.process = report.process;
    if (over) known.overruled = told.message;
  }
  if (event && known.overruled != told.message) {
    known.overruled.clear();
    auto condition = remembered(before, report, wall);
    if (before)
      *needs = std::move(condition);
    else
      out.conditions.push_back(std::move(condition));
    return out;
  }
  if (event) out.finding = Finding{};
  const auto start = startOf(report);
  if (before && (over || event || !before->message.ends_with(start)))
    out.conditions.erase(needs);
  else if (before && told.healthy)
    out.finding = {false, before->reason, before->message.substr(0, before->message.size() - start.size())};
  return out;
}

}  // namespace egpu::agent::health

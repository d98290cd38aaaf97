#include "controller/agent/health/repairs.h"

#include <algorithm>
#include <utility>

#include "controller/base/text.h"
#include "controller/base/timestamp.h"

namespace egpu::agent::health {

namespace {

constexpr std::size_t kMaxMessage = 900;  ///< maximum length of the illness, so that startOf() fits after it
constexpr std::size_t kMaxReporters = 8;  ///< maximum processes; the smallest number is the oldest, and goes first

/// Returns the end of the condition's message: boot and driver of the event.
std::string startOf(const Report& report) {
  return " (of boot " + (report.boot.empty() ? "unknown" : report.boot) + ", driver " +
         (report.driver.empty() ? "unknown" : report.driver) + ")";
}

/// Returns the condition's message for the event in this report.
std::string messageOf(const Report& report) {
  return base::shortened(report.event->message, kMaxMessage) + startOf(report);
}

core::Condition remembered(const core::Condition* before, const Report& report, base::Clock::Wall wall) {
  core::Condition out;
  out.type = kNeedsRepair;
  out.status = "True";
  out.reason = report.event->reason;
  out.message = messageOf(report);
  out.lastTransitionTime = before ? before->lastTransitionTime : base::rfc3339(wall);
  return out;
}

/// True if the operator's annotation is about the current error.
bool isAcknowledged(const core::Condition* before, const Report& report) {
  if (!before || report.acknowledgement.empty() || before->reason != report.acknowledgement) return false;
  return !report.event || before->message == messageOf(report);
}

}  // namespace

bool isEvent(std::string_view reason) { return !reason.empty() && reason.back() >= '0' && reason.back() <= '9'; }

void Repairs::retain(const std::function<bool(const std::string& card)>& isKnown) {
  std::erase_if(known_, [&](const auto& each) { return !isKnown(each.first); });
}

Counted Repairs::count(const std::string& card, const std::vector<core::Condition>& conditions, const Report& report,
                       base::Clock::Wall wall) {
  Counted out{report.finding, conditions};
  const auto needs = std::find_if(out.conditions.begin(), out.conditions.end(),
                                  [](const auto& condition) { return condition.type == kNeedsRepair; });
  const auto* before = needs == out.conditions.end() ? nullptr : &*needs;
  out.acknowledged = isAcknowledged(before, report);
  auto& known = known_[card];
  // The same message from another process, or after the event was over, belongs to a new event.
  if (report.silent || known.process != report.process) known.overruled.clear();
  if (report.event) {
    known.reporters.insert(report.process);
    if (known.reporters.size() > kMaxReporters) known.reporters.erase(known.reporters.begin());
    known.process = report.process;
    if (out.acknowledged) known.overruled = report.event->message;
  }
  if (report.event && known.overruled != report.event->message) {
    known.overruled.clear();
    auto condition = remembered(before, report, wall);
    if (before)
      *needs = std::move(condition);
    else
      out.conditions.push_back(std::move(condition));
    if (report.finding.healthy) out.finding = *report.event;
    return out;
  }
  const auto start = startOf(report);
  const bool over = out.acknowledged || report.event || (report.silent && known.reporters.contains(report.process));
  if (over) known.reporters.clear();
  if (before && (over || !before->message.ends_with(start)))
    out.conditions.erase(needs);
  else if (before && report.finding.healthy)
    out.finding = {false, before->reason, before->message.substr(0, before->message.size() - start.size())};
  return out;
}

}  // namespace egpu::agent::health

#include "controller/agent/health/health.h"

#include <algorithm>

#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "controller/base/timestamp.h"

namespace egpu::agent::health {

namespace {

constexpr std::size_t kMaxReasonLength = 64, kMaxMessageLength = 1024;

bool letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/// Returns the length of the reason at the beginning of a message; 0 if there is none.
std::size_t reasonAt(std::string_view message) {
  const auto colon = message.find(": ");
  if (colon == std::string_view::npos || colon == 0 || colon > kMaxReasonLength || message[0] < 'A' || message[0] > 'Z')
    return 0;
  const auto head = message.substr(0, colon);
  const bool word = std::all_of(head.begin(), head.end(), [](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  return word ? colon : 0;
}

core::Condition condition(std::string_view status, std::string_view reason, std::string message,
                          base::Clock::Wall since) {
  core::Condition out;
  out.type = kHealthy;
  out.status = status;
  out.reason = reason;
  out.message = std::move(message);
  out.lastTransitionTime = base::rfc3339(since);
  return out;
}

/// Returns "5 quiet minutes", or seconds if `quiet` is not a whole number of minutes.
std::string quietTime(std::chrono::milliseconds quiet) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(quiet).count();
  return seconds % 60 == 0 ? std::to_string(seconds / 60) + " quiet minutes"
                           : std::to_string(seconds) + " quiet seconds";
}

/// Returns the condition of a card that works; a repair may be due at its next reset.
core::Condition working(const Finding& now, base::Clock::Wall since) {
  return condition("True", now.reason.empty() ? kWorking : std::string_view(now.reason), now.message, since);
}

core::Condition onProbation(const core::Condition& before, const Finding& now, base::Clock::Wall wall,
                            std::chrono::milliseconds quiet) {
  const auto was = before.reason == kProbation ? before.message : "It was taken out of use for " + before.reason;
  const auto since = before.reason == kProbation ? base::parseRfc3339(before.lastTransitionTime) : std::nullopt;
  // If the time is malformed or in the future, the quiet period starts again.
  if (!since || *since > wall)
    return condition(
        "False", kProbation,
        before.reason == kProbation ? was : was + "; it answers, and is used again after " + quietTime(quiet), wall);
  if (wall - *since < quiet) return before;
  return working(now, wall);
}

core::Condition next(const core::Condition* before, const Finding& now, base::Clock::Wall wall,
                     std::chrono::milliseconds quiet) {
  if (now.healthy) {
    if (before && before->status == "False") return onProbation(*before, now, wall, quiet);
    auto out = working(now, wall);
    if (before && before->status == "True") out.lastTransitionTime = before->lastTransitionTime;
    return out;
  }
  auto out = condition("False", now.reason, now.message, wall);
  const bool goes = now.reason == kCardGone && before && before->reason != kCardGone;
  if (before && before->status == "False" && before->reason != kProbation && !goes)
    out.lastTransitionTime = before->lastTransitionTime;
  return out;
}

}  // namespace

Finding illness(std::string_view message) {
  const auto head = reasonAt(message);
  Finding out{false, std::string(head > 0 ? message.substr(0, head) : kUnhealthy), {}};
  if (head > 0) message.remove_prefix(head + 2);
  out.message = base::shortened(base::printable(message), kMaxMessageLength);
  return out;
}

const core::Condition* healthyOf(const std::vector<core::Condition>& conditions) {
  for (const auto& c : conditions)
    if (c.type == kHealthy) return &c;
  return nullptr;
}

std::vector<core::Condition> judge(const std::vector<core::Condition>& before, const Finding& now,
                                   base::Clock::Wall wall, std::chrono::milliseconds quiet) {
  auto out = before;
  const auto same = std::find_if(out.begin(), out.end(), [](const auto& c) { return c.type == kHealthy; });
  auto judged = next(same == out.end() ? nullptr : &*same, now, wall, quiet);
  if (same == out.end())
    out.push_back(std::move(judged));
  else
    *same = std::move(judged);
  return out;
}

}  // namespace egpu::agent::health

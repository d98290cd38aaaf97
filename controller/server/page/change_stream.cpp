#include "controller/server/page/change_stream.h"

#include <algorithm>
#include <utility>

namespace egpu::server {

namespace {

/// Time after which next() returns without data, so that the listener notices a client that is gone.
constexpr std::chrono::milliseconds kPollInterval{2'000};

}  // namespace

std::string eventText(std::string_view name, std::string_view data) {
  std::string text;
  text.reserve(name.size() + data.size() + 16);
  return text.append("event: ").append(name).append("\ndata: ").append(data).append("\n\n");
}

bool ChangeStream::next(std::string& chunk, std::stop_token stop) {
  if (stop.stop_requested() || feed_.closed_) return false;
  if (!isAllowed(stop)) {
    chunk = eventText("denied", "{}");
    return false;
  }
  if (part_ == SnapshotPart::start)
    writeStart(chunk);
  else if (part_ == SnapshotPart::changes)
    writeChanges(chunk, stop);
  else
    writePart(chunk);
  const auto now = std::chrono::steady_clock::now();
  if (chunk.empty() && now - wrote_ >= feed_.options_.heartbeat) chunk = ": alive\n\n";
  if (!chunk.empty()) wrote_ = now;
  return !stop.stop_requested() && !feed_.closed_;
}

bool ChangeStream::isAllowed(const std::stop_token& stop) {
  const auto now = std::chrono::steady_clock::now();
  if (!stillAllowed_ || now - checked_ < feed_.options_.reauthorize) return true;
  checked_ = now;
  return stillAllowed_(stop);
}

void ChangeStream::writeStart(std::string& chunk) {
  const base::MutexLock lock(feed_.part_);
  claims_.clear();
  feed_.stores_.claims.forEach([this](const auto& claim) { claims_.push_back(core::keyOf(claim->metadata)); });
  lastNode_.clear();
  nextClaim_ = 0;
  part_ = SnapshotPart::nodes;
  chunk = eventText("start", "{\"nodes\":" + std::to_string(feed_.stores_.nodes.size()) +
                                 ",\"claims\":" + std::to_string(claims_.size()) + "}");
}

void ChangeStream::writePart(std::string& chunk) {
  const base::MutexLock lock(feed_.part_);
  if (part_ == SnapshotPart::nodes) {
    chunk = eventText("nodes", feed_.json_.nodesAfter(lastNode_, ChangeFeed::kNodesAtOnce));
    if (lastNode_.empty()) part_ = SnapshotPart::claims;
  } else if (part_ == SnapshotPart::claims) {
    const auto end = std::min(claims_.size(), nextClaim_ + ChangeFeed::kClaimsAtOnce);
    const auto at = [this](std::size_t i) { return claims_.begin() + static_cast<std::ptrdiff_t>(i); };
    chunk = eventText("claims", feed_.json_.claims({at(nextClaim_), at(end)}));
    nextClaim_ = end;
    if (nextClaim_ == claims_.size()) part_ = SnapshotPart::rest;
  } else {
    std::vector<core::ObjectKey> quotas;
    feed_.stores_.quotas.forEach([&quotas](const auto& quota) { quotas.push_back(core::keyOf(quota->metadata)); });
    chunk = eventText("quotas", feed_.json_.quotas(quotas)) + eventText("classes", feed_.json_.classes()) +
            eventText("reservations", feed_.json_.reservations()) + eventText("complete", "{}");
    claims_ = {};
    part_ = SnapshotPart::changes;
  }
}

void ChangeStream::writeChanges(std::string& chunk, const std::stop_token& stop) {
  bool restart = false;
  for (const auto& text : feed_.next(seen_, restart, std::min(kPollInterval, feed_.options_.heartbeat), stop))
    chunk += *text;
  if (restart) part_ = SnapshotPart::start;
}

}  // namespace egpu::server

// One client's stream of a ChangeFeed: first all objects in parts, then the changes. Internal to page/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/http/http.h"
#include "controller/server/page/change_feed.h"

namespace egpu::server {

/// Used by one thread. Counts as open in the feed until its destruction.
class ChangeStream final : public http::BodyStream {
 public:
  ChangeStream(ChangeFeed& feed, ChangeFeed::StillAllowed stillAllowed, uint64_t seen)
      : feed_(feed), stillAllowed_(std::move(stillAllowed)), seen_(seen) {}
  ~ChangeStream() override { feed_.closeStream(); }

  bool next(std::string& chunk, std::stop_token stop) override;

 private:
  enum class SnapshotPart { start, nodes, claims, rest, changes };
  bool isAllowed(const std::stop_token& stop);
  void writeStart(std::string& chunk);
  void writePart(std::string& chunk);
  void writeChanges(std::string& chunk, const std::stop_token& stop);

  ChangeFeed& feed_;
  const ChangeFeed::StillAllowed stillAllowed_;
  uint64_t seen_;  ///< number of the next event in the feed's log
  SnapshotPart part_ = SnapshotPart::start;
  std::string lastNode_;  ///< last node that was sent
  std::vector<core::ObjectKey> claims_;
  std::size_t nextClaim_ = 0;  ///< first claim of the next part
  std::chrono::steady_clock::time_point checked_ = std::chrono::steady_clock::now(), wrote_ = checked_;
};

/// Returns one event of a stream. data: JSON without line breaks.
std::string eventText(std::string_view name, std::string_view data);

}  // namespace egpu::server

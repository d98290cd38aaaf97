// What can't be read off a card at any time, but is seen while it is watched: XIDs, and links that go down.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "provisioners/nvidia/library.h"
#include "provisioners/nvidia/node.h"

namespace egpu::nvidia {

/// Holds NVML open, so that the driver keeps the events for us between two looks. Whoever unloads the driver or resets a
/// card ends this process before, as everything that has the card open. Thread-safe.
class Watch {
 public:
  /// The one of this process.
  static Watch& shared();
  ~Watch();

  /// Watches these cards, what it watches already included. Cheap if they are the same.
  void follow(const std::vector<Card>& cards);
  /// What was seen: sets `illness` of cards without one. An XID is told for a minute, so that an answer that is lost
  /// loses none. Cards that are not among them are forgotten.
  void judge(std::vector<Card>& cards);
  /// Lets NVML go: the driver does not answer, perhaps because it is being exchanged. True if it was held.
  bool release();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Seen {
    std::string illness;
    Time at;
  };
  void openLocked(const std::vector<std::string>& uuids);
  void closeLocked();
  void drainLocked(Time now);
  void judgeLinksLocked(std::vector<Card>& cards);

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::unique_ptr<Library> nvml_;
  EventSet set_ = nullptr;
  std::vector<std::string> uuids_;         ///< those asked for, sorted
  std::map<Device, std::string> watched_;  ///< uuid by handle
  std::map<std::string, Seen> seen_;       ///< by uuid
  /// NVLinks that were active at once, by a card's uuid and its peer's.
  std::map<std::string, std::map<std::string, int64_t>> mostLinks_;
};

}  // namespace egpu::nvidia

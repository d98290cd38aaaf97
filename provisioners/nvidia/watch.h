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
/// card ends this process before, as everything that has the card open: what it has seen ends with it. But where the
/// driver did not answer it was let go, and may have been loaded anew since. Thread-safe.
class Watch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The one of this process.
  static Watch& shared();
  ~Watch();

  /// Watches these cards, what it watches already included. Cheap if they are the same.
  void follow(const std::vector<Card>& cards);
  /// What was seen: sets `illness` of cards without one. An XID is told for a minute, so that an answer that is lost
  /// loses none; one that a reset or more has to mend as long as this process lives, since neither card nor driver can
  /// be reset under it, and the kernel lists the card. What is neither among the cards nor lost is forgotten, and all that
  /// was seen under a driver of another version.
  void judge(Node& node, Time now = std::chrono::steady_clock::now());
  /// Lets NVML go: the driver does not answer, perhaps because it is being exchanged. True if it was held.
  bool release();
  /// The driver was unloaded: what was seen ended with it.
  void forget();

 private:
  struct Seen {
    std::string illness;
    Time at;
    bool passes = false;  ///< by itself
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
  std::string driver_;                     ///< its version, as of the last look
  std::map<std::string, Seen> seen_;       ///< by uuid
  /// NVLinks that were active at once, by a card's uuid and its peer's.
  std::map<std::string, std::map<std::string, int64_t>> mostLinks_;
};

}  // namespace egpu::nvidia

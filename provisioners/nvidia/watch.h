// What can't be read off a card at any time, but is seen while it is watched: XIDs, and links that go down.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
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
  /// The one of this process.
  static Watch& shared();
  ~Watch();

  /// Watches these cards, what it watches already included. Cheap if they are the same.
  void follow(const std::vector<Card>& cards);
  /// Sets `illness` of cards without one, by the XIDs and links that were seen, and `event` of cards with another illness
  /// than the recovery action that belongs to the XID. An XID that withdraws the card is reported
  /// as long as this process lives and the kernel lists the card: neither card nor driver can be reset under the process.
  /// It is forgotten when the driver has another version, or asks for no recovery action any more after it asked for one.
  void judge(Node& node);
  /// Lets NVML go: the driver does not answer, perhaps because it is being exchanged. True if it was held.
  bool release();
  /// The driver was unloaded: what was seen ended with it.
  void forget();

 private:
  /// The XIDs that withdraw one card.
  struct Seen {
    unsigned long long xid = 0;  ///< with the strongest action, the last of equals
    uint64_t count = 0;          ///< number of all
  };
  void openLocked(const std::vector<std::string>& uuids);
  void closeLocked();
  void drainLocked();
  void forgetLocked(const Node& node);
  void judgeLinksLocked(std::vector<Card>& cards);

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::unique_ptr<Library> nvml_;
  EventSet set_ = nullptr;
  std::vector<std::string> uuids_;         ///< those asked for, sorted
  std::map<Device, std::string> watched_;  ///< uuid by handle
  std::string driver_;                     ///< its version, as of the last look
  std::map<std::string, Seen> seen_;       ///< by uuid
  std::set<std::string> asked_;            ///< uuids of the cards whose driver asked for a recovery action
  /// NVLinks that were active at once, by a card's uuid and its peer's.
  std::map<std::string, std::map<std::string, int64_t>> mostLinks_;
};

}  // namespace egpu::nvidia

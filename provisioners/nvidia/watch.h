// Watches cards for problems that can't be read from a card later: XIDs, and links that go down.
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

/// Keeps NVML open, so that the driver queues events between two checks. Unloading the driver or resetting a card
/// requires that this process ends first, like every process that has the card open; its observations end with it. The
/// exception: NVML is released when the driver does not answer, and the driver may be reloaded meanwhile. Thread-safe.
class Watch {
 public:
  /// Returns this process's instance.
  static Watch& shared();
  ~Watch();

  /// Watches exactly these cards. Cheap if they have not changed.
  void follow(const std::vector<NvmlCard>& cards);
  /// Sets `illness` of cards that have none, according to the XIDs and links seen so far. Cards with another illness,
  /// except the recovery action that belongs to the XID, get the XID as `event`. An XID that withdraws the card is
  /// reported as long as this process lives and the kernel lists the card, because neither card nor driver can be reset
  /// under the process. It is forgotten when the driver's version changes, and when the driver no longer requests a
  /// recovery action that it requested before.
  void judge(NodeCards& node);
  /// Releases NVML because the driver does not answer, possibly during an upgrade. Returns true if NVML was open.
  bool release();
  /// Forgets all observations, because the driver was unloaded.
  void forget();

 private:
  /// XIDs that withdraw one card.
  struct Seen {
    unsigned long long xid = 0;  ///< XID with the strongest action; the latest of equals
    uint64_t count = 0;          ///< number of such XIDs
  };
  void openLocked(const std::vector<std::string>& uuids);
  void closeLocked();
  void drainLocked();
  void forgetLocked(const NodeCards& node);
  void judgeLinksLocked(std::vector<NvmlCard>& cards);

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::unique_ptr<Library> nvml_;
  EventSet set_ = nullptr;
  std::vector<std::string> uuids_;         ///< watched cards, as passed to follow(); sorted
  std::map<Device, std::string> watched_;  ///< uuids by handle
  std::string driver_;                     ///< driver version at the last check
  std::map<std::string, Seen> seen_;       ///< by uuid
  std::set<std::string> asked_;            ///< uuids of the cards for which the driver requested a recovery action
  /// Maximum number of simultaneously active NVLinks, by uuid of the card and of its peer.
  std::map<std::string, std::map<std::string, int64_t>> maxLinks_;
};

}  // namespace egpu::nvidia

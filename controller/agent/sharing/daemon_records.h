// Records of the MPS daemons that the agent has started. They let a restarted agent recognise its daemons, and restore
// the compute mode of a card after the last claim. Only root can read or write them: containers can write to the pipe
// folder of a daemon, so a PID file there proves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::sharing {

struct DaemonRecord {
  std::string card{};         ///< uuid
  int64_t pid = 0;            ///< 0 = the daemon is being started, has ended, or could not be started
  uint64_t startTime = 0;     ///< of the process
  int version = 2;            ///< version of the daemon's interface
  bool isEnding = false;      ///< the agent is ending the daemon
  int64_t endedPid = 0;       ///< daemon that ended by itself, until its end is reported; 0 = none
  std::string boot{};         ///< boot id of the machine when the record was written
  std::string computeMode{};  ///< compute mode to restore; empty = the agent did not change it
  bool ownsTmpfs = false;     ///< the agent mounted the shared memory, or was about to
  bool operator==(const DaemonRecord&) const = default;
};

/// True if the uuid can be the name of a file: 1 to 128 letters, digits and '-', not beginning with '-'.
bool isCardName(const std::string& uuid);

/// Thread-safe.
class DaemonRecords {
 public:
  /// folder: is created with the first record.
  explicit DaemonRecords(std::string folder) : folder_(std::move(folder)) {}

  /// Returns the uuids of the cards with a record.
  std::vector<std::string> cards() const;
  /// Returns nullopt if the card has no record. A record that can't be read is an error, because its compute mode would
  /// be lost.
  base::Result<std::optional<DaemonRecord>> read(const std::string& card) const;
  /// Replaces the record atomically.
  base::Status write(const DaemonRecord& record) const;
  base::Status remove(const std::string& card) const;
  /// Locks the record against other threads and processes, since two agents run while an agent is being replaced.
  /// Returns an empty descriptor if it is locked. The lock file is never removed.
  base::Result<base::UniqueFd> tryLock(const std::string& card) const;

 private:
  std::string fileOf(const std::string& card) const { return folder_ + "/" + card; }

  const std::string folder_;
};

}  // namespace egpu::agent::sharing

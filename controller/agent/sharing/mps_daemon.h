// MPS control daemon of one card, with the card's compute mode and the tmpfs that its clients share.
//
// The order of a start is that of the record, so that a restarted agent can undo every step:
//   record the compute mode, set EXCLUSIVE_PROCESS, mount the tmpfs, record the start, start the daemon, record its
//   PID.
// In EXCLUSIVE_PROCESS mode, a program that does not connect to MPS can't use the card, and so can't evade the limits.
// A daemon that the agent did not start is never changed; it is recognised by its environment (kStartedByAgent).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/agent/sharing/daemon_records.h"
#include "controller/agent/sharing/host_programs.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"

namespace egpu::agent::sharing {

struct MpsDaemonOptions {
  std::string proc = "/proc";                      ///< the host's
  std::string boot;                                ///< boot id of the machine
  std::string tmpfsOptions = "mode=1777,size=8g";  ///< mount options of the shared memory
  std::chrono::milliseconds startTimeout{5'000};   ///< until the daemon has opened its socket
  std::chrono::milliseconds endTimeout{3'000};     ///< after each request and signal to end
  std::chrono::milliseconds pollInterval{50};
};

/// Not thread-safe. References must outlive it. The daemon continues when this object is destroyed.
class MpsDaemon {
 public:
  MpsDaemon(std::string card, HostPrograms& programs, const MpsCommands& commands, const DaemonRecords& records,
            base::Clock& clock, const MpsDaemonOptions& options);

  /// Reads the record, once. All functions below call it.
  base::Status load();
  /// True if the agent has changed the card for MPS and not restored it.
  bool hasRecord() const { return record_.has_value(); }
  /// True if the daemon that the agent started runs.
  bool isRunning() const;
  /// Returns the PID of the agent's daemon if it has ended since the boot of the machine; 0 = none.
  int64_t endedPid() const;
  /// True if a daemon that the agent did not start serves the card.
  bool isServedByOperator() const;
  /// Makes sure that a daemon serves the card, and waits until it has opened its socket. Changes nothing if a daemon
  /// runs, also one of an operator.
  base::Status ensure(const std::stop_token& stop);
  /// Ends the daemon, restores the compute mode, and unmounts the tmpfs. After an error, the next call continues. If a
  /// daemon of an operator serves the card now, its compute mode and tmpfs stay.
  base::Status end(const std::stop_token& stop);

 private:
  base::Status prepareCard();
  base::Status setExclusive();
  base::Status start(bool isMultiuser, const std::stop_token& stop);
  base::Status awaitSocket(const std::stop_token& stop);
  base::Status endDaemon(const std::stop_token& stop);
  bool hasEnded(const std::stop_token& stop);
  void killLeftProcesses();
  void removeSockets() const;
  std::string lastOutput() const;
  base::Status write(DaemonRecord record);

  const std::string card_;
  const MpsFolders folders_;
  HostPrograms& programs_;
  const MpsCommands& commands_;
  const DaemonRecords& records_;
  base::Clock& clock_;
  const MpsDaemonOptions& options_;
  bool isLoaded_ = false;
  std::optional<DaemonRecord> record_;
};

}  // namespace egpu::agent::sharing

// MPS control daemon of one card, with the card's compute mode and the tmpfs that its clients share.
//
// Order of a start, and the recovery by the next agent if this one is killed after the step:
//   record the compute mode and the tmpfs        start again, or restore
//   set EXCLUSIVE_PROCESS; mount the tmpfs       start again, or restore
//   start the daemon                             find it by its environment (kStartedByAgent)
//   record its PID                               find it by the record
// Order of an end:
//   record that the daemon is ending             continue; before another start, end the daemon
//   end the daemon; restore the compute mode;    continue
//   unmount the tmpfs
//   remove the record
// In EXCLUSIVE_PROCESS mode, a program that does not connect to MPS can't use the card, and so can't evade the limits.
// A daemon that the agent did not start is never changed.
//
// With version 2, containers can write to the whole pipe folder, with version 3 only to the folder of their namespace.
// A daemon of version 3 therefore gets a new pipe folder if the last one was of version 2.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/agent/sharing/daemon_records.h"
#include "controller/agent/sharing/host_programs.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::sharing {

struct MpsDaemonOptions {
  std::string proc = "/proc";                      ///< the host's
  std::string boot;                                ///< boot id of the machine
  std::string tmpfsOptions = "mode=1777,size=8g";  ///< mount options of the shared memory
  std::chrono::milliseconds startTimeout{5'000};   ///< until the daemon has opened its socket
  std::chrono::milliseconds endTimeout{3'000};     ///< after each request and signal to end
  std::chrono::milliseconds lockTimeout{30'000};   ///< until another agent has finished its work on the card
  std::chrono::milliseconds removeTimeout{5'000};  ///< for one attempt to remove the files of containers
  std::chrono::milliseconds pollInterval{50};
};

/// Not thread-safe. References must outlive it. The daemon continues when this object is destroyed.
class MpsDaemon {
 public:
  MpsDaemon(std::string card, HostPrograms& programs, const MpsCommands& commands, const DaemonRecords& records,
            base::Clock& clock, const MpsDaemonOptions& options);

  /// Reads the record, which another agent may have changed. The functions without a stop token use the last record.
  base::Status read();
  /// True if the agent has changed the card for MPS and not restored it.
  bool hasRecord() const { return record_.has_value(); }
  /// True if the recorded daemon runs.
  bool isRunning() const;
  /// PID of the recorded daemon, and the version of its interface. Only if isRunning().
  int64_t pid() const { return record_->pid; }
  int version() const { return record_->version; }
  /// Returns the PID of a daemon of the agent that ended by itself since the boot of the machine, until forgetEnded();
  /// 0 = none.
  int64_t endedPid() const;
  /// True if a daemon that the agent did not start serves the card.
  bool isServedByOperator() const;
  /// Makes sure that a daemon serves the card, and waits until it has opened its socket. Changes nothing if a daemon
  /// runs, also one of an operator.
  base::Status ensure(const std::stop_token& stop);
  /// If the card is unused, ends the daemon, restores the compute mode, and unmounts the tmpfs. After an error, the
  /// next call continues. If a daemon of an operator serves the card now, its compute mode and tmpfs stay.
  /// isUnused: is called while no other agent can start to use the daemon.
  base::Status end(const std::function<bool()>& isUnused, const std::stop_token& stop);
  /// Forgets endedPid(), because its end has been reported.
  base::Status forgetEnded(const std::stop_token& stop);

 private:
  base::Result<base::UniqueFd> lockAndRead(const std::stop_token& stop);
  base::Status adopt();
  base::Status prepareCard();
  base::Status makeFolders() const;
  base::Status start(DaemonKind kind, const std::stop_token& stop);
  base::Status awaitSocket(const std::stop_token& stop);
  base::Status endDaemon(const std::stop_token& stop);
  bool isAlive(const DaemonRecord& daemon) const;
  bool hasEnded(const DaemonRecord& daemon, const std::stop_token& stop);
  base::Status restoreCard(const std::stop_token& stop);
  base::Status removePipe(const std::stop_token& stop) const;
  void killLeftProcesses();
  base::Status preparePipe(DaemonKind kind, const std::stop_token& stop) const;
  std::string lastOutput() const;
  base::Status write(DaemonRecord record);

  const std::string card_;
  const MpsFolders folders_;
  HostPrograms& programs_;
  const MpsCommands& commands_;
  const DaemonRecords& records_;
  base::Clock& clock_;
  const MpsDaemonOptions& options_;
  std::optional<DaemonRecord> record_;
};

}  // namespace egpu::agent::sharing

#include "controller/agent/sharing/mps_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "controller/agent/sharing/mps_processes.h"
#include "controller/agent/sharing/pipe_folder.h"
#include "controller/base/files.h"
#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "controller/base/remove_tree.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;
using base::UniqueFd;

constexpr std::size_t kMaxLogged = 300;

}  // namespace

MpsDaemon::MpsDaemon(std::string card, HostPrograms& programs, const MpsCommands& commands,
                     const DaemonRecords& records, base::Clock& clock, const MpsDaemonOptions& options)
    : card_(std::move(card)),
      folders_(commands.foldersOf(card_)),
      programs_(programs),
      commands_(commands),
      records_(records),
      clock_(clock),
      options_(options) {}

Status MpsDaemon::read() {
  auto record = records_.read(card_);
  if (!record) return record.status();
  record_ = std::move(*record);
  return Status::okay();
}

/// Excludes other agents. The record is read afterwards.
Result<UniqueFd> MpsDaemon::lockAndRead(const std::stop_token& stop) {
  const auto until = clock_.now() + options_.lockTimeout;
  for (;;) {
    auto lock = records_.tryLock(card_);
    if (!lock) return lock;
    if (*lock) {
      if (auto s = read(); !s.ok()) return s;
      return lock;
    }
    if (clock_.now() >= until)
      return Status(Code::unavailable, "another agent has been working on the MPS daemon of card " + card_);
    if (!clock_.sleepFor(options_.pollInterval, stop)) return Status(Code::cancelled, "stopped");
  }
}

bool MpsDaemon::isAlive(const DaemonRecord& daemon) const {
  return daemon.pid != 0 && daemon.startTime != 0 && daemon.boot == options_.boot &&
         startTimeOf(options_.proc, daemon.pid) == daemon.startTime;
}

bool MpsDaemon::isRunning() const { return record_ && !record_->isEnding && isAlive(*record_); }

int64_t MpsDaemon::endedPid() const {
  if (!record_ || record_->isEnding || record_->boot != options_.boot) return 0;
  return record_->pid != 0 && !isRunning() ? record_->pid : record_->endedPid;
}

bool MpsDaemon::isServedByOperator() const {
  const auto all = mpsProcesses(options_.proc, folders_.pipe);
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.isDaemon && !each.isStartedByAgent; });
}

Status MpsDaemon::ensure(const std::stop_token& stop) {
  const auto lock = lockAndRead(stop);
  if (!lock) return lock.status();
  if (auto s = adopt(); !s.ok()) return s;
  if (isRunning()) return awaitSocket(stop);
  if (record_ && record_->isEnding)
    if (auto s = endDaemon(stop); !s.ok()) return s;
  if (isServedByOperator()) {
    ::unlink(folders_.namespaces.c_str());  // the operator's daemon has no namespaces of devices
    return Status::okay();
  }
  if (auto s = prepareCard(); !s.ok()) return s;
  Status failed;
  for (const auto kind : {DaemonKind::version3, DaemonKind::version2, DaemonKind::version2SingleUser}) {
    if (kind == DaemonKind::version3 && !commands_.knowsVersion3()) continue;
    auto started = start(kind, stop);
    if (started.ok() && kind == DaemonKind::version2SingleUser)
      base::log::info("the MPS daemon serves one user at a time", {{"card", card_}, {"why", failed.str()}});
    if (started.ok() || started.code() == Code::cancelled || isRunning()) return started;
    failed = std::move(started);
  }
  return failed;
}

/// Records a daemon whose PID is not in the record, because an agent ended while it started the daemon.
Status MpsDaemon::adopt() {
  if (!record_ || record_->pid != 0) return Status::okay();
  for (const auto& process : mpsProcesses(options_.proc, folders_.pipe)) {
    if (!process.isDaemon || !process.isStartedByAgent) continue;
    auto found = *record_;
    found.pid = process.pid;
    found.startTime = startTimeOf(options_.proc, process.pid);
    found.boot = options_.boot;
    return write(std::move(found));
  }
  return Status::okay();
}

/// Sets the compute mode and mounts the shared memory, after a record of both.
Status MpsDaemon::prepareCard() {
  if (auto s = makeFolders(); !s.ok()) return s;
  const auto mode = commands_.computeMode(card_);
  if (!mode) return mode.status();
  if (*mode == kProhibited)
    return {Code::unavailable, "the compute mode of card " + card_ + " is PROHIBITED; run nvidia-smi -i " + card_ +
                                   " -c DEFAULT on the node"};
  const auto hasTmpfs = programs_.hasTmpfs(folders_.sharedMemory);
  if (!hasTmpfs) return hasTmpfs.status();
  auto record = record_.value_or(DaemonRecord{card_});
  record.endedPid = endedPid();
  record.pid = 0;
  record.isEnding = false;
  record.boot = options_.boot;
  if (*mode != kExclusiveProcess) record.computeMode = *mode;
  record.ownsTmpfs = record.ownsTmpfs || !*hasTmpfs;
  if (auto s = write(std::move(record)); !s.ok()) return s;
  if (*mode != kExclusiveProcess)
    if (auto s = commands_.setComputeMode(card_, kExclusiveProcess); !s.ok()) return s;
  return programs_.mountTmpfs(folders_.sharedMemory, options_.tmpfsOptions);
}

/// Creates the folders. They and the folders above must belong to this user, because the daemon writes to them as root,
/// and plugins can create folders in the state folder.
Status MpsDaemon::makeFolders() const {
  for (const auto& folder : {folders_.pipe, folders_.sharedMemory, folders_.log}) {
    const auto above = folder.substr(0, folder.rfind('/'));
    std::error_code error;
    std::filesystem::create_directories(above, error);
    if (error) return {Code::unavailable, above + " can't be created: " + error.message()};
    for (const auto& each : {above, folder}) {
      struct stat info {};
      if (::mkdir(each.c_str(), 0755) != 0 && errno != EEXIST)
        return {Code::unavailable, each + " can't be created: " + strerrordesc_np(errno)};
      if (::lstat(each.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid())
        return {Code::unavailable, each + " is no folder of the agent's user; remove it"};
    }
  }
  return Status::okay();
}

Status MpsDaemon::start(DaemonKind kind, const std::stop_token& stop) {
  killLeftProcesses();
  if (auto s = preparePipe(kind, stop); !s.ok()) return s;
  ::unlink((folders_.log + "/daemon.log").c_str());
  auto record = *record_;
  record.version = kind == DaemonKind::version3 ? 3 : 2;
  if (auto s = write(record); !s.ok()) return s;
  const auto pid = commands_.startDaemon(card_, kind);
  if (!pid) return pid.status();
  record.pid = *pid;
  record.startTime = startTimeOf(options_.proc, *pid);
  if (auto s = write(record); !s.ok()) return s;
  auto status = awaitSocket(stop);
  if (status.ok() || isRunning()) return status;
  record.pid = 0;  // it has served no program, so its end is not reported as a loss
  if (auto s = write(std::move(record)); !s.ok()) return s;
  return status;
}

Status MpsDaemon::awaitSocket(const std::stop_token& stop) {
  const auto until = clock_.now() + options_.startTimeout;
  const auto control = folders_.pipe + "/control";
  while (::access(control.c_str(), F_OK) != 0) {
    if (!isRunning())
      return {Code::unavailable, "the MPS daemon of card " + card_ + " ended at its start: " + lastOutput()};
    if (clock_.now() >= until)
      return {Code::unavailable, "the MPS daemon of card " + card_ + " has not created " + control + " yet"};
    if (!clock_.sleepFor(options_.pollInterval, stop)) return {Code::cancelled, "stopped"};
  }
  return Status::okay();
}

Status MpsDaemon::end(const std::function<bool()>& isUnused, const std::stop_token& stop) {
  const auto lock = lockAndRead(stop);
  if (!lock) return lock.status();
  if (!record_ || !isUnused()) return Status::okay();
  if (auto s = adopt(); !s.ok()) return s;
  auto record = *record_;
  record.isEnding = true;  // its end is not reported as a loss, even if this agent is killed now
  record.endedPid = 0;
  if (auto s = write(std::move(record)); !s.ok()) return s;
  if (auto s = endDaemon(stop); !s.ok()) return s;
  killLeftProcesses();
  if (!isServedByOperator())
    if (auto s = restoreCard(stop); !s.ok()) return s;
  if (auto s = records_.remove(card_); !s.ok()) return s;
  record_.reset();
  return Status::okay();
}

Status MpsDaemon::restoreCard(const std::stop_token& stop) {
  if (auto s = removePipe(stop); !s.ok()) return s;  // a plugin takes its socket for a running daemon
  ::unlink(folders_.namespaces.c_str());
  if (!record_->computeMode.empty())
    if (auto s = commands_.setComputeMode(card_, record_->computeMode); !s.ok()) return s;
  return record_->ownsTmpfs ? programs_.unmount(folders_.sharedMemory) : Status::okay();
}

/// Removes the pipe folder. Containers can have created any number of files and levels of folders there.
Status MpsDaemon::removePipe(const std::stop_token& stop) const {
  const auto until = clock_.now() + options_.removeTimeout;
  auto removed = base::removeTree(folders_.pipe, [&]() -> Status {
    if (stop.stop_requested()) return {Code::cancelled, "stopped"};
    if (clock_.now() < until) return Status::okay();
    return {Code::deadline, "it has too many files to remove them at once; the agent continues"};
  });
  if (removed.ok() || removed.code() == Code::cancelled) return removed;
  return {Code::unavailable, folders_.pipe + " can't be removed: " + removed.message()};
}

Status MpsDaemon::forgetEnded(const std::stop_token& stop) {
  const auto lock = lockAndRead(stop);
  if (!lock) return lock.status();
  if (endedPid() == 0) return Status::okay();
  auto record = *record_;
  record.endedPid = 0;
  if (!isRunning()) record.pid = 0;
  return write(std::move(record));
}

Status MpsDaemon::endDaemon(const std::stop_token& stop) {
  const auto& daemon = *record_;
  if (!isAlive(daemon)) return Status::okay();
  if (auto s = commands_.quit(card_, daemon.version); !s.ok())
    base::log::warn("the MPS daemon does not end when asked", {{"card", card_}, {"why", s.str()}});
  if (hasEnded(daemon, stop)) return Status::okay();
  for (const int number : {SIGTERM, SIGKILL}) {
    if (stop.stop_requested()) return {Code::cancelled, "stopped"};
    programs_.signal(daemon.pid, number);
    if (hasEnded(daemon, stop)) return Status::okay();
  }
  return {Code::unavailable,
          "the MPS daemon of card " + card_ + " (process " + std::to_string(daemon.pid) + ") does not end"};
}

bool MpsDaemon::hasEnded(const DaemonRecord& daemon, const std::stop_token& stop) {
  const auto until = clock_.now() + options_.endTimeout;
  while (isAlive(daemon))
    if (clock_.now() >= until || !clock_.sleepFor(options_.pollInterval, stop)) return false;
  return true;
}

/// Kills processes that an ended daemon of the agent left, such as servers: they would keep the card in use.
void MpsDaemon::killLeftProcesses() {
  for (const auto& process : mpsProcesses(options_.proc, folders_.pipe))
    if (process.isStartedByAgent) programs_.signal(process.pid, SIGKILL);
}

/// Removes the files of an ended daemon. Running containers have mounts of the folders, so these stay, except for
/// version 3 after version 2: the containers of the latter can still replace a folder by a link.
Status MpsDaemon::preparePipe(DaemonKind kind, const std::stop_token& stop) const {
  const bool hasNamespaces = ::access(folders_.namespaces.c_str(), F_OK) == 0;
  if (kind != DaemonKind::version3) {
    if (hasNamespaces && ::unlink(folders_.namespaces.c_str()) != 0)
      return {Code::unavailable, folders_.namespaces + " can't be removed: " + strerrordesc_np(errno)};
    removeFilesIn(folders_.pipe);
    return Status::okay();
  }
  if (hasNamespaces) {
    removeFilesIn(folders_.pipe);
    return Status::okay();
  }
  if (auto s = removePipe(stop); !s.ok()) return s;
  if (auto s = makeFolders(); !s.ok()) return s;
  if (!UniqueFd(::open(folders_.namespaces.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644)))
    return {Code::unavailable, folders_.namespaces + " can't be created: " + strerrordesc_np(errno)};
  return Status::okay();
}

/// Returns the end of the output of the last start.
std::string MpsDaemon::lastOutput() const {
  const auto text = base::readFile(folders_.log + "/daemon.log");
  const auto output = text ? std::string(base::trimmed(*text)) : std::string();
  return output.empty() ? "see " + folders_.log : base::shortened(base::printable(output), kMaxLogged);
}

Status MpsDaemon::write(DaemonRecord record) {
  if (auto s = records_.write(record); !s.ok()) return s;
  record_ = std::move(record);
  return Status::okay();
}

}  // namespace egpu::agent::sharing

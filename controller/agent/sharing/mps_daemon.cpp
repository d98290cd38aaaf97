#include "controller/agent/sharing/mps_daemon.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/files.h"
#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Status;

constexpr std::size_t kMaxLogged = 300;
/// Files of a daemon in its pipe folder. A plugin takes `control` for a running daemon.
constexpr const char* kSockets[] = {"control", "control_lock", "control_privileged", "nvidia-cuda-mps-control.pid"};

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

Status MpsDaemon::load() {
  if (isLoaded_) return Status::okay();
  auto record = records_.read(card_);
  if (!record) return record.status();
  isLoaded_ = true;
  record_ = std::move(*record);
  if (!record_ || record_->pid != 0) return Status::okay();
  // The agent ended between the start and the record of the PID.
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

bool MpsDaemon::isRunning() const {
  return record_ && record_->pid != 0 && record_->startTime != 0 && record_->boot == options_.boot &&
         startTimeOf(options_.proc, record_->pid) == record_->startTime;
}

int64_t MpsDaemon::endedPid() const {
  return record_ && record_->boot == options_.boot && !isRunning() ? record_->pid : 0;
}

bool MpsDaemon::isServedByOperator() const {
  const auto all = mpsProcesses(options_.proc, folders_.pipe);
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.isDaemon && !each.isStartedByAgent; });
}

Status MpsDaemon::ensure(const std::stop_token& stop) {
  if (auto s = load(); !s.ok()) return s;
  if (isRunning()) return awaitSocket(stop);
  if (isServedByOperator()) return Status::okay();
  if (auto s = prepareCard(); !s.ok()) return s;
  const auto first = start(true, stop);
  if (first.ok() || first.code() == Code::cancelled || isRunning()) return first;
  // A driver without -multiuser-server: each user gets a server of its own, one after the other.
  const auto second = start(false, stop);
  if (second.ok()) base::log::info("the MPS daemon serves one user at a time", {{"card", card_}, {"why", first.str()}});
  return second.ok() ? second : first;
}

/// Makes the folders, records and sets the compute mode, and mounts the shared memory.
Status MpsDaemon::prepareCard() {
  for (const auto& folder : {folders_.pipe, folders_.sharedMemory, folders_.log}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return {Code::unavailable, folder + " can't be created: " + error.message()};
  }
  if (auto s = setExclusive(); !s.ok()) return s;
  const auto mounted = programs_.mountTmpfs(folders_.sharedMemory, options_.tmpfsOptions);
  if (!mounted) return mounted.status();
  auto record = record_.value_or(DaemonRecord{card_});
  record.ownsTmpfs = record.ownsTmpfs || *mounted;
  record.pid = 0;
  return write(std::move(record));
}

Status MpsDaemon::setExclusive() {
  const auto mode = commands_.computeMode(card_);
  if (!mode) return mode.status();
  if (*mode == kExclusiveProcess) return Status::okay();
  if (*mode == kProhibited)
    return {Code::unavailable, "the compute mode of card " + card_ + " is PROHIBITED; run nvidia-smi -i " + card_ +
                                   " -c DEFAULT on the node"};
  auto record = record_.value_or(DaemonRecord{card_});
  record.computeMode = *mode;
  if (auto s = write(std::move(record)); !s.ok()) return s;
  return commands_.setComputeMode(card_, kExclusiveProcess);
}

Status MpsDaemon::start(bool isMultiuser, const std::stop_token& stop) {
  killLeftProcesses();
  removeSockets();
  ::unlink((folders_.log + "/daemon.log").c_str());
  const auto pid = commands_.startDaemon(card_, isMultiuser);
  if (!pid) return pid.status();
  auto record = *record_;
  record.pid = *pid;
  record.startTime = startTimeOf(options_.proc, *pid);
  record.boot = options_.boot;
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

Status MpsDaemon::end(const std::stop_token& stop) {
  if (auto s = load(); !s.ok()) return s;
  if (!record_) return Status::okay();
  if (auto s = endDaemon(stop); !s.ok()) return s;
  killLeftProcesses();
  if (!isServedByOperator()) {
    removeSockets();
    if (!record_->computeMode.empty())
      if (auto s = commands_.setComputeMode(card_, record_->computeMode); !s.ok()) return s;
    if (record_->ownsTmpfs)
      if (auto s = programs_.unmount(folders_.sharedMemory); !s.ok()) return s;
  }
  if (auto s = records_.remove(card_); !s.ok()) return s;
  record_.reset();
  return Status::okay();
}

Status MpsDaemon::endDaemon(const std::stop_token& stop) {
  if (!isRunning()) return Status::okay();
  if (auto s = commands_.quit(card_); !s.ok())
    base::log::warn("the MPS daemon does not end when asked", {{"card", card_}, {"why", s.str()}});
  if (hasEnded(stop)) return Status::okay();
  for (const int number : {SIGTERM, SIGKILL}) {
    programs_.signal(record_->pid, number);
    if (hasEnded(stop)) return Status::okay();
  }
  return {Code::unavailable,
          "the MPS daemon of card " + card_ + " (process " + std::to_string(record_->pid) + ") does not end"};
}

bool MpsDaemon::hasEnded(const std::stop_token& stop) {
  const auto until = clock_.now() + options_.endTimeout;
  while (isRunning())
    if (clock_.now() >= until || !clock_.sleepFor(options_.pollInterval, stop)) return false;
  return true;
}

/// Kills processes that an ended daemon of the agent left, such as servers: they would keep the card in use.
void MpsDaemon::killLeftProcesses() {
  for (const auto& process : mpsProcesses(options_.proc, folders_.pipe))
    if (process.isStartedByAgent) programs_.signal(process.pid, SIGKILL);
}

void MpsDaemon::removeSockets() const {
  for (const auto* name : kSockets) ::unlink((folders_.pipe + "/" + name).c_str());
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

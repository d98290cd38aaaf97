// Runs one MPS control daemon per card while the card has claims with isolation mps.
//
//   start    before a plugin stages such a claim (requireFor), unless a daemon of an operator serves the card
//   limits   set in the daemon before a plugin stages a claim, and when the amounts change (mps_limits.h)
//   watch    a daemon that has ended is started again, with backoff; the card and its claims get an event. So they do
//            when a server is blocked by a fault. The claims report the loss until their programs are restarted
//            (access_losses.h)
//   end      when the card has had no such claim for a while; then the former compute mode is restored
//
// Daemons continue when the agent ends, because containers use them; the next agent finds them by their records
// (daemon_records.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/sharing/access_losses.h"
#include "controller/agent/sharing/daemon_records.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/agent/sharing/mps_daemon.h"
#include "controller/agent/sharing/mps_limits.h"
#include "controller/base/backoff.h"
#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::agent::sharing {

using Gpu = v1alpha::ElasticGPU;

inline constexpr std::string_view kMps = "mps";  ///< isolation mode of devices and cards

struct MpsSupervisorOptions {
  std::string node;
  MpsCommandsOptions commands;
  MpsDaemonOptions daemon;
  std::chrono::milliseconds interval{2'000};        ///< between two rounds
  std::chrono::milliseconds faultInterval{10'000};  ///< between two questions for faults
  std::chrono::milliseconds idle{30'000};           ///< time without claims after which a daemon is ended
  std::chrono::milliseconds firstBackoff{1'000};    ///< after a failed start; doubles each time
  std::chrono::milliseconds maxBackoff{60'000};
};

/// Thread-safe. References must outlive it. Call start() once; the destructor stops and joins, and leaves the daemons.
class MpsSupervisor {
 public:
  /// cards: the objects of this node's cards.
  MpsSupervisor(HostPrograms& programs, base::Clock& clock, cdi::Folder& folder, const cache::Store<Gpu>& cards,
                AccessLosses& losses, kube::Client& client, kube::EventSink& events, MpsSupervisorOptions options);
  ~MpsSupervisor();

  /// Makes sure that a daemon with the limits of the device serves its card if its isolation mode is mps. Its CDI part
  /// file must exist: it keeps the daemon, and contains the amounts. Errors have Code::unavailable, and name the card
  /// and the reason.
  base::Status requireFor(const Gpu& device, const std::stop_token& stop);
  /// Returns true if the agent has set the compute mode of the card, and will restore another one. Thread-safe.
  bool hasSetComputeMode(const std::string& card) const;
  void start();
  void stop();
  /// One round over all daemons. For tests; otherwise the thread calls it.
  void round(const std::stop_token& stop);

 private:
  struct MpsCard {
    explicit MpsCard(MpsDaemon its) : daemon(std::move(its)) {}
    base::Mutex mutex;
    MpsDaemon daemon EGPU_GUARDED_BY(mutex);
    std::optional<base::Clock::Steady> unusedSince EGPU_GUARDED_BY(mutex);
    base::Status lastError EGPU_GUARDED_BY(mutex);
    std::string limitError EGPU_GUARDED_BY(mutex);  ///< last error of the limits
    int64_t limitedPid EGPU_GUARDED_BY(mutex) = 0;  ///< daemon that has the limits
    LimitsByDevice limits EGPU_GUARDED_BY(mutex);   ///< of that daemon
    base::Clock::Steady nextFaultCheck EGPU_GUARDED_BY(mutex){};
    bool isFaulty EGPU_GUARDED_BY(mutex) = false;  ///< a server is blocked by a fault
    std::string reported EGPU_GUARDED_BY(mutex);   ///< message of the last event, which is not repeated
  };
  /// Devices with isolation mps on a card, and whether the card must have a daemon.
  struct CardUsers {
    std::vector<cdi::Spec> devices;
    bool keepsDaemon = true;
  };

  MpsCard& stateOf(const std::string& card);
  base::Status require(const std::string& card, const std::stop_token& stop);
  base::Status serve(const std::string& card, MpsCard& state, const std::stop_token& stop) EGPU_REQUIRES(state.mutex);
  void reportEnded(const std::string& card, MpsCard& state, const base::Status& restarted, const std::stop_token& stop)
      EGPU_REQUIRES(state.mutex);
  base::Status setLimits(const std::string& card, MpsCard& state) EGPU_REQUIRES(state.mutex);
  void checkFaults(const std::string& card, MpsCard& state, const std::stop_token& stop) EGPU_REQUIRES(state.mutex);
  CardUsers usersOf(const std::string& card);
  base::Result<LimitsByDevice> limitsOn(const std::string& card);
  void check(const std::string& card, MpsCard& state, const std::stop_token& stop);
  void endUnused(const std::string& card, MpsCard& state, const std::stop_token& stop) EGPU_REQUIRES(state.mutex);
  void report(const std::string& card, MpsCard& state, std::string_view reason, const std::string& message,
              const std::stop_token& stop) EGPU_REQUIRES(state.mutex);

  HostPrograms& programs_;
  base::Clock& clock_;
  cdi::Folder& folder_;
  const cache::Store<Gpu>& cards_;
  AccessLosses& losses_;
  kube::Client client_;  ///< brief, because an event is not worth a wait
  kube::EventSink& events_;
  const MpsSupervisorOptions options_;
  const MpsCommands commands_;
  const MpsLimits limits_;
  const DaemonRecords records_;
  base::Backoff<> backoff_;  ///< by card
  base::Mutex mutex_;
  std::map<std::string, std::unique_ptr<MpsCard>> states_ EGPU_GUARDED_BY(mutex_);  ///< by uuid; never removed
  std::jthread thread_;  ///< last member, because it uses all others
};

}  // namespace egpu::agent::sharing

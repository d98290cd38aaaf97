// The values of the flags. main parses them; each command takes one of these structs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/subprocess.h"
#include "controller/http/http.h"
#include "controller/kube/leader_election.h"
#include "controller/plugin/hosted.h"
#include "controller/reconcile/timeouts.h"
#include "controller/scheduler/queue_order.h"

namespace egpu::cmd {

/// Returns the folder of the built-in provisioners, beside the running executable.
inline std::string defaultPluginFolder() { return base::executableFolder() + "/../lib/provisioners"; }

struct LogOptions {
  std::string level = "info";   ///< debug | info | warn | error | off
  std::string format = "text";  ///< text | json
};

inline constexpr int64_t kMaxCardSeries = 2'000;  ///< number of cards; with more cards, none has series of its own

inline constexpr int64_t kJournalBytes = int64_t{256} << 20;

/// For schedulers that choose nodes themselves.
struct ExtenderOptions {
  std::string listen;                     ///< empty = no extender
  http::TlsFiles tls;                     ///< all three if the extender listens; and the allowed clients
  std::vector<std::string> schedulers{};  ///< schedulerNames of the pods that these schedulers place
  /// Returns which required flag is missing next to a given one; empty = none.
  std::string missing() const;
};

/// Options of the controller in either mode.
struct CoreOptions {
  std::size_t workers = 16;
  std::string plugins;      ///< folder of provisioners; empty = ../lib/provisioners beside the executable
  std::string pluginState;  ///< folder for plugins' host files; empty = the plugins' default
  plugin::Limits pluginLimits;
  std::vector<std::string> pluginHidden;  ///< files and folders that no plugin may read, besides the usual ones
  std::string opsListen = "127.0.0.1:9440";
  bool opsAuth = true;       ///< the API server authorizes callers; false only on loopback
  std::string probesListen;  ///< empty = the host of opsListen and the next port; any free port if that is 0
  bool cardMetrics = false;  ///< series per card in /metrics, for at most kMaxCardSeries cards
  std::string journal;       ///< folder of the decision journal; empty = none
  int64_t journalBytes = kJournalBytes;
  std::string billJournals;  ///< folder with the journal folders of all replicas, for /bill; empty = `journal` alone
  reconcile::Timeouts timeouts{};
  /// Waiting time of a claim before a node is reserved for it.
  std::chrono::milliseconds reservationAfter = std::chrono::seconds(scheduler::ReservationLimits{}.after);
  /// Time without renewal after which a reservation expires.
  std::chrono::milliseconds reservationTtl = std::chrono::seconds(scheduler::ReservationLimits{}.ttl);
  int64_t reservedFreeCards = 10;  ///< percent of a small cluster's free cards that a reserved node may withhold
  /// Names of schedulers that are served besides the extender's; empty = default-scheduler.
  std::vector<std::string> schedulers;
  ExtenderOptions extender;
  std::string writeProbesAddress;  ///< like writeOpsAddress
  std::string writeOpsAddress;     ///< file that receives the actual operations address once ready; empty = none
  std::optional<kube::LeaderElectionOptions> election;  ///< none = works without leader election
};

struct RunOptions {
  CoreOptions controller;  ///< runCommand sets its election from the fields below
  std::string kubeconfig;
  std::string context;
  std::optional<bool> leaderElect;    ///< none = true in a cluster, otherwise false
  kube::LeaderElectionOptions lease;  ///< empty namespace: the pod's or the context's; empty identity: host and uuid
};

struct StandaloneOptions {
  CoreOptions controller;
  std::string nodes;  ///< path of nodes.yaml
  std::string data;   ///< folder; empty = in memory
  std::string listen = "127.0.0.1:7443";
  std::string writeKubeconfig;  ///< file; empty = none
};

/// Credentials of the commands that query the controller.
struct CallerOptions {
  std::string token, tokenFile;     ///< at most one of these, or
  std::string kubeconfig, context;  ///< the credentials of a kubeconfig; both empty = no token
};

/// defrag: a question to the running controller.
struct QuestionOptions {
  std::string question;  ///< name of the path
  std::string server = "http://127.0.0.1:9440";
  CallerOptions caller;
  std::vector<std::pair<std::string, std::string>> fields;  ///< fields of the query, in order
  std::string file;              ///< claims, Pods or a question as YAML or JSON; "-" = standard input
  std::string output = "table";  ///< table | wide | json | yaml
  std::string color = "auto";    ///< auto | always | never
};

/// Moves claims as planned by /defrag.
struct DefragOptions {
  QuestionOptions question;
  bool execute = false;  ///< false = only show the plan
};

/// Reads a decision journal.
struct JournalOptions {
  std::string folder;
  std::string claim;             ///< only decisions for this claim, [NAMESPACE/]NAME; empty = all
  bool all = false;              ///< also show changes of the cluster
  bool replay = false;           ///< repeat the decisions instead of showing them
  std::string policy;            ///< policy for the replay; empty = as recorded
  std::string output = "table";  ///< table | json
};

/// Exit status of a process that lost its lease: its work was cut off and another replica leads. Restart it.
inline constexpr int kLeaseLost = 3;

/// Each command returns the exit status of the process. It blocks until done or SIGTERM/SIGINT, and cleans up.
int runCommand(const RunOptions& options);
int standaloneCommand(const StandaloneOptions& options);
int questionCommand(const QuestionOptions& options);
int defragCommand(const DefragOptions& options);
int journalCommand(const JournalOptions& options);

}  // namespace egpu::cmd

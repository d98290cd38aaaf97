// What the flags say, as values. Parsing is main's; each command takes one of these.
#pragma once

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

namespace egpu::cmd {

/// Where the built-in provisioners lie beside the running executable.
inline std::string defaultPluginFolder() { return base::executableFolder() + "/../lib/provisioners"; }

struct LogOptions {
  std::string level = "info";   ///< debug | info | warn | error | off
  std::string format = "text";  ///< text | json
};

inline constexpr int64_t kMostCardSeries = 2'000;  ///< cards; more have no series of their own

inline constexpr int64_t kJournalBytes = int64_t{256} << 20;

/// For schedulers that choose nodes themselves.
struct ExtenderOptions {
  std::string listen;                     ///< empty = there is none
  http::TlsFiles tls;                     ///< all three, if it listens; and who may call
  std::vector<std::string> schedulers{};  ///< schedulerNames whose pods' nodes they choose
  /// Which flag is missing beside which; empty = none.
  std::string missing() const;
};

/// What the controller needs in either mode.
struct CoreOptions {
  std::size_t workers = 16;
  std::string plugins;      ///< folder of provisioners; empty = ../lib/provisioners beside the executable
  std::string pluginState;  ///< folder for plugins' host files; empty = their own default
  plugin::Limits pluginLimits;
  std::vector<std::string> pluginHidden;  ///< files and folders that no plugin may read, besides the usual ones
  std::string opsListen = "127.0.0.1:9440";
  bool opsAuth = true;       ///< the API server is asked who may ask; false only on loopback
  std::string probesListen;  ///< empty = the host of opsListen and the port after its; any free one if that is 0
  bool cardMetrics = false;  ///< series per card in /metrics, of at most kMostCardSeries cards
  std::string journal;       ///< folder of the decision journal; empty = none
  int64_t journalBytes = kJournalBytes;
  int64_t reservedFreeCards = 10;  ///< percent of a small cluster's free cards that a reserved node may withhold
  /// Names of the schedulers that are served beside the extender's; empty = default-scheduler.
  std::vector<std::string> schedulers;
  ExtenderOptions extender;
  std::string writeProbesAddress;  ///< as writeOpsAddress
  std::string writeOpsAddress;     ///< file that gets the real operations address once ready; empty = none
  std::optional<kube::LeaderElectionOptions> election;  ///< none = works whoever else does
};

struct RunOptions {
  CoreOptions controller;  ///< its election is made of what follows
  std::string kubeconfig;
  std::string context;
  std::optional<bool> leaderElect;    ///< none = in a cluster yes, outside no
  kube::LeaderElectionOptions lease;  ///< empty namespace: the pod's or the context's; empty identity: host and uuid
};

struct StandaloneOptions {
  CoreOptions controller;
  std::string nodes;  ///< nodes.yaml
  std::string data;   ///< folder; empty = in memory
  std::string listen = "127.0.0.1:7443";
  std::string writeKubeconfig;  ///< file; empty = none
};

/// How the commands that ask prove who they are.
struct CallerOptions {
  std::string token, tokenFile;     ///< at most one of these, or
  std::string kubeconfig, context;  ///< the credentials of a kubeconfig; both empty = no token
};

struct MapOptions {
  std::string server = "http://127.0.0.1:9440";
  CallerOptions caller;
  std::string node;
  bool idle = false;             ///< only nodes without a claim
  std::string output = "table";  ///< table | wide | json | yaml | backendai
  std::string color = "auto";    ///< auto | always | never
};

/// explain, simulate, forecast and defrag: a question to the running controller.
struct QuestionOptions {
  std::string question;  ///< the path's name
  std::string server = "http://127.0.0.1:9440";
  CallerOptions caller;
  std::vector<std::pair<std::string, std::string>> fields;  ///< the query's, in their order
  std::string file;              ///< claims, Pods or a question as YAML or JSON; "-" = standard input
  std::string output = "table";  ///< table | wide | json | yaml
  std::string color = "auto";    ///< auto | always | never
};

/// Moves claims as /defrag plans it.
struct DefragOptions {
  QuestionOptions question;
  bool execute = false;  ///< false = only shows the plan
};

/// Reads a decision journal.
struct JournalOptions {
  std::string folder;
  std::string claim;             ///< only decisions for this one, [NAMESPACE/]NAME; empty = all
  bool all = false;              ///< changes of the cluster, too
  bool replay = false;           ///< decide anew instead of showing
  std::string policy;            ///< under this one; empty = as recorded
  std::string output = "table";  ///< table | json
};

/// Exit status of a process that lost its lease: its work was cut off, another one leads, start it again.
inline constexpr int kLeaseLost = 3;

/// Each returns the process's exit status. They block until done or SIGTERM/SIGINT, and leave nothing behind.
int runCommand(const RunOptions& options);
int standaloneCommand(const StandaloneOptions& options);
int mapCommand(const MapOptions& options);
int questionCommand(const QuestionOptions& options);
int defragCommand(const DefragOptions& options);
int journalCommand(const JournalOptions& options);

}  // namespace egpu::cmd

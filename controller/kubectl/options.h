// The values of the flags of `kubectl egpu`. Its main program parses them; each verb takes one of these structs.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace egpu::kubectl {

/// Exit statuses of all verbs.
inline constexpr int kDone = 0;      ///< done; for a question: the answer is positive
inline constexpr int kFailed = 1;    ///< an error, such as a missing right or object
inline constexpr int kUsage = 2;     ///< wrong usage
inline constexpr int kNegative = 3;  ///< answered: `check` has found an error, or what `try` tries does not fit

/// Connection to the API server, as kubectl's flags of the same names.
struct ClientFlags {
  std::string kubeconfig, context;  ///< empty = as kubectl
  std::string namespace_;           ///< empty = the context's
  bool allNamespaces = false;
  std::string asUser;                ///< --as: impersonated user; empty = none
  std::vector<std::string> asGroup;  ///< --as-group
  std::string token;                 ///< empty = the kubeconfig's credentials
  std::string server;                ///< empty = the kubeconfig's
};

struct OutputFlags {
  std::string output;  ///< empty = table; wide | json | yaml, and what a verb adds
  bool noHeaders = false;
  std::string color = "auto";  ///< auto | always | never
};

struct VerbOptions {
  ClientFlags client;
  OutputFlags output;
};

struct MapOptions : VerbOptions {
  std::string node;   ///< empty = all
  bool idle = false;  ///< only nodes without a claim
};

struct WhyOptions : VerbOptions {
  std::string subject;  ///< NAME, pod/NAME or claim/NAME
};

struct TopOptions : VerbOptions {
  std::string claim;                 ///< empty = all claims of the namespace
  bool watch = false;                ///< print again at each interval, until interrupted
  std::chrono::seconds interval{5};  ///< at least 1 s
};

/// fit and try.
struct QuestionOptions : VerbOptions {
  std::vector<std::pair<std::string, std::string>> fields;  ///< fields of the query, in their order
  std::string file;                                         ///< manifests; "-" = standard input; empty = none
  bool explain = false;                                     ///< try: counts per stage, instead of the place
};

struct DrainCardOptions : VerbOptions {
  std::string card;      ///< name of an ElasticGPU
  bool execute = false;  ///< false = only show the plan
  bool undo = false;     ///< offer the card again
  std::chrono::seconds timeout{600};
};

struct CheckOptions : VerbOptions {
  bool wait = false;                  ///< repeat until nothing is wrong, or the time is over
  std::chrono::seconds timeout{300};  ///< with wait
};

struct BundleOptions : VerbOptions {
  std::string file;    ///< archive to write; empty = egpu-bundle-<time>.tar.gz in the current folder; "-" = stdout
  int logLines = 500;  ///< per pod of the installation; 0 = no logs
};

struct BillOptions {
  OutputFlags output;                ///< also csv | opencost
  std::vector<std::string> folders;  ///< folders of decision journals; empty = ask the controller
  std::string controller;            ///< address of the controller's operations; empty = read the folders
  ClientFlags client;                ///< credentials for the controller: kubeconfig, context and token
  std::string from, to;              ///< date or RFC 3339; empty = all that the journal has
  std::vector<std::string> by;       ///< fields of the rows; empty = namespace, class, claim, pod
  std::vector<std::string> prices;   ///< PRICE or MODEL=PRICE, of a card for an hour
  std::string namespace_;            ///< only rows of this namespace; empty = all rows
  std::string cluster;               ///< property of OpenCost's allocations; empty = none
};

}  // namespace egpu::kubectl

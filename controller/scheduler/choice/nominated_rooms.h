// Nominated capacity of requests that are served together, tried on copies of its nodes and on a copy of the quotas. A
// victim concerns its own node, and the quotas if they count it. One try evaluates no more than that, so the cost of a
// plan is linear in its victims.
//
// Two nodes, a request on each, victims a and b on the first node and c on the second:
//
//   release({a, b, c})   all go: do both requests fit?
//   spare(a)             a gets its allocation back: does the first request still fit? then a stays, else it is needed
//   spare(b), spare(c)   likewise, beside those that stay
//
// Pure, not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

class NominatedRooms {
 public:
  /// book: quotas of the claims' namespace.
  explicit NominatedRooms(QuotaBook book = {}) : book_(std::move(book)) {}

  /// Adds a request with its room on that node, which is copied once. claim: the claim that quotas count it for, if
  /// they do.
  void add(const Cluster& from, const std::string& node, const Request& request, std::optional<QuotaClaim> claim);
  /// The copy of the node; null: no room is on it.
  Cluster* find(const std::string& node);

  /// Releases the allocations of these victims (uids of devices). False: the requests do not all fit even so. Called
  /// once, after all add().
  bool release(const std::vector<std::string>& victims);
  /// Restores the allocation of a released victim if all requests fit beside it. False: the victim is needed, and stays
  /// released.
  bool spare(const std::string& victim);
  /// The same of victims that stay together or leave together.
  bool spareAll(const std::vector<std::string>& victims);
  /// Where each request was placed when all fitted last, in the order of add().
  std::vector<Decision> decisions() const;
  /// How often the requests of one node were placed.
  std::size_t tries() const { return tries_; }

 private:
  struct Placed {
    std::vector<Decision> decisions;  ///< one per request
    std::vector<QuotaAsked> asked;    ///< by those of them that quotas count
  };
  struct Node {
    Cluster cluster;
    std::vector<Request> requests;
    std::vector<std::optional<QuotaClaim>> claims;  ///< claim of each request, if quotas count it
    Placed placed;                                  ///< when they all fitted last
  };
  struct Released {
    std::string node;  ///< empty: on none of the nodes
    std::vector<Holding> holdings;
    QuotaBook::Withdrawn quota;
  };
  void take(const std::string& victim, Released& of);
  void giveBack(const std::string& victim, const Released& of);
  /// All requests fit beside this victim, which has its holdings back.
  bool fitBeside(const Released& of);
  /// The node's requests on it as it is now; nothing: they do not all fit.
  std::optional<Placed> place(Node& node, const std::string& name);
  bool placeAll();
  bool withinQuotas() const;

  QuotaBook book_;
  std::map<std::string, Node> nodes_;
  std::vector<std::pair<std::string, std::size_t>> added_;  ///< node of each request, and its position there
  std::unordered_map<std::string, Released> released_;      ///< by uid of the victim
  std::size_t tries_ = 0;
};

}  // namespace egpu::scheduler

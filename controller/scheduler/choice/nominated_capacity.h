// Nominated capacity of requests that are placed together, tried on copies of its nodes and of the quotas. A victim
// affects only its own node, and the quotas that count it. A try evaluates no more than these, so the cost of a plan is
// linear in its victims. Pure, not thread-safe.
//
// Two nodes, a request on each, victims a and b on the first node and c on the second:
//
//   release({a, b, c})   releases all: do both requests fit?
//   spare(a)             restores a: if the first request still fits, a is spared, otherwise it is needed
//   spare(b), spare(c)   as before, beside the spared victims
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

class NominatedCapacity {
 public:
  /// book: quotas of the claims' namespace.
  explicit NominatedCapacity(QuotaBook book = {}) : book_(std::move(book)) {}

  /// Adds a request with its node, which is copied once. claim: the claim that quotas count, if any.
  void add(const Cluster& from, const std::string& node, const Request& request, std::optional<QuotaClaim> claim);
  /// Returns the copy of the node, or null if no request was added for it.
  Cluster* find(const std::string& node);

  /// Releases the allocations of these victims (device uids). Returns false if the requests still do not all fit. Call
  /// it once, after all add().
  bool release(const std::vector<std::string>& victims);
  /// Restores a released victim if all requests fit beside it. Returns false if the victim is needed; it then remains
  /// released.
  bool spare(const std::string& victim);
  /// As spare(), for victims that must be spared or evicted together.
  bool spareAll(const std::vector<std::string>& victims);
  /// Returns the placements of the last successful try, in the order of add().
  std::vector<Decision> decisions() const;
  /// Number of times that the requests of a node were placed.
  std::size_t tries() const { return tries_; }

 private:
  struct Placed {
    std::vector<Decision> decisions;  ///< one per request
    std::vector<QuotaAsked> asked;    ///< for the requests that quotas count
  };
  struct Node {
    Cluster cluster;
    std::vector<Request> requests;
    std::vector<std::optional<QuotaClaim>> claims;  ///< claim of each request, if quotas count it
    Placed placed;                                  ///< placements of the last successful try
  };
  struct Released {
    std::string node;  ///< empty = on none of the nodes
    std::vector<Holding> holdings;
    QuotaBook::Withdrawn quota;
  };
  void take(const std::string& victim, Released& of);
  void giveBack(const std::string& victim, const Released& of);
  /// True if all requests fit beside this victim after its holdings were restored.
  bool fitBeside(const Released& of);
  /// Places the node's requests on its present copy; nullopt if they do not all fit.
  std::optional<Placed> place(Node& node, const std::string& name);
  bool placeAll();
  bool withinQuotas() const;

  QuotaBook book_;
  std::map<std::string, Node> nodes_;
  std::vector<std::pair<std::string, std::size_t>> added_;  ///< node of each request, and its position there
  std::unordered_map<std::string, Released> released_;      ///< by the victim's uid
  std::size_t tries_ = 0;
};

}  // namespace egpu::scheduler

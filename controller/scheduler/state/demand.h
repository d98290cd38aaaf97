// Learns the recent demand: classes of the observed requests, with weights that decay with age. Learns online, one
// request at a time, without look-ahead. Pure value: copied with the cluster, deterministic.
//
// The weight of a request is 1 when it is observed, and 0.9 after 200 further requests (0.9 per 200, continuously), so
// the total weight converges to some 1,900. Requests with equal amounts, models, CPU and memory are of one class.
// Policies, pins, quotas and limits of claims are not part of the demand.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

class Demand {
 public:
  static constexpr int64_t kMin = 20;       ///< the demand is unknown before this number of requests
  static constexpr std::size_t kMax = 512;  ///< number of classes kept, the heaviest; reduced every kWindow requests
  static constexpr int64_t kWindow = 200;   ///< number of requests in which a weight falls to …
  static constexpr double kFactor = 0.9;    ///< … this fraction
  static constexpr double kForgotten = 1.0 / 64;  ///< classes of less weight are dropped

  struct Class {
    const Request& request;  ///< its first request, without policies, pins and limits
    std::size_t hash;        ///< demandHash() of the request
    double weight;           ///< sum of the decayed weights of its requests
  };

  void observe(const Request& request);

  /// Save and restore the whole state: later requests are learned as if it had never been interrupted.
  Learned learned() const;
  void learn(const Learned& learned);

  /// Number of observed requests, without decay.
  int64_t seen() const { return seen_; }
  bool known() const { return seen_ >= kMin; }
  /// Sum of the weights of all classes.
  double total() const;
  /// Classes by weight, the heaviest first; ties: the class observed first. Empty until known(). Valid until the next
  /// observe().
  std::vector<Class> classes() const;
  /// Calls f(const Request&, std::size_t hash, double weight) for every class, in the order of their first observation.
  template <class F>
  void each(F f) const {
    for (const WeightedRequest& entry : entries_) f(entry.request, entry.hash, entry.weight / unit_);
  }

 private:
  struct WeightedRequest {
    Request request;
    std::size_t hash = 0;
    double weight = 0;  ///< in units of `unit_`
  };
  std::vector<const WeightedRequest*> heaviestFirst() const;
  void tidy();
  void findAgain();

  std::vector<WeightedRequest> entries_;                      ///< in the order of first observation
  std::unordered_multimap<std::size_t, std::size_t> places_;  ///< positions in entries_, by demandHash()
  int64_t seen_ = 0;
  double unit_ = 1;  ///< weight of a request observed now; grows instead of shrinking all others
};

/// True if two requests are of one class.
bool sameDemand(const Request& a, const Request& b);
/// Equal for requests of one class. Valid within one process only.
std::size_t demandHash(const Request& request);

}  // namespace egpu::scheduler

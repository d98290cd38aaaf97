// What is asked for lately: the classes of the requests seen, older ones counting less and less. Learned online, one
// request at a time; it never looks ahead. Pure value: copied with the cluster, deterministic.
//
// The window decays: a request counts 1 when it is seen and 0.9 after 200 further ones (0.9 per 200, without steps), so
// that some 1,900 requests' worth is remembered. Requests are of one class if they ask for the same: amounts, models,
// CPU and memory; policies, pins, quotas and limits on claims are no demand.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

class Demand {
 public:
  static constexpr int64_t kLeast = 20;           ///< before so many requests nothing is said to be known
  static constexpr std::size_t kMost = 512;       ///< classes kept: the heaviest, tidied every kWindow requests
  static constexpr int64_t kWindow = 200;         ///< in so many requests a weight falls to …
  static constexpr double kFactor = 0.9;          ///< … this part of itself
  static constexpr double kForgotten = 1.0 / 64;  ///< a class of less weight is dropped

  struct Class {
    const Request& request;  ///< the first of it that was seen, without policies, pins and limits
    std::size_t hash;        ///< demandHash() of it
    double weight;           ///< Σ over its requests of what each still counts
  };

  void observe(const Request& request);

  /// All of it as values, and back: what comes later is learned as if nothing had happened in between.
  Learned learned() const;
  void learn(const Learned& learned);

  /// Requests seen, not decayed.
  int64_t seen() const { return seen_; }
  bool known() const { return seen_ >= kLeast; }
  /// Σ of the weights of all classes.
  double total() const;
  /// The heaviest first; of equal ones that seen earlier. Empty until known(). Good until the next observe().
  std::vector<Class> classes() const;
  /// f(const Request&, std::size_t hash, double weight) for every class, in the order in which they were first seen.
  template <class F>
  void each(F f) const {
    for (const Entry& entry : entries_) f(entry.request, entry.hash, entry.weight / unit_);
  }

 private:
  struct Entry {
    Request request;
    std::size_t hash = 0;
    double weight = 0;  ///< in units of `unit_`
  };
  std::vector<const Entry*> heaviestFirst() const;
  void tidy();
  void findAgain();

  std::vector<Entry> entries_;                                ///< in the order in which they were first seen
  std::unordered_multimap<std::size_t, std::size_t> places_;  ///< in entries_, by hash of what is asked for
  int64_t seen_ = 0;
  double unit_ = 1;  ///< what a request seen now weighs: growing instead of letting all others shrink
};

/// Whether two requests ask for the same: of one class.
bool sameDemand(const Request& a, const Request& b);
/// Equal for requests of one class; the same within one run of the program only.
std::size_t demandHash(const Request& request);

}  // namespace egpu::scheduler

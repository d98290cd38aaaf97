// Texts why requests fit nowhere. Each reads all nodes, which takes long in a large cluster, so the step of a claim
// only requests its text. One step at a time makes the requested texts, under a queue key of its own (explainKey()),
// and requeues the keys that report them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe.
class Explainer {
 public:
  struct Text {
    std::string text;
    std::size_t nodes = 0;  ///< number of nodes that were read for it
  };
  using Explain = std::function<Text()>;
  /// A call of explain() begins no further text after it has read this number of nodes, so that one worker thread is
  /// not occupied for long.
  static constexpr std::size_t kMaxStepNodes = 10'000;

  Explainer(base::Clock& clock, const Timeouts& timeouts) : clock_(clock), timeouts_(timeouts) {}

  /// Text that was requested for the claim, once; nullopt if none is ready, or it is older than
  /// Timeouts::explainInterval.
  std::optional<std::string> take(const std::string& claimUid) EGPU_EXCLUDES(mutex_);
  /// Requests a text, instead of one that was requested before. `make` is called on another thread, possibly before
  /// this call returns: it must own all objects that it uses. Enqueue explainKey() afterwards. queueKey: requeued when
  /// the text is ready.
  void request(const std::string& claimUid, std::string queueKey, Explain make) EGPU_EXCLUDES(mutex_);
  /// Drops the claim's request and text.
  void forgetClaim(const std::string& claimUid) EGPU_EXCLUDES(mutex_);

  struct Explained {
    std::vector<std::string> queueKeys;  ///< to enqueue: their texts are ready
    bool isMoreRequested = false;        ///< call again
  };
  /// Makes requested texts, the first requested first. Call on one thread at a time.
  Explained explain() EGPU_EXCLUDES(mutex_);

  std::size_t claims() const EGPU_EXCLUDES(mutex_);

 private:
  struct Requested {
    uint64_t number = 0;  ///< unique per request
    std::string queueKey;
    Explain make;                     ///< null while it is called, and afterwards
    std::optional<std::string> text;  ///< set once ready
    base::Clock::Steady readyAt{};
  };
  /// Takes the next request that was not dropped or replaced. Nullopt if there is none.
  std::optional<std::pair<std::string, Requested>> next() EGPU_EXCLUDES(mutex_);
  /// Stores the text, unless the request was dropped or replaced meanwhile.
  bool store(const std::string& claimUid, uint64_t number, std::string text) EGPU_EXCLUDES(mutex_);

  base::Clock& clock_;
  const Timeouts& timeouts_;
  mutable base::Mutex mutex_;
  std::map<std::string, Requested> requested_ EGPU_GUARDED_BY(mutex_);          ///< by claim uid
  std::deque<std::pair<uint64_t, std::string>> order_ EGPU_GUARDED_BY(mutex_);  ///< request number, claim uid
  uint64_t numbers_ EGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace egpu::reconcile

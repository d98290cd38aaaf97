// What the API server refuses for reasons of its own (rights, quota, an admission policy) is said where its user looks,
// with the server's words. The step itself is tried again with back-off.
#pragma once

#include <map>
#include <mutex>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per key at a time.
class ApiRejections {
 public:
  ApiRejections(const cache::Stores& stores, ClaimStatus& status, kube::EventSink& events, base::Clock& clock)
      : stores_(stores), status_(status), events_(events), clock_(clock) {}

  /// The server understood the write and said no; trying again changes nothing by itself.
  static bool isRefusal(const base::Status& status);
  /// Something on the server's way fails (a webhook, most often): 500, which may pass.
  static bool isFailure(const base::Status& status) { return status.http == 500; }
  /// The key's step was refused, or failed for the third time in a row: a condition on the claim that it is about and
  /// an event, once per message and at most so often that changing messages (a quota's figures) don't make a loop.
  void note(const QueueKey& key, const base::Status& why, std::stop_token stop);
  /// The key's step did not fail so.
  void over(const std::string& queueKey);

 private:
  void sayOnPod(const core::ObjectKey& key, const std::string& message, std::stop_token stop);
  void sayOnClaim(const core::ObjectKey& key, const std::string& message, std::stop_token stop);
  template <class T>
  void event(const typename cache::Store<T>::Ptr& object, const std::string& message);

  const cache::Stores& stores_;
  ClaimStatus& status_;
  kube::EventSink& events_;
  base::Clock& clock_;
  std::mutex mutex_;
  struct Told {
    int failures = 0;
    std::string message;  ///< empty: nothing is told yet
    base::Clock::Steady at;
  };
  std::map<std::string, Told> told_;  ///< by queue key, of those that are refused or fail now; guarded by mutex_
};

}  // namespace egpu::reconcile

// Reports writes that the API server rejects for its own reasons (rights, quota, an admission policy) where the user
// looks, with the server's message. The step itself is retried with backoff.
#pragma once

#include <map>
#include <stop_token>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/timeouts.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per key at a time.
class ApiRejections {
 public:
  ApiRejections(const cache::Stores& stores, ClaimStatus& status, kube::EventSink& events, base::Clock& clock,
                const Timeouts& timeouts)
      : stores_(stores), status_(status), events_(events), clock_(clock), timeouts_(timeouts) {}

  /// True if the server processed the write and rejected it; a retry alone changes nothing.
  static bool isRefusal(const base::Status& status);
  /// True for 500: a component on the server's side fails, most often a webhook, perhaps temporarily.
  static bool isFailure(const base::Status& status) { return status.http == 500; }
  /// Reports that the key's step was refused, or failed for the third time in a row: a condition on its claim, and an
  /// event. Reports each message once, and at an interval, so that changing messages (a quota's figures) do not cause a
  /// loop.
  void note(const QueueKey& key, const base::Status& why, std::stop_token stop);
  /// Records that the key's step was neither refused nor failed.
  void over(const std::string& queueKey);

 private:
  /// Reports the message on the objects that the key concerns.
  void report(const QueueKey& key, const std::string& message, std::stop_token stop);
  void reportOnPod(const core::ObjectKey& key, const std::string& message, std::stop_token stop);
  void reportOnClaim(const core::ObjectKey& key, const std::string& message, std::stop_token stop);
  template <class T>
  void event(const typename cache::Store<T>::Ptr& object, const std::string& message);

  const cache::Stores& stores_;
  ClaimStatus& status_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  base::Mutex mutex_;
  struct ReportedRejection {
    int failures = 0;
    std::string message;  ///< empty: nothing is reported yet
    base::Clock::Steady at;
  };
  std::map<std::string, ReportedRejection> reported_
      EGPU_GUARDED_BY(mutex_);  ///< by queue key, only keys that are refused or fail now
};

}  // namespace egpu::reconcile

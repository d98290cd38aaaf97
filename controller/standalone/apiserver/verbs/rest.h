// REST verbs: get, list, watch, create, update, patch, delete, deletecollection, pods/binding and pods/eviction.
#pragma once

#include <chrono>

#include "controller/standalone/apiserver/show/view.h"
#include "controller/standalone/apiserver/verbs/call.h"
#include "controller/standalone/apiserver/verbs/deletion.h"
#include "controller/standalone/apiserver/verbs/prepare.h"
#include "controller/standalone/apiserver/verbs/priority.h"
#include "controller/standalone/apiserver/verbs/selectors.h"

namespace egpu::apiserver {

/// Executes requests. Thread-safe. Throws only ApiError, and std::bad_alloc if memory is exhausted.
class Rest {
 public:
  /// priorities: null = pods keep the priority in their spec.
  Rest(Store& store, const Preparation& preparation, const PriorityAdmission* priorities, Deletion& deletion,
       base::Clock& clock, base::Random& random, std::chrono::milliseconds bookmarkInterval);
  http::Response serve(const RequestInfo& call);

 private:
  // rest_read.cpp
  http::Response get(const RequestInfo& call);
  http::Response list(const RequestInfo& call);
  http::Response watch(const RequestInfo& call);
  Selector selectorOf(const RequestInfo& call) const;
  // rest_write.cpp
  http::Response create(const RequestInfo& call);
  http::Response replace(const RequestInfo& call);
  http::Response patch(const RequestInfo& call);
  http::Response bind(const RequestInfo& call);
  // rest_delete.cpp
  http::Response remove(const RequestInfo& call);
  /// pods/eviction. Deletes the pod, because this server has no disruption budgets.
  http::Response evict(const RequestInfo& call);
  http::Response removeCollection(const RequestInfo& call);

  /// Replaces `old` with `body`, or removes the object if `body` completes its deletion, and then handles its
  /// dependents. Returns null if `old` is no longer current.
  ObjectPtr put(const RequestInfo& call, const ObjectPtr& old, Json body);
  http::Response answer(const RequestInfo& call, const Object& object, int status, const Warnings& warnings);
  /// Returns the response for an object that was not stored (dry run).
  http::Response answerDry(const RequestInfo& call, const Json& body, const std::string& version, int status,
                           const Warnings& warnings);

  Store& store_;
  const Preparation& preparation_;
  const PriorityAdmission* const priorities_;
  Deletion& deletion_;
  base::Clock& clock_;
  base::Random& random_;
  const std::chrono::milliseconds bookmarkInterval_;
};

}  // namespace egpu::apiserver

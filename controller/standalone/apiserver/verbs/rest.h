// The verbs: get, list, watch, create, update, patch, delete, deletecollection, and pods/binding.
#pragma once

#include <chrono>

#include "controller/standalone/apiserver/show/view.h"
#include "controller/standalone/apiserver/verbs/call.h"
#include "controller/standalone/apiserver/verbs/deletion.h"
#include "controller/standalone/apiserver/verbs/prepare.h"
#include "controller/standalone/apiserver/verbs/priority.h"
#include "controller/standalone/apiserver/verbs/selectors.h"

namespace egpu::apiserver {

/// Thread-safe. Throws ApiError; nothing else escapes but what the machine can't do (memory).
class Rest {
 public:
  /// priorities may be null: pods then have the priority that they are given.
  Rest(Store& store, const Preparation& preparation, const PriorityAdmission* priorities, Deletion& deletion,
       base::Clock& clock, base::Random& random, std::chrono::milliseconds bookmarkInterval);
  http::Response serve(const Call& call);

 private:
  // rest_read.cpp
  http::Response get(const Call& call);
  http::Response list(const Call& call);
  http::Response watch(const Call& call);
  Selector selectorOf(const Call& call) const;
  // rest_write.cpp
  http::Response create(const Call& call);
  http::Response replace(const Call& call);
  http::Response patch(const Call& call);
  http::Response bind(const Call& call);
  // rest_delete.cpp
  http::Response remove(const Call& call);
  /// pods/eviction. There are no budgets here: what is asked for goes.
  http::Response evict(const Call& call);
  http::Response removeCollection(const Call& call);

  /// Stores `body` in place of `old` (removes it if that ends a deletion) and carries out the consequences. Null: `old`
  /// is not current any more.
  ObjectPtr put(const Call& call, const ObjectPtr& old, Json body);
  http::Response answer(const Call& call, const Object& object, int status, const Warnings& warnings);
  /// An object that was not stored (dry run).
  http::Response answerDry(const Call& call, const Json& body, const std::string& version, int status,
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

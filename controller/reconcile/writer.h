// Every write to the API server goes through here, so that the stores know at once what was answered (read your writes)
// and a refused write is followed by the read that the next step needs.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/cache/stores.h"
#include "controller/codec/patch.h"
#include "controller/kube/client.h"
#include "controller/reconcile/status_alternations.h"

namespace egpu::reconcile {

/// Writes objects of the kinds that writer.cpp names. Thread-safe. All references must outlive it.
class Writer {
 public:
  Writer(kube::Client& client, cache::Stores& stores, StatusAlternations& alternations)
      : client_(client), stores_(stores), alternations_(alternations) {}

  template <class T>
  base::Result<T> create(const T& object, std::stop_token stop);
  /// Patches the object that `object` was read as. conflict, notFound and unknownOutcome: it is read again before
  /// returning. throttled without a write: this status alternates; retryAfter says when it may be written.
  template <class T>
  base::Result<T> patch(const T& object, std::string_view body, std::string_view subresource, std::stop_token stop,
                        kube::PatchType type = kube::PatchType::merge);
  /// Deletes exactly the object that was read: uid and resourceVersion are preconditions. The stores then know whether a
  /// finalizer keeps it, from the answer or a read. after, unless null: a read after the deletion.
  template <class T>
  base::Status remove(const T& object, std::stop_token stop, base::Result<T>* after = nullptr);
  /// Quorum read. notFound: `uid` (may be empty) is known to be gone; another uid found says so too.
  template <class T>
  base::Result<T> read(const core::ObjectKey& key, std::string_view uid, std::stop_token stop);
  /// read() of each of these claims, which are of one namespace: where there are more than a few, one list of it, whose size is
  /// the namespace's. That some are gone is no error. The stores know those alone.
  static constexpr std::size_t kFewReads = 4;  ///< number of claims up to which reads are cheaper than a list
  base::Status readAll(std::span<const cache::Store<cache::Claim>::Ptr> claims, std::stop_token stop);

  kube::Client& client() { return client_; }

 private:
  template <class T>
  base::Result<T> seen(const core::ObjectKey& key, std::string_view uid, base::Result<T> result, std::stop_token stop);

  kube::Client& client_;
  cache::Stores& stores_;
  StatusAlternations& alternations_;
};

}  // namespace egpu::reconcile

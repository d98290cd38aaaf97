// All writes to the API server. The stores get each answer at once (read your writes), and a rejected write is followed
// by the read that the next step needs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "controller/cache/stores.h"
#include "controller/codec/patch.h"
#include "controller/kube/client.h"
#include "controller/reconcile/status_alternations.h"

namespace egpu::reconcile {

/// A quorum read of some claims of one namespace by a list, page by page in several steps. The claims are fixed at the
/// start: a claim that is created later is on no page, but exists.
struct ClaimListing {
  explicit ClaimListing(std::span<const cache::Store<cache::Claim>::Ptr> claims);
  std::string namespace_;
  std::map<std::string, core::ObjectKey> wanted;  ///< by uid
  std::set<std::string> found;                    ///< uids of the wanted claims on the pages so far
  std::string continueToken;
};

/// Writes objects of the kinds that writer.cpp names. Thread-safe. All references must outlive it.
class Writer {
 public:
  Writer(kube::Client& client, cache::Stores& stores, StatusAlternations& alternations)
      : client_(client), stores_(stores), alternations_(alternations) {}

  template <class T>
  base::Result<T> create(const T& object, std::stop_token stop);
  /// Patches the version that `object` holds. conflict, notFound and unknownOutcome: reads the object again before
  /// returning. throttled without a write: this status alternates; retryAfter is the time until it may be written.
  template <class T>
  base::Result<T> patch(const T& object, std::string_view body, std::string_view subresource, std::stop_token stop,
                        kube::PatchType type = kube::PatchType::merge);
  /// Deletes exactly the version that was read: uid and resourceVersion are preconditions. The stores then know from
  /// the answer, or a read, whether a finalizer keeps the object. after, unless null: result of a read after the
  /// deletion.
  template <class T>
  base::Status remove(const T& object, std::stop_token stop, base::Result<T>* after = nullptr);
  /// Reads by quorum. notFound: `uid` (may be empty) is recorded as gone. So it is if the object found has another uid.
  template <class T>
  base::Result<T> read(const core::ObjectKey& key, std::string_view uid, std::stop_token stop);
  /// Reads each of these claims, which are of one namespace. For more than kFewReads, lists the namespace instead, at
  /// the cost of its size. Claims that are gone are no error. The stores get these claims only.
  static constexpr std::size_t kFewReads = 4;  ///< number of claims up to which reads are cheaper than a list
  base::Status readAll(std::span<const cache::Store<cache::Claim>::Ptr> claims, std::stop_token stop);
  /// Reads the next page of the list; the stores get the wanted claims on it. Returns true if it was the last page:
  /// wanted claims that were on no page are recorded as gone.
  base::Result<bool> readPage(ClaimListing& listing, std::stop_token stop);
  /// Reads one claim by quorum and returns the version of all claims at that time: a cache that was informed up to it
  /// is as current as a quorum read of any of them.
  base::Result<uint64_t> currentVersion(const cache::Claim& claim, std::stop_token stop);

  kube::Client& client() { return client_; }

 private:
  template <class T>
  base::Result<T> seen(const core::ObjectKey& key, std::string_view uid, base::Result<T> result, std::stop_token stop);

  kube::Client& client_;
  cache::Stores& stores_;
  StatusAlternations& alternations_;
};

}  // namespace egpu::reconcile

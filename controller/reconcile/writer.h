// Every write to the API server goes through here, so that the stores know at once what was answered (read your writes)
// and a refused write is followed by the read that the next step needs.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "controller/cache/stores.h"
#include "controller/codec/patch.h"
#include "controller/kube/client.h"

namespace egpu::reconcile {

/// Thread-safe. Client and stores must outlive it.
class Writer {
 public:
  Writer(kube::Client& client, cache::Stores& stores) : client_(client), stores_(stores) {}

  template <class T>
  base::Result<T> create(const T& object, std::stop_token stop) {
    return seen<T>(core::keyOf(object.metadata), {}, client_.create<T>(object, stop), stop);
  }
  /// Patches the object that `object` was read as. conflict, notFound and unknownOutcome: it is read again before
  /// returning.
  template <class T>
  base::Result<T> patch(const T& object, std::string_view body, std::string_view subresource, std::stop_token stop,
                        kube::PatchType type = kube::PatchType::merge) {
    const auto key = core::keyOf(object.metadata);
    return seen<T>(key, object.metadata.uid, client_.patch<T>(key, type, body, subresource, stop), stop);
  }
  /// Deletes exactly the object that was read: uid and resourceVersion are preconditions. Reads again, as finalizers
  /// may keep it.
  template <class T>
  base::Status remove(const T& object, std::stop_token stop) {
    const auto key = core::keyOf(object.metadata);
    const auto options = codec::patch::deleteOptions(object.metadata.uid, object.metadata.resourceVersion);
    auto status = client_.remove<T>(key, options, stop);
    auto now = read<T>(key, object.metadata.uid, stop);
    if (status.code() == base::Code::notFound) return {};
    return status;
  }
  /// Quorum read. notFound: `uid` (may be empty) is known to be gone; another uid found says so too.
  template <class T>
  base::Result<T> read(const core::ObjectKey& key, std::string_view uid, std::stop_token stop) {
    auto result = client_.get<T>(key, stop);
    if (result.ok()) {
      if (!uid.empty() && result->metadata.uid != uid) stores_.observedGone<T>(key, uid);
      stores_.observed(*result);
    } else if (result.status().code() == base::Code::notFound && !uid.empty()) {
      stores_.observedGone<T>(key, uid);
    }
    return result;
  }

  kube::Client& client() { return client_; }

 private:
  template <class T>
  base::Result<T> seen(const core::ObjectKey& key, std::string_view uid, base::Result<T> result, std::stop_token stop) {
    if (result.ok()) {
      // An object whose last finalizer goes while it is being deleted is answered once more and then is no more.
      const auto& meta = result->metadata;
      if (meta.deleting() && meta.finalizers.empty())
        stores_.observedGone<T>(key, meta.uid);
      else
        stores_.observed(*result);
      return result;
    }
    switch (result.status().code()) {
      case base::Code::conflict:
      case base::Code::alreadyExists:
      case base::Code::notFound:
      case base::Code::unknownOutcome:
      case base::Code::deadline: {
        auto now = read<T>(key, uid, stop);
        break;
      }
      default:
        break;
    }
    return result;
  }

  kube::Client& client_;
  cache::Stores& stores_;
};

}  // namespace egpu::reconcile

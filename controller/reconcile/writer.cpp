#include "controller/reconcile/writer.h"

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace egpu::reconcile {

namespace {
/// True if a status that returns to earlier contents shows two steps that undo each other. A quota's status does not:
/// it counts claims, and returns to earlier values as claims come and go.
template <class T>
constexpr bool kMayAlternate = !std::is_same_v<T, cache::Quota>;
}  // namespace

ClaimListing::ClaimListing(std::span<const cache::Store<cache::Claim>::Ptr> claims)
    : namespace_(claims.front()->metadata.namespace_) {
  for (const auto& each : claims) wanted[each->metadata.uid] = core::keyOf(each->metadata);
}

template <class T>
base::Result<T> Writer::create(const T& object, std::stop_token stop) {
  return seen<T>(core::keyOf(object.metadata), {}, client_.create<T>(object, stop), stop);
}

template <class T>
base::Result<T> Writer::patch(const T& object, std::string_view body, std::string_view subresource,
                              std::stop_token stop, kube::PatchType type) {
  const auto key = core::keyOf(object.metadata);
  const bool isChecked = kMayAlternate<T> && subresource == "status";
  if (const auto wait = isChecked ? alternations_.backoff(object.metadata, body) : std::chrono::milliseconds(0);
      wait.count() > 0) {
    base::Status later(base::Code::throttled, "the status of " + key.str() + " alternates and is written later");
    later.retryAfter = wait;
    return later;
  }
  auto written = seen<T>(key, object.metadata.uid, client_.patch<T>(key, type, body, subresource, stop), stop);
  if (isChecked && written.ok()) alternations_.wrote(core::kindOf<T>.kind, object.metadata, body);
  return written;
}

template <class T>
base::Status Writer::remove(const T& object, std::stop_token stop, base::Result<T>* after) {
  const auto key = core::keyOf(object.metadata);
  const auto options = codec::patch::deleteOptions(object.metadata.uid, object.metadata.resourceVersion);
  std::optional<T> left;
  auto status = client_.remove<T>(key, options, stop, &left);
  if (status.ok() && after == nullptr && left && left->metadata.uid == object.metadata.uid) {
    stores_.observed(*left);
    return status;
  }
  auto now = read<T>(key, object.metadata.uid, stop);
  if (after != nullptr) *after = std::move(now);
  if (status.code() == base::Code::notFound) return {};
  return status;
}

template <class T>
base::Result<T> Writer::read(const core::ObjectKey& key, std::string_view uid, std::stop_token stop) {
  auto result = client_.get<T>(key, stop);
  if (result.ok()) {
    if (!uid.empty() && result->metadata.uid != uid) stores_.observedGone<T>(key, uid);
    stores_.observed(*result);
  } else if (result.status().code() == base::Code::notFound && !uid.empty()) {
    stores_.observedGone<T>(key, uid);
  }
  return result;
}

base::Status Writer::readAll(std::span<const cache::Store<cache::Claim>::Ptr> claims, std::stop_token stop) {
  if (claims.size() <= kFewReads) {
    for (const auto& each : claims) {
      const auto now = read<cache::Claim>(core::keyOf(each->metadata), each->metadata.uid, stop);
      if (!now.ok() && now.status().code() != base::Code::notFound) return now.status();
    }
    return {};
  }
  ClaimListing listing(claims);
  for (;;) {
    const auto last = readPage(listing, stop);
    if (!last.ok()) return last.status();
    if (*last) return {};
  }
}

base::Result<bool> Writer::readPage(ClaimListing& listing, std::stop_token stop) {
  kube::ListOptions options;
  options.namespace_ = listing.namespace_;
  options.continueToken = listing.continueToken;
  options.onePage = true;
  std::vector<cache::Claim> page;
  const auto listed = client_.list<cache::Claim>(
      options,
      [&](cache::Claim&& claim) {
        if (listing.wanted.contains(claim.metadata.uid)) page.push_back(std::move(claim));
      },
      [&] {
        page.clear();
        listing.found.clear();
      },
      std::move(stop));
  if (!listed.ok()) return listed.status();
  for (const auto& claim : page) {
    listing.found.insert(claim.metadata.uid);
    stores_.observed(claim);
  }
  listing.continueToken = listed->continueToken;
  if (!listing.continueToken.empty()) return false;
  for (const auto& [uid, key] : listing.wanted)
    if (!listing.found.contains(uid)) stores_.observedGone<cache::Claim>(key, uid);
  return true;
}

base::Result<uint64_t> Writer::currentVersion(const cache::Claim& claim, std::stop_token stop) {
  kube::ListOptions options;
  options.namespace_ = claim.metadata.namespace_;
  options.fieldSelector = "metadata.name=" + claim.metadata.name;
  std::optional<cache::Claim> found;
  const auto listed = client_.list<cache::Claim>(
      options, [&found](cache::Claim&& each) { found = std::move(each); }, [&found] { found.reset(); },
      std::move(stop));
  if (!listed.ok()) return listed.status();
  if (found) stores_.observed(*found);
  if (!found || found->metadata.uid != claim.metadata.uid)
    stores_.observedGone<cache::Claim>(core::keyOf(claim.metadata), claim.metadata.uid);
  return cache::versionOf(listed->resourceVersion);
}

template <class T>
base::Result<T> Writer::seen(const core::ObjectKey& key, std::string_view uid, base::Result<T> result,
                             std::stop_token stop) {
  if (result.ok()) {
    // The API server answers once more with an object whose last finalizer was removed during deletion, but it is gone.
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

// NOLINTBEGIN(bugprone-macro-parentheses): a type can't stand in them.
#define EGPU_WRITER(T)                                                                                     \
  template base::Result<T> Writer::create<T>(const T&, std::stop_token);                                   \
  template base::Result<T> Writer::patch<T>(const T&, std::string_view, std::string_view, std::stop_token, \
                                            kube::PatchType);                                              \
  template base::Status Writer::remove<T>(const T&, std::stop_token, base::Result<T>*);                    \
  template base::Result<T> Writer::read<T>(const core::ObjectKey&, std::string_view, std::stop_token)
// NOLINTEND(bugprone-macro-parentheses)

EGPU_WRITER(cache::Gpu);
EGPU_WRITER(cache::Claim);
EGPU_WRITER(cache::Class);
EGPU_WRITER(cache::Quota);
EGPU_WRITER(core::Node);
EGPU_WRITER(core::Pod);
EGPU_WRITER(core::ResourceClaim);
EGPU_WRITER(cache::ClaimTemplate);
EGPU_WRITER(core::ResourceClaimTemplate);

}  // namespace egpu::reconcile

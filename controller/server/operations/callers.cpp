#include "controller/server/operations/callers.h"

#include <openssl/sha.h>

#include <optional>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/codec/review.h"

namespace egpu::server {

namespace {

constexpr std::size_t kMaxKnown = 1000;
constexpr std::chrono::seconds kPatience{10};  // wait for a free review slot
constexpr std::string_view kScheme = "bearer ";

/// Returns the bearer token; none if the header contains none.
std::optional<std::string> tokenOf(std::string_view authorization) {
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kScheme[i]) return std::nullopt;
  }
  authorization.remove_prefix(kScheme.size());
  const auto from = authorization.find_first_not_of(' ');
  if (from == std::string_view::npos) return std::nullopt;
  return std::string(authorization.substr(from));
}

Callers::CallerVerdict unreachable(const base::Status& why) {
  if (why.code() == base::Code::forbidden)
    return {503,
            "the caller can't be authenticated: the controller may not create tokenreviews and subjectaccessreviews "
            "(manifests/rbac/controller.yaml): " +
                why.message()};
  return {503, "the caller can't be authenticated, the API server does not answer: " + why.message()};
}

}  // namespace

Callers::CallerVerdict Callers::check(std::string_view authorization, std::string_view space, std::stop_token stop) {
  const auto token = tokenOf(authorization);
  if (!token)
    return {401,
            "a bearer token is needed: send \"Authorization: Bearer TOKEN\" with the token of a user or service "
            "account that may get elasticgpus (kubectl create token)"};
  // The length separates the parts, so that no token can count as another one for a namespace.
  const auto hashed = std::to_string(space.size()) + ":" + std::string(space) + *token;
  Digest digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(hashed.data()), hashed.size(), digest.data());
  bool lately = false;
  {
    base::MutexLock lock(mutex_);
    KnownToken* of = nullptr;
    bool counts = false;
    const auto isNext = [&]() EGPU_REQUIRES(mutex_) {
      of = known(digest);
      counts = of != nullptr && clock_.now() < of->until;
      return counts || (of != nullptr ? !of->asking : asking_ < kAtOnce);
    };
    if (!answered_.wait_for(lock, stop, kPatience, isNext))
      return {503, "too many callers to authenticate at once: try again"};
    if (counts) return of->verdict;
    lately = of != nullptr;
    if (!lately && !mayAsk()) return {503, "too many unknown callers within a second: try again"};
    if (lately)
      of->asking = true;
    else
      ++asking_;
  }
  auto verdict = review(*token, space, stop);
  {
    const base::MutexLock lock(mutex_);
    if (!lately) --asking_;
    if (KnownToken* of = known(digest); lately && of != nullptr) of->asking = false;
    remember(digest, verdict);
  }
  answered_.notify_all();
  return verdict;
}

/// Returns the entry of a recently answered token, whether its verdict is still valid or not.
Callers::KnownToken* Callers::known(const Digest& digest) {
  const auto it = known_.find(digest);
  return it != known_.end() && clock_.now() < it->second.lately ? &it->second : nullptr;
}

bool Callers::mayAsk() {
  const auto now = clock_.now();
  if (asked_ == 0 || now >= second_ + std::chrono::seconds(1)) {
    second_ = now;
    asked_ = 0;
  }
  return ++asked_ <= kPerSecond;
}

Callers::CallerVerdict Callers::review(const std::string& token, std::string_view space, std::stop_token stop) {
  const auto tokenAnswer = ask("/apis/authentication.k8s.io/v1/tokenreviews", codec::encodeTokenReview(token), stop);
  if (!tokenAnswer) return unreachable(tokenAnswer.status());
  const auto who = codec::decodeTokenReview(*tokenAnswer);
  if (!who) return unreachable(who.status());
  if (!who->authenticated)
    return {401, "the API server does not know this token" + (who->error.empty() ? "" : ": " + who->error)};
  const auto review =
      space.empty() ? codec::encodeAccessReview(who->user, "get", v1alpha::keys::kGroup, "elasticgpus")
                    : codec::encodeAccessReview(who->user, "list", v1alpha::keys::kGroup, "elasticgpuclaims", space);
  const auto accessAnswer = ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", review, stop);
  if (!accessAnswer) return unreachable(accessAnswer.status());
  const auto access = codec::decodeAccessReview(*accessAnswer);
  if (!access) return unreachable(access.status());
  if (access->allowed) return {};
  const auto reason = access->reason.empty() ? std::string() : ": " + access->reason;
  if (!space.empty())
    return {403, "user \"" + who->user.username +
                     "\" cannot list resource \"elasticgpuclaims\" in API group \"elasticgpu.io\" in the namespace \"" +
                     std::string(space) + "\", which is required for its bill (the role view of the namespace)" +
                     reason};
  return {403, "user \"" + who->user.username +
                   "\" cannot get resource \"elasticgpus\" in API group \"elasticgpu.io\" at the cluster scope, which "
                   "is required here (a ClusterRole with verb get, and a ClusterRoleBinding)" +
                   reason};
}

base::Result<std::string> Callers::ask(const std::string& path, std::string body, std::stop_token stop) {
  kube::HttpRequest request;
  request.method = kube::Method::post;
  request.target = path;
  request.body = std::move(body);
  auto answer = client_.call(std::move(request), std::move(stop));
  if (!answer) return answer.status();
  return std::move(answer->body);
}

void Callers::remember(const Digest& digest, const CallerVerdict& verdict) {
  if (verdict.status == 503) return;
  const auto now = clock_.now();
  const auto evictTokens = [&](base::Clock::Steady KnownToken::*end) EGPU_REQUIRES(mutex_) {
    if (known_.size() >= kMaxKnown) std::erase_if(known_, [&](const auto& each) { return each.second.*end <= now; });
  };
  evictTokens(&KnownToken::lately);
  evictTokens(&KnownToken::until);
  if (known_.size() >= kMaxKnown) known_.clear();
  if (verdict.status == 200)
    known_[digest] = {verdict, now + kAllowed, now + kLately};
  else
    known_[digest] = {verdict, now + kRefused, now + kRefused};
}

}  // namespace egpu::server

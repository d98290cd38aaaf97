#include "controller/agent/prepare/co_claims.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"

namespace egpu::agent {

namespace {

using base::Code;
using base::Result;
using base::Status;
using Names = std::vector<std::string>;

bool has(const Names& all, const std::string& name) { return std::find(all.begin(), all.end(), name) != all.end(); }

Use useOf(const core::Pod& pod, const core::Container& container) {
  Use use{"container " + container.name + " of pod " + pod.metadata.name, {}};
  for (auto& entry : v1alpha::podClaims(pod))
    if (has(container.resourceClaims, entry.name) && !entry.claim.empty() && !has(use.claims, entry.claim))
      use.claims.push_back(std::move(entry.claim));
  return use;
}

std::string text(const Names& all) {
  std::string out;
  for (const auto& each : all) out += (out.empty() ? "" : ", ") + each;
  return out;
}

Status refused(const std::string& last, const std::string& where, const Names& there, const std::string& elsewhere,
               const Names& others) {
  return {Code::invalid, "ResourceClaim " + last + " is the last of " + text(there) + " in " + where + ", and of " +
                             text(others) + " in " + elsewhere +
                             ": its variables can't describe both. Give each container the same claims, or list "
                             "last in spec.resourceClaims a claim that is always used with the same other claims"};
}

/// Reads the other claims of the containers from the API, each ResourceClaim once.
class Others {
 public:
  Others(kube::Client& client, CardReads& cards, const ClaimRef& claim, const std::string& node, std::stop_token stop)
      : client_(client), cards_(cards), claim_(claim), node_(node), stop_(std::move(stop)) {}

  /// True if the claim is allocated by another driver.
  bool foreign(const std::string& name) {
    if (name == claim_.name) return false;
    const auto& rc = resourceClaim(name);
    return rc && rc->allocation && rc->allocation->driver != v1alpha::keys::kDriver;
  }
  Result<AuthorizedDevice> authorizeClaim(const std::string& name) {
    const auto& rc = resourceClaim(name);
    if (!rc) return rc.status();
    std::vector<core::ObjectReference> pods;
    return authorizePrepare(client_, cards_, {claim_.namespace_, name, rc->metadata.uid}, node_, pods, stop_);
  }

 private:
  const Result<core::ResourceClaim>& resourceClaim(const std::string& name) {
    auto known = read_.find(name);
    if (known == read_.end()) {
      auto rc = client_.get<core::ResourceClaim>({claim_.namespace_, name}, stop_);
      if (!rc)
        rc = Status(rc.status().code() == Code::notFound ? Code::unavailable : rc.status().code(),
                    "ResourceClaim " + claim_.namespace_ + "/" + name + ": " + rc.status().message());
      known = read_.emplace(name, std::move(rc)).first;
    }
    return known->second;
  }

  kube::Client& client_;
  CardReads& cards_;
  const ClaimRef& claim_;
  const std::string& node_;
  const std::stop_token stop_;
  std::map<std::string, Result<core::ResourceClaim>> read_;
};

/// Checks a container in which another claim is last: if that claim is prepared, it must have been prepared for exactly
/// the claims of `use`.
Status checkLast(cdi::Folder& folder, const ClaimRef& claim, const Use& use) {
  const auto& last = use.claims.back();
  const auto entries = folder.list();
  if (!entries) return entries.status();
  for (const auto& entry : *entries) {
    if (!entry.ready || !entry.spec || entry.spec->claimNamespace != claim.namespace_ || entry.spec->claimName != last)
      continue;
    Names prepared;
    for (const auto& other : entry.spec->beside) prepared.push_back(other.claim);
    prepared.push_back(last);
    if (prepared != use.claims)
      return refused(claim.namespace_ + "/" + last, use.container, use.claims,
                     "the containers that it was prepared for (until no pod of this node uses it)", prepared);
  }
  return Status::okay();
}

/// Returns the claims before `claim` in the containers in which it is last; they must be the same in all of them.
Result<Names> before(cdi::Folder& folder, const ClaimRef& claim, const std::vector<Use>& uses) {
  std::optional<Use> first;
  for (const auto& use : uses) {
    if (use.claims.back() != claim.name) {
      if (auto s = checkLast(folder, claim, use); !s.ok()) return s;
    } else if (!first) {
      first = use;
    } else if (first->claims != use.claims) {
      return refused(claim.str(), first->container, first->claims, use.container, use.claims);
    }
  }
  if (!first) return Names();
  first->claims.pop_back();
  return std::move(first->claims);
}

}  // namespace

std::vector<Use> usesOf(const std::vector<core::Pod>& pods, const std::string& claim) {
  std::vector<Use> out;
  for (const auto& pod : pods)
    for (const auto* containers : {&pod.initContainers, &pod.containers})
      for (const auto& container : *containers)
        if (auto use = useOf(pod, container); has(use.claims, claim)) out.push_back(std::move(use));
  return out;
}

std::size_t containersAtOnce(const std::vector<core::Pod>& pods, const std::string& claim) {
  std::size_t most = 1;
  for (const auto& pod : pods) {
    const auto uses = [&](const auto& container) { return has(useOf(pod, container).claims, claim); };
    const auto count = std::count_if(pod.containers.begin(), pod.containers.end(), uses) +
                       std::count_if(pod.initContainers.begin(), pod.initContainers.end(),
                                     [&](const auto& container) { return container.sidecar && uses(container); });
    most = std::max(most, static_cast<std::size_t>(count));
  }
  return most;
}

Result<std::vector<AuthorizedDevice>> coClaimsOf(kube::Client& client, CardReads& cards, cdi::Folder& folder,
                                                 const ClaimRef& claim, std::vector<core::Pod> pods,
                                                 const std::string& node, std::stop_token stop) {
  // A terminating pod starts no more containers.
  std::erase_if(pods, [](const auto& pod) { return pod.metadata.deleting(); });
  auto uses = usesOf(pods, claim.name);
  Others others(client, cards, claim, node, std::move(stop));
  for (auto& use : uses) std::erase_if(use.claims, [&](const auto& name) { return others.foreign(name); });
  const auto names = before(folder, claim, uses);
  if (!names) return names.status();
  std::vector<AuthorizedDevice> out;
  for (const auto& name : *names) {
    auto other = others.authorizeClaim(name);
    if (!other) return Status(other.status().code(), "another claim of its container: " + other.status().message());
    out.push_back(std::move(*other));
  }
  return out;
}

}  // namespace egpu::agent

#include "controller/cmd/claim_driver.h"

#include <algorithm>

#include "api/v1alpha/remote.h"
#include "controller/agent/health/health.h"

namespace egpu::cmd {

using agent::dra::DeviceHealth;
using agent::dra::PreparedDevice;
using base::Code;
using base::Status;

ClaimDriver::ClaimDriver(kube::Client& client, agent::ClaimPreparer& preparer, agent::cdi::Folder& folder,
                         const cache::Store<v1alpha::ElasticGPU>& cards, const base::Clock& clock, std::string node)
    : client_(client.brief()),
      users_(client_, node),
      preparer_(preparer),
      folder_(folder),
      cards_(cards),
      clock_(clock),
      node_(std::move(node)) {}

base::Result<std::vector<PreparedDevice>> ClaimDriver::prepare(const agent::ClaimRef& claim, std::stop_token stop) {
  auto ids = preparer_.prepare(claim, std::move(stop));
  if (!ids) return ids.status();
  const auto& own = ids->front();
  const auto entry = folder_.find(own.substr(own.rfind('=') + 1));
  if (!entry) return entry.status();
  if (!*entry || !(*entry)->spec) return Status(Code::unavailable, own + " was removed again at once; try again");
  return std::vector<PreparedDevice>{{{}, poolOf(*(*entry)->spec), (*entry)->spec->device, std::move(*ids)}};
}

std::string ClaimDriver::poolOf(const agent::cdi::Spec& spec) const {
  return spec.cards.empty() ? std::string(v1alpha::kRemotePool) : node_;
}

Status ClaimDriver::unprepare(const agent::ClaimRef& claim, std::stop_token stop) {
  return preparer_.unprepare(claim, std::move(stop));
}

void ClaimDriver::judge(const v1alpha::DeviceCard& share, DeviceHealth& health) const {
  const auto card = cards_.get({"", share.name});
  const auto* condition = card ? agent::health::healthyOf(card->status.conditions) : nullptr;
  if (health.state == DeviceHealth::State::unhealthy) return;
  if (condition != nullptr && condition->status == "True") return;
  const bool ill = condition != nullptr && condition->status == "False";
  health.state = ill ? DeviceHealth::State::unhealthy : DeviceHealth::State::unknown;
  health.message = ill ? share.uuid + ": " + condition->reason + ": " + condition->message : "";
}

std::vector<DeviceHealth> ClaimDriver::devices() {
  std::vector<DeviceHealth> out;
  const auto entries = folder_.list();
  if (!entries) return out;
  for (const auto& entry : *entries) {
    if (!entry.ready || !entry.spec) continue;
    DeviceHealth health{poolOf(*entry.spec), entry.spec->device, DeviceHealth::State::healthy, clock_.wall(), {}};
    for (const auto& share : entry.spec->cards) judge(share, health);
    out.push_back(std::move(health));
  }
  return out;
}

void ClaimDriver::remember(Pairs ClaimDriver::*pairs, const std::string& pod, const std::string& what) {
  const base::MutexLock lock(mutex_);
  auto& known = this->*pairs;
  if (known.size() >= kMaxKnown) known.clear();
  known.emplace(pod, what);
}

std::optional<std::map<std::string, std::vector<agent::ClaimRef>>> ClaimDriver::claimsOn(const std::string& cardUuid,
                                                                                         const std::string& podUid) {
  const auto entries = folder_.list();
  if (!entries) return std::nullopt;
  std::map<std::string, std::vector<agent::ClaimRef>> out;
  const base::MutexLock lock(mutex_);
  for (const auto& entry : *entries) {
    if (!entry.spec) return std::nullopt;  // the entry may be for this card
    const auto& spec = *entry.spec;
    if (std::any_of(spec.cards.begin(), spec.cards.end(), [&](const auto& c) { return c.uuid == cardUuid; }) &&
        without_.count({podUid, spec.claimUid}) == 0)
      out[spec.claimNamespace].push_back({spec.claimNamespace, spec.claimName, spec.claimUid});
  }
  return out;
}

std::string ClaimDriver::podName(const std::string& podUid) {
  {
    const base::MutexLock lock(mutex_);
    if (const auto known = names_.find(podUid); known != names_.end()) return known->second;
  }
  const auto pods = users_.podsIn({}, {});
  if (!pods) return {};
  const base::MutexLock lock(mutex_);
  if (names_.size() >= kMaxKnown) names_.clear();
  for (const auto& pod : **pods)
    if (pod.metadata.uid == podUid) return names_[podUid] = core::keyOf(pod.metadata).str();
  return {};
}

std::optional<bool> ClaimDriver::hasClaim(const std::string& podUid, const std::string& cardUuid) {
  {
    const base::MutexLock lock(mutex_);
    if (with_.count({podUid, cardUuid}) != 0) return true;
  }
  const auto claims = claimsOn(cardUuid, podUid);
  if (!claims) return std::nullopt;
  for (const auto& [namespace_, ofNamespace] : *claims) {
    const auto pods = users_.podsIn(namespace_, {});
    if (!pods) return std::nullopt;
    const auto pod =
        std::find_if((*pods)->begin(), (*pods)->end(), [&](const auto& p) { return p.metadata.uid == podUid; });
    for (const auto& claim : ofNamespace) {
      const bool names = pod != (*pods)->end() && users_.uses(*pod, claim);
      remember(names ? &ClaimDriver::with_ : &ClaimDriver::without_, podUid, names ? cardUuid : claim.uid);
      if (names) return true;
    }
  }
  return false;
}

}  // namespace egpu::cmd

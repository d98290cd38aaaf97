#include "controller/reconcile/pod/bound_volumes.h"

#include <chrono>
#include <utility>

#include "controller/base/log.h"

namespace egpu::reconcile {
namespace {

constexpr std::size_t kRemembered = 4096;

bool restrictsNothing(const base::Status& status) {
  return status.code() == base::Code::notFound || status.code() == base::Code::forbidden;
}

}  // namespace

base::Result<BoundVolumes::Read> BoundVolumes::read(const core::ObjectKey& claim, std::stop_token stop) {
  const auto bound = client_.get<core::PersistentVolumeClaim>(claim, stop);
  if (!bound.ok() && !restrictsNothing(bound.status())) return bound.status();
  if (!bound.ok() || bound->volumeName.empty()) {
    if (!bound.ok()) base::log::debug("volume not read", {{"claim", claim.str()}, {"why", bound.status().str()}});
    return Read{};
  }
  const auto volume = client_.get<core::PersistentVolume>({"", bound->volumeName}, stop);
  if (volume.ok()) return Read{true, volume->nodeAffinity};
  if (!restrictsNothing(volume.status())) return volume.status();
  return Read{};
}

base::Result<std::vector<core::NodeSelector>> BoundVolumes::of(const core::Pod& pod, std::stop_token stop) {
  std::vector<core::NodeSelector> affinities;
  for (const auto& volume : pod.volumes) {
    const core::ObjectKey claim{pod.metadata.namespace_,
                                volume.ephemeral ? pod.metadata.name + "-" + volume.name : volume.claimName};
    std::optional<core::NodeSelector> affinity;
    bool known = false;
    {
      const base::MutexLock lock(mutex_);
      const auto it = cache_.find(claim);
      known = it != cache_.end() && clock_.now() < it->second.until;
      if (known) affinity = it->second.affinity;
    }
    if (!known) {
      auto answer = read(claim, stop);
      if (!answer.ok()) return answer.status();
      affinity = std::move(answer->affinity);
      const base::MutexLock lock(mutex_);
      if (cache_.size() >= kRemembered) cache_.clear();
      if (answer->bound)
        cache_[claim] = {affinity, clock_.now() + timeouts_.volumeTtl};
      else
        cache_.erase(claim);
    }
    if (affinity) affinities.push_back(std::move(*affinity));
  }
  return affinities;
}

}  // namespace egpu::reconcile

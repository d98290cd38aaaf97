#include "controller/reconcile/template/amounts.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/codec/claim_spec.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {

core::ResourceClaimTemplate madeOf(const core::ObjectKey& key, const v1alpha::ElasticGPUClaimSpec& spec) {
  core::ResourceClaimTemplate made;
  made.metadata.name = key.name;
  made.metadata.namespace_ = key.namespace_;
  made.metadata.labels[std::string(keys::kAmountsLabel)] = "true";
  made.claim.deviceClassName = std::string(keys::kDeviceClass);
  made.claim.requestName = std::string(keys::kResourceClaimRequest);
  made.claim.config.push_back({{}, std::string(keys::kDriver), codec::encodeClaimSpec(spec)});
  return made;
}

bool marked(const core::ResourceClaimTemplate& made) {
  return made.metadata.labels.contains(std::string(keys::kAmountsLabel));
}

/// True if the content is that of the name. The API server may have written the parameters in another order, and fills
/// in defaults.
bool matches(const core::ResourceClaimTemplate& made, const core::ObjectKey& key,
             const v1alpha::ElasticGPUClaimSpec& spec) {
  auto wanted = madeOf(key, spec).claim;
  auto there = made.claim;
  if (there.config.size() != 1 || !made.labels.empty() || !made.annotations.empty()) return false;
  const auto read = codec::decodeClaimSpec(std::exchange(there.config.front().parameters, {}));
  wanted.config.front().parameters.clear();
  there.request.count = 0;
  there.request.allocationMode.clear();
  return read.ok() && *read == spec && there == wanted;
}

/// Returns the templates of amounts that the pod names; none if it is finished.
std::set<core::ObjectKey> namedBy(const core::Pod* pod) {
  std::set<core::ObjectKey> names;
  if (pod == nullptr || pod->finished()) return names;
  for (const auto& entry : v1alpha::podClaims(*pod))
    if (v1alpha::namesAmounts(entry.templateName)) names.insert({pod->metadata.namespace_, entry.templateName});
  return names;
}

}  // namespace

std::set<core::ObjectKey> AmountsSync::podChanged(const core::Pod* before, const core::Pod* after) {
  const auto now = namedBy(after);
  auto changed = namedBy(before);
  const auto pod = core::keyOf((after != nullptr ? after : before)->metadata);
  const bool same = before != nullptr && after != nullptr && before->metadata.uid == after->metadata.uid;
  const base::MutexLock lock(mutex_);
  for (const auto& key : changed)
    if (const auto known = uses_.find(key); known != uses_.end() && !now.contains(key)) {
      known->second.pods.erase(pod);
      if (known->second.pods.empty()) uses_.erase(known);  // if it exists, its step records since when it is unused
    }
  for (const auto& key : now) {
    uses_[key].pods.insert(pod);
    if (!changed.insert(key).second && same) changed.erase(key);
  }
  return changed;
}

std::optional<std::chrono::milliseconds> AmountsSync::unused(const core::ObjectKey& key) {
  const base::MutexLock lock(mutex_);
  auto& known = uses_[key];
  if (!known.pods.empty()) {
    known.unusedSince.reset();
    return std::nullopt;
  }
  const auto now = clock_.now();
  if (!known.unusedSince) known.unusedSince = now;
  const auto gone = *known.unusedSince + timeouts_.unusedTemplateTtl;
  if (gone <= now) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(gone - now) + std::chrono::milliseconds(1);
}

void AmountsSync::forget(const core::ObjectKey& key) {
  const base::MutexLock lock(mutex_);
  if (const auto it = uses_.find(key); it != uses_.end() && it->second.pods.empty()) uses_.erase(it);
}

Outcome AmountsSync::step(const core::ObjectKey& key, const core::ResourceClaimTemplate* made, std::stop_token stop) {
  const auto wait = unused(key);
  if (wait) {
    if (made != nullptr && marked(*made) && !made->metadata.deleting())
      return wait->count() > 0 ? Outcome::after(*wait) : remove(*made, stop);
    forget(key);
    remade_.reset(key);
    return Outcome::done();
  }
  const auto spec = v1alpha::amountsOf(key.name);
  if (!spec || v1alpha::validateAmounts(key.name)) return Outcome::done();  // the pods report it
  if (made == nullptr) {
    const auto written = writer_.create(madeOf(key, *spec), stop);
    if (written.ok()) return Outcome::done();
    return written.status().code() == base::Code::alreadyExists ? Outcome::requeueNow()
                                                                : Outcome::retry(written.status());
  }
  if (made->metadata.deleting()) return Outcome::done();
  if (marked(*made) && !matches(*made, key, *spec)) return recreate(*made, stop);
  remade_.reset(key);
  return Outcome::done();
}

Outcome AmountsSync::recreate(const core::ResourceClaimTemplate& made, std::stop_token stop) {
  if (!remade_.inBackoff(core::keyOf(made.metadata))) {
    remade_.next(core::keyOf(made.metadata));
    return remove(made, stop);
  }
  // Reported on the pods that wait for it like any other refusal, and requeued with backoff.
  base::Status changed(base::Code::invalid, "ResourceClaimTemplate " + made.metadata.name +
                                                " differs from its name as soon as it is created: an admission "
                                                "policy or a webhook changes it");
  changed.http = 422;
  return Outcome::retry(std::move(changed));
}

Outcome AmountsSync::remove(const core::ResourceClaimTemplate& made, std::stop_token stop) {
  const auto status = writer_.remove(made, stop);  // its deletion requeues the key
  return status.code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::ofWrite(status);
}

std::vector<core::ObjectKey> AmountsSync::named() const {
  std::vector<core::ObjectKey> keys;
  const base::MutexLock lock(mutex_);
  for (const auto& [key, known] : uses_) keys.push_back(key);
  return keys;
}

std::size_t AmountsSync::remembered() const {
  const base::MutexLock lock(mutex_);
  return uses_.size();
}

std::optional<std::string> amountsRefusal(const cache::Stores& stores, const core::Pod& pod,
                                          const std::string& templateName) {
  const bool annotated = templateName == v1alpha::amountsTemplate(pod.metadata.annotations);
  auto mistake =
      annotated ? v1alpha::validateAmounts(pod.metadata.annotations) : v1alpha::validateAmounts(templateName);
  if (mistake) return mistake->field + ": " + mistake->message;
  const core::ObjectKey key{pod.metadata.namespace_, templateName};
  const auto made = stores.resourceClaimTemplates.get(key);
  const auto spec = v1alpha::amountsOf(templateName);
  if (made && spec && !matches(*made, key, *spec) && !marked(*made))
    return "a ResourceClaimTemplate " + templateName +
           " exists and does not match its name: delete it, or request other amounts";
  return std::nullopt;
}

std::string askedByAnnotations(const core::Pod& pod, std::string_view claim) {
  const auto named = v1alpha::amountsTemplate(pod.metadata.annotations);
  if (named.empty()) return {};
  const auto entries = v1alpha::podClaims(pod);
  const auto isAsked = [&](const auto& entry) { return entry.claim == claim && entry.templateName == named; };
  if (std::none_of(entries.begin(), entries.end(), isAsked)) return {};
  std::string list;
  for (auto it = pod.metadata.annotations.lower_bound(keys::kAmountAnnotationPrefix);
       it != pod.metadata.annotations.end() && it->first.starts_with(keys::kAmountAnnotationPrefix); ++it)
    list.append(list.empty() ? "" : ", ").append(it->first).append(": ").append(it->second);
  return " (requested by metadata.annotations: {" + list + "})";
}

}  // namespace egpu::reconcile

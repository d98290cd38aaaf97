#include "controller/reconcile/template/template.h"

#include <memory>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "controller/codec/claim_spec.h"
#include "controller/reconcile/claim/conditions.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace reason = v1alpha::keys::reason;

namespace {

core::ResourceClaimTemplate madeOf(const cache::ClaimTemplate& claims) {
  constexpr auto& kind = core::kindOf<cache::ClaimTemplate>;
  core::ResourceClaimTemplate made;
  made.metadata.name = claims.metadata.name;
  made.metadata.namespace_ = claims.metadata.namespace_;
  made.metadata.ownerReferences.push_back(
      {kind.apiVersion(), std::string(kind.kind), claims.metadata.name, claims.metadata.uid, true, false});
  made.labels = claims.labels;
  made.annotations = claims.annotations;
  made.claim.deviceClassName = std::string(keys::kDeviceClass);
  made.claim.requestName = std::string(keys::kResourceClaimRequest);
  made.claim.config.push_back({{}, std::string(keys::kDriver), codec::encodeClaimSpec(claims.spec)});
  return made;
}

/// Returns the uid of the ElasticGPUClaimTemplate that owns it; empty: none does.
std::string_view ownerOf(const core::ResourceClaimTemplate& made) {
  constexpr auto& kind = core::kindOf<cache::ClaimTemplate>;
  for (const auto& owner : made.metadata.ownerReferences)
    if (owner.kind == kind.kind && owner.apiVersion.rfind(std::string(kind.group) + "/", 0) == 0) return owner.uid;
  return {};
}

/// True if the content is that of the template. The API server may have written the parameters in another order.
bool matches(const core::ResourceClaimTemplate& made, const cache::ClaimTemplate& claims) {
  auto wanted = madeOf(claims).claim;
  auto there = made.claim;
  if (there.config.size() != 1 || made.labels != claims.labels || made.annotations != claims.annotations) return false;
  const auto spec = codec::decodeClaimSpec(std::exchange(there.config.front().parameters, {}));
  wanted.config.front().parameters.clear();
  there.request.count = 0;  // the API server fills in defaults
  there.request.allocationMode.clear();
  return spec.ok() && *spec == claims.spec && there == wanted;
}

}  // namespace

Outcome TemplateSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto claims = stores_.templates.get(key);
  const auto made = stores_.resourceClaimTemplates.get(key);
  const bool live = claims && !claims->metadata.deleting();
  if (made && !ownerOf(*made).empty() && (!claims || ownerOf(*made) != claims->metadata.uid))
    if (const auto outcome = ownerGone(*made, ownerOf(*made), stop)) return *outcome;
  if (!claims && v1alpha::namesAmounts(key.name)) return amounts_.step(key, made.get(), stop);
  if (!live) remade_.reset(key);
  if (claims && !live)
    return report(*claims, kDeleting, "is being deleted: its ResourceClaimTemplate is not made again", stop);
  if (!live) return Outcome::done();
  if (const auto outcome = ensure(*claims, stop)) return *outcome;
  return report(*claims, kReady, "", stop);
}

std::optional<Outcome> TemplateSync::ownerGone(const core::ResourceClaimTemplate& made, std::string_view uid,
                                               std::stop_token stop) {
  // The cache has no such template. The cache may be late, so a quorum read decides.
  const auto now = writer_.read<cache::ClaimTemplate>(core::keyOf(made.metadata), {}, stop);
  if (now.ok() && now->metadata.uid == uid) return Outcome::requeueNow();
  if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  return remove(made, stop);
}

std::optional<Outcome> TemplateSync::ensure(const cache::ClaimTemplate& claims, std::stop_token stop) {
  auto made = stores_.resourceClaimTemplates.get(core::keyOf(claims.metadata));
  if (!made) {
    const auto written = writer_.create(madeOf(claims), stop);
    if (!written.ok())
      return written.status().code() == base::Code::alreadyExists ? Outcome::requeueNow()
                                                                  : Outcome::retry(written.status());
    made = std::make_shared<const core::ResourceClaimTemplate>(*written);
  }
  if (ownerOf(*made) != claims.metadata.uid)
    return report(
        claims, reason::kTemplateTaken,
        "a ResourceClaimTemplate of that name exists and is not this template's: delete it, or make a template of "
        "another name",
        stop);
  if (made->metadata.deleting())  // its deletion requeues the key
    return report(claims, kDeleting, "its ResourceClaimTemplate is being deleted, and is created again afterwards",
                  stop);
  if (!matches(*made, claims)) return recreate(claims, *made, stop);
  remade_.reset(core::keyOf(claims.metadata));
  return std::nullopt;
}

Outcome TemplateSync::recreate(const cache::ClaimTemplate& claims, const core::ResourceClaimTemplate& made,
                               std::stop_token stop) {
  const auto wait = remade_.remaining(core::keyOf(claims.metadata));
  if (wait.count() == 0) {
    remade_.next(core::keyOf(claims.metadata));
    return remove(made, stop);
  }
  auto outcome =
      report(claims, reason::kTemplateChanged,
             "its ResourceClaimTemplate differs as soon as it is created: an admission policy or a webhook of the "
             "API server changes it",
             stop);
  return outcome.isDone() ? Outcome::after(wait) : outcome;
}

Outcome TemplateSync::remove(const core::ResourceClaimTemplate& made, std::stop_token stop) {
  const auto status = writer_.remove(made, stop);  // its deletion requeues the key
  return status.code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::ofWrite(status);
}

Outcome TemplateSync::report(const cache::ClaimTemplate& claims, std::string_view reason, std::string message,
                             std::stop_token stop) {
  auto conditions = claims.conditions;
  core::Condition ready;
  ready.type = std::string(kReady);
  ready.status = reason == kReady ? "True" : "False";
  ready.reason = std::string(reason);
  ready.message = std::move(message);
  ready.observedGeneration = claims.metadata.generation;
  if (!setCondition(conditions, std::move(ready), base::rfc3339(clock_.wall()))) return Outcome::done();
  const auto body = codec::patch::classStatus(claims.metadata.uid, claims.metadata.resourceVersion, conditions);
  return Outcome::afterWrite(writer_.patch(claims, body, "status", stop).status());
}

}  // namespace egpu::reconcile

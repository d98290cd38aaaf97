#include "api/v1alpha/obstacle.h"
#include "controller/codec/field_texts.h"
#include "controller/codec/fields_v1alpha.h"
#include "controller/codec/patch.h"
#include "controller/codec/patch/parts.h"

namespace egpu::codec::patch {

using internal::FieldTexts;
using internal::textsOf;

namespace {

/// Returns the patch of /status from one list of fields to another.
std::string statusPatch(std::string_view uid, std::string_view resourceVersion, const FieldTexts::Texts& before,
                        const FieldTexts::Texts& after) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject();
  internal::writeMergePatch(j, before, after);
  j.endObject().endObject();
  return j.take();
}

/// A claim's reason and message are those of its first condition that reports a problem; they are written for
/// `kubectl get` and never read.
FieldTexts::Texts claimTexts(const v1alpha::ElasticGPUClaimStatus& status) {
  FieldTexts texts;
  fields(texts, status);
  if (const auto* obstacle = v1alpha::obstacle(status.conditions)) {
    texts("reason", obstacle->reason);
    texts("message", obstacle->message);
  }
  return texts.take();
}

}  // namespace

std::string claimStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUClaimStatus& before, const v1alpha::ElasticGPUClaimStatus& after) {
  return statusPatch(uid, resourceVersion, claimTexts(before), claimTexts(after));
}

std::string gpuStatus(std::string_view uid, std::string_view resourceVersion, const v1alpha::ElasticGPUStatus& before,
                      const v1alpha::ElasticGPUStatus& after) {
  return statusPatch(uid, resourceVersion, textsOf(before), textsOf(after));
}

std::string quotaStatus(std::string_view uid, std::string_view resourceVersion,
                        const v1alpha::ElasticGPUQuotaStatus& before, const v1alpha::ElasticGPUQuotaStatus& after) {
  return statusPatch(uid, resourceVersion, textsOf(before), textsOf(after));
}

std::string classStatus(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::Condition>& conditions) {
  FieldTexts texts;
  texts.always("conditions", conditions);
  return statusPatch(uid, resourceVersion, {}, texts.take());
}

std::string deviceTarget(std::string_view uid, std::string_view resourceVersion,
                         const core::HeapOptional<v1alpha::DeviceSize>& before, const v1alpha::DeviceSize& after) {
  FieldTexts was, is;
  was("target", before);
  is.always("target", after);
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("spec").beginObject();
  internal::writeMergePatch(j, was.take(), is.take());
  j.endObject().endObject();
  return j.take();
}

std::string deviceSource(std::string_view uid, std::string_view resourceVersion, const v1alpha::Source& after) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("spec").beginObject().key(after.kind == v1alpha::SourceKind::qGPU ? "qGPU" : "remote").beginObject();
  if (!after.deviceName.empty()) j.key("deviceName").value(after.deviceName);
  if (!after.paths.empty()) {
    j.key("paths").beginArray();
    for (const auto& path : after.paths) j.value(path);
    j.endArray();
  }
  if (!after.endpoint.empty()) j.key("endpoint").value(after.endpoint);
  j.endObject().endObject().endObject();
  return j.take();
}

}  // namespace egpu::codec::patch

#include "controller/codec/fields_dra.h"
#include "controller/codec/fields_v1alpha.h"
#include "controller/codec/json/writer.h"
#include "controller/codec/patch.h"
#include "controller/codec/patch/parts.h"

namespace egpu::codec::patch {

using internal::Writer;

std::string finalizers(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& all) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, resourceVersion);
  Writer(j).always("finalizers", all);
  j.endObject().endObject();
  return j.take();
}

std::string claimBind(std::string_view uid, std::string_view resourceVersion,
                      const std::vector<std::string>& finalizers, const std::optional<std::string>& elasticGPUName) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, resourceVersion);
  Writer(j).always("finalizers", finalizers);
  j.endObject();
  if (elasticGPUName) j.key("spec").beginObject().key("elasticGPUName").value(*elasticGPUName).endObject();
  j.endObject();
  return j.take();
}

std::string claimRef(std::string_view uid, std::string_view resourceVersion,
                     const std::optional<v1alpha::ClaimRef>& ref) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("spec").beginObject().key("claimRef");
  if (ref) {
    Writer(j).write(*ref);
  } else {
    j.null();
  }
  j.endObject().endObject();
  return j.take();
}

std::string allocation(std::string_view uid, std::string_view resourceVersion,
                       const std::optional<core::ResourceClaimAllocation>& allocation) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, uid, resourceVersion);
  j.key("status").beginObject().key("allocation");
  if (allocation) {
    Writer(j).write(*allocation);
  } else {
    j.null();
  }
  j.endObject().endObject();
  return j.take();
}

std::string marks(std::string_view uid, std::string_view resourceVersion, const std::vector<std::string>& finalizers,
                  const std::vector<core::OwnerReference>& owners) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, resourceVersion);
  Writer(j).always("finalizers", finalizers);
  Writer(j).always("ownerReferences", owners);
  j.endObject().endObject();
  return j.take();
}

std::string annotations(std::string_view uid,
                        const std::vector<std::pair<std::string, std::optional<std::string>>>& values) {
  JsonText j;
  j.beginObject();
  beginMetadata(j, uid, {});
  j.key("annotations").beginObject();
  for (const auto& [key, text] : values) {
    j.key(key);
    if (text) {
      j.value(*text);
    } else {
      j.null();
    }
  }
  j.endObject().endObject().endObject();
  return j.take();
}

std::string withoutAnnotation(std::string_view uid, std::string_view key, std::string_view value) {
  const std::string path = "/metadata/annotations/" + escaped(key);
  JsonText j;
  j.beginArray();
  testText(j, "/metadata/uid", uid);
  testText(j, path, value);
  op(j, "remove", path);
  j.endObject().endArray();
  return j.take();
}

std::string lease(const core::Lease& lease) {
  JsonText j;
  j.beginObject();
  putPreconditions(j, lease.metadata.uid, lease.metadata.resourceVersion);
  j.key("spec").beginObject();
  j.key("holderIdentity").value(lease.holderIdentity);
  j.key("leaseDurationSeconds").value(lease.leaseDurationSeconds);
  j.key("acquireTime").value(lease.acquireTime);
  j.key("renewTime").value(lease.renewTime);
  j.key("leaseTransitions").value(lease.leaseTransitions);
  j.endObject().endObject();
  return j.take();
}

std::string eviction(const core::Pod& pod, bool dry) {
  JsonText j;
  j.beginObject().key("apiVersion").value("policy/v1").key("kind").value("Eviction").key("metadata").beginObject();
  j.key("name").value(pod.metadata.name).key("namespace").value(pod.metadata.namespace_).endObject();
  j.key("deleteOptions").beginObject().key("preconditions").beginObject();
  j.key("uid").value(pod.metadata.uid).endObject();
  if (dry) j.key("dryRun").beginArray().value("All").endArray();
  j.endObject().endObject();
  return j.take();
}

std::string deleteOptions(std::string_view uid, std::string_view resourceVersion) {
  JsonText j;
  j.beginObject().key("apiVersion").value("v1").key("kind").value("DeleteOptions");
  if (!uid.empty() || !resourceVersion.empty()) {
    j.key("preconditions").beginObject();
    if (!uid.empty()) j.key("uid").value(uid);
    if (!resourceVersion.empty()) j.key("resourceVersion").value(resourceVersion);
    j.endObject();
  }
  j.endObject();
  return j.take();
}

}  // namespace egpu::codec::patch

#include "controller/kube/eviction.h"

#include "api/v1alpha/keys.h"
#include "controller/codec/patch.h"
#include "controller/kube/client.h"

namespace egpu::kube {

HttpRequest evictionOf(const core::Pod& pod, bool dry) {
  HttpRequest request;
  request.method = Method::post;
  request.headers = {{"Content-Type", "application/json"}};
  request.target = Client::path(core::kindOf<core::Pod>, pod.metadata.namespace_, pod.metadata.name, "eviction");
  request.body = codec::patch::eviction(pod, dry);
  return request;
}

HttpRequest askToMove(const v1alpha::ElasticGPUClaim& claim, const std::string& deviceUid, bool dry) {
  HttpRequest request;
  request.method = Method::patch;
  request.headers = {{"Content-Type", "application/merge-patch+json"}};
  request.target =
      Client::path(core::kindOf<v1alpha::ElasticGPUClaim>, claim.metadata.namespace_, claim.metadata.name) +
      (dry ? "?dryRun=All" : "");
  request.body =
      codec::patch::annotations(claim.metadata.uid, {{std::string(v1alpha::keys::kMoveAnnotation), deviceUid}});
  return request;
}

}  // namespace egpu::kube

// The objects that explain the state of a pod or a claim.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

/// Objects of one claim. A missing object is null; `unreadable` has the reason if it could not be read.
struct ClaimEvidence {
  std::string space, name;
  Json claim, device, resourceClaim, node;
  std::vector<Json> cards;                        ///< cards of the device that could be read
  std::map<std::string, std::string> unreadable;  ///< "device", "card", "node", "ResourceClaim" → error
  bool usedByPod = false;
};

/// Objects of a pod with its claims, or of a claim with the pods that use it.
struct Evidence {
  std::string kind;  ///< "pod" or "claim"
  std::string space, name;
  Json pod;                 ///< the subject, or the first pod of the claim; null: none is known
  std::string podEvent;     ///< message of its last warning; empty = none
  std::string pendingPart;  ///< template of the pod that no claim was created from yet; empty = none
  std::vector<ClaimEvidence> claims;
  std::string note;  ///< such as a second object of that name; may be empty
};

/// Returns "pod" or "claim" for a name of the kind, such as "po" or "elasticgpuclaim.elasticgpu.io"; empty for others.
std::string subjectKindOf(std::string_view word);

/// Reads a few single objects, so that the time does not depend on the size of the cluster. subject: NAME, pod/NAME or
/// claim/NAME (also by the resource's other names). A NAME is a pod if there is one, else a claim. Code::notFound: none
/// exists.
base::Result<Evidence> gather(const Connection& connection, const std::string& subject);

}  // namespace egpu::kubectl

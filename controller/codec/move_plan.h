// Answer of /defrag: the fields that a client needs to carry out the plan.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::codec {

struct MovePlanAnswer {
  struct Move {
    std::string claim;              ///< "namespace/name"
    std::string device;             ///< name of the claim's device
    std::string to;                 ///< target node
    std::vector<std::string> pods;  ///< "namespace/name"; at most one if an eviction moves the claim
    /// Uid of the device. The claim's annotation elasticgpu.io/move must be set to it before the pod is evicted. Empty
    /// = no annotation is necessary.
    std::string moveAnnotation;
  };
  bool ofClaim = false;  ///< the plan makes capacity for a claim; false: it frees whole cards
  std::string claim;     ///< that claim; empty if it does not exist
  std::string gang;      ///< gang of the claim, such as "gang train", if the plan is for all its members
  std::string phase;     ///< phase of the claim; "Bound" for a gang once all its members are bound
  std::string text;      ///< summary of the plan in one sentence
  bool possible = false;
  bool holds = false;  ///< evicting the pod of the first move advances the plan
  std::vector<Move> moves;

  bool isBound() const { return ofClaim && phase == "Bound"; }
  /// Returns the claim or gang for which the plan makes capacity, as text for people: "claim a/b", "gang train".
  std::string subject() const { return gang.empty() ? "claim " + claim : gang; }
};

/// Decodes the answer. Fails with Code::malformed if it is not an answer of /defrag.
base::Result<MovePlanAnswer> decodeMovePlan(std::string_view json);

}  // namespace egpu::codec

// The answer to /defrag, as far as who carries it out needs it.
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
    std::string device;             ///< name of what it has
    std::string to;                 ///< node
    std::vector<std::string> pods;  ///< "namespace/name"; of a claim that evictions move, one at most
    /// Uid of the device, which the claim's annotation elasticgpu.io/move has to name before its pod goes; empty = none has to.
    std::string annotate;
  };
  bool ofClaim = false;  ///< somebody is to be let in; false: whole cards are to be freed
  std::string claim;     ///< who; empty if it is none that is there
  std::string gang;      ///< of that claim, if all members of it are to be let in: "gang train"
  std::string phase;     ///< of that claim; of a gang "Bound" once all its members are
  std::string text;      ///< what the plan comes to, in a sentence
  bool possible = false;
  bool holds = false;  ///< evicting the first move's pod brings the plan on
  std::vector<Move> moves;

  bool isBound() const { return ofClaim && phase == "Bound"; }
  /// Whom the moves let in, for people: "claim a/b", "gang train".
  std::string subject() const { return gang.empty() ? "claim " + claim : gang; }
};

/// Code::malformed: it is no such answer.
base::Result<MovePlanAnswer> decodeMovePlan(std::string_view json);

}  // namespace egpu::codec

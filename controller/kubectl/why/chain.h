// The chain pod -> claim -> decision -> ledger -> ResourceClaim -> node -> device: the state of each step, and since
// when.
#pragma once

#include <string>
#include <vector>

#include "controller/kubectl/why/evidence.h"

namespace egpu::kubectl {

enum class StepState {
  done,     ///< "Done"
  waiting,  ///< "Waiting": another component, or the user, has to act
  failed,   ///< "Failed": the step does not continue by itself
  unknown,  ///< "Unknown": the user may not read the objects
  open,     ///< "-": an earlier step is not done
};
std::string toString(StepState state);

struct ChainStep {
  std::string step;      ///< pod, claim, decision, ledger, ResourceClaim, node, device
  std::string object{};  ///< name, with its namespace if it has one; may be empty
  StepState state = StepState::open;
  int64_t since = 0;  ///< seconds since 1970; 0 = unknown
  std::string reason{}, message{};
};

/// The chain of one claim of the subject.
struct Chain {
  std::string claim;  ///< "namespace/name"; empty: the pod has no claim
  std::vector<ChainStep> steps;
  /// Index of the step that stops the chain: the first failed or waiting step after the pod, otherwise the pod. -1: all
  /// steps are done.
  int stopsAt = -1;
  std::vector<std::string> help;  ///< remedies, best first; empty if all steps are done
};

/// Pure. Returns one chain for each claim; one without a claim if a pod has none.
std::vector<Chain> chainsOf(const Evidence& evidence);

/// Returns what helps against a reason of a claim's condition. Each names a command or an action.
std::vector<std::string> helpFor(const std::string& reason, const std::string& space, const std::string& claim);

}  // namespace egpu::kubectl

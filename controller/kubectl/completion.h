// Shell completion, by kubectl's plugin protocol and for bash, zsh and fish directly.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace egpu::kubectl {

struct FlagWord {
  std::string name;  ///< "--node"
  std::string description;
  bool takesValue = false;
};
struct VerbWords {
  std::string description;
  std::vector<FlagWord> flags;
};
using Grammar = std::map<std::string, VerbWords>;  ///< by verb

/// Prints the words that can follow, as kubectl's plugins do: a line "WORD<tab>DESCRIPTION" each, and a last line
/// ":DIRECTIVE" of cobra's. args: words after `egpu`; the last one is being completed and may be empty. Names of
/// objects are read from the cluster; without an answer there are none. Returns the exit status.
int complete(const Grammar& grammar, const std::vector<std::string>& args);

/// Script that completes `kubectl-egpu` in that shell: bash, zsh or fish.
std::string completionScript(const std::string& shell);

}  // namespace egpu::kubectl

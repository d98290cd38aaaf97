#include "controller/kubectl/completion.h"

#include <cstdio>
#include <set>

#include "controller/base/printable.h"
#include "controller/billing/bill.h"
#include "controller/kubectl/connection.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/why/evidence.h"

namespace egpu::kubectl {

namespace {

// Directives of cobra.
constexpr int kNoFiles = 4;
constexpr int kFiles = 0;

struct Words {
  std::vector<std::pair<std::string, std::string>> words;  ///< with their descriptions
  int directive = kNoFiles;
};

/// Reads the flags that choose the cluster and the namespace.
ClientFlags clientOf(const std::vector<std::string>& args) {
  ClientFlags flags;
  for (std::size_t i = 0; i + 1 < args.size(); ++i) {
    const auto& value = args[i + 1];
    if (args[i] == "-n" || args[i] == "--namespace") flags.namespace_ = value;
    if (args[i] == "--context") flags.context = value;
    if (args[i] == "--kubeconfig") flags.kubeconfig = value;
    if (args[i].starts_with("--namespace=")) flags.namespace_ = args[i].substr(std::string("--namespace=").size());
  }
  return flags;
}

void addNames(Words& out, const std::vector<std::string>& args, std::string_view version, std::string_view plural,
              bool namespaced, const std::string& query = {}, const std::string& prefix = {}) {
  const auto connection = Connection::open(clientOf(args));
  if (!connection) return;
  const auto& space = namespaced ? (*connection)->space() : std::string();
  const auto page =
      (*connection)->get(pathOf(version, space, plural) + "?limit=500" + (query.empty() ? "" : "&" + query));
  if (!page) return;
  for (const auto& item : at(*page, {"items"})) out.words.emplace_back(prefix + textAt(item, {"metadata", "name"}), "");
}

/// Values of a flag; false if the flag has no known ones.
bool addValues(Words& out, const std::string& flag, const std::vector<std::string>& args) {
  if (flag == "-o" || flag == "--output") {
    for (const char* each : {"wide", "json", "yaml"}) out.words.emplace_back(each, "");
    if (args.front() == "bill")
      for (const char* each : {"csv", "opencost"}) out.words.emplace_back(each, "");
    if (args.front() == "map")
      for (const char* each : {"bars", "backendai"}) out.words.emplace_back(each, "");
  } else if (flag == "--by") {
    for (const auto& each : billing::BillFields::names()) out.words.emplace_back(each, "");
  } else if (flag == "--color") {
    for (const char* each : {"auto", "always", "never"}) out.words.emplace_back(each, "");
  } else if (flag == "-n" || flag == "--namespace") {
    addNames(out, args, "v1", "namespaces", false);
  } else if (flag == "--node" || flag == "--drain") {
    addNames(out, args, "v1", "nodes", false);
  } else if (flag == "--class") {
    addNames(out, args, kOurs, "elasticgpuclasses", false);
  } else if (flag == "--release") {
    addNames(out, args, kOurs, "elasticgpuclaims", true);
  } else if (flag == "--card") {
    addNames(out, args, kOurs, "elasticgpus", false, "labelSelector=elasticgpu.io%2Frole%3Dcard");
  } else if (flag == "-f" || flag == "--filename" || flag == "--file" || flag == "--kubeconfig") {
    out.directive = kFiles;
  } else {
    return false;
  }
  return true;
}

/// Names of pods and claims, or of one kind if it is named: "pod/" before the name, or as the word before.
void addSubjects(Words& out, const std::vector<std::string>& args) {
  const auto& last = args.back();
  const auto slash = last.find('/');
  const bool prefixed = slash != std::string::npos;
  const auto kind = prefixed ? last.substr(0, slash) : args[args.size() - 2];
  const auto subject = subjectKindOf(kind);
  if (prefixed && subject.empty()) return;
  const auto prefix = prefixed ? kind + "/" : "";
  if (subject != "pod") addNames(out, args, kOurs, "elasticgpuclaims", true, {}, prefix);
  if (subject != "claim") addNames(out, args, "v1", "pods", true, {}, prefix);
}

void addPositionals(Words& out, const std::string& verb, const std::vector<std::string>& args) {
  if (verb == "why") {
    addSubjects(out, args);
  } else if (verb == "top" || verb == "try") {
    addNames(out, args, kOurs, "elasticgpuclaims", true);
  } else if (verb == "fit") {
    addNames(out, args, kOurs, "elasticgpuclasses", false);
  } else if (verb == "drain-card") {
    addNames(out, args, kOurs, "elasticgpus", false, "labelSelector=elasticgpu.io%2Frole%3Dcard");
  } else if (verb == "bill") {
    out.directive = kFiles;
  } else if (verb == "completion") {
    for (const char* each : {"bash", "zsh", "fish"}) out.words.emplace_back(each, "");
  }
}

bool takesValue(const VerbWords& verb, const std::string& word) {
  static const std::set<std::string, std::less<>> shortFlags = {"-n", "-o", "-f", "-s"};
  if (shortFlags.count(word) != 0) return true;
  for (const auto& flag : verb.flags)
    if (flag.name == word) return flag.takesValue;
  return false;
}

Words wordsFor(const Grammar& grammar, const std::vector<std::string>& args) {
  Words out;
  const auto& last = args.back();
  if (args.size() == 1) {
    for (const auto& [verb, words] : grammar) out.words.emplace_back(verb, words.description);
    return out;
  }
  const auto verb = grammar.find(args.front());
  if (verb == grammar.end()) return out;
  const auto& before = args[args.size() - 2];
  if (args.size() > 2 && takesValue(verb->second, before)) {
    addValues(out, before, args);
  } else if (last.starts_with("-")) {
    for (const auto& flag : verb->second.flags) out.words.emplace_back(flag.name, flag.description);
  } else {
    addPositionals(out, verb->first, args);
  }
  return out;
}

}  // namespace

int complete(const Grammar& grammar, const std::vector<std::string>& args) {
  const auto given = args.empty() ? std::vector<std::string>{""} : args;
  const auto found = wordsFor(grammar, given);
  for (const auto& [word, description] : found.words)
    if (word.starts_with(given.back()))
      std::printf("%s%s%s\n", base::printable(word).c_str(), description.empty() ? "" : "\t", description.c_str());
  std::printf(":%d\n", found.directive);
  return kDone;
}

std::string completionScript(const std::string& shell) {
  if (shell == "bash")
    return R"sh(# source <(kubectl-egpu completion bash)
_kubectl_egpu() {
  local IFS=$'\n' lines
  lines=$(kubectl-egpu __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [ "${lines##*:}" = 0 ]; then COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); return; fi
  COMPREPLY=($(printf '%s\n' "$lines" | sed -e '/^:[0-9]*$/d' -e 's/\t.*//'))
}
complete -F _kubectl_egpu kubectl-egpu
)sh";
  if (shell == "zsh")
    return R"sh(#compdef kubectl-egpu
# kubectl-egpu completion zsh > "${fpath[1]}/_kubectl-egpu"
_kubectl-egpu() {
  local -a words_found
  local line
  while IFS= read -r line; do
    [[ $line == :<-> ]] && continue
    words_found+=("${${line%%$'\t'*}//:/\\:}${${line#*$'\t'}:+:${line#*$'\t'}}")
  done < <(kubectl-egpu __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe 'kubectl-egpu' words_found || _files
}
compdef _kubectl-egpu kubectl-egpu
)sh";
  return R"sh(# kubectl-egpu completion fish | source
function __kubectl_egpu_words
  set -l words (commandline -opc) (commandline -ct)
  kubectl-egpu __complete $words[2..-1] 2>/dev/null | string match -v -r '^:[0-9]+$'
end
complete -c kubectl-egpu -f -a '(__kubectl_egpu_words)'
)sh";
}

}  // namespace egpu::kubectl

#include "controller/codec/scheduling/extender.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/targets.h"

namespace egpu::testing {

namespace {

using Json = nlohmann::json;

void complaint(const base::Status& status) {
  promise(status.code() == base::Code::malformed && !status.message().empty(), "what can't be read is malformed");
}

/// The output must be JSON and name the nodes of the request.
void answers(const codec::ExtenderArgs& args) {
  std::vector<uint8_t> fate, scores;
  for (std::size_t i = 0; i < args.names.size(); ++i) {
    fate.push_back(static_cast<uint8_t>(i % 3));
    scores.push_back(static_cast<uint8_t>(i % 11));
  }
  const auto parsed = [](const std::string& text) {
    auto json = Json::parse(text, nullptr, false);
    promise(!json.is_discarded(), "an answer is JSON");
    return json;
  };
  const auto filtered = parsed(codec::encodeFilterResult(args, fate, {{"full", true}, {"ill", false}}));
  const auto all = parsed(codec::encodeFilterResult(args));
  const auto passed = static_cast<std::size_t>(std::count(fate.begin(), fate.end(), 0));
  const auto& list = args.objects ? filtered["Nodes"]["items"] : filtered["NodeNames"];
  promise(list.size() == passed, "those pass that fit");
  promise((args.objects ? all["Nodes"]["items"] : all["NodeNames"]).size() == args.names.size(), "all pass");
  promise(!args.objects || args.nodes.size() == args.names.size(), "each node has a name");
  const auto priorities = parsed(codec::encodeHostPriorities(args, scores));
  promise(priorities.size() == args.names.size(), "each node has a score");
  for (std::size_t i = 0; i < args.names.size(); ++i)
    promise(priorities[i]["Host"] == args.names[i] && priorities[i]["Score"] == scores[i], "a score is its node's");
}

}  // namespace

void fuzzExtender(std::string_view bytes) {
  if (const auto args = codec::decodeExtenderArgs(bytes); args.ok())
    answers(*args);
  else
    complaint(args.status());
  if (const auto args = codec::decodeExtenderBindingArgs(bytes); args.ok())
    promise(!args->podName.empty() && !args->podNamespace.empty() && !args->node.empty(), "a binding is complete");
  else
    complaint(args.status());
  const auto args = codec::decodeExtenderPreemptionArgs(bytes);
  if (!args.ok()) return complaint(args.status());
  const auto json = Json::parse(codec::encodePreemptionResult(args->nodes), nullptr, false);
  promise(json.is_object() && json["NodeNameToMetaVictims"].is_object(), "an answer is JSON");
}

}  // namespace egpu::testing

#include "controller/scheduler/choice/parameters.h"

#include <algorithm>
#include <limits>

#include "api/v1alpha/host_paths.h"
#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/card_policy/static.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/steps/share_steps.h"

namespace egpu::scheduler {
namespace {

namespace reason = v1alpha::keys::reason;
using v1alpha::Quantity;
using v1alpha::QuantityForm;

Refusal refuse(std::string_view why, std::string_view field, std::string message) {
  return {std::string(why), std::string(field), std::move(message)};
}

std::string shown(std::string_view text) {
  // Long input must not end up in a condition's message.
  constexpr std::size_t kShown = 64;
  return '"' + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "…\"" : "\"");
}

std::string plain(int64_t number) { return std::to_string(number); }
std::string inBytes(int64_t number) { return std::to_string(number) + "e0"; }

/// Returns "1" or "1 or 2": the whole numbers next to a fraction, within 1 … max, formatted by `written`.
std::string neighbours(__int128 nano, int64_t max, std::string (*written)(int64_t) = plain) {
  auto clamp = [max](__int128 v) { return v < 1 ? int64_t{1} : v > max ? max : static_cast<int64_t>(v); };
  int64_t below = clamp(nano / v1alpha::kNano);
  int64_t above = clamp(nano / v1alpha::kNano + (nano % v1alpha::kNano != 0 ? 1 : 0));
  const std::string least = written(below);
  return below == above ? least : least + " or " + written(above);
}

/// Checks syntax and sign, for all amounts.
std::optional<Quantity> readPositive(std::string_view field, std::string_view text, Refusal& refusal) {
  std::string error;
  std::optional<Quantity> q = v1alpha::parseQuantity(text, &error);
  if (!q) {
    refusal = refuse(reason::kInvalidParameter, field,
                     shown(text) + " is not a quantity" + (error.empty() ? "" : ": " + error.substr(0, 128)));
  } else if (q->nano <= 0) {
    refusal = refuse(reason::kInvalidParameter, field, shown(text) + ": must be greater than zero");
    q.reset();
  }
  return q;
}

Refusal unknown(std::string_view field, std::string_view value, const std::string& names) {
  return refuse(v1alpha::keys::reason::kInvalidParameter, field, shown(value) + ": unknown; known: " + names);
}

std::string list(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// Reads "1.5" as 1500 thousandths, from `least` to `max`, with at most three decimals.
std::optional<int64_t> readThousandths(std::string_view text, int64_t least, int64_t max) {
  int64_t value = 0;
  std::size_t i = 0, places = 0;
  auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  if (!digit(0)) return std::nullopt;
  for (; digit(i); ++i) {
    value = value * 10 + (text[i] - '0');
    if (value > max) return std::nullopt;
  }
  if (i < text.size() && text[i] == '.') {
    for (++i; digit(i); ++i, ++places) {
      if (places == 3) return std::nullopt;
      value = value * 10 + (text[i] - '0');
    }
    if (places == 0) return std::nullopt;
  }
  if (i != text.size()) return std::nullopt;
  for (; places < 3; ++places) value *= 10;
  if (value < least || value > max) return std::nullopt;
  return value;
}

std::optional<std::vector<std::string>> readModels(std::string_view text) {
  std::vector<std::string> models;
  while (true) {
    std::size_t bar = text.find('|');
    std::string_view model = text.substr(0, bar);
    if (model.empty()) return std::nullopt;
    models.emplace_back(model);
    if (bar == std::string_view::npos) return models;
    text.remove_prefix(bar + 1);
  }
}

/// Reads a quantity up to max in units of 1 ÷ perOne. Finer values are refused with the nearest valid ones.
std::optional<int64_t> readIn(int64_t perOne, std::string (*written)(int64_t), const char* bound,
                              std::string_view field, std::string_view text, int64_t max, Refusal& refusal) {
  const __int128 unit = v1alpha::kNano / perOne;
  std::optional<Quantity> q = readPositive(field, text, refusal);
  if (!q) return std::nullopt;
  if (q->nano > static_cast<__int128>(max) * v1alpha::kNano) {
    refusal = refuse(reason::kNotRepresentable, field, shown(text) + " exceeds the maximum of " + std::to_string(max));
    return std::nullopt;
  }
  if (q->nano % unit != 0) {
    refusal = refuse(reason::kNotRepresentable, field,
                     shown(text) + bound + "; nearest: " + neighbours(q->nano * perOne, max * perOne, written));
    return std::nullopt;
  }
  return static_cast<int64_t>(q->nano / unit);
}

/// Reads a class's parameters key by key; refusals name the key's field.
class ParameterReader {
 public:
  ParameterReader(const core::StringMap& given, std::vector<Refusal>& refusals) : given_(given), refusals_(refusals) {}

  Parameters read() {
    // The unit comes first, because minMemory is read with it.
    if (auto it = given_.find("memoryUnit"); it != given_.end() && it->second == "MiB") out_.memoryUnit = kMiB;
    for (const auto& [key, value] : given_) {
      field_ = "parameters[" + key + "]";
      take(key, value);
    }
    if (weights()) byLoad();
    return std::move(out_);
  }

 private:
  void take(const std::string& key, const std::string& value) {
    if (key == "nodePolicy") return nodePolicy(value);
    if (key == "cardPolicy") return cardPolicy(value);
    if (key == "preset") return preset(value);
    if (key == "static") return staticPolicy(value);
    if (key == "split") return split(value);
    if (key == "memoryUnit" && value != "GiB" && value != "MiB") return known(value, "GiB, MiB");
    if (key == "memoryWeight" || key == "tflopsWeight") return weight(value);
    if (key == "coreOvercommit") return overcommit(value, out_.coreOvercommit);
    if (key == "memoryOvercommit") return overcommit(value, out_.memoryOvercommit);
    if (key == "maxClaimsPerCard") return limit(value, out_.maxClaimsPerCard);
    if (key == "maxClaimsPerNode") return limit(value, out_.maxClaimsPerNode);
    if (key == "model") return models(value);
    if (key == "minMemory") return minMemory(value);
    if (key == "hostPaths") return hostPaths(value);
    if (key == "claimPolicies") return claimPolicies(value);
    if ((key == "preemptible" || key == "movable" || key == "resizable") && value != "true" && value != "false")
      return known(value, "true, false");
  }

  void nodePolicy(const std::string& value) {
    out_.nodePolicy = value;
    if (!findNodePolicy(value)) known(value, list(nodePolicyNames()));
  }
  void cardPolicy(const std::string& value) {
    const auto names = cardPolicyNames();
    if (!given_.contains("static")) out_.cardPolicy = value;
    if (std::find(names.begin(), names.end(), value) == names.end()) known(value, list(names));
  }
  void preset(const std::string& value) {
    if (const Preset* preset = findPreset(value)) {
      out_.nodePolicy = std::string(preset->nodePolicy);
      out_.cardPolicy = std::string(preset->cardPolicy);
    } else {
      known(value, list(presetNames()));
    }
    if (given_.contains("nodePolicy") || given_.contains("cardPolicy"))
      invalid(value, "a preset sets nodePolicy and cardPolicy: give either the preset or those");
  }
  void staticPolicy(const std::string& value) {
    out_.cardPolicy = std::string(card_policy::kStaticPrefix) + value;
    if (!findCardPolicy(out_.cardPolicy)) known(value, "dgx1-pascal, dgx1-volta, dgx2");
    const auto policy = given_.find("cardPolicy");
    if (given_.contains("preset") || (policy != given_.end() && policy->second != "static"))
      invalid(value, "sets the card policy: give it alone or with cardPolicy static");
  }
  void claimPolicies(const std::string& value) {
    out_.claimPolicies = value == "true";
    if (value != "true" && value != "false") known(value, "true, false");
  }
  void split(const std::string& value) {
    if (value == "evenly") {
      out_.split = Split::evenly;
    } else if (value == "fill") {
      out_.split = Split::fill;
    } else if (value != "none") {
      known(value, "none, evenly, fill");
    }
  }
  void overcommit(const std::string& value, int64_t& target) {
    if (std::optional<int64_t> n = readThousandths(value, 1000, kMaxOvercommit))
      target = *n;
    else
      invalid(value, "must be a decimal from 1 to 1000 with at most three places, such as 1.5");
  }
  void weight(const std::string& value) {
    if (!readThousandths(value, 0, kAllWeight))
      invalid(value, "must be a decimal from 0 to 1 with at most three places, such as 0.7");
  }
  /// Reads both weights. Returns true if at least one is given and they are consistent; one determines the other.
  bool weights() {
    const auto of = [this](const char* key) -> std::optional<int64_t> {
      const auto it = given_.find(key);
      return it == given_.end() ? std::nullopt : readThousandths(it->second, 0, kAllWeight);
    };
    const auto memory = of("memoryWeight"), tflops = of("tflopsWeight");
    if (given_.contains("memoryWeight") != memory.has_value() || given_.contains("tflopsWeight") != tflops.has_value())
      return false;  // has a refusal already
    if (!memory && !tflops) return false;
    out_.memoryWeight = memory ? *memory : kAllWeight - *tflops;
    field_ = std::string("parameters[") + (memory ? "memoryWeight]" : "tflopsWeight]");
    if (memory && tflops && *memory + *tflops != kAllWeight) {
      invalid(given_.at("memoryWeight"), "must be 1 together with tflopsWeight, here " +
                                             v1alpha::formatThousandths(kAllWeight - *tflops) +
                                             "; one of them is enough");
      return false;
    }
    return true;
  }
  /// Weights have no effect unless a policy uses load scores or a claim can choose one; giving them is probably a
  /// mistake.
  void byLoad() {
    const NodePolicy* node = findNodePolicy(out_.nodePolicy);
    const CardPolicy* card = findCardPolicy(out_.cardPolicy);
    if (!node || !card || out_.claimPolicies || node->byLoad() || card->byLoad) return;
    const auto it = given_.contains("memoryWeight") ? given_.find("memoryWeight") : given_.find("tflopsWeight");
    invalid(it->second, "sets weights of load scores, but neither nodePolicy " + out_.nodePolicy + " nor cardPolicy " +
                            out_.cardPolicy + " uses them; policies that do: compact-first, low-load-first");
  }
  void limit(const std::string& value, int64_t& target) {
    Refusal refusal;
    if (value == "0") {
      target = 0;  // explicitly no limit
    } else if (std::optional<int64_t> n = readCount(field_, value, std::numeric_limits<int32_t>::max(), refusal)) {
      target = *n;
    } else {
      invalid(value, "must be a whole number, 0 for no limit");
    }
  }
  void models(const std::string& value) {
    if (std::optional<std::vector<std::string>> models = readModels(value))
      out_.models = std::move(*models);
    else
      invalid(value, "must be model names separated by |, such as \"V100|A100\"");
  }
  void minMemory(const std::string& value) {
    Refusal refusal;
    if (std::optional<int64_t> bytes = readMemory(field_, value, out_.memoryUnit, refusal)) {
      out_.minMemory = *bytes;
    } else {
      refusal.reason = std::string(reason::kInvalidParameter);  // errors of a class always have this reason
      refusals_.push_back(std::move(refusal));
    }
  }

  /// Used by the nodes' agents. Checked here, so that the class reports an error before a pod runs into it.
  void hostPaths(const std::string& value) {
    std::string wrong;
    if (!v1alpha::parseHostPaths(value, &wrong))
      refusals_.push_back(
          refuse(reason::kInvalidParameter, field_, shown(wrong) + " " + std::string(v1alpha::kNoHostPath)));
  }

  void invalid(const std::string& value, const std::string& expected) {
    refusals_.push_back(refuse(reason::kInvalidParameter, field_, shown(value) + ": " + expected));
  }
  void known(const std::string& value, const std::string& names) { refusals_.push_back(unknown(field_, value, names)); }

  const core::StringMap& given_;
  std::vector<Refusal>& refusals_;
  Parameters out_;
  std::string field_;  ///< field of the current key
};

}  // namespace

std::optional<int64_t> readCount(std::string_view field, std::string_view text, int64_t max, Refusal& refusal) {
  return readIn(1, plain, ": must be a whole number", field, text, max, refusal);
}

std::optional<int64_t> readMilli(std::string_view field, std::string_view text, int64_t max, Refusal& refusal) {
  return readIn(1000, v1alpha::formatThousandths, ": no finer than a thousandth", field, text, max, refusal);
}

std::optional<int64_t> readMemory(std::string_view field, std::string_view text, int64_t unit, Refusal& refusal) {
  std::optional<Quantity> q = readPositive(field, text, refusal);
  if (!q) return std::nullopt;
  const bool bare = q->form != QuantityForm::suffixed;
  const int64_t scale = bare ? unit : 1;
  const int64_t max = kMaxMemory / scale;
  if (q->nano > static_cast<__int128>(max) * v1alpha::kNano) {
    refusal = refuse(reason::kNotRepresentable, field,
                     shown(text) + " exceeds the maximum memory of " + v1alpha::formatBytes(kMaxMemory));
    return std::nullopt;
  }
  if (q->form == QuantityForm::bareDecimal) {
    const std::string_view unitName = unit == kGiB ? "GiB" : "MiB";
    const __int128 bytes = q->nano * unit;  // ≤ 2⁵⁰ · 10⁹ < 2⁸⁰
    std::string message =
        shown(text) + ": a number without a suffix counts " + std::string(unitName) + " and must be whole; nearest: ";
    if (bytes % v1alpha::kNano == 0 && q->nano % v1alpha::kNano != 0)
      message += v1alpha::formatBytes(static_cast<int64_t>(bytes / v1alpha::kNano)) + ", ";
    refusal = refuse(reason::kNotRepresentable, field, message + neighbours(q->nano, max));
    return std::nullopt;
  }
  if (q->nano % v1alpha::kNano != 0) {
    refusal = refuse(reason::kNotRepresentable, field,
                     shown(text) + ": must be whole bytes; nearest in bytes: " + neighbours(q->nano, max, inBytes));
    return std::nullopt;
  }
  return static_cast<int64_t>(q->nano / v1alpha::kNano) * scale;
}

Parameters readParameters(const v1alpha::ElasticGPUClass& cls, std::vector<Refusal>& refusals) {
  if (auto refusal = checkClassSteps(cls)) refusals.push_back(std::move(*refusal));
  return ParameterReader(cls.parameters, refusals).read();
}

std::optional<Refusal> readClaimPolicies(const v1alpha::ElasticGPUClaim& claim, Parameters& parameters) {
  namespace keys = v1alpha::keys;
  const auto& annotations = claim.metadata.annotations;
  for (const bool node : {true, false}) {
    const auto it = annotations.find(std::string(node ? keys::kNodePolicyAnnotation : keys::kCardPolicyAnnotation));
    if (it == annotations.end()) continue;
    const auto& [key, value] = *it;
    const std::string field = "metadata.annotations[" + key + "]";
    if (!parameters.claimPolicies)
      return refuse(reason::kInvalidParameter, field,
                    "the class doesn't let claims choose: leave it out, or use a class with the parameter "
                    "claimPolicies: \"true\"");
    const auto names = node ? nodePolicyNames() : cardPolicyNames();
    if (std::find(names.begin(), names.end(), value) == names.end()) return unknown(field, value, list(names));
    std::string& policy = node ? parameters.nodePolicy : parameters.cardPolicy;
    // A class that names a static machine keeps it.
    if (!policy.starts_with(card_policy::kStaticPrefix) || value != card_policy::kStatic.name) policy = value;
  }
  return std::nullopt;
}

std::vector<Refusal> checkParameters(const v1alpha::ElasticGPUClass& cls) {
  std::vector<Refusal> refusals;
  readParameters(cls, refusals);
  return refusals;
}

}  // namespace egpu::scheduler

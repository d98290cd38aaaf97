#include "controller/scheduler/request.h"

#include <algorithm>
#include <optional>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/scheduler/choice/parameters.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/mig/instances.h"
#include "controller/scheduler/steps/share_steps.h"

namespace egpu::scheduler {
namespace {

namespace keys = v1alpha::keys;

constexpr int64_t kCard = 1000;

std::string fieldOf(std::string_view key) { return "spec.resources.requests[" + std::string(key.substr(0, 256)) + "]"; }

/// A requested amount as written.
struct RequestEntry {
  std::string_view key;
  std::string_view text;
};

struct Entries {
  std::optional<RequestEntry> gpu, core, memory, tflops;
  std::optional<mig::InstancesEntry> instances;
};

Refusal notRepresentable(std::string_view key, std::string message) {
  return {std::string(keys::reason::kNotRepresentable), fieldOf(key), std::move(message)};
}
Refusal invalid(std::string field, std::string message) {
  return {std::string(keys::reason::kInvalidParameter), std::move(field), std::move(message)};
}

/// Returns the part of a key after "<provisioner>/" or "elasticgpu.io/", or nullopt without such a prefix.
std::optional<std::string_view> suffixOf(std::string_view key, std::string_view provisioner) {
  for (std::string_view prefix : {provisioner, keys::kGroup})
    if (key.size() > prefix.size() && key.substr(0, prefix.size()) == prefix && key[prefix.size()] == '/')
      return key.substr(prefix.size() + 1);
  return std::nullopt;
}

std::optional<Refusal> sortOut(const v1alpha::StringMap& requests, std::string_view provisioner, Entries& entries) {
  for (const auto& [key, text] : requests) {
    std::optional<RequestEntry>* slot = nullptr;
    const std::optional<std::string_view> resource = suffixOf(key, provisioner);
    if (resource && resource->starts_with(keys::kMigPrefix) && resource->size() > keys::kMigPrefix.size()) {
      const auto profile = resource->substr(keys::kMigPrefix.size());
      if (entries.instances && (entries.instances->profile != profile || entries.instances->text != text))
        return invalid(fieldOf(key), "a claim has MIG instances of one profile; " +
                                         std::string(entries.instances->key) + " is requested too");
      entries.instances = mig::InstancesEntry{key, profile, text};
      continue;
    }
    if (resource) {
      if (*resource == keys::kGpu) slot = &entries.gpu;
      if (*resource == keys::kGpuCore) slot = &entries.core;
      if (*resource == keys::kGpuMemory) slot = &entries.memory;
      if (*resource == keys::kTflops) slot = &entries.tflops;
    }
    if (!slot) {
      const std::string prefix(provisioner.empty() ? keys::kGroup : provisioner);
      return invalid(fieldOf(key), "unknown key; known: " + prefix + "/gpu, " + prefix + "/gpu-core, " + prefix +
                                       "/gpu-memory, " + prefix + "/tflops, " + prefix + "/mig-<profile>");
    }
    if (*slot && (*slot)->text != text)
      return invalid(fieldOf(key), "disagrees with " + std::string((*slot)->key) + ", which means the same");
    *slot = RequestEntry{key, text};
  }
  if (entries.instances && requests.size() > 1 && (entries.gpu || entries.core || entries.memory || entries.tflops))
    return invalid(fieldOf(entries.instances->key),
                   "the profile gives the amounts of MIG instances: remove the other keys");
  return std::nullopt;
}

/// Applies units and the rules between the amounts (request.h). The request contains the class's limits already.
class RequestReader {
 public:
  RequestReader(const Entries& entries, int64_t memoryUnit, Request& request)
      : entries_(entries), memoryUnit_(memoryUnit), request_(request) {}

  std::optional<Refusal> run() {
    if (entries_.core && entries_.tflops)
      return invalid(fieldOf(entries_.tflops->key), "tflops and gpu-core both request compute: give only one of them");
    if (!cards() || !core() || !tflops() || !memory()) return std::move(refusal_);
    return std::nullopt;
  }

 private:
  bool cards() {
    if (!entries_.gpu) return true;
    std::optional<int64_t> n = readCount(fieldOf(entries_.gpu->key), entries_.gpu->text, kMaxCards, refusal_);
    if (!n) return false;
    request_.cards = *n;
    request_.wholeCards = !entries_.core && !entries_.memory && !entries_.tflops;
    request_.split = Split::none;
    return true;
  }

  bool core() {
    if (!entries_.core) return true;
    const auto& [key, text] = *entries_.core;
    const bool split = request_.split != Split::none;
    const int64_t max = split ? static_cast<int64_t>(SplitTotal::kMaxCards) : kMaxCards;
    std::optional<int64_t> percent = readCount(fieldOf(key), text, 100 * max, refusal_);
    if (!percent) return false;
    if (*percent <= 100 || split) {
      request_.perCard.core = *percent * kMilliPerPercent;
      return true;
    }
    if (entries_.gpu) {
      refusal_ = notRepresentable(
          key, "\"" + std::string(text) + "\": with gpu this is the percentage of each card; nearest: 100");
      return false;
    }
    if (*percent % 100 != 0) {
      const int64_t below = *percent / 100 * 100;
      const int64_t above = below + 100;
      refusal_ = notRepresentable(key, "\"" + std::string(text) +
                                           "\": above 100 only whole cards are given, 100 each; nearest: " +
                                           std::to_string(below) + " or " + std::to_string(above));
      return false;
    }
    request_.cards = *percent / 100;
    request_.perCard.core = kCard;
    request_.wholeCards = !entries_.memory;
    return true;
  }

  bool tflops() {
    if (!entries_.tflops) return true;
    std::optional<int64_t> n = readMilli(fieldOf(entries_.tflops->key), entries_.tflops->text, kMaxTflops, refusal_);
    if (!n) return false;
    request_.milliTflopsPerCard = *n;
    return true;
  }

  bool memory() {
    if (!entries_.memory) {
      request_.memoryFromCore = !request_.wholeCards;
      return true;
    }
    const auto& [key, text] = *entries_.memory;
    std::optional<int64_t> bytes = readMemory(fieldOf(key), text, memoryUnit_, refusal_);
    if (!bytes) return false;
    request_.perCard.memory = *bytes;
    request_.memoryAssumedGiB = memoryUnit_ == kGiB && text.find_first_not_of("0123456789") == std::string::npos;
    if (entries_.gpu || request_.cards == 1) return true;
    // Several cards by gpu-core 200, 300, …: the memory is the claim's total, divided equally.
    const int64_t n = request_.cards;
    if (*bytes % n != 0) {
      const int64_t below = *bytes / n * n;
      refusal_ = notRepresentable(
          key, "\"" + std::string(text) + "\" can't be divided equally over " + std::to_string(n) +
                   " cards; nearest in bytes: " + (below > 0 ? std::to_string(below) + "e0 or " : std::string()) +
                   std::to_string(below + n) + "e0");
      return false;
    }
    request_.perCard.memory = *bytes / n;
    return true;
  }

  const Entries& entries_;
  int64_t memoryUnit_;
  Request& request_;
  Refusal refusal_;
};

/// Changes the request to admin access: cards without amounts.
void chargeNothing(Request& request) {
  request.adminAccess = true;
  request.wholeCards = request.memoryFromCore = false;
  request.perCard = {};
  request.split = Split::none;
  request.maxClaimsPerCard = request.maxClaimsPerNode = 0;
}

/// Keeps only the models that are also in `to`; an empty list means any model. Returns false if none is left.
bool narrow(std::vector<std::string>& models, const std::vector<std::string>& to) {
  if (to.empty()) return true;
  if (models.empty()) {
    models = to;
    return true;
  }
  std::erase_if(models, [&to](const auto& model) { return std::find(to.begin(), to.end(), model) == to.end(); });
  return !models.empty();
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Applies spec.models and spec.isolation. A whole card is not shared, so it needs no isolation.
std::optional<Refusal> require(const v1alpha::ElasticGPUClaimSpec& spec, const v1alpha::ElasticGPUClass& cls,
                               Request& request) {
  if (const auto given = request.models; !narrow(request.models, spec.models))
    return invalid("spec.models",
                   "class " + cls.metadata.name + " allows none of these models; it allows " + listed(given));
  const std::string provided = isolationOf(cls);
  if (provided != "none" && !request.wholeCards && !request.adminAccess) request.isolation = provided;
  if (spec.isolation.empty() || request.wholeCards || request.adminAccess || spec.isolation == provided)
    return std::nullopt;
  return invalid("spec.isolation",
                 "class " + cls.metadata.name + " provides " + provided + ", and the claim requires " + spec.isolation);
}

/// Makes the request of a claim without alternatives.
std::variant<Request, Refusal> makeOne(const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPUClass& cls) {
  std::vector<Refusal> refusals;
  Parameters p = readParameters(cls, refusals);
  if (!refusals.empty()) return std::move(refusals.front());
  if (std::optional<Refusal> refusal = readClaimPolicies(claim, p)) return std::move(*refusal);

  Request request;
  request.nodePolicy = std::move(p.nodePolicy);
  request.cardPolicy = std::move(p.cardPolicy);
  request.memoryWeight = p.memoryWeight;
  request.split = p.split;
  request.coreOvercommit = p.coreOvercommit;
  request.memoryOvercommit = p.memoryOvercommit;
  request.maxClaimsPerCard = p.maxClaimsPerCard;
  request.maxClaimsPerNode = p.maxClaimsPerNode;
  request.models = std::move(p.models);
  request.minMemory = p.minMemory;

  Entries entries;
  if (std::optional<Refusal> refusal = sortOut(claim.spec.requests, cls.provisioner, entries))
    return std::move(*refusal);
  if (std::optional<Refusal> refusal = mig::readInstances(entries.instances, cls, request)) return std::move(*refusal);
  if (entries.instances) {
    if (std::optional<Refusal> refusal = require(claim.spec, cls, request)) return std::move(*refusal);
    return request;
  }
  if (claim.spec.requests.empty()) {
    if (claim.spec.elasticGPUName.empty())
      return invalid("spec.resources.requests",
                     "is empty: request " + std::string(cls.provisioner) + "/gpu, /gpu-core, /gpu-memory or /tflops");
    request.wholeCards = true;
    request.split = Split::none;
    if (claim.spec.adminAccess) chargeNothing(request);
    if (std::optional<Refusal> refusal = require(claim.spec, cls, request)) return std::move(*refusal);
    return request;
  }
  if (std::optional<Refusal> refusal = RequestReader(entries, p.memoryUnit, request).run()) return std::move(*refusal);
  if (claim.spec.adminAccess) chargeNothing(request);
  if (std::optional<Refusal> refusal = applySteps(claim, cls, request)) return std::move(*refusal);
  if (std::optional<Refusal> refusal = require(claim.spec, cls, request)) return std::move(*refusal);
  return request;
}

}  // namespace

std::string isolationOf(const v1alpha::ElasticGPUClass& cls) {
  if (cls.provisioner == mig::kProvisioner) return "mig";
  const auto it = cls.parameters.find("isolation");
  return it == cls.parameters.end() || it->second.empty() ? "none" : it->second;
}

std::variant<std::vector<Request>, Refusal> makeRequests(const v1alpha::ElasticGPUClaim& claim,
                                                         const v1alpha::ElasticGPUClass& cls) {
  std::vector<Request> requests;
  v1alpha::ElasticGPUClaim one = claim;
  one.spec.firstAvailable.clear();
  for (const auto& alternative : claim.spec.firstAvailable) {
    const std::string field = "spec.firstAvailable[" + std::to_string(requests.size()) + "]";
    one.spec.requests = alternative.requests;
    auto made = makeOne(one, cls);
    if (auto* refusal = std::get_if<Refusal>(&made)) {
      constexpr std::string_view kSpec = "spec.resources";
      if (refusal->field.starts_with(kSpec)) refusal->field.replace(0, kSpec.size(), field + ".resources");
      return std::move(*refusal);
    }
    auto& request = requests.emplace_back(std::get<Request>(std::move(made)));
    if (!narrow(request.models, alternative.models))
      return invalid(field + ".models", "class " + cls.metadata.name + " allows none of these models");
  }
  if (!requests.empty()) return requests;
  auto made = makeOne(one, cls);
  if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
  requests.push_back(std::get<Request>(std::move(made)));
  return requests;
}

std::variant<Request, Refusal> makeRequest(const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPUClass& cls) {
  const auto& alternatives = claim.spec.firstAvailable;
  if (alternatives.empty()) return makeOne(claim, cls);
  auto all = makeRequests(claim, cls);
  if (auto* refusal = std::get_if<Refusal>(&all)) return std::move(*refusal);
  std::size_t which = 0;
  for (std::size_t i = 0; i < alternatives.size(); ++i)
    if (alternatives[i].name == claim.status.alternative) which = i;
  return std::move(std::get<std::vector<Request>>(all)[which]);
}

}  // namespace egpu::scheduler

#include "controller/scheduler/steps/share_steps.h"

#include <algorithm>
#include <string>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/scheduler/choice/parameters.h"

namespace egpu::scheduler {
namespace {

namespace keys = v1alpha::keys;

constexpr std::string_view kQgpu = "qgpu.provisioner.elasticgpu.io";
/// Limits of the qGPU driver.
constexpr ShareSteps kQgpuSteps{5 * kMilliPerPercent, kGiB, 16};

/// Returns the field of the claim's request that ends in this key.
std::string fieldOf(const v1alpha::ElasticGPUClaim& claim, std::string_view suffix) {
  for (const auto& [key, text] : claim.spec.requests)
    if (key.size() > suffix.size() && key.ends_with(suffix) && key[key.size() - suffix.size() - 1] == '/')
      return "spec.resources.requests[" + key + "]";
  return "spec.resources.requests";
}

Refusal refusal(std::string field, std::string message) {
  return {std::string(keys::reason::kNotRepresentable), std::move(field), std::move(message)};
}

/// Returns "10 or 15": the multiples of `step` beside `amount`, as `written`.
template <class Written>
std::string nearest(int64_t amount, int64_t step, Written written) {
  const int64_t below = amount / step * step;
  return (below > 0 ? written(below) + " or " : std::string()) + written(below + step);
}

}  // namespace

const ShareSteps* stepsOf(const v1alpha::ElasticGPUClass& cls) {
  return cls.provisioner == kQgpu ? &kQgpuSteps : nullptr;
}

std::optional<Refusal> checkClassSteps(const v1alpha::ElasticGPUClass& cls) {
  const auto* steps = stepsOf(cls);
  const auto split = cls.parameters.find("split");
  if (steps == nullptr || split == cls.parameters.end() || split->second == "none") return std::nullopt;
  return Refusal{std::string(keys::reason::kInvalidParameter), "parameters[split]",
                 '"' + split->second + "\": " + cls.provisioner +
                     " divides cards in steps, which the parts of a total need not match; known: none"};
}

std::optional<Refusal> applySteps(const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPUClass& cls,
                                  Request& request) {
  const auto* steps = stepsOf(cls);
  if (steps == nullptr || request.wholeCards || request.adminAccess) return std::nullopt;
  if (request.milliTflopsPerCard > 0)
    return refusal(fieldOf(claim, keys::kTflops), cls.provisioner + " has no steps of TFLOPS; request gpu-core");
  const int64_t core = request.perCard.core, memory = request.perCard.memory;
  if (core % steps->core != 0) {
    const auto percent = [](int64_t milli) { return std::to_string(milli / kMilliPerPercent); };
    return refusal(fieldOf(claim, keys::kGpuCore), percent(core) + ": " + cls.provisioner + " has steps of " +
                                                       percent(steps->core) +
                                                       "; nearest: " + nearest(core, steps->core, percent));
  }
  if (request.memoryFromCore)
    return refusal(fieldOf(claim, keys::kGpuCore),
                   cls.provisioner + " has steps of memory, which a proportion of the card need not match; add " +
                       cls.provisioner + "/gpu-memory: 4Gi, or another multiple of " +
                       v1alpha::formatBytes(steps->memory));
  if (memory % steps->memory != 0)
    return refusal(fieldOf(claim, keys::kGpuMemory),
                   v1alpha::formatBytes(memory) + " of each card: " + cls.provisioner + " has steps of " +
                       v1alpha::formatBytes(steps->memory) + "; nearest: " +
                       nearest(memory, steps->memory, [](int64_t bytes) { return v1alpha::formatBytes(bytes); }));
  auto& max = request.maxClaimsPerCard;
  if (max == 0 || max > steps->maxClaimsPerCard) max = steps->maxClaimsPerCard;
  return std::nullopt;
}

}  // namespace egpu::scheduler

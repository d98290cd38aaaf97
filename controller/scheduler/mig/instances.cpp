#include "controller/scheduler/mig/instances.h"

#include <bit>
#include <string>

#include "api/v1alpha/keys.h"
#include "controller/scheduler/choice/parameters.h"

namespace egpu::scheduler::mig {

std::optional<Refusal> readInstances(const std::optional<InstancesEntry>& entry, const v1alpha::ElasticGPUClass& cls,
                                     Request& request) {
  const auto refusal = [](std::string field, std::string message) {
    return Refusal{std::string(v1alpha::keys::reason::kInvalidParameter), std::move(field), std::move(message)};
  };
  const std::string requests = "spec.resources.requests";
  if (!entry && cls.provisioner != kProvisioner) return std::nullopt;
  if (!entry)
    return refusal(requests, "class " + cls.metadata.name + " provides MIG instances only: request " +
                                 std::string(kProvisioner) + "/" + std::string(v1alpha::keys::kMigPrefix) +
                                 "<profile>, such as mig-1g.5gb: 1");
  const std::string field = requests + "[" + std::string(entry->key) + "]";
  if (cls.provisioner != kProvisioner)
    return refusal(field, "class " + cls.metadata.name + " has provisioner " + cls.provisioner +
                              ", which provides no MIG instances; use a class of " + std::string(kProvisioner));
  Refusal number;
  const auto count = readCount(field, entry->text, v1alpha::Slots::kMemory, number);
  if (!count) return number;
  request.mig = {std::string(entry->profile), *count};
  request.isolation = "mig";
  request.cards = 1;
  request.split = Split::none;
  request.coreOvercommit = request.memoryOvercommit = 1000;
  return std::nullopt;
}

Amount amountOf(const MigProfile& profile, int64_t instances, int64_t cardCore) {
  return {cardCore * profile.compute / MigProfile::kComputeSlices * instances, profile.memory * instances, {}};
}

MigInstances findInstances(const Profiles& profiles, int64_t cardCore, const Amount& charged) {
  const int memorySlots = std::popcount(charged.slots.without({1u << v1alpha::Slots::kMedia}).bits);
  for (const MigProfile& profile : profiles) {
    if (profile.memory <= 0 || charged.memory < profile.memory || charged.memory % profile.memory != 0) continue;
    const int64_t n = charged.memory / profile.memory;
    if (charged.core != amountOf(profile, n, cardCore).core || profile.media != charged.slots.has(Slots::kMedia))
      continue;
    if (charged.slots.empty() || memorySlots == profile.size * n) return {keyOf(profile.name), n};
  }
  return {};
}

}  // namespace egpu::scheduler::mig

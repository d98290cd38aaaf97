#include "api/v1alpha/card_object.h"

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {

ElasticGPU cardObject(const Card& card) {
  ElasticGPU out;
  out.metadata.name = card.uuid;
  for (char& c : out.metadata.name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  out.metadata.labels[std::string(keys::kRoleLabel)] = keys::kRoleCard;
  out.metadata.labels[std::string(keys::kNodeLabel)] = labelValueOf(card.nodeName);
  out.metadata.finalizers = {std::string(keys::kLedgerFinalizer)};
  out.spec.card = card;
  auto& source = out.spec.source.emplace();
  source.kind = SourceKind::physicalGPU;
  source.gpuNames = {out.metadata.name};
  out.spec.capacity["elasticgpu.io/gpu-core"] = "100";
  out.spec.capacity["elasticgpu.io/gpu-memory"] = formatBytes(card.memory);
  return out;
}

}  // namespace egpu::v1alpha

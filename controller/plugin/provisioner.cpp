#include "controller/plugin/provisioner.h"

namespace egpu::plugin {

std::string_view toString(ReplyCode outcome) {
  switch (outcome) {
    case ReplyCode::ok:
      return "ok";
    case ReplyCode::inProgress:
      return "in progress";
    case ReplyCode::noChange:
      return "no change";
    case ReplyCode::reschedule:
      return "reschedule";
    case ReplyCode::exists:
      return "exists";
    case ReplyCode::invalid:
      return "invalid";
    case ReplyCode::unavailable:
      return "unavailable";
    case ReplyCode::internal:
      return "internal";
    case ReplyCode::timeout:
      return "timeout";
    case ReplyCode::crashed:
      return "crashed";
    case ReplyCode::garbage:
      return "garbage";
  }
  return "unknown";
}

SourceValues sourceOf(const v1alpha::ElasticGPU& device) {
  if (!device.spec.source) return {};
  const auto& source = *device.spec.source;
  if (source.kind == v1alpha::SourceKind::qGPU) return {source.deviceName, source.paths, {}};
  if (source.kind == v1alpha::SourceKind::remote) return {{}, {}, source.endpoint};
  return {};
}

const std::string& migProfileOf(const v1alpha::ElasticGPU& device) {
  static const std::string none;
  const auto& source = device.spec.source;
  return source && source->kind == v1alpha::SourceKind::mig ? source->profile : none;
}

bool indefinite(ReplyCode outcome) {
  return outcome == ReplyCode::inProgress || outcome == ReplyCode::timeout || outcome == ReplyCode::crashed ||
         outcome == ReplyCode::garbage;
}

}  // namespace egpu::plugin

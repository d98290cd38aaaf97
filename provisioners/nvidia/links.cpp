#include <algorithm>
#include <string_view>

#include "provisioners/nvidia/cards.h"

namespace egpu::nvidia {
namespace {

/// Active NVLinks of one card.
struct Nvlinks {
  std::vector<int64_t> toCard;  ///< by index of the other card
  int64_t toSwitch = 0;
};

Nvlinks nvlinksOf(const Library& nvml, Device device, const std::vector<NvmlCard>& cards) {
  Nvlinks out;
  out.toCard.resize(cards.size());
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned active = 0;
    if (Library::call(nvml.nvmlDeviceGetNvLinkState, device, link, &active) != kSuccess || active != 1) continue;
    unsigned type = kLinkToUnknown;
    if (Library::call(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &type) != kSuccess) type = kLinkToUnknown;
    PciInfo remote{};
    std::size_t peer = cards.size();
    if (type != kLinkToSwitch &&
        Library::call(nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &remote) == kSuccess)
      for (peer = 0; peer < cards.size() && cards[peer].pci != addressOf(remote);) ++peer;
    if (peer < cards.size())
      ++out.toCard[peer];
    else if (type == kLinkToSwitch)
      ++out.toSwitch;
  }
  return out;
}

/// Returns the PCIe path between two cards; empty = unknown.
std::string_view pathOf(const Library& nvml, Device a, Device b) {
  unsigned level = 0;
  if (Library::call(nvml.nvmlDeviceGetTopologyCommonAncestor, a, b, &level) != kSuccess) return {};
  switch (level) {
    case kSameBoard:
      return "board";
    case kOneSwitch:
      return "single";
    case kSeveralSwitches:
      return "multiple";
    case kSameHostBridge:
      return "hostbridge";
    case kSameNode:
      return "cpu";
    case kAcrossSystem:
      return "system";
    default:
      return {};
  }
}

/// True if the driver reports that the cards reach each other through the switches, or is too old to report it.
bool reaches(const Library& nvml, Device a, Device b) {
  unsigned status = kP2pOk;
  const Return answer = Library::call(nvml.nvmlDeviceGetP2PStatus, a, b, kNvlinkCapability, &status);
  return answer == kSuccess ? status == kP2pOk : answer == kFunctionNotFound;
}

}  // namespace

void readLinks(const Library& nvml, const std::vector<Device>& devices, std::vector<NvmlCard>& cards,
               const std::function<bool()>& cancelled) {
  std::vector<Nvlinks> nvlinks;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    nvlinks.push_back(nvlinksOf(nvml, devices[i], cards));
    cards[i].switchLinks = nvlinks[i].toSwitch;
  }
  for (std::size_t a = 0; a < cards.size() && !cancelled(); ++a)
    for (std::size_t b = 0; b < cards.size(); ++b) {
      if (a == b) continue;
      const auto link = [&](std::string_view type, int64_t count) {
        if (!type.empty() && count > 0) cards[a].links.push_back({cards[b].uuid, std::string(type), count});
      };
      link(pathOf(nvml, devices[a], devices[b]), 1);
      link("nvlink", nvlinks[a].toCard[b]);
      const int64_t shared = std::min(nvlinks[a].toSwitch, nvlinks[b].toSwitch);
      if (shared > 0 && reaches(nvml, devices[a], devices[b])) link("nvswitch", shared);
    }
}

}  // namespace egpu::nvidia

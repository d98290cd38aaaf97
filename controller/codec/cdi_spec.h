// A CDI file for one device of ours: what runtimes read, and for whom it was prepared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/container_edits.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// vendor/class of our CDI devices; their name is the device's uid.
inline constexpr std::string_view kCdiKind = "elasticgpu.io/device";
/// The variable in which a file says what it was prepared for: who has it, who is charged for which cards. Annotations
/// would need CDI 0.6.0, which containerd 1.7 refuses, and a file beside it would not change with it in one rename. So
/// containers see it; it says nothing that is not about their own claims.
inline constexpr std::string_view kPreparedFor = "ELASTICGPU_PREPARED_FOR";

struct CdiSpec {
  std::string device;                               ///< name of the ElasticGPU
  std::string deviceUid;                            ///< and its uid
  std::string claimNamespace, claimName, claimUid;  ///< of the ResourceClaim
  std::string provisioner;
  std::vector<v1alpha::DeviceCard> cards;  ///< granted and charged
  /// The edits hold for this boot, driver and these minor numbers: with others a path may lead to another card.
  std::string boot, driver;     ///< the machine's boot id, the version of the cards' driver; empty = unknown
  std::vector<int64_t> minors;  ///< minor numbers of the cards, in their order; empty = unknown
  /// Another claim of the containers that have this one, and the uid of its device.
  struct Beside {
    std::string claim, deviceUid;
    bool operator==(const Beside&) const = default;
  };
  std::vector<Beside> beside;  ///< those that the variables speak for, too, in their order; before this one
  core::ContainerEdits edits;  ///< without kPreparedFor
  bool operator==(const CdiSpec&) const = default;
};

/// JSON with the lowest cdiVersion that it needs: 0.5.0 for a hostPath and for a uid that begins with a digit, else
/// 0.3.0. Foreign CDI devices stand in kPreparedFor: CDI files don't refer to each other.
std::string encodeCdiSpec(const CdiSpec& spec);
/// Code::malformed says what is wrong. Any text is taken.
base::Result<CdiSpec> decodeCdiSpec(std::string_view json);

/// Of a Pod's JSON: whether the kubelet says that one of its containers runs; true also for one that is Running and
/// says nothing of its containers. False for what is no pod.
bool hasRunningContainer(std::string_view podJson);

}  // namespace egpu::codec

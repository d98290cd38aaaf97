// CDI file of one ElasticGPU device: the edits that container runtimes apply, and the claim that it was prepared for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/container_edits.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// CDI kind (vendor/class) of the devices. The CDI device's name is the uid of the ElasticGPU.
inline constexpr std::string_view kCdiKind = "elasticgpu.io/device";
/// Environment variable that records the claim, the device and the charged cards that the file was prepared for. An
/// annotation would need CDI 0.6.0, which containerd 1.7 refuses, and a second file could not be replaced in the same
/// rename. So containers see the variable; it contains only information about their own claims.
inline constexpr std::string_view kPreparedFor = "ELASTICGPU_PREPARED_FOR";

struct CdiSpec {
  std::string device;                               ///< name of the ElasticGPU
  std::string deviceUid;                            ///< uid of the ElasticGPU
  std::string claimNamespace, claimName, claimUid;  ///< the ResourceClaim
  std::string provisioner;
  /// Cards with granted and charged amounts. None for a remote device.
  std::vector<v1alpha::DeviceCard> cards;
  /// The edits are valid only for this boot, driver and these minor numbers. With other ones a device path may lead to
  /// another card.
  std::string boot, driver;     ///< the machine's boot id, the version of the cards' driver; empty = unknown
  std::vector<int64_t> minors;  ///< minor numbers of the cards, in the order of `cards`; empty = unknown
  /// Another claim of the containers that use this claim, and the uid of its device.
  struct Beside {
    std::string claim, deviceUid;
    bool operator==(const Beside&) const = default;
  };
  std::vector<Beside> beside;  ///< claims that precede this one; the variables of `edits` also describe their devices
  core::ContainerEdits edits;  ///< without kPreparedFor
  bool operator==(const CdiSpec&) const = default;
};

/// Encodes the file as JSON with the lowest cdiVersion that it needs: 0.5.0 if it has a hostPath or a uid that begins
/// with a digit, otherwise 0.3.0. CDI devices of other vendors are listed in kPreparedFor, because CDI files can't
/// refer to each other.
std::string encodeCdiSpec(const CdiSpec& spec);
/// Decodes a file. Accepts any text; fails with Code::malformed and the reason if it is not such a file.
base::Result<CdiSpec> decodeCdiSpec(std::string_view json);

/// True if the status in the JSON of a Pod reports a running container, or the phase Running without any container
/// statuses. False for JSON that is not a Pod.
bool hasRunningContainer(std::string_view podJson);

}  // namespace egpu::codec

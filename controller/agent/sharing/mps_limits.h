// Limits of the clients of an MPS daemon, in the daemon itself. A program cannot change them, unlike the variables of
// its container.
//
//   version 3   one namespace per device, with the limits of its share. Its containers see the sockets of this
//               namespace only. The limits are read back.
//   version 2   limits that apply to all clients of the card: the largest share. Variables of the container lower them
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "api/v1alpha/types.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/base/status.h"

namespace egpu::agent::sharing {

struct ClientLimits {
  int64_t percentage = 0;  ///< part of the card's multiprocessors, 1 to 100; 0 = no limit
  int64_t memory = 0;      ///< MiB; 0 = no limit
  bool operator==(const ClientLimits&) const = default;
};
/// Limits by the uid of the device.
using LimitsByDevice = std::map<std::string, ClientLimits>;

ClientLimits limitsOf(const v1alpha::DeviceCard& share);

/// Thread-safe; the commands must outlive it.
class MpsLimits {
 public:
  explicit MpsLimits(const MpsCommands& commands) : commands_(commands) {}

  /// Sets the limits of all devices of the card, and removes namespaces of other devices. Fails if the daemon has other
  /// limits afterwards.
  base::Status set(const std::string& card, int version, const LimitsByDevice& limits) const;
  /// Returns true if a server of the daemon is blocked by a fault of a client.
  base::Result<bool> isFaulty(const std::string& card, int version) const;

 private:
  base::Status setNamespaces(const std::string& card, const LimitsByDevice& limits) const;
  base::Status setNamespace(const std::string& card, const std::string& name, const ClientLimits& limits) const;
  base::Status removeOthers(const std::string& card, const LimitsByDevice& limits) const;
  base::Status setDefaults(const std::string& card, const ClientLimits& most) const;
  /// Sets two limits by commands of version 2, and reads them back. scope: "default_", or empty; of: PID of the server.
  base::Status setBoth(const std::string& card, const std::string& scope, const std::string& of,
                       const ClientLimits& limits) const;
  base::Result<std::string> ask(const std::string& card, const std::string& command) const;

  const MpsCommands& commands_;
};

}  // namespace egpu::agent::sharing

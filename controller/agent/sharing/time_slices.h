// Time slices of cards that devices with isolation none share. The class parameter timeSlice sets the slice of a card
// when a device is prepared; the last one applies. A card without prepared devices has the driver's default again. The
// driver forgets the slices at a reboot.
#pragma once

#include <optional>
#include <string>

#include "api/v1alpha/types.h"
#include "controller/agent/cdi/folder.h"
#include "controller/agent/sharing/mps_commands.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"

namespace egpu::agent::sharing {

/// Thread-safe. References must outlive it.
class TimeSlices {
 public:
  /// folder: of the records of this class, one file per card with a slice. boot: boot id of the machine.
  TimeSlices(const MpsCommands& commands, cdi::Folder& devices, std::string folder, std::string boot)
      : commands_(commands), devices_(devices), folder_(std::move(folder)), boot_(std::move(boot)) {}

  /// Sets the slice of the device's cards if its class has the parameter. Its CDI part file must exist, because it
  /// keeps the slice. Errors have Code::unavailable, and name the card and the reason.
  base::Status requireFor(const v1alpha::ElasticGPU& device) EGPU_EXCLUDES(mutex_);
  /// Sets the default on cards without prepared devices.
  void restoreUnused() EGPU_EXCLUDES(mutex_);

 private:
  base::Status set(const std::string& card, const std::string& name) EGPU_REQUIRES(mutex_);
  std::string fileOf(const std::string& card) const { return folder_ + "/" + card; }

  const MpsCommands& commands_;
  cdi::Folder& devices_;
  const std::string folder_, boot_;
  base::Mutex mutex_;  ///< held during a change, so that a device that is prepared meanwhile is not overlooked
};

}  // namespace egpu::agent::sharing

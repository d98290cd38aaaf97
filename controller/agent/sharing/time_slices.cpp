#include "controller/agent/sharing/time_slices.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "api/v1alpha/size.h"
#include "controller/agent/sharing/daemon_records.h"
#include "controller/base/log.h"
#include "controller/base/private_files.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::MutexLock;
using base::Status;

/// Values of the parameter, at the numbers of `nvidia-smi compute-policy --set-timeslice`.
constexpr std::array<std::string_view, 4> kTimeSlices{"default", "short", "medium", "long"};

}  // namespace

Status TimeSlices::requireFor(const v1alpha::ElasticGPU& device) {
  const auto slice = device.spec.parameters.find(std::string_view("timeSlice"));
  if (slice == device.spec.parameters.end() || !device.status.isolation || device.status.isolation->mode != "none")
    return Status::okay();
  const MutexLock lock(mutex_);
  for (const auto& share : v1alpha::cardsInForce(device))
    if (auto s = set(share.uuid, slice->second); !s.ok()) return s;
  return Status::okay();
}

Status TimeSlices::set(const std::string& card, const std::string& name) {
  const auto* const known = std::find(kTimeSlices.begin(), kTimeSlices.end(), name);
  if (!isCardName(card) || known == kTimeSlices.end())
    return {Code::unavailable, "the time slice " + base::quoted(name) + " of card " + base::quoted(card) +
                                   " can't be set; valid are default, short, medium, long"};
  const auto record = boot_ + " " + name;
  const auto before = base::readPrivateFile(fileOf(card));
  if (before && *before == record) return Status::okay();
  if (auto s = base::makePrivateFolder(folder_, card); !s.ok()) return s;
  // The first record does not name the slice: after a crash, the slice is set again.
  if (auto s = base::writePrivateFile(fileOf(card), boot_ + " ?"); !s.ok()) return s;
  if (auto s = commands_.setTimeSlice(card, static_cast<int>(known - kTimeSlices.begin())); !s.ok())
    return {Code::unavailable, "the time slice of card " + card + " can't be set to " + name + ": " + s.message()};
  return base::writePrivateFile(fileOf(card), record);
}

void TimeSlices::restoreUnused() {
  const MutexLock lock(mutex_);
  std::vector<std::string> cards;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error))
    if (auto name = entry.path().filename().string(); isCardName(name)) cards.push_back(std::move(name));
  if (cards.empty()) return;
  const auto devices = devices_.list();
  if (!devices) return;
  for (const auto& card : cards) {
    const auto isOn = [&](const v1alpha::DeviceCard& share) {
      return base::lowered(share.uuid) == base::lowered(card);
    };
    const auto mayUse = [&](const auto& device) {
      return !device.spec || std::any_of(device.spec->cards.begin(), device.spec->cards.end(), isOn);
    };
    if (std::any_of(devices->begin(), devices->end(), mayUse)) continue;
    if (const auto s = set(card, "default"); !s.ok())
      base::log::debug("a time slice is not restored", {{"card", card}, {"why", s.str()}});
    else
      ::unlink(fileOf(card).c_str());
  }
}

}  // namespace egpu::agent::sharing

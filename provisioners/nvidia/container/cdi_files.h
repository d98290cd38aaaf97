// Reads the CDI specs that NVIDIA's toolkit has written for container runtimes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::nvidia {

/// Returns the names of the devices in a spec of the kind nvidia.com/gpu; none for other kinds. Returns nullopt and
/// sets `why` if `text` is not a CDI spec, in YAML or JSON.
std::optional<std::vector<std::string>> gpusOfSpec(std::string_view text, std::string& why);

/// True if nvidia.com/gpu=<uuid> names exactly one device for each uuid, so that a runtime finds it. Files that can't
/// be read add a remark.
bool offeredByCdi(const std::vector<std::string>& uuids, std::vector<std::string>& remarks);

}  // namespace egpu::nvidia

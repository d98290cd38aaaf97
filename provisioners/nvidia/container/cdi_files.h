// What NVIDIA's toolkit has described for container runtimes: its CDI specs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::nvidia {

/// The devices of a spec of the kind nvidia.com/gpu, by name; none of another kind. Nothing, and why, if `text` is no
/// CDI spec. It is YAML, of which JSON is a part.
std::optional<std::vector<std::string>> gpusOfSpec(std::string_view text, std::string& why);

/// True if nvidia.com/gpu=<uuid> names exactly one device for each of these, so that a runtime finds it. Files that
/// can't be read add a remark.
bool offeredByCdi(const std::vector<std::string>& uuids, std::vector<std::string>& remarks);

}  // namespace egpu::nvidia

// Files of the host that containers are given. This process may see them elsewhere: it may run in a container itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace egpu::nvidia {

/// Where this process sees a file of the host: $ELASTICGPU_HOST_ROOT is where it has the host's root folder, "" = it is
/// no container. The host itself has the file at rooted(path).
std::string seen(const std::string& path);

/// The path without links, each followed as the host would; empty if nothing is there. folder: itself without links, where
/// a relative path begins.
std::string resolved(const std::string& path, const std::string& folder = {});

/// What is in a file of the host; nothing if it can't be read or has more than `most` bytes.
std::optional<std::string> readHostFile(const std::string& path, std::size_t most);

}  // namespace egpu::nvidia

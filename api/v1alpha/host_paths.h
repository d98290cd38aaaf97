// The class parameter `hostPaths`: further host paths and CDI devices that the class's plugin may give to containers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::v1alpha {

/// True for an absolute path other than "/", without empty, "." or ".." components and without a trailing '/'.
bool isCleanPath(std::string_view path);

/// Error message for an invalid pattern; the pattern's text precedes it.
inline constexpr std::string_view kNoHostPath =
    "is neither an absolute path (optionally ending in '*' or '/') nor a CDI device, or more than 64 are given";

/// Parses patterns separated by commas: an absolute path, a prefix that ends in '/' (everything below) or '*'
/// (everything that begins so), or a CDI device: "vendor.com/class=name" or "vendor.com/class=*". An empty text has
/// none. On an error returns nullopt and sets `wrong`, if given, to the first invalid pattern.
std::optional<std::vector<std::string>> parseHostPaths(std::string_view text, std::string* wrong);

}  // namespace egpu::v1alpha

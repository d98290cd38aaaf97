// The class parameter hostPaths: what of the host its plugin may give to containers besides what every plugin may.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::v1alpha {

/// Absolute, and no "//", "." or ".." in it; no '/' at its end.
bool isCleanPath(std::string_view path);

/// What is wrong with what is no pattern; its text stands before it.
inline constexpr std::string_view kNoHostPath =
    "is no absolute path, with a '*' or '/' at its end or not, and no CDI device, or there are more than 64";

/// The patterns, with commas between: an absolute path, one that ends in '/' for all below it, one that ends in '*' for
/// all that begin so; or a CDI device, "vendor.com/class=name" or "vendor.com/class=*". None of an empty text. No value:
/// `wrong`, if given, is the first that is none.
std::optional<std::vector<std::string>> parseHostPaths(std::string_view text, std::string* wrong);

}  // namespace egpu::v1alpha

// Base64 as used in kubeconfigs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace egpu::kube {

/// Uses the standard alphabet with padding; skips spaces and line breaks. On failure returns nullopt and sets `why`.
std::optional<std::string> decodeBase64(std::string_view text, std::string& why);
std::string encodeBase64(std::string_view bytes);

}  // namespace egpu::kube

// Base64 as kubeconfigs hold it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace egpu::kube {

/// Standard alphabet with padding; spaces and line breaks are skipped. On failure nullopt, and `why` says so.
std::optional<std::string> decodeBase64(std::string_view text, std::string& why);
std::string encodeBase64(std::string_view bytes);

}  // namespace egpu::kube

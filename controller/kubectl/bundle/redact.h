// Removes possible secrets from objects and logs.
#pragma once

#include <string>
#include <string_view>

#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

inline constexpr std::string_view kRemoved = "<removed>";

/// Returns the object without what users may keep secrets in: managed fields, foreign annotations (such as
/// kubectl.kubernetes.io/last-applied-configuration), the values of environment variables, commands and arguments,
/// probes and lifecycle hooks, parameters of classes with a telling name, and all of an address of a remote device but
/// scheme, host and port. The names of removed values stay. All remaining texts are passed through redactedText().
Json redacted(Json object);

/// Returns the text without bearer tokens, JSON web tokens, private keys, credentials in URLs, and values behind names
/// such as "password=".
std::string redactedText(const std::string& text);

}  // namespace egpu::kubectl

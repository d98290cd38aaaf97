// The parts of a URL that are needed to reach a server.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/base/text.h"

namespace egpu::kube {

struct Url {
  std::string scheme;     ///< lower case
  std::string authority;  ///< host and port as written, without credentials: "[::1]:443"
  std::string host;       ///< without brackets
  std::string port;       ///< the default port of the scheme if none is written
  std::string path;       ///< with leading '/', or empty
};

/// Parses "scheme://[user[:password]@]host[:port][/path]"; nullopt for anything else. Does not validate names.
inline std::optional<Url> parseUrl(std::string_view text) {
  Url out;
  const auto colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  out.scheme = base::lowered(text.substr(0, colon));
  text.remove_prefix(colon + 3);
  const auto slash = text.find_first_of("/?#");
  if (slash != std::string_view::npos) out.path = text.substr(slash);
  std::string_view authority = text.substr(0, slash);
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) authority.remove_prefix(at + 1);
  for (const char c : authority)
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') return std::nullopt;
  out.authority = authority;
  const auto bracket = authority.rfind(']');
  const auto port = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  out.host = authority.substr(0, port);
  if (port != std::string_view::npos) out.port = authority.substr(port + 1);
  if (out.host.size() >= 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.port.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  if (out.port.empty()) out.port = out.scheme == "https" ? "443" : out.scheme == "http" ? "80" : "1080";
  if (out.host.empty()) return std::nullopt;
  return out;
}

}  // namespace egpu::kube

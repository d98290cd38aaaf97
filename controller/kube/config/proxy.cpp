#include "controller/kube/config/proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include "controller/base/text.h"
#include "controller/kube/config/url.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;

namespace {

/// An address as 16 bytes; IPv4 as ::ffff:a.b.c.d.
using Address = std::array<unsigned char, 16>;

std::optional<Address> parseAddress(std::string_view text) {
  const std::string name(text);
  Address out{};
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) {
    out[10] = out[11] = 0xff;
    std::memcpy(out.data() + 12, &v4, 4);
    return out;
  }
  if (inet_pton(AF_INET6, name.c_str(), out.data()) == 1) return out;
  return std::nullopt;
}

bool isV4(const Address& a) {
  static constexpr Address kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(a.begin(), a.begin() + 12, kPrefix.begin());
}

bool isLoopback(const Address& a) {
  static constexpr Address kV6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return isV4(a) ? a[12] == 127 : a == kV6;
}

/// True if the block ("10.0.0.0/8") contains the address; nullopt: the text is not a block.
std::optional<bool> blockHolds(std::string_view block, const std::optional<Address>& address) {
  const auto slash = block.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto network = parseAddress(block.substr(0, slash));
  const std::string_view length = block.substr(slash + 1);
  std::size_t bits = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
  const bool v4 = block.find(':') == std::string_view::npos;
  if (!network || error != std::errc{} || end != length.data() + length.size() || bits > (v4 ? 32U : 128U))
    return std::nullopt;
  if (!address || isV4(*address) != v4) return false;
  if (v4) bits += 96;
  for (std::size_t i = 0; i < 16 && bits > 0; ++i) {
    const std::size_t here = std::min<std::size_t>(bits, 8);
    const auto mask = static_cast<unsigned char>(0xff00U >> here);
    if (((*address)[i] ^ (*network)[i]) & mask) return false;
    bits -= here;
  }
  return true;
}

/// True if an entry of NO_PROXY, in lower case, matches a server's host, port and address (if the host is one).
bool exempts(std::string_view entry, std::string_view host, std::string_view port,
             const std::optional<Address>& address) {
  if (const auto block = blockHolds(entry, address)) return *block;
  std::string_view entryHost = entry, entryPort;
  const auto colon = entry.rfind(':');
  const bool bracketed = !entry.empty() && entry.front() == '[';
  // "host:port" or "[v6]:port"; several colons without brackets are a bare IPv6 address.
  if (colon != std::string_view::npos && (bracketed ? entry[colon - 1] == ']' : entry.find(':') == colon)) {
    entryHost = entry.substr(0, colon);
    entryPort = entry.substr(colon + 1);
  }
  if (bracketed && entryHost.size() >= 2 && entryHost.back() == ']')
    entryHost = entryHost.substr(1, entryHost.size() - 2);
  if (entryHost.empty() || (!entryPort.empty() && entryPort != port)) return false;
  if (const auto exact = parseAddress(entryHost)) return address && *exact == *address;
  if (address) return false;  // names do not match addresses
  if (entryHost.rfind("*.", 0) == 0) entryHost.remove_prefix(1);
  const bool below = entryHost.front() == '.';
  const std::string suffix = below ? std::string(entryHost) : "." + std::string(entryHost);
  if (host.size() > suffix.size() && host.substr(host.size() - suffix.size()) == suffix) return true;
  return !below && host == entryHost;
}

bool bypassed(std::string_view list, const Url& server) {
  const std::string host = base::lowered(base::trimmed(server.host));
  if (host == "localhost") return true;
  const auto address = parseAddress(host);
  if (address && isLoopback(*address)) return true;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const std::string entry = base::lowered(base::trimmed(list.substr(0, comma)));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    if (entry == "*") return true;
    if (!entry.empty() && exempts(entry, host, server.port, address)) return true;
  }
  return false;
}

}  // namespace

Result<std::string> checkProxyUrl(std::string_view url) {
  const auto parsed = parseUrl(url);
  if (!parsed) return Status(Code::invalid, "not a URL of a proxy (scheme://host:port)");
  if (parsed->scheme == "socks5" || parsed->scheme == "socks5h")
    return "socks5h" + std::string(url.substr(parsed->scheme.size()));
  if (parsed->scheme != "http" && parsed->scheme != "https")
    return Status(Code::invalid, "scheme \"" + parsed->scheme + "\" of a proxy is not http, https or socks5");
  return std::string(url);
}

Result<std::string> proxyFromEnvironment(std::string_view serverUrl, const Environment& environment) {
  const auto either = [&](const char* upper, const char* lowerCase) {
    auto value = environment.variable(upper);
    if (!value || value->empty()) value = environment.variable(lowerCase);
    return value.value_or("");
  };
  const auto server = parseUrl(serverUrl);
  if (!server) return std::string();  // the user of that URL refuses it
  const bool https = server->scheme == "https";
  // A CGI process receives the client's header "Proxy" as HTTP_PROXY.
  if (!https && !environment.variable("REQUEST_METHOD").value_or("").empty()) return std::string();
  const std::string proxy = https ? either("HTTPS_PROXY", "https_proxy") : either("HTTP_PROXY", "http_proxy");
  if (proxy.empty() || bypassed(either("NO_PROXY", "no_proxy"), *server)) return std::string();
  auto checked = checkProxyUrl(parseUrl(proxy) ? proxy : "http://" + proxy);
  if (!checked)
    return Status(Code::invalid, std::string(https ? "HTTPS_PROXY" : "HTTP_PROXY") + ": " + checked.status().message());
  return checked;
}

}  // namespace egpu::kube

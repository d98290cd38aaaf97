// Selects the proxy for the API server by the rules of Go's net/http, which all Kubernetes clients use.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"
#include "controller/kube/config/environment.h"

namespace egpu::kube {

/// Returns a proxy's URL in the form for the transport: scheme http, https or socks5h (socks5 means the same: the proxy
/// resolves names), and a host. Otherwise Code::invalid, without the credentials that a URL may contain.
base::Result<std::string> checkProxyUrl(std::string_view url);

/// Returns the proxy from HTTPS_PROXY, HTTP_PROXY and NO_PROXY (or lower case; upper case takes precedence); empty = no
/// proxy. https servers use only HTTPS_PROXY, http servers only HTTP_PROXY, which is ignored in a CGI process. A proxy
/// without a scheme is http. "localhost" and loopback addresses never use a proxy. NO_PROXY is a list, separated by
/// commas, of "*" (everything), an address, a CIDR block, or a domain ("example.com": it and its subdomains;
/// ".example.com" or "*.example.com": only its subdomains). All but a CIDR block may end in ":port".
base::Result<std::string> proxyFromEnvironment(std::string_view serverUrl, const Environment& environment);

}  // namespace egpu::kube

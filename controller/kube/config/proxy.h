// Which proxy leads to the API server, by the rules of Go's net/http, hence of every Kubernetes client.
#pragma once

#include <string>
#include <string_view>

#include "controller/base/status.h"
#include "controller/kube/config/environment.h"

namespace egpu::kube {

/// A proxy's URL in the form that the transport takes: scheme http, https or socks5h (socks5 means the same: the proxy
/// resolves names), a host. Code::invalid otherwise, without the credentials that a URL may hold.
base::Result<std::string> checkProxyUrl(std::string_view url);

/// From HTTPS_PROXY, HTTP_PROXY and NO_PROXY (or lower case; upper case wins); empty = go directly. https servers look
/// at HTTPS_PROXY alone, http servers at HTTP_PROXY alone, which is ignored in a CGI process. A proxy without a scheme
/// is http. Never through a proxy: "localhost" and loopback addresses. NO_PROXY is a list, separated by commas, of
/// "*" (everything), an address, a CIDR block, a domain ("example.com" and all below it, ".example.com" or
/// "*.example.com" only what is below it); any but a CIDR block may end in ":port".
base::Result<std::string> proxyFromEnvironment(std::string_view serverUrl, const Environment& environment);

}  // namespace egpu::kube

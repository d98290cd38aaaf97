// Implements Transport with libcurl: TLS, HTTP/2 if TLS negotiates it (one multiplexed connection), otherwise HTTP/1.1.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "controller/base/clock.h"
#include "controller/base/status.h"
#include "controller/kube/config/endpoint.h"
#include "controller/kube/config/exec_plugin.h"
#include "controller/kube/transport/transport.h"

namespace egpu::kube {

struct CurlOptions {
  std::chrono::milliseconds connectTimeout{10'000};  ///< TCP and TLS handshakes
  std::size_t maxBody = std::size_t{1} << 30;        ///< maximum bytes of an answer held in memory
  std::size_t streamBuffer = std::size_t{1}
                             << 20;  ///< maximum bytes read ahead of a slow stream consumer; beyond that, only this
                                     ///< stream pauses
  bool http2 = true;                 ///< offer HTTP/2 over TLS
  bool verbose = false;              ///< write libcurl's protocol trace to standard error
  ExecLimits plugin;                 ///< limits of a credential plugin's run
};

/// Calls block, from any number of threads; one I/O thread of the transport drives all transfers. On HTTP/1.1 every
/// request in progress has its own connection, so streams never delay writes. A stop ends a call immediately. Tokens,
/// certificates and authorities follow their files (CredentialSource); after a 401, a request is sent once more if the
/// credentials have changed. No redirects, no compression, only the endpoint's proxy. `clock` (used only for the age of
/// files and credentials) must outlive it; no call may be running when it is destroyed. Does not connect yet.
/// Code::invalid: the endpoint's server is not an http(s) URL.
base::Result<std::unique_ptr<Transport>> curlTransport(const Endpoint& endpoint, base::Clock& clock,
                                                       CurlOptions options = {});

}  // namespace egpu::kube

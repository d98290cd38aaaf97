// The Transport over libcurl: TLS, HTTP/2 where TLS offers it (one multiplexed connection), HTTP/1.1 otherwise.
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
  std::size_t maxBody = std::size_t{1} << 30;        ///< bytes of an answer held in memory
  std::size_t streamBuffer = std::size_t{1}
                             << 20;  ///< bytes read ahead of a slow stream consumer; then the stream pauses, alone
  bool http2 = true;                 ///< offer it over TLS
  bool verbose = false;              ///< libcurl's protocol trace to standard error
  ExecLimits plugin;                 ///< of a credential plugin's run
};

/// Blocking calls from any number of threads; one I/O thread of its own drives all transfers. On HTTP/1.1 every
/// exchange in flight has a connection of its own, so streams never hold up writes. A stop ends a call at once. Tokens,
/// certificates and authorities follow their files (CredentialSource); after a 401 a request is sent once more if there
/// are others. No redirects, no compression, no proxy but the endpoint's. `clock` (age of files and credentials only)
/// must outlive it; no call may be running when it is destroyed. Connects nothing yet. Code::invalid: the endpoint's
/// server isn't an http(s) URL.
base::Result<std::unique_ptr<Transport>> curlTransport(const Endpoint& endpoint, base::Clock& clock,
                                                       CurlOptions options = {});

}  // namespace egpu::kube

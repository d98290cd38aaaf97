// Parses the address that a flag gives for a listener, and opens the listening socket. Internal to http/.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::http {

struct ListeningSocket {
  int fd = -1;          ///< owned by the caller
  std::string address;  ///< with the actual port
};

/// Listens on "host:port", "[v6]:port" or ":port". Fails with Code::invalid or Code::unavailable.
base::Result<ListeningSocket> openListeningSocket(const std::string& address);

}  // namespace egpu::http

// Parses the address that a flag gives for a listener, and opens the listening socket. Internal to http/.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::http {

struct ListeningSocket {
  int fd = -1;          ///< owned by the caller
  std::string address;  ///< with the actual port
};

/// Opens a socket that listens on "host:port", "[v6]:port" or ":port". Fails with Code::invalid if the address can't be
/// parsed, and with Code::unavailable if it can't be bound.
base::Result<ListeningSocket> openListeningSocket(const std::string& address);

}  // namespace egpu::http

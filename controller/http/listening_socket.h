// Where a listener listens: addresses as flags have them, and the socket. Internal to http/.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::http {

struct ListeningSocket {
  int fd = -1;          ///< owned by who gets it
  std::string address;  ///< with the real port
};

/// "host:port", "[v6]:port" or ":port". Code::invalid, or Code::unavailable.
base::Result<ListeningSocket> openListeningSocket(const std::string& address);

}  // namespace egpu::http

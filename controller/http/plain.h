// Plain-text responses.
#pragma once

#include <string>

#include "controller/http/http.h"

namespace egpu::http {

/// Returns a text/plain response. Errors quote untrusted text, so their control characters are escaped for terminals.
Response plain(int status, std::string body);

}  // namespace egpu::http

// Plain-text responses.
#pragma once

#include <string>

#include "controller/http/http.h"

namespace egpu::http {

/// Returns a text/plain response. Unless the status is 200, control characters except newlines are escaped, because
/// error messages quote untrusted text and terminals would act on control characters.
Response plain(int status, std::string body);

}  // namespace egpu::http

// Answers in words.
#pragma once

#include <string>

#include "controller/http/http.h"

namespace egpu::http {

/// text/plain. Errors hold words of the caller and of others: none of them is obeyed by the terminal that shows them.
Response plain(int status, std::string body);

}  // namespace egpu::http

// The head of a request, parsed before the library sees anything. Internal to http/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "controller/http/http.h"

namespace egpu::http {

/// Why a request is not served: an HTTP status, a reason as the API server names it, a sentence for people.
struct Refusal {
  int status = 400;
  std::string_view reason = "BadRequest";
  std::string message;
};

struct Head {
  std::string method, target;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::size_t length = 0;                                    ///< of the body; meaningless if chunked
  bool chunked = false;
  bool closes = false;     ///< the connection ends with this request
  bool continues = false;  ///< the client waits for "100 Continue"

  /// What the library is given in its place: nothing but what frames the body. So no header can make it decompress,
  /// cut into ranges or parse forms.
  std::string framing() const;
};

/// `text` ends with the empty line.
std::variant<Head, Refusal> parseHead(std::string_view text, const Limits& limits);

/// A Kubernetes Status of a failure.
std::string statusBody(const Refusal& refusal);
/// The same as a whole answer that closes the connection.
std::string refusalAnswer(const Refusal& refusal);

}  // namespace egpu::http

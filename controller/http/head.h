// Head of a request. It is parsed here, before cpp-httplib sees any of it. Internal to http/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "controller/http/http.h"

namespace egpu::http {

/// Reason why a request is not served: HTTP status, `reason` as in a Kubernetes Status, and a message for people.
struct RequestRefusal {
  int status = 400;
  std::string_view reason = "BadRequest";
  std::string message;
};

struct Head {
  std::string method, target;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::size_t length = 0;                                    ///< bytes of the body; meaningless if chunked
  bool chunked = false;
  bool closes = false;     ///< the connection closes after this request
  bool continues = false;  ///< the client waits for "100 Continue"

  /// Returns the head that the library reads instead: only the request line and the headers that frame the body. So no
  /// header can make the library decompress the body, serve ranges or parse forms.
  std::string framing() const;
};

/// Parses a head, or returns why the request is refused. `text` ends with the empty line.
std::variant<Head, RequestRefusal> parseHead(std::string_view text, const Limits& limits);

/// Returns the refusal as a Kubernetes Status in JSON.
std::string statusBody(const RequestRefusal& refusal);
/// Returns a complete HTTP answer with statusBody() as its body. The answer closes the connection.
std::string refusalAnswer(const RequestRefusal& refusal);

}  // namespace egpu::http

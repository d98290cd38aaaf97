#include "controller/http/head.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "controller/base/text.h"

namespace egpu::http {
namespace {

constexpr std::size_t kMaxTargetLength = 8000;  // the library refuses a request line of more than 8192 bytes

bool isToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool hasControls(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == '\x7f'; });
}

RequestRefusal bad(std::string message) { return {400, "BadRequest", std::move(message)}; }

/// Removes the next line from `text` and returns it without its CRLF.
std::string_view nextLine(std::string_view& text) {
  const auto end = text.find("\r\n");
  const auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  return line;
}

std::optional<RequestRefusal> parseRequestLine(std::string_view line, Head& head) {
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return bad("the request line is not METHOD TARGET VERSION");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  if (!isToken(head.method)) return bad("the method can't be understood");
  if (head.target.size() > kMaxTargetLength)
    return RequestRefusal{414, "RequestURITooLong",
                          "the request's target is longer than " + std::to_string(kMaxTargetLength)};
  if (head.target.empty() || head.target.find_first_of(" #") != std::string::npos || hasControls(head.target))
    return bad("the request's target can't be understood");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return bad("only HTTP/1.1 and HTTP/1.0 are served");
  head.closes = version == "HTTP/1.0";
  return std::nullopt;
}

std::optional<RequestRefusal> takeLength(std::string_view value, const Limits& limits, bool seen, Head& head) {
  uint64_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  const bool tooLarge = error == std::errc::result_out_of_range;
  if ((error != std::errc{} && !tooLarge) || end != value.data() + value.size())
    return bad("Content-Length is not a number of bytes");
  if (tooLarge || length > limits.maxBodyBytes)
    return RequestRefusal{413, "RequestEntityTooLarge",
                          "Request entity too large: limit is " + std::to_string(limits.maxBodyBytes)};
  if (seen && length != head.length) return bad("two different Content-Length headers");
  head.length = length;
  return std::nullopt;
}

/// Applies a header that decides how the connection is read to `head`, or returns why the request is refused.
std::optional<RequestRefusal> understand(const std::string& name, std::string_view value, const Limits& limits,
                                         bool& hasLength, Head& head) {
  if (name == "content-length") {
    auto refused = takeLength(value, limits, hasLength, head);
    hasLength = true;
    return refused;
  }
  if (name == "transfer-encoding") {
    if (base::lowered(value) != "chunked" || head.chunked) return bad("the only transfer encoding served is chunked");
    head.chunked = true;
  } else if (name == "content-encoding") {
    if (base::lowered(value) != "identity")
      return RequestRefusal{415, "UnsupportedMediaType",
                            "compressed bodies are not accepted: send it without Content-Encoding"};
  } else if (name == "connection") {
    const std::string how = base::lowered(value);
    if (how.find("close") != std::string::npos) head.closes = true;
    if (how.find("keep-alive") != std::string::npos) head.closes = false;
  } else if (name == "expect") {
    if (base::lowered(value) != "100-continue")
      return RequestRefusal{417, "ExpectationFailed", "only 100-continue can be expected"};
    head.continues = true;
  }
  return std::nullopt;
}

}  // namespace

std::variant<Head, RequestRefusal> parseHead(std::string_view text, const Limits& limits) {
  Head head;
  if (auto refused = parseRequestLine(nextLine(text), head)) return *refused;
  bool hasLength = false;
  for (auto line = nextLine(text); !line.empty(); line = nextLine(text)) {
    if (head.headers.size() == limits.maxHeaders)
      return RequestRefusal{431, "RequestHeaderFieldsTooLarge",
                            "more than " + std::to_string(limits.maxHeaders) + " headers"};
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !isToken(line.substr(0, colon)) || hasControls(line))
      return bad("a header can't be understood");
    std::string name = base::lowered(line.substr(0, colon));
    const auto value = base::trimmed(line.substr(colon + 1));
    if (auto refused = understand(name, value, limits, hasLength, head)) return *refused;
    head.headers.emplace_back(std::move(name), value);
  }
  if (hasLength && head.chunked) return bad("both Content-Length and Transfer-Encoding");
  // The library reads no body for these methods. Close the connection, so that a body is not parsed as the next
  // request.
  const bool bodiless = head.method == "GET" || head.method == "HEAD" || head.method == "OPTIONS";
  if (bodiless && (head.chunked || head.length > 0)) head.closes = true;
  return head;
}

std::string Head::framing() const {
  std::string out = method + " " + target + " HTTP/1.1\r\n";
  out += chunked ? "Transfer-Encoding: chunked\r\n" : "Content-Length: " + std::to_string(length) + "\r\n";
  if (closes) out += "Connection: close\r\n";
  if (continues) out += "Expect: 100-continue\r\n";
  return out + "\r\n";
}

std::string statusBody(const RequestRefusal& refusal) {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" + refusal.message +
         R"(","reason":")" + std::string(refusal.reason) + R"(","code":)" + std::to_string(refusal.status) + "}";
}

std::string refusalAnswer(const RequestRefusal& refusal) {
  const std::string body = statusBody(refusal);
  return "HTTP/1.1 " + std::to_string(refusal.status) + " " + std::string(refusal.reason) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         (refusal.status == 503 ? "\r\nRetry-After: 1" : "") + "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace egpu::http

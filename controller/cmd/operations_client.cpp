#include "controller/cmd/operations_client.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "controller/base/clock.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

bool wantsColor(const std::string& mode) {
  if (mode != "auto") return mode == "always";
  const char* no = std::getenv("NO_COLOR");
  if (no != nullptr && *no != '\0') return false;
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::string queryEncoded(const std::string& text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : text) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.';
    if (plain)
      out += static_cast<char>(c);
    else
      out += {'%', hex[c >> 4], hex[c & 15]};
  }
  return out;
}

int printAnswer(const std::string& server, const kube::HttpRequest& request) {
  base::SystemClock clock;
  kube::Endpoint endpoint;
  endpoint.server = server.find("://") == std::string::npos ? "http://" + server : server;
  auto transport = kube::curlTransport(endpoint, clock);
  if (!transport) {
    std::fprintf(stderr, "error: --server: %s\n", transport.status().message().c_str());
    return 2;
  }
  const auto answer = (*transport)->perform(request, {});
  if (!answer) {
    std::fprintf(stderr, "error: --server: %s\nIs the controller running, and is this its --ops-listen address?\n",
                 answer.status().message().c_str());
    return 1;
  }
  auto* to = answer->status == 200 ? stdout : stderr;
  if (answer->status != 200) std::fputs("error: ", to);
  std::fwrite(answer->body.data(), 1, answer->body.size(), to);
  if (answer->body.empty() || answer->body.back() != '\n') std::fputs("\n", to);
  return answer->status == 200 ? 0 : 1;
}

}  // namespace egpu::cmd

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "controller/base/clock.h"
#include "controller/cmd/options.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

namespace {

/// Cells for one bar: what is left of the line beside the texts, halved for the two bars.
int barWidth() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 30;
  return std::clamp((size.ws_col - 56) / 2, 10, 60);
}

std::string encoded(const std::string& text) {
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

}  // namespace

int mapCommand(const MapOptions& options) {
  base::SystemClock clock;
  kube::Endpoint endpoint;
  endpoint.server = options.server.find("://") == std::string::npos ? "http://" + options.server : options.server;
  auto transport = kube::curlTransport(endpoint, clock);
  if (!transport) {
    std::fprintf(stderr, "error: --server: %s\n", transport.status().message().c_str());
    return 2;
  }
  const bool color = options.color == "always" || (options.color == "auto" && ::isatty(STDOUT_FILENO) != 0);
  kube::HttpRequest request;
  request.target =
      "/allocation-map?format=" + options.format + "&width=" + std::to_string(barWidth()) + (color ? "&color=1" : "");
  if (!options.node.empty()) request.target += "&node=" + encoded(options.node);
  const auto answer = (*transport)->perform(request, {});
  if (!answer) {
    std::fprintf(stderr, "error: --server: %s\nIs the controller running, and is this its --ops-listen address?\n",
                 answer.status().message().c_str());
    return 1;
  }
  if (answer->status != 200) {
    std::fprintf(stderr, "error: %s", answer->body.c_str());
    if (answer->body.empty() || answer->body.back() != '\n') std::fputs("\n", stderr);
    return 1;
  }
  std::fputs(answer->body.c_str(), stdout);
  if (options.format != "text") std::fputs("\n", stdout);
  return 0;
}

}  // namespace egpu::cmd

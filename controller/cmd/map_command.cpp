#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"

namespace egpu::cmd {

namespace {

/// Cells for one bar: what is left of the line beside the texts, halved for the two bars.
int barWidth() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 30;
  return std::clamp((size.ws_col - 56) / 2, 10, 60);
}

}  // namespace

int mapCommand(const MapOptions& options) {
  kube::HttpRequest request;
  request.target = "/allocation-map?format=" + options.format + "&width=" + std::to_string(barWidth()) +
                   (wantsColor(options.color) ? "&color=1" : "");
  if (!options.node.empty()) request.target += "&node=" + queryEncoded(options.node);
  return printAnswer(options.server, options.caller, std::move(request));
}

}  // namespace egpu::cmd

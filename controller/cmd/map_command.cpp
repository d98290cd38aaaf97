#include <algorithm>
#include <utility>

#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"

namespace egpu::cmd {

namespace {

constexpr std::size_t kWideMap = 160;  // without a terminal

}  // namespace

int mapCommand(const MapOptions& options) {
  kube::HttpRequest request;
  request.target = "/allocation-map?" + layoutQuery(options.output, options.color);
  // Bars use the available width.
  if (options.output == "wide")
    request.target += "&width=" + std::to_string(std::clamp<std::size_t>((terminalColumns(kWideMap) - 44) / 2, 10, 60));
  if (!options.node.empty()) request.target += "&node=" + queryEncoded(options.node);
  if (options.idle) request.target += "&idle=nodes";
  return printAnswer(options.server, options.caller, std::move(request));
}

}  // namespace egpu::cmd

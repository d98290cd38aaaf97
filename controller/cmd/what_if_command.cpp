#include <iostream>
#include <iterator>
#include <utility>

#include "controller/base/files.h"
#include "controller/base/text.h"
#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"

namespace egpu::cmd {

bool readQuestion(const QuestionOptions& options, const std::string& layout, kube::HttpRequest& request) {
  // the server may need long for a large cluster, because it evaluates each node
  request.timeout = std::chrono::milliseconds(300'000);
  request.target = "/" + options.question + "?" + layout;
  for (const auto& [name, value] : options.fields) request.target += "&" + name + "=" + queryEncoded(value);
  if (options.file == "-") {
    request.body.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else if (!options.file.empty()) {
    auto body = base::readFile(options.file);
    if (body && base::trimmed(*body).empty()) body = base::Status(base::Code::invalid, options.file + " is empty");
    if (!body) {
      printError("--file: " + body.status().message());
      return false;
    }
    request.body = std::move(*body);
  }
  if (!options.file.empty()) {
    request.method = kube::Method::post;
    request.headers.emplace_back("Content-Type", "application/yaml");
  }
  return true;
}

int questionCommand(const QuestionOptions& options) {
  kube::HttpRequest request;
  const auto layout = layoutQuery(options.output, options.color) + (options.output == "wide" ? "&wide=1" : "");
  if (!readQuestion(options, layout, request)) return 2;
  return printAnswer(options.server, options.caller, std::move(request),
                     options.file == "-" ? "standard input" : options.file);
}

}  // namespace egpu::cmd

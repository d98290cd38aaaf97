#include "controller/cmd/operations_client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/files.h"
#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/base/text.h"
#include "controller/codec/codec.h"
#include "controller/kube/config/credentials.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

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

std::string withField(const std::string& target, const std::string& name, const std::string& value) {
  const auto query = std::min(target.find('?'), target.size());
  std::string out = target.substr(0, query);
  char before = '?';
  for (auto at = query; at < target.size();) {
    const auto end = std::min(target.find('&', at + 1), target.size());
    const auto field = target.substr(at + 1, end - at - 1);
    at = end;
    if (field.empty() || field == name || field.starts_with(name + "=")) continue;
    out += before + field;
    before = '&';
  }
  return out + before + name + "=" + queryEncoded(value);
}

std::string layoutQuery(const std::string& output, const std::string& color) {
  if (output != "table" && output != "wide") return "format=" + output;
  std::string query = "format=text&columns=";
  if (output == "wide")
    query += "0";
  else
    query += std::to_string(std::clamp<std::size_t>(base::terminalColumns(kTableColumns), 40, kTableColumns));
  return query + (base::wantsColor(color) ? "&color=1" : "");
}

namespace {

/// Returns the bearer token; empty if none is configured.
base::Result<std::string> tokenOf(const CallerOptions& caller, base::Clock& clock) {
  if (!caller.token.empty()) return caller.token;
  if (!caller.tokenFile.empty()) {
    auto text = base::readFile(caller.tokenFile);
    if (!text) return base::Status(text.status().code(), "--token-file: " + text.status().message());
    std::string token(base::trimmed(*text));
    if (token.empty()) return base::Status(base::Code::invalid, "--token-file: it is empty");
    return token;
  }
  if (caller.kubeconfig.empty() && caller.context.empty()) return std::string();
  const auto endpoint = kube::loadEndpoint({caller.kubeconfig, caller.context}, kube::Environment::process());
  if (!endpoint) return base::Status(endpoint.status().code(), "--kubeconfig: " + endpoint.status().message());
  kube::CredentialSource source(*endpoint, clock);
  const auto credentials = source.current(std::chrono::steady_clock::now() + std::chrono::minutes(1), {});
  if (!credentials) return base::Status(credentials.status().code(), "--kubeconfig: " + credentials.status().message());
  if ((*credentials)->token.empty())
    return base::Status(base::Code::invalid,
                        "--kubeconfig: " + endpoint->origin +
                            " has no token (a client certificate can't be used here); make one with kubectl create "
                            "token NAME, and give it as --token or --token-file");
  return (*credentials)->token;
}

/// Returns advice for people on how to resolve the refusal.
const char* advice(int status) {
  if (status == 401)
    return "\nAuthenticate with --token \"$(kubectl create token NAME -n NAMESPACE)\", --token-file FILE, or "
           "--kubeconfig "
           "FILE.";
  if (status == 403)
    return "\nCallers need permission to get elasticgpus. An administrator grants it with\n"
           "  kubectl create clusterrole egpu-reader --verb=get,list,watch --resource=elasticgpus.elasticgpu.io\n"
           "  kubectl create clusterrolebinding NAME --clusterrole=egpu-reader --user=USER";
  return "";
}

}  // namespace

void printError(const std::string& text) { std::fprintf(stderr, "error: %s\n", base::printable(text, '\n').c_str()); }

std::optional<kube::HttpResponse> answerOf(const std::string& server, const CallerOptions& caller,
                                           kube::HttpRequest request, const std::string& bodyName, int& status) {
  base::SystemClock clock;
  const auto token = tokenOf(caller, clock);
  if (!token) {
    printError(token.status().message());
    status = 2;
    return std::nullopt;
  }
  if (!token->empty()) request.headers.emplace_back("Authorization", "Bearer " + *token);
  kube::Endpoint endpoint;
  endpoint.server = server.find("://") == std::string::npos ? "http://" + server : server;
  while (endpoint.server.ends_with('/')) endpoint.server.pop_back();
  auto transport = kube::curlTransport(endpoint, clock);
  if (!transport) {
    printError("--server: " + transport.status().message());
    status = 2;
    return std::nullopt;
  }
  auto answer = (*transport)->perform(request, {});
  if (!answer) {
    printError("--server: " + answer.status().message() +
               "\nIs the controller running, and is this its --ops-listen address? Set another one with EGPU_SERVER or "
               "--server.");
    status = 1;
    return std::nullopt;
  }
  if (answer->status != 200) {
    const bool isStatus = answer->header("content-type").starts_with("application/json");
    std::string text = isStatus ? codec::decodeStatus(answer->status, answer->body).message() : answer->body;
    constexpr std::string_view kBody = "body: ";
    if (!bodyName.empty() && text.starts_with(kBody)) text.replace(0, kBody.size(), bodyName + ": ");
    constexpr std::string_view kTooLarge = "Request entity too large";
    if (!bodyName.empty() && text.starts_with(kTooLarge))
      text = bodyName + ": " + text + " bytes; ask about fewer objects at a time";
    while (text.ends_with('\n')) text.pop_back();
    printError(text + advice(answer->status));
    status = 1;
    return std::nullopt;
  }
  return std::move(*answer);
}

int printAnswer(const std::string& server, const CallerOptions& caller, kube::HttpRequest request,
                const std::string& bodyName) {
  int status = 0;
  const auto answer = answerOf(server, caller, std::move(request), bodyName, status);
  if (!answer) return status;
  std::fwrite(answer->body.data(), 1, answer->body.size(), stdout);
  if (answer->body.empty() || answer->body.back() != '\n') std::fputs("\n", stdout);
  return answer->header("elastic-gpu-error").empty() ? 0 : 1;
}

}  // namespace egpu::cmd

#include "controller/kube/config/exec_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "controller/base/files.h"
#include "controller/base/subprocess.h"
#include "controller/base/text.h"
#include "controller/kube/config/base64.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

namespace {

constexpr std::size_t kMaxErrors = 1024;
constexpr milliseconds kPollInterval{50};  ///< poll interval of the stop token

/// Finds a bare name in PATH; a command with a '/' became absolute when the kubeconfig was read.
std::optional<std::string> executable(const std::string& command) {
  const auto runnable = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (command.find('/') != std::string::npos) return runnable(command) ? std::optional(command) : std::nullopt;
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing in this program sets variables
  std::stringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    // Ignores relative folders in PATH: any user may place files in the current folder.
    if (!folder.empty() && folder.front() == '/' && runnable(folder + "/" + command)) return folder + "/" + command;
  return std::nullopt;
}

codec::ExecCluster describe(const ExecPlugin& plugin, const Endpoint& endpoint) {
  codec::ExecCluster out;
  out.server = endpoint.server;
  out.tlsServerName = endpoint.tlsServerName;
  out.insecureSkipTlsVerify = endpoint.insecureSkipTlsVerify;
  std::string authorities = endpoint.caData;
  if (authorities.empty() && !endpoint.caFile.empty())
    if (auto read = base::readFile(endpoint.caFile)) authorities = std::move(*read);
  out.certificateAuthorityData = encodeBase64(authorities);
  out.proxyUrl = endpoint.configuredProxyUrl;
  out.config = plugin.clusterConfig;
  return out;
}

/// Later values take precedence: process, plugin, then KUBERNETES_EXEC_INFO.
std::vector<std::string> environmentOf(const ExecPlugin& plugin, const Endpoint& endpoint) {
  std::map<std::string, std::string> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string line(*each);
    const auto equals = line.find('=');
    if (equals != std::string::npos) all[line.substr(0, equals)] = line.substr(equals + 1);
  }
  for (const auto& [name, value] : plugin.env) all[name] = value;
  all["KUBERNETES_EXEC_INFO"] = codec::encodeExecInfo(
      plugin.apiVersion, plugin.provideClusterInfo ? std::optional(describe(plugin, endpoint)) : std::nullopt);
  std::vector<std::string> out;
  out.reserve(all.size());
  for (const auto& [name, value] : all) out.push_back(name + "=" + value);
  return out;
}

/// Reads the available bytes until `into` exceeds `max` bytes. False at the end of the stream.
bool drain(int fd, std::string& into, std::size_t max) {
  char chunk[4096];
  while (into.size() <= max) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n > 0)
      into.append(chunk, static_cast<std::size_t>(n));
    else if (n == 0)
      return false;
    else if (errno != EINTR)
      return errno == EAGAIN;
  }
  return true;
}

/// Returns the end of the output, on one line.
std::string lastWords(std::string text) {
  if (text.size() > kMaxErrors) text.erase(0, text.size() - kMaxErrors);
  for (auto& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  const auto words = base::trimmed(text);
  return words.empty() ? std::string() : ": " + std::string(words);
}

}  // namespace

Result<codec::ExecCredential> runExecPlugin(const ExecPlugin& plugin, const Endpoint& endpoint,
                                            const ExecLimits& limits, std::stop_token stop) {
  const auto failed = [&](const std::string& why) {
    return Status(Code::unavailable, "credential plugin " + plugin.command + ": " + why);
  };
  const auto path = executable(plugin.command);
  if (!path) {
    std::string hint = plugin.installHint;
    while (!hint.empty() && static_cast<unsigned char>(hint.back()) <= ' ') hint.pop_back();
    return failed("no such executable" + (hint.empty() ? "" : "\n\n" + hint));
  }
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return failed("no pipe can be made");
  base::UniqueFd errorsRead(pipe[0]), errorsWrite(pipe[1]);
  base::Subprocess::Options options;
  options.argv = {*path};
  options.argv.insert(options.argv.end(), plugin.args.begin(), plugin.args.end());
  options.env = environmentOf(plugin, endpoint);
  options.errors = errorsWrite.get();
  auto child = base::Subprocess::spawn(options);
  errorsWrite.reset();
  if (!child) return failed(child.status().message());

  const auto until = Steady::now() + limits.time;
  std::string output, errors;
  // Waits for the end of the process, not of its output: a descendant may hold that open.
  for (bool outputOpen = true, errorsOpen = true, ended = false; !ended && (outputOpen || errorsOpen);) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped");
    if (Steady::now() >= until)
      return failed("no answer within " + std::to_string(limits.time.count()) + " ms, killed" + lastWords(errors));
    pollfd watched[3] = {{outputOpen ? child->output() : -1, POLLIN, 0},
                         {errorsOpen ? errorsRead.get() : -1, POLLIN, 0},
                         {child->exited(), POLLIN, 0}};
    (void)::poll(watched, 3, static_cast<int>(kPollInterval.count()));
    ended = watched[2].revents != 0;
    outputOpen = outputOpen && drain(child->output(), output, limits.output);
    errorsOpen = errorsOpen && drain(errorsRead.get(), errors, 8 * kMaxErrors);
    if (output.size() > limits.output) return failed("printed more than " + std::to_string(limits.output) + " bytes");
    if (errors.size() > 4 * kMaxErrors) errors.erase(0, errors.size() - 2 * kMaxErrors);
  }
  const auto left = std::chrono::duration_cast<milliseconds>(until - Steady::now());
  const std::string end = child->finish(std::max(left, milliseconds(0)));
  (void)drain(child->output(), output, limits.output);
  (void)drain(errorsRead.get(), errors, 8 * kMaxErrors);
  if (end != "exited with status 0") return failed(end + lastWords(errors));
  auto credential = codec::decodeExecCredential(output, plugin.apiVersion);
  if (!credential) return failed(credential.status().message());
  return credential;
}

}  // namespace egpu::kube

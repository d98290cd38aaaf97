#include "controller/agent/sharing/mps_commands.h"

#include <sys/stat.h>

#include <array>
#include <cctype>
#include <chrono>
#include <utility>

#include "controller/agent/sharing/mps_processes.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;

/// nvidia-smi initializes the driver, which takes seconds on nodes with many cards.
constexpr std::chrono::seconds kSmiTimeout{15}, kControlTimeout{15};
constexpr std::array<const char*, 6> kProgramFolders{"/usr/bin", "/bin",           "/usr/sbin",
                                                     "/sbin",    "/usr/local/bin", "/usr/local/nvidia/bin"};
constexpr std::array<const char*, 8> kLibraryFolders{"/usr/lib/x86_64-linux-gnu",
                                                     "/usr/lib/aarch64-linux-gnu",
                                                     "/usr/lib64",
                                                     "/usr/lib",
                                                     "/lib64",
                                                     "/lib",
                                                     "/usr/local/nvidia/lib64",
                                                     "/usr/local/lib"};
constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// True for a link, too: on the host it may lead to a path that this process does not see.
bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

std::string inCapitals(std::string_view text) {
  std::string out;
  for (const char c : base::trimmed(text)) out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

MpsFolders mpsFoldersOf(const std::string& state, const std::string& card) {
  const auto pipe = state + "/mps/" + card;
  return {pipe, state + "/mps-shm/" + card, state + "/mps-log/" + card, pipe + ".namespaces"};
}

Result<std::string> driverLibraryPath(const MpsCommandsOptions& options) {
  std::string out;
  if (options.driverRoot.empty()) return out;
  for (const std::string each : kLibraryFolders) {
    const auto path = options.driverRoot + each, inProcess = options.hostRoot + path;
    if (!exists(inProcess + "/libcuda.so.1") && !exists(inProcess + "/libnvidia-ml.so.1")) continue;
    // The host's loader can't start programs with the C library of another system.
    if (exists(inProcess + "/libc.so.6"))
      return Status(Code::unavailable, "the agent can't start programs of the driver root " + options.driverRoot +
                                           ", which is a whole system with its own C library");
    out += (out.empty() ? "" : ":") + path;
  }
  return out;
}

Result<HostProgram> MpsCommands::find(const std::string& name) const {
  const auto inProcess = [this](const std::string& path) { return options_.hostRoot + path; };
  HostProgram out;
  std::string folder;
  for (const std::string each : kProgramFolders)
    if (out.path.empty() && exists(inProcess(options_.driverRoot + each + "/" + name))) {
      folder = options_.driverRoot + each;
      out.path = folder + "/" + name;
    }
  if (out.path.empty())
    return Status(Code::unavailable, name + " is not installed on the node" +
                                         (options_.driverRoot.empty() ? "" : " below " + options_.driverRoot));
  out.env = {"PATH=" + folder + ":" + kPath, "LANG=C"};
  if (options_.driverRoot.empty()) return out;
  const auto libraries = driverLibraryPath(options_);
  if (!libraries) return libraries.status();
  out.env.push_back("LD_LIBRARY_PATH=" + *libraries);
  return out;
}

Result<std::string> MpsCommands::computeMode(const std::string& card) const {
  auto program = find("nvidia-smi");
  if (!program) return program.status();
  program->arguments = {"-i", card, "--query-gpu=compute_mode", "--format=csv,noheader"};
  const auto output = programs_.run(*program, kSmiTimeout);
  if (!output) return output.status();
  auto mode = inCapitals(*output);
  if (mode.empty() || mode.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != std::string::npos)
    return Status(Code::unavailable, "nvidia-smi reports no compute mode of card " + card);
  return mode;
}

Status MpsCommands::setComputeMode(const std::string& card, const std::string& mode) const {
  auto program = find("nvidia-smi");
  if (!program) return program.status();
  program->arguments = {"-i", card, "-c", mode};
  return programs_.run(*program, kSmiTimeout).status();
}

Status MpsCommands::setTimeSlice(const std::string& card, int slice) const {
  auto program = find("nvidia-smi");
  if (!program) return program.status();
  program->arguments = {"compute-policy", "-i", card, "--set-timeslice=" + std::to_string(slice)};
  return programs_.run(*program, kSmiTimeout).status();
}

std::vector<std::string> MpsCommands::controlEnvironment(const HostProgram& program, const std::string& card) const {
  const auto folders = foldersOf(card);
  auto out = program.env;
  out.push_back("CUDA_VISIBLE_DEVICES=" + card);
  out.push_back("CUDA_MPS_PIPE_DIRECTORY=" + folders.pipe);
  out.push_back("CUDA_MPS_LOG_DIRECTORY=" + folders.log);
  return out;
}

/// The help of version 3 lists the modules. Older programs ignore the options or reject them.
bool MpsCommands::knowsVersion3() const {
  auto program = find("nvidia-cuda-mps-control");
  if (!program) return false;
  program->arguments = {"-p", "3", "-h"};
  const auto help = programs_.run(*program, kControlTimeout);
  return help && help->find("namespace") != std::string::npos;
}

Result<int64_t> MpsCommands::startDaemon(const std::string& card, DaemonKind kind) const {
  auto program = find("nvidia-cuda-mps-control");
  if (!program) return program.status();
  program->arguments = {"-f"};
  if (kind == DaemonKind::version3) program->arguments.insert(program->arguments.end(), {"-p", "3", "-m"});
  if (kind == DaemonKind::version2) program->arguments.emplace_back("-multiuser-server");
  program->env = controlEnvironment(*program, card);
  program->env.push_back(std::string(kStartedByAgent) + "=" + card);
  const auto folders = foldersOf(card);
  return programs_.startDaemon(*program, {folders.sharedMemory, folders.pipe, folders.log + "/daemon.log"});
}

Status MpsCommands::quit(const std::string& card, int version) const {
  return (version == 3 ? control(card, {"--quit"}) : control(card, {}, "quit\n")).status();
}

Result<std::string> MpsCommands::control(const std::string& card, std::vector<std::string> arguments,
                                         std::string input) const {
  auto program = find("nvidia-cuda-mps-control");
  if (!program) return program.status();
  program->env = controlEnvironment(*program, card);
  program->arguments = std::move(arguments);
  program->input = std::move(input);
  return programs_.run(*program, kControlTimeout);
}

}  // namespace egpu::agent::sharing

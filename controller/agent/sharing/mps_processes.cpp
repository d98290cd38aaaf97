#include "controller/agent/sharing/mps_processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace egpu::agent::sharing {

namespace {

constexpr std::string_view kCommand =
    "nvidia-cuda-mps";  ///< command of daemon and server: the kernel keeps 15 characters
constexpr std::string_view kControl = "nvidia-cuda-mps-control";
constexpr std::string_view kPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kDefaultPipe = "/tmp/nvidia-mps";
constexpr int kStartTime = 19;  ///< index of the start time after the name in /proc/<pid>/stat

/// Returns the content of the file; less if the process ends meanwhile.
std::string contentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string out;
  char piece[4096];
  while (file.read(piece, sizeof piece), file.gcount() > 0)  // stream iterators throw if the process has ended
    out.append(piece, static_cast<std::size_t>(file.gcount()));
  return out;
}

/// Splits the content of /proc/<pid>/cmdline or environ.
std::vector<std::string> textsOf(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream in(contentOf(path));
  for (std::string text; std::getline(in, text, '\0');) out.push_back(text);
  return out;
}

bool isSameFolder(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Returns the PID namespace of a process; empty if it can't be read.
std::string pidNamespaceOf(const std::string& process) {
  std::error_code error;
  return std::filesystem::read_symlink(process + "/ns/pid", error).string();
}

std::string valueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const auto& each : environment)
    if (each.size() > name.size() && each.compare(0, name.size(), name) == 0 && each[name.size()] == '=')
      return each.substr(name.size() + 1);
  return {};
}

/// True for a daemon, in the foreground or not. Without such an option the program only sends commands to a daemon.
bool isControlDaemon(const std::vector<std::string>& arguments) {
  const auto isControl = [](const std::string& each) { return each.substr(each.rfind('/') + 1) == kControl; };
  const auto program = std::find_if(arguments.begin(), arguments.end(), isControl);
  return std::any_of(program, arguments.end(), [](const auto& each) { return each == "-f" || each == "-d"; });
}

}  // namespace

std::vector<int64_t> pidsIn(const std::string& proc) {
  std::vector<int64_t> out;
  std::error_code error;
  std::filesystem::directory_iterator last, at(proc, error);
  for (; !error && at != last; at.increment(error)) {
    const auto name = at->path().filename().string();
    int64_t pid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure == std::errc() && end == name.data() + name.size()) out.push_back(pid);
  }
  return out;
}

uint64_t startTimeOf(const std::string& proc, int64_t pid) {
  if (pid <= 0) return 0;
  const auto text = contentOf(proc + "/" + std::to_string(pid) + "/stat");
  const auto name = text.rfind(')');
  if (name == std::string::npos) return 0;
  std::istringstream fields(text.substr(name + 1));
  std::string field, state;
  fields >> state;
  if (state.empty() || state == "Z" || state == "X") return 0;
  for (int i = 1; i <= kStartTime; ++i) fields >> field;
  uint64_t time = 0;
  std::from_chars(field.data(), field.data() + field.size(), time);
  return fields ? time : 0;
}

int64_t startSecondsOf(const std::string& proc, int64_t pid) {
  const auto perSecond = ::sysconf(_SC_CLK_TCK);
  return perSecond <= 0 ? 0 : static_cast<int64_t>(startTimeOf(proc, pid)) / perSecond;
}

int64_t bootSecondsOf(const std::string& proc) {
  std::istringstream lines(contentOf(proc + "/stat"));
  int64_t boot = 0;
  for (std::string line; boot == 0 && std::getline(lines, line);)
    if (line.rfind("btime ", 0) == 0) std::from_chars(line.data() + 6, line.data() + line.size(), boot);
  return std::max<int64_t>(boot, 0);
}

bool hasLoadedDriver(const std::string& proc, int64_t pid) {
  std::ifstream maps(proc + "/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libcuda.so") != std::string::npos) return true;
  return false;
}

std::vector<MpsProcess> mpsProcesses(const std::string& proc, const std::string& pipeFolder) {
  std::vector<MpsProcess> out;
  const auto own = pidNamespaceOf(proc + "/self");
  for (const auto pid : pidsIn(proc)) {
    const auto folder = proc + "/" + std::to_string(pid);
    if (contentOf(folder + "/comm").compare(0, kCommand.size(), kCommand) != 0 || startTimeOf(proc, pid) == 0) continue;
    if (pidNamespaceOf(folder) != own) continue;
    const auto environment = textsOf(folder + "/environ");
    const auto given = valueOf(environment, kPipeVariable);
    const auto pipe = given.empty() ? kDefaultPipe : given;
    if (!isSameFolder(folder + "/root" + pipe, pipeFolder)) continue;
    const auto arguments = textsOf(folder + "/cmdline");
    const bool isDaemon = isControlDaemon(arguments);
    const bool isServer = !arguments.empty() && arguments.front().find("nvidia-cuda-mps-server") != std::string::npos;
    if (isDaemon || isServer) out.push_back({pid, isDaemon, !valueOf(environment, kStartedByAgent).empty()});
  }
  return out;
}

}  // namespace egpu::agent::sharing

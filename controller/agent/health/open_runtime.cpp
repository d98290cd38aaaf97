#include "controller/agent/health/open_runtime.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "controller/base/text.h"

namespace egpu::agent::health {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFile = 1 << 20, kMaxFilesOfFolder = 64;

/// Configuration files of a container runtime: a file, and a folder of files, each of which overrides those before it.
struct Settings {
  std::string_view file, folder, defaultRuntime;
};
constexpr std::array<Settings, 2> kSettings{
    {{"/etc/containerd/config.toml", "/etc/containerd/conf.d", "default_runtime_name"},
     {"/etc/crio/crio.conf", "/etc/crio/crio.conf.d", "default_runtime"}}};
/// Configuration files of NVIDIA's toolkit, as installed by the GPU operator and by packages. The first existing file
/// counts.
constexpr std::array<std::string_view, 2> kToolkitFiles{
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
    "/etc/nvidia-container-runtime/config.toml"};
constexpr std::string_view kAccept = "accept-nvidia-visible-devices-envvar-when-unprivileged";

/// Returns the value of "key = value" in a line, without quotes; empty if the line has another key.
std::string valueIn(std::string_view line, std::string_view key) {
  std::string clean;
  for (const char c : line.substr(0, line.find('#')))
    if (c != '"' && c != '\'') clean += c;
  const auto equals = clean.find('=');
  if (equals == std::string::npos || base::trimmed(clean.substr(0, equals)) != key) return {};
  return std::string(base::trimmed(clean.substr(equals + 1)));
}

/// Returns the last value of a key in a file; empty if there is none.
std::string valueOf(const std::string& path, std::string_view key) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxFile) return {};
  std::ifstream in(path);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (auto value = valueIn(line, key); !value.empty()) out = std::move(value);
  return out;
}

/// Returns the files of a folder, sorted by name.
std::vector<std::string> filesIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> out;
  for (fs::directory_iterator at(folder, error), end; !error && at != end && out.size() < kMaxFilesOfFolder;
       at.increment(error))
    out.push_back(at->path().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns the file that makes NVIDIA's runtime the default; empty if there is none.
std::string defaultIsNvidia(const std::string& root) {
  for (const auto& settings : kSettings) {
    auto files = filesIn(root + std::string(settings.folder));
    files.insert(files.begin(), root + std::string(settings.file));
    std::string last, runtime;
    for (const auto& file : files)
      if (auto value = valueOf(file, settings.defaultRuntime); !value.empty()) last = file, runtime = std::move(value);
    if (runtime.starts_with("nvidia")) return last.substr(root.size());
  }
  return {};
}

}  // namespace

std::string openToAll(const std::string& given) {
  const std::string root = given == "/" ? "" : given;
  const std::string runtime = defaultIsNvidia(root);
  if (runtime.empty()) return {};
  // Only one toolkit runs: the operator's, if installed. Without the key it honours the variable.
  std::string toolkit(kToolkitFiles.back());
  std::error_code error;
  for (const std::string_view path : kToolkitFiles)
    if (fs::is_regular_file(root + std::string(path), error)) {
      toolkit = path;
      break;
    }
  if (valueOf(root + toolkit, kAccept) == "false") return {};
  return "containers without a claim get every card of this node: NVIDIA's container runtime is the default (" +
         runtime + ") and obeys NVIDIA_VISIBLE_DEVICES of any image; set " + std::string(kAccept) + " = false in " +
         toolkit + ", or make another runtime the default";
}

}  // namespace egpu::agent::health

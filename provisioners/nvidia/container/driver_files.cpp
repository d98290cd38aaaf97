#include "provisioners/nvidia/container/driver_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "provisioners/nvidia/container/host_files.h"
#include "provisioners/nvidia/container/loader_cache.h"
#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCache = 16 << 20;  // bytes
constexpr std::size_t kMostNames = 128;       // of libraries

#if defined(__aarch64__)
constexpr const char* kMultiarch = "/usr/lib/aarch64-linux-gnu";
#else
constexpr const char* kMultiarch = "/usr/lib/x86_64-linux-gnu";
#endif

/// Where loaders look without being told (Debian's, Red Hat's), and where images made for NVIDIA's cards say in
/// LD_LIBRARY_PATH that they do.
constexpr std::array<const char*, 3> kFolders{kMultiarch, "/usr/lib64", "/usr/local/nvidia/lib64"};

/// How its libraries are called, but for those of GL, EGL and VDPAU.
constexpr std::array<std::string_view, 2> kDriver{"libcuda", "libnv"};
/// Of these what is for drawing, which would take more than libraries. The rest computes, tells, or codes video.
constexpr std::array<std::string_view, 12> kDrawing{
    "libnvidia-api", "libnvidia-egl",    "libnvidia-fbc", "libnvidia-gl",   "libnvidia-gtk",     "libnvidia-ngx",
    "libnvidia-pre", "libnvidia-rtcore", "libnvidia-tls", "libnvidia-vksc", "libnvidia-wayland", "libnvoptix"};

bool startsWith(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }
bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// By the loader's cache; of a host without one, what lies in the usual folders.
std::vector<NamedLibrary> libraries() {
  if (const auto cache = readHostFile("/etc/ld.so.cache", kMostCache)) return readLoaderCache(*cache);
  std::vector<NamedLibrary> out;
  std::error_code error;
  for (const std::string folder : kFolders) {
    const std::size_t before = out.size();
    const std::string real = resolved(folder);
    if (real.empty()) continue;
    for (fs::directory_iterator at(seen(real), error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (startsWith(name, "lib") && name.find(".so") != std::string::npos) out.push_back({name, folder + "/" + name});
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  return out;
}

void addLibraries(const std::string& version, std::vector<DriverFile>& out) {
  std::set<std::string> names;
  for (const auto& [name, path] : libraries()) {
    const auto begins = [&n = name](std::string_view start) { return startsWith(n, start); };
    if (std::none_of(kDriver.begin(), kDriver.end(), begins)) continue;
    if (std::any_of(kDrawing.begin(), kDrawing.end(), begins)) continue;
    const std::string real = resolved(path);
    // The compiler for CUDA 11 comes with the driver, and has no version.
    if (!endsWith(real, ".so." + version) && (real.empty() || !begins("libnvidia-nvvm70.so."))) continue;
    if (names.size() == kMostNames || !names.insert(name).second) continue;
    for (const std::string folder : kFolders) out.push_back({real, folder + "/" + name});
  }
}

void addPrograms(std::vector<DriverFile>& out) {
  for (const std::string name : {"nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"})
    for (const std::string folder : {"/usr/bin/", "/usr/sbin/", "/bin/", "/usr/local/bin/", "/usr/local/nvidia/bin/"}) {
      const std::string real = resolved(folder + name);
      if (real.empty()) continue;
      out.push_back({real, "/usr/bin/" + name});
      break;
    }
}

}  // namespace

bool isVersion(const std::string& text) {
  return !text.empty() && text.size() <= 32 && text.find_first_not_of("0123456789.") == std::string::npos &&
         text.front() != '.' && text.find("..") == std::string::npos;
}

std::vector<DriverFile> driverFiles(const std::string& version) {
  std::vector<DriverFile> out;
  if (!isVersion(version)) return out;
  addLibraries(version, out);
  if (out.empty()) return out;
  addPrograms(out);
  const auto addAs = [&](const std::string& path, const std::string& options = {}) {
    if (const std::string real = resolved(path); !real.empty()) out.push_back({real, path, options});
  };
  addAs("/etc/OpenCL/vendors/nvidia.icd");
  addAs("/run/nvidia-persistenced/socket", "ro,nosuid,nodev,noexec,bind");
  addAs("/lib/firmware/nvidia/" + version, "ro,nosuid,nodev,noexec,rbind");
  return out;
}

std::string librarySeen(const std::string& name) {
  if (seen("") == rooted("")) return {};
  for (const auto& library : libraries())
    if (library.name == name)
      if (const std::string real = resolved(library.path); !real.empty()) return seen(real);
  return {};
}

}  // namespace egpu::nvidia

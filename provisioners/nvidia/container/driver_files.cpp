#include "provisioners/nvidia/container/driver_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "provisioners/nvidia/container/host_files.h"
#include "provisioners/nvidia/container/loader_cache.h"
#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCache = 16 << 20;  // maximum size of the loader's cache, bytes
constexpr std::size_t kMaxNames = 128;       // maximum library names

#if defined(__aarch64__)
constexpr const char* kMultiarch = "/usr/lib/aarch64-linux-gnu";
#else
constexpr const char* kMultiarch = "/usr/lib/x86_64-linux-gnu";
#endif

/// Folders that loaders search by default (Debian's, Red Hat's), and the folder that LD_LIBRARY_PATH contains in images
/// for NVIDIA's cards.
constexpr std::array<const char*, 3> kFolders{kMultiarch, "/usr/lib64", "/usr/local/nvidia/lib64"};

/// Prefixes of the driver's libraries, except those of GL, EGL and VDPAU.
constexpr std::array<std::string_view, 2> kDriver{"libcuda", "libnv"};
/// Prefixes of libraries for graphics, which would need more than libraries. The remaining ones are for compute,
/// monitoring and video.
constexpr std::array<std::string_view, 12> kDrawing{
    "libnvidia-api", "libnvidia-egl",    "libnvidia-fbc", "libnvidia-gl",   "libnvidia-gtk",     "libnvidia-ngx",
    "libnvidia-pre", "libnvidia-rtcore", "libnvidia-tls", "libnvidia-vksc", "libnvidia-wayland", "libnvoptix"};

bool startsWith(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }
bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// Returns the libraries in the loader's cache, which is parsed only when the file has changed; null if it can't be
/// read.
std::shared_ptr<const std::vector<NamedLibrary>> cachedLibraries(const RootFolder& root) {
  using Stamp = std::tuple<std::string, dev_t, ino_t, off_t, time_t, long, time_t, long>;
  static std::mutex mutex;
  static std::pair<Stamp, std::shared_ptr<const std::vector<NamedLibrary>>> last;  // protected by mutex
  const std::string path = "/etc/ld.so.cache", real = root.resolved(path), file = root.seen(real);
  struct stat is {};
  if (real.empty() || stat(file.c_str(), &is) != 0) return nullptr;
  // ldconfig replaces the file, for example after the installation of a driver.
  const Stamp stamp{file,
                    is.st_dev,
                    is.st_ino,
                    is.st_size,
                    is.st_mtim.tv_sec,
                    is.st_mtim.tv_nsec,
                    is.st_ctim.tv_sec,
                    is.st_ctim.tv_nsec};
  const std::lock_guard lock(mutex);
  if (last.second && last.first == stamp) return last.second;
  const auto bytes = root.read(path, kMaxCache);
  if (!bytes) return nullptr;
  last = {stamp, std::make_shared<const std::vector<NamedLibrary>>(readLoaderCache(*bytes))};
  return last.second;
}

/// Returns the libraries in the usual folders, and in additional folders of a driver root (Google's has lib64,
/// Bottlerocket's /usr/lib, before May 2026 /usr/lib/nvidia/tesla).
std::vector<NamedLibrary> librariesInFolders(const RootFolder& root) {
  std::vector<NamedLibrary> out;
  std::vector<std::string> folders(kFolders.begin(), kFolders.end());
  if (!root.isHosts()) folders.insert(folders.end(), {"/usr/lib", "/usr/lib/nvidia/tesla", "/lib64", "/lib"});
  for (const std::string& folder : folders) {
    const std::size_t before = out.size();
    const std::string real = root.resolved(folder);
    if (real.empty()) continue;
    std::error_code error;
    for (fs::directory_iterator at(root.seen(real), error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (startsWith(name, "lib") && name.find(".so") != std::string::npos) out.push_back({name, folder + "/" + name});
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  return out;
}

/// Resolves symlinks of paths below a root folder; resolves each folder only once.
class Resolved {
 public:
  explicit Resolved(const RootFolder& root) : root_(root) {}
  std::string operator()(const std::string& path) {
    const auto slash = path.rfind('/');
    auto [folder, isNew] = folders_.try_emplace(path.substr(0, slash));
    if (isNew) folder->second = root_.resolved(folder->first);
    return folder->second.empty() ? std::string() : root_.resolved(path.substr(slash + 1), folder->second);
  }
  const RootFolder& root() const { return root_; }

 private:
  const RootFolder& root_;
  std::map<std::string, std::string> folders_;
};

/// Libraries of one driver, by the names that containers use.
class DriverLibraries {
 public:
  DriverLibraries(const std::string& version, Resolved& withoutLinks)
      : version_(version), withoutLinks_(withoutLinks) {}
  /// Adds the libraries in `all` that belong to this driver, except files that an earlier call has added.
  void add(const std::vector<NamedLibrary>& all, std::vector<DriverFile>& out) {
    const auto before = files_;
    for (const auto& [name, path] : all) {
      const auto begins = [&n = name](std::string_view start) { return startsWith(n, start); };
      if (std::none_of(kDriver.begin(), kDriver.end(), begins)) continue;
      if (std::any_of(kDrawing.begin(), kDrawing.end(), begins)) continue;
      const std::string real = withoutLinks_(path);
      // The compiler for CUDA 11 is part of the driver, but its name has no version.
      if (!endsWith(real, ".so." + version_) && (real.empty() || !begins("libnvidia-nvvm70.so."))) continue;
      if (before.count(real) > 0 || names_.size() == kMaxNames || !names_.insert(name).second) continue;
      files_.insert(real);
      for (const std::string folder : kFolders) out.push_back({withoutLinks_.root().onHost(real), folder + "/" + name});
    }
  }

 private:
  const std::string& version_;
  Resolved& withoutLinks_;
  std::set<std::string> names_, files_;
};

/// Adds the libraries in the loader's cache, then further ones in the usual folders: a container with a mounted cache
/// keeps the cache of its start, even after a driver upgrade. An up-to-date cache contains all of them.
void addLibraries(const std::string& version, Resolved& withoutLinks, std::vector<DriverFile>& out) {
  DriverLibraries libraries(version, withoutLinks);
  if (const auto cached = cachedLibraries(withoutLinks.root())) libraries.add(*cached, out);
  libraries.add(librariesInFolders(withoutLinks.root()), out);
}

void addPrograms(Resolved& withoutLinks, std::vector<DriverFile>& out) {
  for (const std::string name : {"nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"})
    for (const std::string folder : {"/usr/bin/", "/usr/sbin/", "/bin/", "/usr/local/bin/", "/usr/local/nvidia/bin/"}) {
      const std::string real = withoutLinks(folder + name);
      if (real.empty()) continue;
      out.push_back({withoutLinks.root().onHost(real), "/usr/bin/" + name});
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
  const RootFolder root = driverRoot(), host;
  Resolved withoutLinks(root);
  addLibraries(version, withoutLinks, out);
  if (out.empty()) return out;
  addPrograms(withoutLinks, out);
  const auto addAs = [&](const std::string& path, const std::string& options = {}) {
    for (const RootFolder* each : {&root, &host})
      if (const std::string real = each->resolved(path); !real.empty())
        return out.push_back({each->onHost(real), path, options});
  };
  addAs("/etc/OpenCL/vendors/nvidia.icd");
  addAs("/run/nvidia-persistenced/socket", "ro,nosuid,nodev,noexec,bind");
  addAs("/lib/firmware/nvidia/" + version, "ro,nosuid,nodev,noexec,rbind");
  return out;
}

std::string librarySeen(const std::string& name) {
  const RootFolder root = driverRoot();
  if (root.isHosts() && seen("") == rooted("")) return {};
  const auto in = [&](const std::vector<NamedLibrary>& all) {
    for (const auto& library : all)
      if (library.name == name)
        if (const std::string real = root.resolved(library.path); !real.empty()) return root.seen(real);
    return std::string();
  };
  const auto cached = cachedLibraries(root);
  const std::string known = cached ? in(*cached) : "";
  return known.empty() ? in(librariesInFolders(root)) : known;
}

}  // namespace egpu::nvidia

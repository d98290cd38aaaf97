#include "provisioners/nvidia/container/host_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {

namespace fs = std::filesystem;

std::string seen(const std::string& path) {
  const char* root = std::getenv("ELASTICGPU_HOST_ROOT");
  return (root ? root : "") + rooted(path);
}

std::string resolved(const std::string& path, const std::string& folder) { return RootFolder().resolved(path, folder); }

std::string RootFolder::resolved(const std::string& path, const std::string& folder) const {
  constexpr int kMaxLinks = 40;  // as in the kernel
  const std::string root = seen("");
  std::string done = folder, rest = path;  // done: resolved path, "" = the host's root folder
  if (done == "/" || path.substr(0, 1) == "/") done.clear();
  char target[PATH_MAX];
  for (int links = 0; !rest.empty();) {
    const auto slash = rest.find('/');
    const std::string part = rest.substr(0, slash);
    rest.erase(0, slash == std::string::npos ? slash : slash + 1);
    if (part == ".." && !done.empty()) done.resize(done.rfind('/'));
    if (part.empty() || part == "." || part == "..") continue;
    done += "/" + part;
    const ssize_t size = readlink((root + done).c_str(), target, sizeof target);
    if (size < 0) continue;  // not a symlink
    if (++links > kMaxLinks) return {};
    done.resize(target[0] == '/' ? 0 : done.rfind('/'));
    rest = std::string(target, static_cast<std::size_t>(size)) + "/" + rest;
  }
  if (done.empty()) done = "/";
  struct stat is {};
  return lstat((root + done).c_str(), &is) == 0 ? done : std::string();
}

RootFolder driverRoot() {
  const char* given = std::getenv("ELASTICGPU_DRIVER_ROOT");
  if (!given || !*given) return RootFolder();
  const std::string real = nvidia::resolved(given);
  return RootFolder(real.empty() ? given : real == "/" ? "" : real);
}

std::optional<std::string> readHostFile(const std::string& path, std::size_t max) {
  return RootFolder().read(path, max);
}

std::optional<std::string> RootFolder::read(const std::string& path, std::size_t max) const {
  const std::string real = resolved(path);
  std::error_code error;
  if (real.empty() || !fs::is_regular_file(seen(real), error)) return std::nullopt;  // reading a pipe would block
  std::ifstream in(seen(real), std::ios::binary);
  std::string out(max + 1, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (in.bad() || !in.is_open() || !in.eof()) return std::nullopt;
  out.resize(static_cast<std::size_t>(in.gcount()));
  return out;
}

}  // namespace egpu::nvidia

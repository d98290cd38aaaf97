#include "provisioners/nvidia/container/host_files.h"

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>

#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {

namespace fs = std::filesystem;

std::string seen(const std::string& path) {
  const char* root = std::getenv("ELASTICGPU_HOST_ROOT");
  return (root ? root : "") + rooted(path);
}

std::string resolved(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel's
  const fs::path given = path;
  std::deque<fs::path> rest(given.begin(), given.end());
  fs::path done = "/";
  std::error_code error;
  for (int links = 0; !rest.empty();) {
    const fs::path part = rest.front();
    rest.pop_front();
    if (part == "/") done = part;
    if (part == "..") done = done.parent_path();
    if (part == "/" || part == ".." || part == "." || part.empty()) continue;
    const fs::path target = fs::read_symlink(seen((done / part).string()), error);
    if (error) {
      done /= part;  // no link
      continue;
    }
    if (++links > kMostLinks) return {};
    rest.insert(rest.begin(), target.begin(), target.end());
  }
  return fs::exists(fs::symlink_status(seen(done.string()), error)) ? done.string() : std::string();
}

std::optional<std::string> readHostFile(const std::string& path, std::size_t most) {
  const std::string real = resolved(path);
  std::error_code error;
  if (real.empty() || !fs::is_regular_file(seen(real), error)) return std::nullopt;  // a pipe would be waited for
  std::ifstream in(seen(real), std::ios::binary);
  std::string out(most + 1, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (in.bad() || !in.is_open() || !in.eof()) return std::nullopt;
  out.resize(static_cast<std::size_t>(in.gcount()));
  return out;
}

}  // namespace egpu::nvidia

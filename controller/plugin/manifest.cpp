#include "controller/plugin/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "controller/base/subprocess.h"
#include "controller/base/text.h"

namespace egpu::plugin {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::size_t kMax = 64 << 10;  // maximum bytes of a manifest

Status wrong(std::string what) { return {Code::invalid, std::move(what)}; }

/// Returns the line without its comment: '#' begins a comment at the start of a line or after a blank, as in YAML.
std::string_view withoutComment(std::string_view line) {
  for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1))
    if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return line.substr(0, at);
  return line;
}

/// Checks owner and permissions, because a user who can write to the file decides which code the controller runs.
Status inGoodHands(const std::string& path, const struct stat& info) {
  if (info.st_uid != 0 && info.st_uid != geteuid())
    return wrong(path + " belongs to user " + std::to_string(info.st_uid) + ": only root or the controller's user (" +
                 std::to_string(geteuid()) + ") may own it; use chown");
  const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  const bool group = (info.st_mode & S_IWGRP) != 0 && info.st_gid != 0 && info.st_gid != getegid();
  if (!sticky && ((info.st_mode & S_IWOTH) != 0 || group))
    return wrong(path + " can be written to by others: use chmod go-w");
  return Status::okay();
}

Status checkFile(const std::string& path, int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return wrong(path + ": " + strerrordesc_np(errno));
  if (!S_ISREG(info.st_mode)) return wrong(path + " is not a regular file");
  return inGoodHands(path, info);
}

}  // namespace

Result<Manifest> parseManifest(std::string_view text) {
  Manifest out;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = base::trimmed(withoutComment(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line == "---") continue;
    const std::string where = "line " + std::to_string(number) + ": ";
    const std::size_t colon = line.find(':');
    const std::string_view name = base::trimmed(line.substr(0, colon));
    const std::string_view value = colon == std::string_view::npos ? "" : base::trimmed(line.substr(colon + 1));
    bool* field = name == "network" ? &out.network : name == "unixSockets" ? &out.unixSockets : nullptr;
    if (!field) return wrong(where + "\"" + std::string(name) + "\" is not known; known are network, unixSockets");
    if (value != "true" && value != "false")
      return wrong(where + std::string(name) + " is true or false, not \"" + std::string(value) + "\"");
    *field = value == "true";
  }
  return out;
}

Result<Manifest> readManifest(const std::string& plugin) {
  const base::UniqueFd object(open(plugin.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!object) return Manifest{};  // loading it reports the reason
  if (Status status = checkFile(plugin, object.get()); !status.ok()) return status;
  const std::size_t slash = plugin.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : plugin.substr(0, slash + 1);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return wrong(folder + ": " + strerrordesc_np(errno));
  if (Status status = inGoodHands(folder, info); !status.ok()) return status;

  const std::size_t dot = plugin.find_last_of('.');
  const std::string path =
      (dot == std::string::npos || (slash != std::string::npos && dot < slash) ? plugin : plugin.substr(0, dot)) +
      ".yaml";
  const base::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return Manifest{};
  if (!file) return wrong(path + ": " + strerrordesc_np(errno));
  if (Status status = checkFile(path, file.get()); !status.ok()) return status;
  std::string text(kMax + 1, '\0');
  const ssize_t n = ::read(file.get(), text.data(), text.size());
  if (n < 0) return wrong(path + ": " + strerrordesc_np(errno));
  text.resize(static_cast<std::size_t>(n));
  if (text.size() > kMax) return wrong(path + " is longer than 64 KiB");
  auto manifest = parseManifest(text);
  return manifest ? manifest : Result<Manifest>(wrong(path + ": " + manifest.status().message()));
}

}  // namespace egpu::plugin

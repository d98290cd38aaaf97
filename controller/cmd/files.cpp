#include "controller/cmd/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace egpu::cmd {

using base::Code;
using base::Status;

base::Result<std::string> readFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Status(Code::unavailable, path + " is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::notFound, path + ": " + std::generic_category().message(errno));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) return Status(Code::unavailable, path + " can't be read");
  return text.str();
}

base::Status writeFile(const std::string& path, const std::string& text, unsigned mode) {
  const std::string beside = path + ".new";
  auto failed = [&](const std::string& what) {
    return Status(Code::unavailable, what + " " + path + ": " + std::generic_category().message(errno));
  };
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, static_cast<mode_t>(mode));
  if (fd < 0) return failed("can't create");
  std::size_t at = 0;
  while (at < text.size()) {
    const auto n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      auto s = failed("can't write");
      ::close(fd);
      return s;
    }
    at += static_cast<std::size_t>(n);
  }
  ::close(fd);
  if (std::rename(beside.c_str(), path.c_str()) != 0) return failed("can't rename to");
  return Status::okay();
}

}  // namespace egpu::cmd

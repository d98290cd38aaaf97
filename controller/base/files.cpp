#include "controller/base/files.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace egpu::base {

Result<std::string> readFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Status(Code::unavailable, path + " is a directory");
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::notFound, path + ": " + std::generic_category().message(errno));
  std::string text;
  for (char c = 0; in.get(c);) text += c;  // `out << in.rdbuf()` would not report a read error
  if (in.bad()) return Status(Code::unavailable, path + " can't be read");
  return text;
}

}  // namespace egpu::base

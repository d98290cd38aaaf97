#include "controller/cmd/execute_beside.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "controller/cmd/fail.h"

namespace egpu::cmd {

int executeBeside(const std::string& program, const std::vector<const char*>& args) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe", base::Status(base::Code::unavailable, error.message()));
  const auto path = (self.parent_path() / program).string();
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (std::size_t i = 2; i < args.size(); ++i) argv.push_back(const_cast<char*>(args[i]));
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  const std::error_code failed(errno, std::generic_category());
  return fail(path, base::Status(base::Code::unavailable,
                                 failed == std::errc::no_such_file_or_directory
                                     ? "not installed: the images of a cluster do not contain it; `make build` and "
                                       "`make install` put it beside the controller"
                                     : failed.message()));
}

}  // namespace egpu::cmd

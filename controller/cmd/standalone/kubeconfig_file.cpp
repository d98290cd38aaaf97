#include "controller/cmd/standalone/kubeconfig_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "controller/base/private_files.h"
#include "controller/codec/kubeconfig_text.h"

namespace egpu::cmd {

namespace {

using base::Code;
using base::Status;

/// The lock file that kubectl creates while it writes a kubeconfig.
class Lock {
 public:
  explicit Lock(std::string path) : path_(std::move(path)) {}
  ~Lock() {
    if (held_) ::unlink(path_.c_str());
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  Status take() {
    constexpr int kAttempts = 40;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const base::UniqueFd fd(::open(path_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      held_ = static_cast<bool>(fd);
      if (held_) return Status::okay();
      if (errno != EEXIST) return {Code::unavailable, path_ + ": " + std::generic_category().message(errno)};
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {Code::unavailable,
            path_ + " exists: another process is writing, or has left it behind; in that case remove it"};
  }

 private:
  const std::string path_;
  bool held_ = false;
};

}  // namespace

base::Result<std::string> addToKubeconfig(const std::string& path, const std::string& server) {
  Lock lock(path + ".lock");
  if (auto s = lock.take(); !s.ok()) return s;
  const auto before = base::readPrivateFile(path);
  if (!before && before.status().code() != Code::notFound) return before.status();
  const auto merged = codec::mergeKubeconfig(before ? *before : std::string(), kKubeconfigName, server);
  if (!merged) return Status(merged.status().code(), path + " " + merged.status().message());
  if (auto s = base::writePrivateFile(path, merged->yaml); !s.ok()) return s;
  return merged->currentContext;
}

}  // namespace egpu::cmd

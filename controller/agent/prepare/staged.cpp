#include "controller/agent/prepare/staged.h"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include "controller/agent/cdi/folder.h"

namespace egpu::agent {

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 2;  // folders that stand above it, in the state folder
constexpr std::size_t kMostUids = 256, kMostSeen = 10'000;

/// 8-4-4-4-12, as the API server makes them.
bool isDeviceUid(const std::string& name) {
  constexpr std::size_t length = 36;
  return name.size() == length && cdi::isUid(name) && name[8] == '-' && name[13] == '-' && name[18] == '-' &&
         name[23] == '-';
}

}  // namespace

std::set<std::string> stagedIn(const std::string& stateFolder) {
  std::set<std::string> out;
  std::error_code error;
  std::size_t seen = 0;
  fs::recursive_directory_iterator at(stateFolder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && ++seen <= kMostSeen && out.size() < kMostUids;
       at.increment(error)) {
    const auto name = at->path().filename().string();
    const bool uid = isDeviceUid(name);
    if (uid) out.insert(name);
    if (uid || at.depth() >= kDeepest) at.disable_recursion_pending();
  }
  return out;
}

}  // namespace egpu::agent

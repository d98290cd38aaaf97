// A container's view of limited cards, for tests in this process: a machine, its limits, the shared files, and the
// functions of the stand-in for libcuda.so.1.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "provisioners/gpushare/limiter/page.h"
#include "tests/support/scratch_folder.h"

namespace egpu::gpu::testing {

constexpr uint64_t kMiB = 1 << 20;

/// The shared files of a device in a folder of their own, written as the agent would. Child processes inherit them by
/// the environment. Create it before the stand-in is loaded.
class SharedFiles {
 public:
  /// `cuda` and `nvml` are the paths of the real libraries; `node` a YAML text.
  SharedFiles(const std::string& cuda, const std::string& nvml, const std::string& node);
  ~SharedFiles();
  SharedFiles(const SharedFiles&) = delete;
  SharedFiles& operator=(const SharedFiles&) = delete;

  /// Puts limits of both cards of nodes/two-cards.yaml into force: bytes, and milli-cards of GPU time.
  void limit(uint64_t first, uint64_t second = EGPU_LIMITER_NO_LIMIT, uint32_t cores = 0, uint32_t flags = 0,
             uint32_t factor = 0);
  /// Bytes of all slots, and of the slot of a process.
  uint64_t used(uint32_t card) const { return egpu_limiter_used(usage, card); }
  uint64_t usedBy(int64_t pid, uint32_t card) const;
  /// Frees the slots of processes that have ended, as the agent does.
  uint32_t clearEnded();
  const std::string& folder() const { return scratch_.path(); }

  egpu_limiter_limits* limits = nullptr;
  egpu_limiter_usage* usage = nullptr;

 private:
  const support::ScratchFolder scratch_;
};

/// Functions of a libcuda.so.1.
class Cuda {
 public:
  explicit Cuda(const std::string& path, int flags = 0);

  /// Calls a function by its exported name; -1 if there is none.
  template <class... Args>
  int operator()(const char* name, Args... args) {
    auto* function = reinterpret_cast<int (*)(Args...)>(address(name));
    return function == nullptr ? -1 : function(args...);
  }
  void* address(const char* name);
  void* library() const { return library_; }

 private:
  void* library_ = nullptr;
  std::map<std::string, void*> addresses_;
};

/// The fake's accounts of a card: bytes of this process, of all, and the most at any time.
struct FakeUsage {
  uint64_t own = 0, all = 0, peak = 0;
};
FakeUsage fakeUsage(int device);

std::string standInPath();                                 ///< the limiter, as the tests build it
std::string fakePath(const std::string& variant = "gpu");  ///< the fake driver
std::string twoCards();                                    ///< nodes/two-cards.yaml

}  // namespace egpu::gpu::testing

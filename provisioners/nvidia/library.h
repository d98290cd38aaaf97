// libnvidia-ml.so.1, found at run time.
#pragma once

#include <memory>
#include <string>

#include "provisioners/nvidia/nvml.h"

namespace egpu::nvidia {

/// NVML while it is open. Not held open between questions: the driver can be unloaded, upgraded or installed meanwhile.
/// Each thread opens its own; NVML counts.
class Library {
 public:
  /// Null if this machine has no such library or it does not start; `why` then says so, and `absent` whether there is no
  /// driver at all, so that asking again is of no use.
  static std::unique_ptr<Library> open(std::string& why, bool& absent);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Calls a function; one that this library lacks answers kFunctionNotFound.
  template <class... Parameters, class... Arguments>
  static Return call(Return (*function)(Parameters...), Arguments... arguments) {
    return function ? function(arguments...) : kFunctionNotFound;
  }
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator can't stand in them.
#define EGPU_NVML_MEMBER(name, parameters) Return(*name) parameters = nullptr;
  EGPU_NVML_FUNCTIONS(EGPU_NVML_MEMBER)
#undef EGPU_NVML_MEMBER

 private:
  Library() = default;

  void* handle_ = nullptr;
  bool started_ = false;
};

/// An answer in words, such as "the GPU is lost: it has fallen off the bus".
std::string inWords(Return answer);

}  // namespace egpu::nvidia

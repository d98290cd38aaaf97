// Loads libnvidia-ml.so.1 at run time.
#pragma once

#include <memory>
#include <string>

#include "provisioners/nvidia/mig/nvml_mig.h"
#include "provisioners/nvidia/nvml.h"

namespace egpu::nvidia {

/// An open NVML. It is closed between queries, so that the driver can be unloaded, upgraded or installed meanwhile.
/// Each thread opens its own; NVML counts the references.
class Library {
 public:
  /// Returns null if this machine has no such library or NVML does not start, and sets `why`. `absent`: the library was
  /// not found, so that there is no driver and a retry is pointless.
  static std::unique_ptr<Library> open(std::string& why, bool& absent);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Calls a function; returns kFunctionNotFound if this library lacks it.
  template <class... Parameters, class... Arguments>
  static Return call(Return (*function)(Parameters...), Arguments... arguments) {
    return function ? function(arguments...) : kFunctionNotFound;
  }
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator can't stand in them.
#define EGPU_NVML_MEMBER(name, parameters) Return(*name) parameters = nullptr;
  EGPU_NVML_FUNCTIONS(EGPU_NVML_MEMBER)
  EGPU_NVML_MIG_FUNCTIONS(EGPU_NVML_MEMBER)
#undef EGPU_NVML_MEMBER

 private:
  Library() = default;

  void* handle_ = nullptr;
  bool started_ = false;
};

/// Describes a return value, such as "no permission to open its device files".
std::string inWords(Return answer);

}  // namespace egpu::nvidia

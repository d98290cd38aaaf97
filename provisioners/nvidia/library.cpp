#include "provisioners/nvidia/library.h"

#include <dlfcn.h>

#include "provisioners/nvidia/container/driver_files.h"
#include "provisioners/nvidia/xids.h"

namespace egpu::nvidia {

std::unique_ptr<Library> Library::open(std::string& why, bool& absent) {
  std::unique_ptr<Library> library(new Library);
  library->handle_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (const std::string host = library->handle_ ? "" : librarySeen("libnvidia-ml.so.1"); !host.empty())
    library->handle_ = dlopen(host.c_str(), RTLD_NOW | RTLD_LOCAL);
  absent = !library->handle_;
  if (absent) {
    const char* error = dlerror();  // NOLINT(concurrency-mt-unsafe): thread-local in glibc
    why = std::string("no NVIDIA driver: ") + (error ? error : "libnvidia-ml.so.1 is not found");
    return nullptr;
  }
#define EGPU_NVML_FIND(name, parameters) \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(library->handle_, #name));
  EGPU_NVML_FUNCTIONS(EGPU_NVML_FIND)
  EGPU_NVML_MIG_FUNCTIONS(EGPU_NVML_FIND)
#undef EGPU_NVML_FIND
  const Return answer = call(library->nvmlInit_v2);
  library->started_ = answer == kSuccess;
  if (library->started_) return library;
  why = "NVIDIA's driver does not answer: " + inWords(answer);
  return nullptr;
}

Library::~Library() {
  if (started_) call(nvmlShutdown);
  if (handle_) dlclose(handle_);
}

std::string inWords(Return answer) {
  switch (answer) {
    case kSuccess:
      return "success";
    case kNotSupported:
      return "not supported";
    case kNoPermission:
      return "no permission to open its device files";
    case kInsufficientPower:
      return "its power cables are not properly attached";
    case kDriverNotLoaded:
      return "the kernel module is not loaded; load it with modprobe nvidia";
    case kIrqIssue:
      return "the kernel has trouble with its interrupts";
    case kFunctionNotFound:
      return "the driver is too old to report it";
    case kCorruptedInforom:
      return "its infoROM is corrupted";
    case kGpuIsLost:
      return "it has fallen off the bus; reboot the machine, and check its seat and power if it happens again";
    case kResetRequired:
      return std::string("it needs a reset: ") + kReset;
    case kInUse:
      return "it is in use";
    case kInsufficientResources:
      return "the card has no resources left for it";
    case kOperatingSystem:
      return "the system or its device cgroup denies access";
    case kVersionMismatch:
      return "library and kernel module are of different versions, as after an upgrade; reload the module or reboot";
    default:
      return "NVML answered " + std::to_string(answer);
  }
}

}  // namespace egpu::nvidia

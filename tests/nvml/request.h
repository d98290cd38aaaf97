// One call of a function of the fake NVML: the node file for its answer, and the export of its symbol.
//
// Each exported function is an indirect one (ifunc): a lookup of its symbol runs a resolver, which returns null for a
// symbol that the file lists as missing. Thus dlsym sees an older library.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "provisioners/nvidia/nvml.h"
#include "tests/nvml/mig_state.h"
#include "tests/nvml/node_file.h"

namespace egpu::nvidia::testing {

using Node = std::shared_ptr<const FakeNode>;

/// Arguments of one call. The function returns `answer` immediately unless it is kSuccess.
struct NvmlCall {
  Return answer = kSuccess;
  Node node;
  const FakeDevice* device = nullptr;
};

inline Return errorOf(const Answers& errors, const char* function) {
  const auto found = errors.find(function);
  return found == errors.end() ? kSuccess : static_cast<Return>(found->second);
}

inline NvmlCall begin(const char* function) {
  NvmlCall r;
  r.node = currentNode();
  if (!r.node) return r.answer = kDriverNotLoaded, r;
  if (const auto slow = r.node->slow.find(function); slow != r.node->slow.end())
    std::this_thread::sleep_for(std::chrono::milliseconds(slow->second));
  r.answer = errorOf(r.node->errors, function);
  return r;
}

/// A handle is the device's place plus 1.
inline Device handleOf(std::size_t place) { return reinterpret_cast<Device>(place + 1); }
inline std::size_t placeOf(Device handle) { return reinterpret_cast<std::size_t>(handle) - 1; }

inline NvmlCall begin(const char* function, Device handle) {
  NvmlCall r = begin(function);
  if (r.answer != kSuccess) return r;
  if (placeOf(handle) >= r.node->devices.size()) return r.answer = kInvalidArgument, r;
  r.device = &r.node->devices[placeOf(handle)];
  r.answer = r.device->lost ? kGpuIsLost : errorOf(r.device->errors, function);
  return r;
}

/// True for the handle of a MIG device: an instance of a card.
inline bool isMigDevice(Device handle) { return reinterpret_cast<std::size_t>(handle) >> 16 == 1; }
/// Returns the uuid of a MIG device; empty if there is no such one. Defined in fake_mig.cpp.
std::string uuidOfMigDevice(Device handle);
/// Returns the MIG device of a handle, if this process sees it. Defined in fake_mig.cpp.
std::optional<FakeMigDevice> migDeviceOf(Device handle);
/// Returns the handle of a MIG device of a card. Defined in fake_mig.cpp.
Device handleOfMigDevice(std::size_t place, const FakeMigDevice& device);

using Symbol = void (*)();

template <class Function>
Symbol unlessMissing(const char* symbol, Function function) {
  const Node node = currentNode();
  return node && node->missing.count(symbol) > 0 ? nullptr : reinterpret_cast<Symbol>(function);
}

}  // namespace egpu::nvidia::testing

#define EXPORT(symbol, function)                                                \
  extern "C" {                                                                  \
  [[maybe_unused]] static egpu::nvidia::testing::Symbol find_##symbol() {       \
    using namespace egpu::nvidia; /* NOLINT(google-build-using-namespace) */    \
    return testing::unlessMissing(#symbol, testing::function);                  \
  }                                                                             \
  __attribute__((visibility("default"), ifunc("find_" #symbol))) void symbol(); \
  }

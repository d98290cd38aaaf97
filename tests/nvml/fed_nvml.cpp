// A libnvidia-ml.so.1 for fuzzing: each call consumes the next input bytes for its answer, until none is left. It
// conforms to NVML's ABI, and to nothing else. Single-threaded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "provisioners/nvidia/mig/nvml_mig.h"
#include "provisioners/nvidia/nvml.h"

namespace egpu::nvidia::testing {
namespace {

const unsigned char* next = nullptr;
std::size_t left = 0;

unsigned char byte() {
  if (left == 0) return 0;
  --left;
  return *next++;
}

/// Without input no call succeeds, so that every loop ends.
Return code() {
  constexpr Return errors[] = {kUninitialized,
                               kInvalidArgument,
                               kNotSupported,
                               kNoPermission,
                               kNotFound,
                               kInsufficientSize,
                               kDriverNotLoaded,
                               kTimeout,
                               kIrqIssue,
                               kFunctionNotFound,
                               kCorruptedInforom,
                               kGpuIsLost,
                               kResetRequired,
                               kUnknown,
                               -1,
                               std::numeric_limits<Return>::max()};
  constexpr unsigned char kErrors = 0xe0;
  if (left == 0) return kTimeout;
  const auto what = byte();
  return what < kErrors ? kSuccess : errors[what % std::size(errors)];
}

/// Returns a small number, an edge value, or any number.
uint64_t number() {
  constexpr uint64_t edges[] = {~uint64_t{0},      uint64_t{1} << 63,       (uint64_t{1} << 63) - 1,
                                uint64_t{1} << 50, (uint64_t{1} << 50) + 1, uint64_t{80} << 30,
                                uint64_t{1} << 32, (uint64_t{1} << 31)};
  constexpr unsigned char kEdges = 0xf0, kAny = 0xf8;
  const auto first = byte();
  if (first < kEdges) return first;
  if (first < kAny) return edges[first - kEdges];
  uint64_t out = 0;
  for (std::size_t i = 0; i < sizeof out; ++i) out = out << 8 | byte();
  return out;
}

template <class T>
void value(T& out) {
  if constexpr (std::is_pointer_v<T>)
    out = reinterpret_cast<T>(static_cast<std::uintptr_t>(number()));
  else
    out = static_cast<T>(number());
}
void value(PciInfo& out) {
  for (auto* each : {&out.domain, &out.bus, &out.device, &out.deviceId}) value(*each);
  std::memset(out.busId, byte(), sizeof out.busId);
  std::memset(out.busIdLegacy, byte(), sizeof out.busIdLegacy);
}
void value(Memory& out) {
  for (auto* each : {&out.total, &out.free, &out.used}) value(*each);
}
void value(MemoryV2& out) {
  for (auto* each : {&out.total, &out.reserved, &out.used}) value(*each);
}
void value(InstanceProfile& out) {
  value(out.multiprocessorCount);
  value(out.memorySizeMB);
}
void value(ProcessInfo& out) {
  value(out.pid);
  value(out.memory);
}
void value(Utilization& out) {
  value(out.gpu);
  value(out.memory);
}
void value(ProcessSample& out) {
  value(out.pid);
  value(out.time);
  value(out.sm);
}
void value(FieldValue& out) {
  value(out.valueType);
  value(out.answer);
  value(out.value);
}
void value(EventData& out) {
  value(out.device);
  value(out.type);
  value(out.data);
}

void value(NamedInstanceProfile& out) {
  for (auto* each : {&out.id, &out.sliceCount, &out.instanceCount, &out.ofaCount}) value(*each);
  value(out.memorySizeMB);
  std::memset(out.name, byte(), sizeof out.name);
}
void value(InstancePlacement& out) {
  value(out.start);
  value(out.size);
}
void value(GpuInstanceInfo& out) {
  value(out.id);
  value(out.profileId);
  value(out.placement);
}
void value(ComputeProfile& out) {
  value(out.id);
  value(out.sliceCount);
}
void value(ComputeInstanceInfo& out) {
  value(out.id);
  value(out.placement);
}

/// Writes a text of any length; one that fills the buffer has no NUL.
void text(char* out, unsigned size) {
  const std::size_t length = std::min<std::size_t>(byte(), size);
  for (std::size_t i = 0; i < length; ++i) out[i] = static_cast<char>(byte());
  if (length < size) out[length] = 0;
}

template <class... Rest>
unsigned sizeOf(unsigned size, Rest...) {
  return size;
}

/// Writes a function's outputs: a text with its buffer's size after it, or the first element of an array.
template <class First, class... Rest>
void write(First first, Rest... rest) {
  constexpr bool handle = std::is_same_v<First, Device> || std::is_same_v<First, EventSet> ||
                          std::is_same_v<First, GpuInstance> || std::is_same_v<First, ComputeInstance> ||
                          std::is_same_v<First, const InstancePlacement*>;
  if constexpr (std::is_same_v<First, char*>)
    text(first, sizeOf(rest...));
  else if constexpr (std::is_pointer_v<First> && !handle)
    if (first != nullptr) value(*first);
  if constexpr (sizeof...(rest) > 0) write(rest...);
}

template <class Signature>
struct Function;
template <class... Parameters>
struct Function<Return(Parameters...)> {
  static Return answer(Parameters... parameters) {
    const Return out = code();
    if constexpr (sizeof...(parameters) > 0)
      if (out == kSuccess || out == kInsufficientSize) write(parameters...);
    return out;
  }
};

using Symbol = void (*)();

}  // namespace
}  // namespace egpu::nvidia::testing

extern "C" __attribute__((visibility("default"))) void feedNvml(const unsigned char* bytes, std::size_t size);
extern "C" void feedNvml(const unsigned char* bytes, std::size_t size) {
  egpu::nvidia::testing::next = bytes;
  egpu::nvidia::testing::left = size;
}

using namespace egpu::nvidia;

// Indirect, as in nvml.cpp. Repeated here because a function can't be defined by its type.
#define EXPORT(symbol, parameters)                                                           \
  extern "C" {                                                                               \
  testing::Symbol find_##symbol();                                                           \
  testing::Symbol find_##symbol() {                                                          \
    return reinterpret_cast<testing::Symbol>(&testing::Function<Return parameters>::answer); \
  }                                                                                          \
  __attribute__((visibility("default"), ifunc("find_" #symbol))) void symbol();              \
  }
EGPU_NVML_FUNCTIONS(EXPORT)
EGPU_NVML_MIG_FUNCTIONS(EXPORT)

// Start, devices, contexts, errors and the look-up of functions.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "tests/gpu/fake/machine.h"

namespace egpu::gpu::testing {
namespace {

constexpr int kUuidBytes = 16;

bool known(Device device) { return device >= 0 && device < GpuMachine::get().deviceCount(); }

/// The bytes of "GPU-1f2e…".
int uuidOf(unsigned char* out, Device device) {
  if (!known(device)) return invalidDevice;
  const std::string text = GpuMachine::get().device(device).uuid.substr(4);
  int digits = 0;
  std::memset(out, 0, kUuidBytes);
  for (const char c : text) {
    if (c == '-' || digits >= 2 * kUuidBytes) continue;
    const int value = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
    out[digits / 2] = static_cast<unsigned char>(out[digits / 2] << 4 | value);
    ++digits;
  }
  return success;
}

int createContext(void** out, unsigned flags, Device device) {
  auto& machine = GpuMachine::get();
  if (!machine.initialized) return notInitialized;
  if (!known(device)) return invalidDevice;
  auto* context = new Context{device, false, 1, flags};
  const std::lock_guard lock(machine.mutex);
  machine.contexts.insert(context);
  pushContext(context);
  *out = context;
  return success;
}

}  // namespace

EGPU_FAKE cuInit(unsigned) {
  auto& machine = GpuMachine::get();
  machine.initialized = true;
  return machine.deviceCount() == 0 ? noDevice : success;
}
EGPU_FAKE cuDriverGetVersion(int* out) { return *out = GpuMachine::get().cudaVersion(), success; }
EGPU_FAKE cuDeviceGetCount(int* out) {
  if (!GpuMachine::get().initialized) return notInitialized;
  return *out = GpuMachine::get().deviceCount(), success;
}
EGPU_FAKE cuDeviceGet(Device* out, int ordinal) {
  if (!GpuMachine::get().initialized) return notInitialized;
  if (!known(ordinal)) return invalidDevice;
  return *out = ordinal, success;
}
EGPU_FAKE cuDeviceGetName(char* out, int length, Device device) {
  if (!known(device)) return invalidDevice;
  std::snprintf(out, length, "%s", GpuMachine::get().device(device).name.c_str());
  return success;
}
EGPU_FAKE cuDeviceGetUuid(unsigned char* out, Device device) { return uuidOf(out, device); }
EGPU_FAKE cuDeviceGetUuid_v2(unsigned char* out, Device device) { return uuidOf(out, device); }
EGPU_FAKE cuDeviceTotalMem_v2(std::size_t* out, Device device) {
  if (!known(device)) return invalidDevice;
  return *out = GpuMachine::get().device(device).memory, success;
}
EGPU_FAKE cuDeviceGetPCIBusId(char* out, int length, Device device) {
  if (!known(device)) return invalidDevice;
  std::snprintf(out, length, "%s", GpuMachine::get().device(device).pci.c_str());
  return success;
}
EGPU_FAKE cuDeviceComputeCapability(int* major, int* minor, Device device) {
  if (!known(device)) return invalidDevice;
  *major = static_cast<int>(GpuMachine::get().device(device).computeMajor);
  *minor = static_cast<int>(GpuMachine::get().device(device).computeMinor);
  return success;
}
EGPU_FAKE cuDeviceGetAttribute(int* out, int attribute, Device device) {
  if (!known(device)) return invalidDevice;
  const auto& card = GpuMachine::get().device(device);
  static const std::unordered_map<int, int> kValues = {
      {1, 1024},     {2, 1024},  {3, 1024},      {4, 64},       {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
      {9, 65536},    {10, 32},   {12, 65536},    {13, 1980000}, {15, 1},         {16, 132},  {19, 1},    {31, 1},
      {36, 2619000}, {37, 5120}, {38, 52428800}, {39, 2048},    {41, 1},         {78, 1},    {79, 1},    {80, 1},
      {83, 1},       {89, 1},    {95, 1},        {97, 232448},  {102, 1},        {103, 1},   {115, 1},   {116, 1}};
  const auto found = kValues.find(attribute);
  *out = found == kValues.end() ? 0 : found->second;
  if (const int sms = GpuMachine::get().sms(device); attribute == 16 && sms > 0) *out = sms;
  if (attribute == 75) *out = static_cast<int>(card.computeMajor);
  if (attribute == 76) *out = static_cast<int>(card.computeMinor);
  return success;
}

// ---- contexts

EGPU_FAKE cuDevicePrimaryCtxRetain(void** out, Device device) {
  auto& machine = GpuMachine::get();
  if (!machine.initialized) return notInitialized;
  if (!known(device)) return invalidDevice;
  const std::lock_guard lock(machine.mutex);
  ++machine.primaries[device]->references;
  *out = machine.primaries[device].get();
  return success;
}
EGPU_FAKE cuDevicePrimaryCtxRelease_v2(Device device) {
  auto& machine = GpuMachine::get();
  bool ended = false;
  {
    const std::lock_guard lock(machine.mutex);
    auto& context = *machine.primaries.at(device);
    if (context.references == 0) return invalidContext;
    ended = --context.references == 0;
  }
  if (ended) endContext(machine.primaries[device].get());
  return success;
}
EGPU_FAKE cuDevicePrimaryCtxReset_v2(Device device) {
  endContext(GpuMachine::get().primaries.at(device).get());
  return success;
}
EGPU_FAKE cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  *flags = machine.primaries.at(device)->flags;
  *active = machine.primaries.at(device)->references > 0;
  return success;
}
EGPU_FAKE cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  machine.primaries.at(device)->flags = flags;
  return success;
}
EGPU_FAKE cuCtxCreate_v2(void** out, unsigned flags, Device device) { return createContext(out, flags, device); }
EGPU_FAKE cuCtxCreate_v3(void** out, void*, int, unsigned flags, Device device) {
  return createContext(out, flags, device);
}
EGPU_FAKE cuCtxCreate_v4(void** out, void*, unsigned flags, Device device) { return createContext(out, flags, device); }
EGPU_FAKE cuCtxDestroy_v2(void* handle) {
  auto& machine = GpuMachine::get();
  auto* context = static_cast<Context*>(handle);
  {
    const std::lock_guard lock(machine.mutex);
    if (machine.contexts.erase(handle) == 0) return invalidContext;
  }
  endContext(context);
  removeContext(context);
  return success;
}
EGPU_FAKE cuCtxPushCurrent_v2(void* context) { return pushContext(static_cast<Context*>(context)), success; }
EGPU_FAKE cuCtxPopCurrent_v2(void** out) {
  Context* context = popContext();
  if (context == nullptr) return invalidContext;
  if (out != nullptr) *out = context;
  return success;
}
EGPU_FAKE cuCtxSetCurrent(void* context) {
  popContext();
  if (context != nullptr) pushContext(static_cast<Context*>(context));
  return success;
}
EGPU_FAKE cuCtxGetCurrent(void** out) {
  if (!GpuMachine::get().initialized) return notInitialized;
  return *out = current(), success;
}
EGPU_FAKE cuCtxGetDevice(Device* out) {
  if (current() == nullptr) return invalidContext;
  return *out = current()->device, success;
}
EGPU_FAKE cuCtxGetFlags(unsigned* out) {
  if (current() == nullptr) return invalidContext;
  return *out = current()->flags, success;
}
EGPU_FAKE cuCtxGetApiVersion(void* context, unsigned* out) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  if (context != nullptr && !machine.contexts.contains(context)) return invalidContext;
  return *out = 3020, success;
}
EGPU_FAKE cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, success; }

// ---- errors

EGPU_FAKE cuGetErrorName(int code, const char** out) {
  static const std::unordered_map<int, const char*> kNames = {{success, "CUDA_SUCCESS"},
                                                              {invalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                              {outOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                              {notInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                              {noDevice, "CUDA_ERROR_NO_DEVICE"},
                                                              {invalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
                                                              {invalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                              {invalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
                                                              {notFound, "CUDA_ERROR_NOT_FOUND"},
                                                              {notReady, "CUDA_ERROR_NOT_READY"},
                                                              {notSupported, "CUDA_ERROR_NOT_SUPPORTED"}};
  const auto found = kNames.find(code);
  *out = found == kNames.end() ? nullptr : found->second;
  return *out == nullptr ? invalidValue : success;
}
EGPU_FAKE cuGetErrorString(int code, const char** out) { return cuGetErrorName(code, out); }

}  // namespace egpu::gpu::testing

// ---- the look-up of functions: the rows of the version table up to the driver's version

// Declared without their types: some of them are defined above, others in fake_defaults.S.
#define EGPU_ROW(name, perThread, version, symbol) asm(".weak " #symbol);
#include "fake_versions.inc"
#undef EGPU_ROW

namespace egpu::gpu::testing {
namespace {

constexpr int kNewerVersion = 90000;

/// A version of a function that is newer than all tables.
int newerFunction() { return notSupported; }

struct Row {
  int perThread, version;
  void* function;
};

/// Address of a symbol of this library through its own table of symbols, as the driver's table does without -Bsymbolic.
template <class Add>
void eachRow(const Add& add) {
#define EGPU_ROW(name, perThread, version, symbol)               \
  {                                                              \
    void* address;                                               \
    asm("movq " #symbol "@GOTPCREL(%%rip), %0" : "=r"(address)); \
    add(name, perThread, version, address);                      \
  }
#include "fake_versions.inc"
#undef EGPU_ROW
}

const std::unordered_map<std::string, std::vector<Row>>& table() {
  static const auto* rows = [] {
    auto* out = new std::unordered_map<std::string, std::vector<Row>>;
    eachRow([out](const char* name, int perThread, int version, void* address) {
      (*out)[name].push_back({perThread, version, address});
    });
    for (const auto& name : GpuMachine::get().newerFunctions())
      (*out)[name].push_back({0, kNewerVersion, reinterpret_cast<void*>(&newerFunction)});
    return out;
  }();
  return *rows;
}

/// The newest function of a name that is not newer than the version asked for. Status: 1 unknown, 2 the version is too
/// old.
int search(const char* name, void** out, int version, uint64_t flags, int* status) {
  const auto found = table().find(name);
  const Row* best = nullptr;
  bool any = false;
  const int driver = GpuMachine::get().cudaVersion();
  for (int perThread = (flags & 2) != 0 ? 1 : 0; perThread >= 0 && best == nullptr && found != table().end();
       --perThread)
    for (const auto& row : found->second) {
      if (row.version > driver) continue;
      any = true;
      if (row.perThread == perThread && row.version <= version && (best == nullptr || row.version > best->version))
        best = &row;
    }
  *out = best == nullptr ? nullptr : best->function;
  if (status != nullptr) return *status = best != nullptr ? 0 : any ? 2 : 1, success;
  return best == nullptr ? notFound : success;
}

}  // namespace

EGPU_FAKE cuGetProcAddress(const char* name, void** out, int version, uint64_t flags) {
  return search(name, out, version, flags, nullptr);
}
EGPU_FAKE cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags, int* status) {
  int unused;
  return search(name, out, version, flags, status == nullptr ? &unused : status);
}

}  // namespace egpu::gpu::testing

/// For tests only: bytes in use by this process and by all, and the peak.
extern "C" __attribute__((visibility("default"))) void egpuFakeUsage(int device, uint64_t* own, uint64_t* all,
                                                                     uint64_t* peak) {
  auto& machine = egpu::gpu::testing::GpuMachine::get();
  *own = machine.usedByThisProcess(device);
  *all = machine.used(device);
  *peak = machine.peak(device);
}

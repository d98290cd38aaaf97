// Prints the cards that a program in a container sees, as one line of JSON. It opens the libraries by name, as every
// client does, and allocates until the driver refuses.
//
//   container_client [hold]     hold: keeps the memory until it is killed
//
//   cuda   of each card: uuid, total and free bytes, SMs, bytes that could be allocated, and the code of the refusal
//   nvml   of each card: uuid and total bytes
//   mig    the same of each MIG device
//   cores  thousandths of a card's time that the limiter grants, by card; empty without the limiter
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "provisioners/gpushare/limiter/page.h"

namespace {

constexpr std::size_t kPiece = 64 << 20, kSmallPiece = 1 << 20;
constexpr int kSuccess = 0, kMultiprocessors = 16, kUuidBytes = 16;
constexpr unsigned kTextSize = 96;

class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW)) {
    if (handle_ == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::exit(1);
  }
  template <class... Arguments>
  int operator()(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    if (function == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::exit(1);
    return function(arguments...);
  }
  /// As a call, but ends the program unless the function succeeds.
  template <class... Arguments>
  void must(const char* name, Arguments... arguments) const {
    const int code = (*this)(name, arguments...);
    if (code != kSuccess) std::fprintf(stderr, "%s: %d\n", name, code), std::exit(1);
  }

 private:
  void* handle_;
};

struct Memory {
  unsigned long long total, free, used;
};

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& each : parts) out += (out.empty() ? "" : ", ") + each;
  return "[" + out + "]";
}

/// Allocates until the driver refuses, finally in small pieces. Returns the code of the refusal.
int fill(const Library& cuda, std::uint64_t& bytes) {
  int code = kSuccess;
  for (const std::size_t piece : {kPiece, kSmallPiece}) {
    std::uint64_t address = 0;
    while ((code = cuda("cuMemAlloc_v2", &address, piece)) == kSuccess) bytes += piece;
  }
  return code;
}

std::string cudaCard(const Library& cuda, int device) {
  unsigned char uuid[kUuidBytes] = {};
  std::size_t total = 0, free = 0, unused = 0;
  int sms = 0;
  void* context = nullptr;
  cuda.must("cuDeviceGetUuid_v2", static_cast<unsigned char*>(uuid), device);
  cuda.must("cuDeviceTotalMem_v2", &total, device);
  cuda.must("cuDeviceGetAttribute", &sms, kMultiprocessors, device);
  cuda.must("cuDevicePrimaryCtxRetain", &context, device);
  cuda.must("cuCtxSetCurrent", context);
  cuda.must("cuMemGetInfo_v2", &free, &unused);
  std::uint64_t filled = 0;
  const int refusal = fill(cuda, filled);
  std::string text = "{\"uuid\": \"";
  for (const unsigned char byte : uuid) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text + "\", \"total\": " + std::to_string(total) + ", \"free\": " + std::to_string(free) +
         ", \"sms\": " + std::to_string(sms) + ", \"filled\": " + std::to_string(filled) +
         ", \"refusal\": " + std::to_string(refusal) + "}";
}

std::string nvmlCard(const Library& nvml, void* device) {
  char uuid[kTextSize] = {};
  Memory memory{};
  nvml.must("nvmlDeviceGetUUID", device, static_cast<char*>(uuid), kTextSize);
  nvml.must("nvmlDeviceGetMemoryInfo", device, &memory);
  return std::string("{\"uuid\": \"") + uuid + "\", \"total\": " + std::to_string(memory.total) +
         ", \"free\": " + std::to_string(memory.free) + "}";
}

std::vector<std::string> migDevices(const Library& nvml, void* card) {
  unsigned count = 0;
  if (nvml("nvmlDeviceGetMaxMigDeviceCount", card, &count) != kSuccess) return {};
  std::vector<std::string> out;
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    if (nvml("nvmlDeviceGetMigDeviceHandleByIndex", card, i, &device) == kSuccess)
      out.push_back(nvmlCard(nvml, device));
  }
  return out;
}

std::vector<std::string> grantedCores() {
  egpu_limiter_limits limits{};
  std::ifstream file(EGPU_LIMITER_FOLDER "/limits", std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&limits), sizeof limits)) return {};
  egpu_limiter_bank bank{};
  if (egpu_limiter_get(&limits, &bank) != 0) std::fprintf(stderr, "the limits are invalid\n"), std::exit(1);
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < bank.cards; ++i) out.push_back(std::to_string(bank.card[i].cores));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const Library cuda("libcuda.so.1"), nvml("libnvidia-ml.so.1");
  std::vector<std::string> cudaCards, nvmlCards, mig;
  nvml.must("nvmlInit_v2");
  unsigned listed = 0;
  nvml.must("nvmlDeviceGetCount_v2", &listed);
  for (unsigned i = 0; i < listed; ++i) {
    void* card = nullptr;
    nvml.must("nvmlDeviceGetHandleByIndex_v2", i, &card);
    nvmlCards.push_back(nvmlCard(nvml, card));
    for (auto& each : migDevices(nvml, card)) mig.push_back(std::move(each));
  }
  int count = 0;
  cuda.must("cuInit", 0U);
  cuda.must("cuDeviceGetCount", &count);
  for (int i = 0; i < count; ++i) cudaCards.push_back(cudaCard(cuda, i));
  std::printf(R"({"cuda": %s, "nvml": %s, "mig": %s, "cores": %s})"
              "\n",
              joined(cudaCards).c_str(), joined(nvmlCards).c_str(), joined(mig).c_str(),
              joined(grantedCores()).c_str());
  std::fflush(stdout);
  while (argc > 1 && std::strcmp(argv[1], "hold") == 0) pause();
  return 0;
}

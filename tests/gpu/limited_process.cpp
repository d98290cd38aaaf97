#include "tests/gpu/limited_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "provisioners/gpushare/limiter/host_processes.h"

namespace egpu::gpu::testing {
namespace {

constexpr uint8_t kUuids[2][16] = {{0xa1, 0x1c, 0xe0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 1},
                                   {0xb0, 0xb0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 2}};

void* makeFile(const std::string& path, std::size_t size) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) throw std::runtime_error("cannot make " + path);
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return mapped;
}

}  // namespace

SharedFiles::SharedFiles(const std::string& cuda, const std::string& nvml, const std::string& node) {
  std::ofstream(folder() + "/node.yaml") << node;
  limits = static_cast<egpu_limiter_limits*>(makeFile(folder() + "/limits", sizeof *limits));
  usage = static_cast<egpu_limiter_usage*>(makeFile(folder() + "/usage", sizeof *usage));
  if (egpu_limiter_make_limits(limits, cuda.c_str(), nvml.c_str()) != 0) throw std::runtime_error("a path is too long");
  egpu_limiter_make_usage(usage);
  setenv("ELASTICGPU_LIMITER_FOLDER", folder().c_str(), 1);
  setenv("ELASTICGPU_FAKE_NVML", (folder() + "/node.yaml").c_str(), 1);
  setenv("ELASTICGPU_FAKE_CUDA_STATE", (folder() + "/state").c_str(), 1);
}

SharedFiles::~SharedFiles() {
  munmap(limits, sizeof *limits);
  munmap(usage, sizeof *usage);
}

void SharedFiles::limit(uint64_t first, uint64_t second, uint32_t cores, uint32_t flags, uint32_t factor) {
  egpu_limiter_card cards[2] = {};
  for (int i = 0; i < 2; ++i) std::memcpy(cards[i].uuid, kUuids[i], sizeof kUuids[i]);
  cards[0].memory = first;
  cards[1].memory = second;
  cards[0].cores = cores;
  cards[0].factor = factor;
  egpu_limiter_set(limits, cards, 2, flags);
}

uint64_t SharedFiles::usedBy(int64_t pid, uint32_t card) const {
  uint64_t sum = 0;
  for (unsigned i = 0; i < EGPU_LIMITER_SLOTS; ++i)
    if (static_cast<int64_t>(__atomic_load_n(&usage->slot[i].owner, __ATOMIC_ACQUIRE) >> 32) == pid)
      sum += __atomic_load_n(&usage->used[card][i], __ATOMIC_ACQUIRE);
  return sum;
}

uint32_t SharedFiles::clearEnded() {
  egpu_limiter_processes processes;
  if (egpu_limiter_read_processes(&processes, "/proc") != 0) throw std::runtime_error("cannot read /proc");
  const uint32_t cleared = egpu_limiter_clear(usage, egpu_limiter_runs_on_host, &processes);
  egpu_limiter_free_processes(&processes);
  return cleared;
}

Cuda::Cuda(const std::string& path, int flags) : library_(dlopen(path.c_str(), RTLD_NOW | flags)) {
  if (library_ == nullptr) throw std::runtime_error(dlerror());
}

void* Cuda::address(const char* name) {
  void*& found = addresses_[name];
  if (found == nullptr) found = dlsym(library_, name);
  return found;
}

FakeUsage fakeUsage(int device) {
  static void* library = dlopen(fakePath().c_str(), RTLD_NOW | RTLD_LOCAL);
  static auto* ask =
      library == nullptr
          ? nullptr
          : reinterpret_cast<void (*)(int, uint64_t*, uint64_t*, uint64_t*)>(dlsym(library, "egpuFakeUsage"));
  FakeUsage out;
  if (ask != nullptr) ask(device, &out.own, &out.all, &out.peak);
  return out;
}

std::string standInPath() { return EGPU_LIB_DIR "/limiter_test/libcuda.so.1"; }

std::string fakePath(const std::string& variant) { return EGPU_LIB_DIR "/" + variant + "/libcuda.so.1"; }

std::string twoCards() {
  std::ifstream file(EGPU_SOURCE_DIR "/tests/gpu/nodes/two-cards.yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace egpu::gpu::testing

#include "provisioners/nvidia/ratings.h"

#include <cmath>

namespace egpu::nvidia {
namespace {

struct Rating {
  std::string_view model;
  double tflops;
};
constexpr Rating kRatings[] = {
#include "ratings.inc"
};

/// Cores and operations per clock of one SM. A multiply-add counts as two operations. From the white papers of the
/// architectures.
struct Capability {
  int major, minor;
  int64_t cores, operations;
};
constexpr Capability kCapabilities[] = {
    {5, 0, 128, 256},   {5, 2, 128, 256},   {6, 0, 64, 256},    {6, 1, 128, 256},  {7, 0, 64, 1024},
    {7, 5, 64, 1024},   {8, 0, 64, 2048},   {8, 6, 128, 1024},  {8, 9, 128, 1024}, {9, 0, 128, 4096},
    {10, 0, 128, 8192}, {10, 3, 128, 8192}, {12, 0, 128, 1024},
};

const Capability* find(int major, int minor) {
  for (const Capability& capability : kCapabilities)
    if (capability.major == major && capability.minor == minor) return &capability;
  return nullptr;
}

}  // namespace

int64_t ratedMilliTflops(std::string_view model) {
  for (const Rating& rating : kRatings)
    if (rating.model == model) return std::llround(rating.tflops * 1000);
  return 0;
}

int64_t computedMilliTflops(int major, int minor, int64_t smCount, int64_t mhz) {
  const Capability* capability = find(major, minor);
  // The product is in millions of operations per second; a thousand of those are a milli-TFLOPS.
  return capability ? smCount * mhz * capability->operations / 1000 : 0;
}

int64_t coresPerSm(int major, int minor) {
  const Capability* capability = find(major, minor);
  return capability ? capability->cores : 0;
}

}  // namespace egpu::nvidia

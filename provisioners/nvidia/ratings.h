// Compute ratings of cards: dense FP16 on tensor cores, if the card has any.
#pragma once

#include <cstdint>
#include <string_view>

namespace egpu::nvidia {

/// Returns the rating in ratings.yaml, in thousandths of a TFLOPS; 0 = not listed. `model`: as returned by modelOf().
int64_t ratedMilliTflops(std::string_view model);

/// Returns SMs × clock × operations per clock of the compute capability, in thousandths of a TFLOPS; 0 if a factor is
/// unknown.
int64_t computedMilliTflops(int major, int minor, int64_t smCount, int64_t mhz);

/// Returns the number of CUDA cores per SM; 0 = unknown.
int64_t coresPerSm(int major, int minor);

}  // namespace egpu::nvidia

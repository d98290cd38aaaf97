// What a card's compute is rated at: dense FP16 on tensor cores, where it has them.
#pragma once

#include <cstdint>
#include <string_view>

namespace egpu::nvidia {

/// Thousandths of a TFLOPS from ratings.yaml, by the model as modelOf gives it; 0 = not in the table.
int64_t ratedMilliTflops(std::string_view model);

/// SMs × clock × operations per clock of the compute capability; 0 if one of them is unknown.
int64_t computedMilliTflops(int major, int minor, int64_t smCount, int64_t mhz);

/// CUDA cores in one SM; 0 = unknown.
int64_t coresPerSm(int major, int minor);

}  // namespace egpu::nvidia

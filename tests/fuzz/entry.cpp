#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  egpu::testing::EGPU_FUZZ_FUNCTION(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

#include <algorithm>

#include "provisioners/nvidia/container/cdi_files.h"
#include "provisioners/nvidia/container/loader_cache.h"
#include "tests/fuzz/targets.h"

namespace egpu::testing {

void fuzzDriver(std::string_view bytes) {
  for (const auto& library : nvidia::readLoaderCache(bytes)) {
    promise(!library.name.empty() && library.name.find('/') == std::string::npos, "a name is no path");
    promise(library.path.front() == '/', "a path is absolute");
    promise(bytes.find(library.name) != std::string_view::npos, "a name is the cache's");
  }
  std::string why;
  const auto devices = nvidia::gpusOfSpec(bytes, why);
  promise(devices.has_value() != !why.empty(), "a refusal says why");
}

}  // namespace egpu::testing

// Small files, read whole; those for their owner alone are private_files.h's.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::base {

/// The whole file. Code::notFound if it can't be opened, Code::unavailable if it can't be read; both with the path.
Result<std::string> readFile(const std::string& path);

}  // namespace egpu::base

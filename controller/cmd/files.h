// Small files that the commands read; those they write are base/private_files.h's.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::cmd {

/// The whole file. Code::notFound or Code::unavailable, with the path.
base::Result<std::string> readFile(const std::string& path);

}  // namespace egpu::cmd

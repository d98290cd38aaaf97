// Small files that the commands read and write.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::cmd {

/// The whole file. Code::notFound or Code::unavailable, with the path.
base::Result<std::string> readFile(const std::string& path);
/// Written beside and renamed, so that a reader sees all or nothing. mode: permission bits.
base::Status writeFile(const std::string& path, const std::string& text, unsigned mode);

}  // namespace egpu::cmd

// Reads whole small files. private_files.h handles files that only their owner may access.
#pragma once

#include <string>

#include "controller/base/status.h"

namespace egpu::base {

/// Returns the content of the file. Fails with Code::notFound if it can't be opened, with Code::unavailable if it can't
/// be read. The message contains the path.
Result<std::string> readFile(const std::string& path);

}  // namespace egpu::base

// Executes another program of the installation.
#pragma once

#include <string>
#include <vector>

namespace egpu::cmd {

/// Replaces this process by the program that lies beside this executable. args: of this process; the program gets those
/// after the second. Returns an exit status, after an error message, only if the program is missing or cannot be
/// executed.
int executeBeside(const std::string& program, const std::vector<const char*>& args);

}  // namespace egpu::cmd

// Boot id of this machine.
#pragma once

#include <fstream>
#include <string>

namespace egpu::agent {

/// Returns the kernel's boot id, which changes with each boot; empty if it can't be read. `proc`: usually "/proc".
inline std::string bootIdOf(const std::string& proc) {
  std::ifstream file(proc + "/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace egpu::agent

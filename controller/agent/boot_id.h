// Which start of this machine it is.
#pragma once

#include <fstream>
#include <string>

namespace egpu::agent {

/// The kernel's boot id, another one after each start; empty = unknown. proc: "/proc".
inline std::string bootIdOf(const std::string& proc) {
  std::ifstream file(proc + "/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace egpu::agent

#include "provisioners/nvidia/container/device_nodes.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "provisioners/nvidia/container/host_files.h"
#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

bool isThere(const std::string& path) {
  struct stat info {};
  return lstat(seen(path).c_str(), &info) == 0;
}

/// Returns the kernel's names of the drivers of character devices, as in "195 nvidia".
std::set<std::string> drivers() {
  std::set<std::string> out;
  std::ifstream in(rooted("/proc/devices"));
  for (std::string line; std::getline(in, line) && line != "Block devices:";) {
    unsigned number = 0;
    char name[65] = {};
    if (std::sscanf(line.c_str(), "%u %64s", &number, name) == 2) out.insert(name);  // NOLINT(cert-err34-c)
  }
  return out;
}

}  // namespace

std::vector<std::string> deviceNodes(const std::vector<int64_t>& minors) {
  std::vector<std::string> out;
  out.reserve(minors.size() + 4);
  for (const int64_t minor : minors) out.push_back("/dev/nvidia" + std::to_string(minor));
  out.emplace_back("/dev/nvidiactl");
  for (const char* path : {"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"})
    if (isThere(path)) out.emplace_back(path);
  return out;
}

sdk::Status checkNodes() {
  const auto known = drivers();
  if (known.count("nvidia") + known.count("nvidia-frontend") == 0) return sdk::noChange();  // no driver is listed
  if (known.count("nvidia-uvm") == 0)
    return sdk::unavailable("the kernel module nvidia-uvm is not loaded, CUDA needs it: modprobe nvidia-uvm");
  if (!isThere("/dev/nvidia-uvm"))
    return sdk::unavailable("/dev/nvidia-uvm is missing and could not be made, CUDA needs it: nvidia-modprobe -c 0 -u");
  return sdk::noChange();
}

}  // namespace egpu::nvidia

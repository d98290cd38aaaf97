#include "tests/gpu/fake/mps_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace egpu::gpu::testing {
namespace {

bool listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  // EAGAIN: the fake daemon does not accept connections of clients, and its queue is full.
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool out =
      fd >= 0 && (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN);
  if (fd >= 0) close(fd);
  return out;
}

/// Reads "4G" or "4096M"; no limit for another text, such as "none".
uint64_t bytesOf(const std::string& text) {
  char* end = nullptr;
  const uint64_t number = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str()) return UINT64_MAX;
  return *end == 'G' ? number << 30 : *end == 'M' ? number << 20 : UINT64_MAX;
}

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

uint64_t MpsLimits::memoryOf(int device) const {
  const auto found = memory.find(device);
  return std::min(memoryOfAll, found == memory.end() ? UINT64_MAX : found->second);
}

MpsLimits mpsLimits() {
  MpsLimits out;
  const std::string pipe = variable("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
  if (!listens(pipe + "/control")) return out;
  std::ifstream file(pipe + "/fake.limits");
  std::string percentage = "100", memory;
  file >> percentage >> memory;
  out.percentage = std::atoi(percentage.c_str());
  out.memoryOfAll = bytesOf(memory);
  if (const std::string own = variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"); !own.empty())
    out.percentage = std::min(out.percentage, std::atoi(own.c_str()));
  std::istringstream limits(variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  for (std::string each; std::getline(limits, each, ',');)
    if (const auto sign = each.find('='); sign != std::string::npos)
      out.memory[std::atoi(each.c_str())] = bytesOf(each.substr(sign + 1));
  return out;
}

}  // namespace egpu::gpu::testing

#include "provisioners/nvidia/system.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdio>
#include <fstream>

namespace egpu::nvidia {
namespace {

constexpr int64_t kMaxMinor = 1023;
constexpr int64_t kMaxNuma = 1023;

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(" \t\r") + 1 - from);
}

int64_t number(const std::string& text, int64_t max) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
  const int64_t value = std::stoll(text);
  return value > max ? -1 : value;
}

/// Reads a card's file; returns false if the driver is configured to exclude the card.
bool readCard(const std::string& file, KernelCard& out) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (name == "GPU UUID" && isUuid(value)) out.uuid = value;  // "GPU-????????-…" until the card was started
    if (name == "Device Minor") out.minor = number(value, kMaxMinor);
    if (name == "GPU Excluded" && value == "Yes") return false;
  }
  return true;
}

}  // namespace

std::string rooted(const std::string& path) {
  const char* root = std::getenv("ELASTICGPU_SYSTEM_ROOT");
  return (root ? root : "") + path;
}

std::vector<KernelCard> kernelCards() {
  std::vector<KernelCard> out;
  const std::string folder = rooted("/proc/driver/nvidia/gpus");
  DIR* open = opendir(folder.c_str());
  if (!open) return out;
  while (const dirent* entry = readdir(open)) {  // NOLINT(concurrency-mt-unsafe): its own DIR
    KernelCard card;
    card.pci = entry->d_name;
    if (card.pci.front() != '.' && readCard(folder + "/" + card.pci + "/information", card)) out.push_back(card);
  }
  closedir(open);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
  return out;
}

int64_t machineMemory() {
  constexpr long kMaxKiB = 1L << 40;
  std::ifstream in(rooted("/proc/meminfo"));
  for (std::string line; std::getline(in, line);) {
    long kib = 0;
    if (std::sscanf(line.c_str(), "MemTotal: %ld kB", &kib) == 1)  // NOLINT(cert-err34-c)
      return kib > 0 && kib < kMaxKiB ? int64_t{kib} * 1024 : 0;
  }
  return 0;
}

int64_t numaNodeOf(const std::string& pci) {
  std::ifstream in(rooted("/sys/bus/pci/devices/" + pci + "/numa_node"));
  std::string line;
  std::getline(in, line);
  return number(line, kMaxNuma);
}

std::string pcieRootOf(const std::string& pci) {
  // A symlink such as ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0.
  char target[PATH_MAX];
  const std::string link = rooted("/sys/bus/pci/devices/" + pci);
  const ssize_t size = readlink(link.c_str(), target, sizeof target);
  const std::string path(target, size > 0 ? static_cast<std::size_t>(size) : 0);
  const auto root = path.find("/pci");
  return root == std::string::npos ? "" : path.substr(root + 1, path.find('/', root + 1) - root - 1);
}

bool isUuid(const std::string& text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0; };
  return !text.empty() && text.size() <= 63 && plain(static_cast<unsigned char>(text.front())) &&
         plain(static_cast<unsigned char>(text.back())) &&
         std::all_of(text.begin(), text.end(), [&](unsigned char c) { return plain(c) || c == '-' || c == '.'; });
}

}  // namespace egpu::nvidia

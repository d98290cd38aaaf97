// Files of a limited device as the plugin makes them.
#pragma once

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "controller/agent/limiter/device_files.h"
#include "provisioners/gpushare/limiter/page.h"

namespace egpu::agent::limiter::testing {

inline constexpr const char* kUuid = "GPU-a11ce000-0000-4000-8000-000000000001";

template <class Page>
void writePage(const std::string& path, const Page& page) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&page), sizeof page);
}
template <class Page>
Page readPage(const std::string& path) {
  Page page{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&page), sizeof page);
  return page;
}

inline egpu_limiter_card cardOf(uint64_t memory, uint32_t cores, const std::string& uuid = kUuid) {
  egpu_limiter_card card{};
  const auto bytes = uuidOf(uuid);
  if (bytes) std::memcpy(card.uuid, bytes->data(), sizeof card.uuid);
  card.memory = memory;
  card.cores = cores;
  return card;
}

inline void makeFiles(const std::string& folder, const std::vector<egpu_limiter_card>& cards) {
  std::filesystem::create_directories(folder);
  egpu_limiter_limits limits{};
  egpu_limiter_make_limits(&limits, "/driver/libcuda.so.1", "/driver/libnvidia-ml.so.1");
  egpu_limiter_set(&limits, cards.data(), static_cast<uint32_t>(cards.size()), 0);
  egpu_limiter_usage usage{};
  egpu_limiter_make_usage(&usage);
  writePage(folder + "/limits", limits);
  writePage(folder + "/usage", usage);
}

/// Limits that a process in the container finds.
inline egpu_limiter_bank limitsIn(const std::string& folder) {
  const auto page = readPage<egpu_limiter_limits>(folder + "/limits");
  egpu_limiter_bank bank{};
  if (egpu_limiter_get(&page, &bank) != 0) bank.cards = UINT32_MAX;
  return bank;
}

/// Writes a process into a folder like /proc.
inline void writeProcess(const std::string& proc, int64_t pid, int64_t inner, int64_t pidNamespace, int64_t started,
                         const std::string& pod = {}) {
  const std::string folder = proc + "/" + std::to_string(pid);
  std::filesystem::create_directories(folder + "/ns");
  std::filesystem::remove(folder + "/ns/pid");
  std::filesystem::create_symlink("pid:[" + std::to_string(pidNamespace) + "]", folder + "/ns/pid");
  std::string stat = std::to_string(pid) + " (a ) name) S";
  for (int field = 4; field < 22; ++field) stat += " 0";
  std::ofstream(folder + "/stat") << stat << " " << started << " 0\n";
  std::ofstream(folder + "/status") << "Name:\tprogram\nNSpid:\t" << pid << "\t" << inner << "\nThreads:\t1\n";
  std::ofstream(folder + "/comm") << "program\n";
  std::ofstream(folder + "/cgroup") << (pod.empty() ? "0::/user.slice\n"
                                                    : "0::/kubepods/besteffort/pod" + pod + "/container\n");
}

inline egpu_limiter_slot slotOf(uint64_t pid, uint64_t pidNamespace, uint64_t started) {
  return {pid << 32 | 1, started, pidNamespace, 0};
}

}  // namespace egpu::agent::limiter::testing

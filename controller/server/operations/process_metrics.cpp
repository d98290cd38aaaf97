#include "controller/server/operations/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace egpu::server {

namespace {

/// Numbers of fields in /proc/self/stat as in proc(5). Parsing starts at the third, because the second may contain
/// spaces.
constexpr std::size_t kFirstField = 3;
constexpr std::size_t kUserTime = 14, kSystemTime = 15, kThreads = 20, kStartTime = 22, kVirtual = 23, kResident = 24;

std::array<double, 32> statFields() {
  std::array<double, 32> fields{};
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const auto name = line.rfind(')');
  if (name == std::string::npos) return fields;
  std::istringstream rest(line.substr(name + 1));
  std::string word;
  for (std::size_t n = kFirstField; n < fields.size() && rest >> word; ++n)
    if (n > kFirstField) fields[n] = std::stod(word);
  return fields;
}

/// Seconds since the epoch; 0 if unknown.
double bootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  double seconds = 0;
  while (file >> word)
    if (word == "btime") {
      file >> seconds;
      break;
    }
  return seconds;
}

int64_t openFiles() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return -1;
  int64_t count = -1;  // excludes the descriptor of the folder itself
  while (const dirent* each = ::readdir(folder.get()))
    if (each->d_name[0] != '.') ++count;
  return count;
}

}  // namespace

void ProcessMetrics::update(base::Metrics& metrics) {
  const auto stat = statFields();
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (stat[kVirtual] > 0 && ticks > 0) {
    const double cpu = (stat[kUserTime] + stat[kSystemTime]) / ticks;
    metrics.add("process_cpu_seconds_total", cpu > cpuSeconds_ ? cpu - cpuSeconds_ : 0, {});
    cpuSeconds_ = cpu;
    metrics.set("process_virtual_memory_bytes", stat[kVirtual], {});
    metrics.set("process_resident_memory_bytes", stat[kResident] * static_cast<double>(::sysconf(_SC_PAGESIZE)), {});
    metrics.set("process_threads", stat[kThreads], {});
    if (const double boot = bootTime(); boot > 0)
      metrics.set("process_start_time_seconds", boot + stat[kStartTime] / ticks, {});
  }
  if (const auto open = openFiles(); open >= 0) metrics.set("process_open_fds", static_cast<double>(open), {});
  if (rlimit files{}; ::getrlimit(RLIMIT_NOFILE, &files) == 0)
    metrics.set("process_max_fds", static_cast<double>(files.rlim_cur), {});
}

}  // namespace egpu::server

#include "controller/agent/usage/mig_instances.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "controller/base/subprocess.h"

namespace egpu::agent::usage {

namespace {

constexpr std::size_t kMaxRecord = 16 << 10;  // bytes
constexpr std::size_t kMaxText = 256;         // bytes of a value, which becomes a label

/// Returns the content of a regular file; empty if it is none, or too large. Links are not followed, because a plugin
/// could name any file of the node.
std::string contentOf(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string out(kMaxRecord, '\0');
  const auto size = ::read(file.get(), out.data(), out.size());
  out.resize(size < 0 || static_cast<std::size_t>(size) == kMaxRecord ? 0 : static_cast<std::size_t>(size));
  return out;
}

/// Drafts of records begin with a dot; each card has a lock.
bool isRecord(const std::string& name) { return name.front() != '.' && !name.starts_with("lock-"); }

/// Appends the instances of a record: lines "NAME VALUE", with "part START GPU-INSTANCE COMPUTE-INSTANCE UUID" for each
/// instance.
void read(const std::string& record, const std::string& boot, std::vector<MigInstance>& out) {
  std::map<std::string, std::string> values;
  std::vector<MigInstance> parts;
  std::istringstream in(record);
  for (std::string line; std::getline(in, line);) {
    const auto blank = std::min(line.find(' '), line.size());
    const auto name = line.substr(0, blank), value = line.substr(std::min(blank + 1, line.size()));
    if (value.size() > kMaxText) return;
    if (name != "part") values[name] = value;
    std::istringstream words(value);
    std::string start, computeInstance;
    MigInstance part;
    if (name == "part" && words >> start >> part.gpuInstance >> computeInstance >> part.uuid) parts.push_back(part);
  }
  const auto& claim = values["claim"];
  const auto slash = claim.find('/');
  if (values.count("end") == 0 || values["boot"] != boot || slash == std::string::npos) return;
  for (auto& each : parts) {
    each.card = values["card"], each.profile = values["profile"];
    each.namespace_ = claim.substr(0, slash), each.claim = claim.substr(slash + 1);
    out.push_back(std::move(each));
  }
}

}  // namespace

std::vector<MigInstance> migInstances(const std::string& state, const std::string& boot) {
  std::vector<std::string> records;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(state + "/mig", error))
    if (isRecord(entry.path().filename().string()) && records.size() < kMaxMigInstances)
      records.push_back(entry.path().string());
  std::sort(records.begin(), records.end());
  std::vector<MigInstance> out;
  for (const auto& each : records) read(contentOf(each), boot, out);
  if (out.size() > kMaxMigInstances) out.resize(kMaxMigInstances);
  return out;
}

}  // namespace egpu::agent::usage

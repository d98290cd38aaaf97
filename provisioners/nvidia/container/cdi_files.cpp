#include "provisioners/nvidia/container/cdi_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "provisioners/nvidia/container/host_files.h"

namespace egpu::nvidia {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "nvidia.com/gpu";
constexpr std::string_view kOwn = "elasticgpu.io-";  // the agent's files, one per claim; of another kind
constexpr std::size_t kMaxBytes = 4 << 20;           // maximum size of a file
constexpr std::size_t kMaxFiles = 4096;              // maximum files of a folder
constexpr std::size_t kMaxDevices = 4096;            // maximum devices of a spec

std::vector<std::string> gpusOf(std::string_view text) {
  std::vector<std::string> out;
  const YAML::Node spec = YAML::Load(std::string(text));
  if (!spec.IsMap()) throw std::runtime_error("it is no map");
  if (spec["kind"].as<std::string>() != kKind) return out;
  if (!spec["devices"].IsSequence()) throw std::runtime_error("its devices are no list");
  for (const auto& device : spec["devices"]) {
    if (!device.IsMap()) throw std::runtime_error("a device is no map");
    out.push_back(device["name"].as<std::string>());
    if (out.size() > kMaxDevices) throw std::runtime_error("too many devices");
  }
  return out;
}

/// Returns the number of descriptions of each NVIDIA card in a folder.
std::map<std::string, int> described(const std::string& folder, std::vector<std::string>& remarks) {
  std::vector<std::string> files;
  std::error_code error;
  const std::string real = resolved(folder);
  if (real.empty()) return {};
  for (fs::directory_iterator at(seen(real), error), end; !error && at != end; at.increment(error)) {
    const fs::path path = at->path();
    std::string name = path.filename().string();
    if (name.compare(0, kOwn.size(), kOwn) == 0) continue;
    if (path.extension() == ".json" || path.extension() == ".yaml") files.push_back(std::move(name));
    if (files.size() == kMaxFiles) break;
  }
  std::sort(files.begin(), files.end());
  std::map<std::string, int> out;
  for (const std::string& file : files) {
    const std::string path = folder + "/" + file;
    const auto text = readHostFile(path, kMaxBytes);
    // Avoids parsing, which takes milliseconds.
    if (text && text->find("nvidia.com") == std::string::npos) continue;
    std::string why = "it can't be read, or is larger than " + std::to_string(kMaxBytes >> 20) + " MiB";
    const auto devices = text ? gpusOfSpec(*text, why) : std::nullopt;
    if (!devices) remarks.push_back("the CDI file " + path + " is ignored: " + why);
    for (const std::string& device : devices.value_or(std::vector<std::string>())) ++out[device];
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::string>> gpusOfSpec(std::string_view text, std::string& why) {
  try {
    return gpusOf(text);
  } catch (const std::exception& e) {
    why = e.what();
    return std::nullopt;
  }
}

bool offeredByCdi(const std::vector<std::string>& uuids, std::vector<std::string>& remarks) {
  // If two folders describe a device, /var/run/cdi takes precedence over /etc/cdi; if two files in one folder do,
  // neither counts.
  auto devices = described("/var/run/cdi", remarks);
  devices.merge(described("/etc/cdi", remarks));
  return std::all_of(uuids.begin(), uuids.end(), [&](const std::string& uuid) {
    const auto found = devices.find(uuid);
    if (found == devices.end()) return false;
    if (found->second > 1) remarks.push_back("several CDI files describe nvidia.com/gpu=" + uuid + ": none counts");
    return found->second == 1;
  });
}

}  // namespace egpu::nvidia

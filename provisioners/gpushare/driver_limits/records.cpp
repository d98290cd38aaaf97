#include "provisioners/gpushare/driver_limits/records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace egpu::driver_limits {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxName = 128;
constexpr std::string_view kDevice = "device-", kCgroup = "cgroup ", kContainers = "containers ";

std::string failed(const std::string& what) {
  return what + ": " + std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): the program has one thread
}

/// Replaces the file. It is not synced to disk, because a reboot ends all containers and their limits.
std::string replace(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return failed("cannot write " + draft);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t more = ::write(fd, text.data() + done, text.size() - done);
    if (more <= 0) break;
    done += static_cast<std::size_t>(more);
  }
  ::close(fd);
  if (done < text.size() || ::rename(draft.c_str(), path.c_str()) != 0) return failed("cannot write " + path);
  return {};
}

std::string makeFolder(const std::string& path) {
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? std::string() : failed("cannot make " + path);
}

std::string textOf(const Limits& limits) {
  std::string out;
  for (const auto& [uuid, card] : limits)
    out += uuid + " " + std::to_string(card.hard) + " " + std::to_string(card.soft) + "\n";
  return out;
}

/// Reads lines "<uuid> <hard> <soft>"; false for any other line, and for none.
bool readLimits(std::istream& in, Limits& out) {
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string uuid, more;
    CardLimits card;
    if (!(words >> uuid >> card.hard >> card.soft) || words >> more || card.soft > card.hard) return false;
    out[uuid] = card;
  }
  return !out.empty();
}

bool readContainer(const fs::path& path, ContainerRecord& out) {
  std::ifstream in(path);
  std::string first;
  if (!std::getline(in, first) || first.rfind(kCgroup, 0) != 0) return false;
  out.cgroup = first.substr(kCgroup.size());
  return readLimits(in, out.parts);
}

bool isDraft(const fs::path& path) { return path.extension() == ".new"; }

}  // namespace

bool isRecordName(const std::string& text) {
  return !text.empty() && text.size() <= kMaxName && text.front() != '.' &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

std::string Records::open() const {
  if (auto wrong = makeFolder(folder_); !wrong.empty()) return wrong;
  struct stat info {};
  if (::lstat(folder_.c_str(), &info) != 0) return failed(folder_);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0)
    return folder_ + " is no folder that only this user can enter; remove it";
  return {};
}

Devices Records::read(std::vector<std::string>& problems) const {
  Devices out;
  std::error_code error;
  for (const auto& device : fs::directory_iterator(folder_, error)) {
    const std::string name = device.path().filename().string();
    if (name.rfind(kDevice, 0) != 0) continue;
    DeviceRecord record;
    if (auto known = amounts(name.substr(kDevice.size()))) record.amounts = std::move(*known);
    for (const auto& each : fs::directory_iterator(device.path() / "containers", error)) {
      if (isDraft(each.path())) continue;
      ContainerRecord container;
      if (readContainer(each.path(), container))
        record.containers[each.path().filename().string()] = std::move(container);
      else
        problems.push_back(each.path().string() + " can't be read");
    }
    out[name.substr(kDevice.size())] = std::move(record);
  }
  return out;
}

std::optional<DeviceAmounts> Records::amounts(const std::string& device) const {
  std::ifstream in(folderOf(device) + "/amounts");
  DeviceAmounts out;
  std::string name;
  if (!(in >> name >> out.containers) || name + " " != kContainers || out.containers == 0) return std::nullopt;
  in.ignore();
  return readLimits(in, out.cards) ? std::optional(std::move(out)) : std::nullopt;
}

std::string Records::writeAmounts(const std::string& device, const DeviceAmounts& amounts) const {
  if (auto wrong = makeFolder(folderOf(device)); !wrong.empty()) return wrong;
  if (auto wrong = makeFolder(folderOf(device) + "/containers"); !wrong.empty()) return wrong;
  return replace(folderOf(device) + "/amounts",
                 std::string(kContainers) + std::to_string(amounts.containers) + "\n" + textOf(amounts.cards));
}

std::string Records::writeContainer(const std::string& device, const std::string& id,
                                    const ContainerRecord& record) const {
  return replace(folderOf(device) + "/containers/" + id,
                 std::string(kCgroup) + record.cgroup + "\n" + textOf(record.parts));
}

void Records::removeContainer(const std::string& device, const std::string& id) const {
  std::error_code error;
  fs::remove(folderOf(device) + "/containers/" + id, error);
}

void Records::removeDevice(const std::string& device) const {
  std::error_code error;
  fs::remove_all(folderOf(device), error);
}

}  // namespace egpu::driver_limits

#include "provisioners/gpushare/limiter_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>

#include "provisioners/gpushare/limiter/page.h"
#include "provisioners/nvidia/open_file.h"

namespace egpu::gpushare {
namespace {

namespace fs = std::filesystem;

using nvidia::OpenFile;
using sdk::Status;

constexpr std::array<const char*, 2> kLibraries{"libcuda.so.1", "libnvidia-ml.so.1"};
constexpr std::size_t kMaxLibrary = 64 << 20;  // bytes
const std::string kInContainer = EGPU_LIMITER_FOLDER;
/// Folder in the container with the driver's own libraries. No loader searches it.
const std::string kDriver = kInContainer + "/driver/";

std::string librariesDir(const std::string& state) { return state + "/limiter/lib"; }
std::string devicesDir(const std::string& state) { return state + "/limiter/devices"; }

Status failed(const std::string& what) { return sdk::unavailable(what + ": " + std::strerror(errno)); }

/// Folder of the installed libraries: "limiter" beside the folder of the plugins.
std::string installed() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<void*>(&whyNoLimiter), &self) == 0 || self.dli_fname == nullptr) return {};
  return (fs::path(self.dli_fname).parent_path().parent_path() / "limiter").string();
}

std::optional<std::string> contentOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in || out.empty() || out.size() > kMaxLibrary) return std::nullopt;
  return out;
}

/// The installed libraries. They are read for each use, because an upgrade may replace them while this process runs.
struct Installed {
  std::array<std::string, kLibraries.size()> contents;
  std::string hash;
  std::string missing;  ///< path of a library that can't be read; empty = none
};

Installed readInstalled() {
  Installed out;
  std::string all;
  for (std::size_t i = 0; i < kLibraries.size(); ++i) {
    const std::string path = installed() + "/" + kLibraries[i];
    auto content = contentOf(path);
    if (!content) {
      out.missing = path;
      return out;
    }
    all += std::to_string(content->size()) + ":" + *content;
    out.contents[i] = std::move(*content);
  }
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(egpu_limiter_checksum(all.data(), all.size())));
  out.hash = text.data();
  return out;
}

Status makeDir(const std::string& path, mode_t mode) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), mode) == 0) return ::chmod(path.c_str(), mode) == 0 ? sdk::ok() : failed(path);
  return errno == EEXIST ? sdk::ok() : failed("cannot make " + path);
}

/// Writes a file that appears complete or not at all, also after a loss of power.
Status writeFile(const std::string& path, const void* data, std::size_t size, mode_t mode) {
  const std::string draft = path + ".new";
  const OpenFile file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return failed("cannot write " + draft);
  for (std::size_t done = 0; done < size;) {
    const ssize_t more = ::write(file.get(), static_cast<const char*>(data) + done, size - done);
    if (more <= 0) return failed("cannot write " + draft);
    done += static_cast<std::size_t>(more);
  }
  // Not by open(), which takes the umask into account.
  if (::fchmod(file.get(), mode) != 0 || ::fsync(file.get()) != 0 || ::rename(draft.c_str(), path.c_str()) != 0)
    return failed("cannot write " + path);
  return sdk::ok();
}

Status installLibraries(const std::string& state, const Installed& from) {
  const std::string folder = librariesDir(state) + "/" + from.hash;
  if (::access((folder + "/" + kLibraries.back()).c_str(), R_OK) == 0) return sdk::ok();  // it is written last
  if (Status status = makeDir(librariesDir(state), 0755); status.code != EGPU_OK) return status;
  if (Status status = makeDir(folder, 0755); status.code != EGPU_OK) return status;
  for (std::size_t i = 0; i < kLibraries.size(); ++i) {
    const std::string& content = from.contents[i];
    // A complete library is never replaced, because containers may have mapped it.
    if (::access((folder + "/" + kLibraries[i]).c_str(), R_OK) == 0) continue;
    if (Status status = writeFile(folder + "/" + kLibraries[i], content.data(), content.size(), 0644);
        status.code != EGPU_OK)
      return status;
  }
  return sdk::ok();
}

/// Reads "GPU-" and 32 hexadecimal digits with hyphens. Another uuid becomes zeros, which no card of a driver has, so
/// that containers get no memory.
void readUuid(const std::string& text, std::uint8_t (&out)[16]) {
  std::string digits;
  for (const char c : text.substr(std::min<std::size_t>(4, text.size())))
    if (c != '-') digits += c;
  const bool valid = text.rfind("GPU-", 0) == 0 && digits.size() == 32 &&
                     std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  for (std::size_t i = 0; i < sizeof out; ++i)
    out[i] = valid ? static_cast<std::uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16)) : 0;
}

std::vector<egpu_limiter_card> limitsOf(const sdk::Device& device) {
  std::vector<egpu_limiter_card> out;
  for (const auto& card : device.cards) {
    egpu_limiter_card& each = out.emplace_back();
    readUuid(card.uuid, each.uuid);
    each.memory = static_cast<std::uint64_t>(card.memory);
    each.cores = static_cast<std::uint32_t>(card.core);
  }
  return out;
}

bool sameAmounts(const egpu_limiter_bank& bank, const std::vector<egpu_limiter_card>& cards) {
  if (bank.cards != cards.size()) return false;
  for (std::size_t i = 0; i < cards.size(); ++i)
    if (std::memcmp(bank.card[i].uuid, cards[i].uuid, sizeof cards[i].uuid) != 0 ||
        bank.card[i].memory != cards[i].memory || bank.card[i].cores != cards[i].cores)
      return false;
  return true;
}

template <class Page>
bool readPage(const std::string& path, Page& out) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file && ::pread(file.get(), &out, sizeof out, 0) == static_cast<ssize_t>(sizeof out) &&
         out.magic == EGPU_LIMITER_MAGIC && out.size == sizeof out;
}

/// Writes the changed page into the existing file. The new bank comes before the number that puts it into force.
Status writeLimits(const std::string& path, const egpu_limiter_limits& page) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  const auto at = offsetof(egpu_limiter_limits, sequence);
  if (!file || ::pwrite(file.get(), page.bank, sizeof page.bank, offsetof(egpu_limiter_limits, bank)) < 0 ||
      ::pwrite(file.get(), &page.sequence, sizeof page.sequence, static_cast<off_t>(at)) < 0)
    return failed("cannot write " + path);
  return sdk::ok();
}

Status makeLimits(const std::string& folder, const sdk::Device& device) {
  const std::string path = folder + "/limits";
  const auto cards = limitsOf(device);
  egpu_limiter_limits page{};
  if (!readPage(path, page)) {
    egpu_limiter_make_limits(&page, (kDriver + kLibraries[0]).c_str(), (kDriver + kLibraries[1]).c_str());
    egpu_limiter_set(&page, cards.data(), static_cast<std::uint32_t>(cards.size()), 0);
    return writeFile(path, &page, sizeof page, 0644);
  }
  egpu_limiter_bank bank{};
  if (egpu_limiter_get(&page, &bank) == 0 && sameAmounts(bank, cards)) return sdk::ok();
  egpu_limiter_set(&page, cards.data(), static_cast<std::uint32_t>(cards.size()), 0);
  return writeLimits(path, page);
}

std::set<std::string> linesOf(const std::string& path) {
  std::set<std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out.insert(line);
  return out;
}

/// Records that containers of the device may use this library: running ones keep their older one.
Status noteLibrary(const std::string& folder, const std::string& hash) {
  const std::string path = folder + "/libraries";
  auto all = linesOf(path);
  if (!all.insert(hash).second) return sdk::ok();
  std::string text;
  for (const auto& each : all) text += each + "\n";
  return writeFile(path, text.data(), text.size(), 0644);
}

/// Removes libraries that nothing uses. Failures are left to the next call.
void removeUnusedLibraries(const std::string& state) {
  std::set<std::string> used{readInstalled().hash};
  std::error_code error;
  for (const auto& device : fs::directory_iterator(devicesDir(state), error))
    used.merge(linesOf(device.path().string() + "/libraries"));
  for (const auto& library : fs::directory_iterator(librariesDir(state), error))
    if (used.count(library.path().filename().string()) == 0) fs::remove_all(library.path(), error);
}

}  // namespace

std::string whyNoLimiter() {
  const auto missing = readInstalled().missing;
  return missing.empty() ? std::string() : "the limiter is not installed: " + missing + " is missing";
}

std::string wrongForLimiter(const sdk::Device& device) {
  if (device.cards.size() > EGPU_LIMITER_CARDS)
    return "limiter serves at most " + std::to_string(EGPU_LIMITER_CARDS) + " cards; this device has " +
           std::to_string(device.cards.size());
  for (const auto& card : device.cards)
    if (card.memory <= 0) return "card " + card.uuid + ": limiter needs a memory share";
  return {};
}

Status stageLimiter(const std::string& state, const sdk::Device& device) {
  const auto from = readInstalled();
  if (!from.missing.empty())
    return sdk::unavailable("the limiter is not installed on this node: " + from.missing +
                            " is missing; install it, or use another isolation");
  if (Status status = installLibraries(state, from); status.code != EGPU_OK) return status;
  // Only this process, the agent and the runtime may enter: processes of any user in the container may write `usage`.
  if (Status status = makeDir(devicesDir(state), 0700); status.code != EGPU_OK) return status;
  const std::string folder = devicesDir(state) + "/" + device.key;
  if (Status status = makeDir(folder, 0700); status.code != EGPU_OK) return status;
  // Excludes the agent, which writes the limits, too. Containers have the files, but not the folder.
  const OpenFile lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) return failed("cannot lock " + folder);
  if (Status status = noteLibrary(folder, from.hash); status.code != EGPU_OK) return status;
  egpu_limiter_usage usage{};
  if (!readPage(folder + "/usage", usage)) {
    egpu_limiter_make_usage(&usage);
    if (Status status = writeFile(folder + "/usage", &usage, sizeof usage, 0666); status.code != EGPU_OK) return status;
  }
  return makeLimits(folder, device);
}

std::vector<nvidia::StandIn> standIns(const std::string& state) {
  const auto from = readInstalled();
  if (!from.missing.empty()) return {};
  const std::string folder = librariesDir(state) + "/" + from.hash + "/";
  return {{"libcuda.so", folder + kLibraries[0], kDriver + kLibraries[0]},
          {"libnvidia-ml.so", folder + kLibraries[1], kDriver + kLibraries[1]}};
}

void mountLimiterFiles(sdk::Call& call, const std::string& state, const std::string& key) {
  const std::string folder = devicesDir(state) + "/" + key;
  call.mount(folder + "/limits", kInContainer + "/limits", "ro,nosuid,nodev,noexec,bind");
  call.mount(folder + "/usage", kInContainer + "/usage", "rw,nosuid,nodev,noexec,bind");
}

Status unstageLimiter(const std::string& state, const std::string& key) {
  std::error_code error;
  const auto removed = fs::remove_all(devicesDir(state) + "/" + key, error);
  if (error) return sdk::unavailable("cannot remove " + devicesDir(state) + "/" + key + ": " + error.message());
  if (removed == 0) return sdk::noChange();
  removeUnusedLibraries(state);
  return sdk::ok();
}

}  // namespace egpu::gpushare

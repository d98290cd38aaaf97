// gpushare.provisioner.elasticgpu.io: shares of cards. The share itself is an entry in the card's ledger. This plugin
// passes it to the container, and sets up the mechanism that limits the container to its share.
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/gpushare/limiter_files.h"
#include "provisioners/gpushare/mps_namespace.h"
#include "provisioners/nvidia/container/container.h"
#include "provisioners/nvidia/node.h"
#include "provisioners/nvidia/unified.h"

namespace {

using namespace egpu::sdk;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kWholeCard = 1000;  // milli-cards
/// Attribute of the cards of a node that can limit containers: "available", or why it can't.
constexpr const char* kLimiterAttribute = "limiter";

/// Parameter of devices with isolation driver: "limiter" if the limiter limits their compute. The controller sets it,
/// because it knows the node's attribute.
constexpr const char* kComputeParameter = "compute";

enum class Mode { none, limiter, driver, hamiCore, mps };

/// Reads a value of the parameter `isolation`. The controller replaces "auto" in devices by the mode that it chose for
/// their cards (kLimiterAttribute); an older controller leaves it, which then means "none".
bool parseMode(const std::string& text, Mode& out) {
  if (text == "none" || text == "auto") return out = Mode::none, true;
  if (text == "limiter") return out = Mode::limiter, true;
  if (text == "driver") return out = Mode::driver, true;
  if (text == "hami-core") return out = Mode::hamiCore, true;
  if (text == "mps") return out = Mode::mps, true;
  return false;
}

Mode modeOf(const Parameters& parameters) {
  Mode mode = Mode::none;
  parseMode(parameter(parameters, "isolation", "none"), mode);
  return mode;
}

/// State folder on the host: $ELASTICGPU_STATE_DIR. The operator mounts the libraries there, and this plugin creates
/// the caches.
std::string stateDir() {
  const char* given = std::getenv("ELASTICGPU_STATE_DIR");
  return given && *given ? given : "/var/lib/elasticgpu";
}
std::string cacheDir(const std::string& key) { return stateDir() + "/hami-core/cache/" + key; }
/// Folder of HAMi-core's lock, which covers the whole node. It belongs to this plugin and is not mounted in containers,
/// so that the plugin can move a lock aside that a root container has changed.
std::string locksDir() { return stateDir() + "/hami-core/locks"; }
std::string lockDir() { return locksDir() + "/all"; }
std::string pipeDir(const std::string& uuid) { return stateDir() + "/mps/" + uuid; }
/// True if the agent's daemon has a namespace for each device of the card, as with version 3 of MPS. The file is
/// outside of the folder that containers can write to with version 2.
bool hasNamespaces(const std::string& uuid) { return ::access((pipeDir(uuid) + ".namespaces").c_str(), F_OK) == 0; }
/// Folder of the MPS sockets of a device. With version 2, all clients of the card have the same sockets.
std::string socketsOf(const Device& device) {
  using egpu::gpushare::kMpsServer, egpu::gpushare::mpsNamespaceOf;
  const std::string pipe = pipeDir(device.cards.front().uuid);
  return hasNamespaces(device.cards.front().uuid) ? pipe + "/" + kMpsServer + "/" + mpsNamespaceOf(device.key) : pipe;
}
/// Folder of the shared memory of one card's MPS daemon and its clients: a separate tmpfs. It is not in the pipe
/// folder, which containers can write: a root container could unmount it there by a rename.
std::string sharedMemoryRoot() { return stateDir() + "/mps-shm"; }
std::string sharedMemoryDir(const std::string& uuid) { return sharedMemoryRoot() + "/" + uuid; }

/// Returns the device number of the folder's file system; nullopt if there is no such folder.
std::optional<dev_t> fileSystemOf(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  return info.st_dev;
}

/// Returns why the folder is not a tmpfs for this card alone; empty if it is.
std::string wrongWithSharedMemory(const std::string& uuid) {
  const std::string folder = sharedMemoryDir(uuid);
  const auto own = fileSystemOf(folder);
  if (!own) return folder + " does not exist";
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0 || info.f_type != TMPFS_MAGIC) return folder + " is not a tmpfs";
  const char* root = std::getenv("ELASTICGPU_HOST_ROOT");
  if (fileSystemOf(std::string(root ? root : "") + "/dev/shm") == own) return folder + " is the host's own /dev/shm";
  std::error_code error;
  for (const auto& other : std::filesystem::directory_iterator(sharedMemoryRoot(), error))
    if (other.path() != folder && fileSystemOf(other.path()) == own)
      return folder + " is the same tmpfs as " + other.path().string();
  return {};
}

/// Returns whole percents of a card, and at least 1 for a share above 0: to these mechanisms 0 means "no limit".
std::int64_t percent(std::int64_t milliCards) {
  return milliCards == 0 ? 0 : std::max<std::int64_t>(1, milliCards * 100 / kWholeCard);
}

/// True if the key can be a folder name that does not lead elsewhere.
bool plainName(const std::string& key) {
  return !key.empty() && key.size() <= 128 && key.front() != '.' && key.find('/') == std::string::npos;
}

/// Orders cards as NVML, CUDA and limiters number the cards that they see: by PCI address, which may differ from the
/// order of minor numbers. A longer address has a larger domain: 10000:01:00.0. If the address is unknown, by minor
/// number.
bool comesBefore(const Card& a, const Card& b) {
  const auto place = [](const Card& card) { return std::tuple(card.pciAddress.size(), card.pciAddress, card.index); };
  return place(a) < place(b);
}

bool makeDirs(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) return false;
    if (slash == std::string::npos) return true;
  }
}

/// Creates a folder that containers of any user can write. It has no sticky bit: another user must be able to remove
/// the lock of a crashed process, and kernels may refuse to open another user's file for creation
/// (fs.protected_regular).
bool makeShared(const std::string& path) {
  struct stat info {};
  return makeDirs(path) && ::stat(path.c_str(), &info) == 0 &&
         ((info.st_mode & 07777) == 0777 || ::chmod(path.c_str(), 0777) == 0);
}

/// Creates the lock folder, which all containers of the node share. If a root container has made it inaccessible, moves
/// it aside and creates a new one; containers with the old one keep it. If that fails, a folder that an operator has
/// opened to all users suffices.
bool makeLock() {
  if (makeShared(lockDir())) return true;
  std::string aside = locksDir() + "/old-XXXXXX";
  if (::mkdtemp(aside.data()) != nullptr) {
    if (::rename(lockDir().c_str(), aside.c_str()) == 0) return makeShared(lockDir());
    ::rmdir(aside.c_str());
  }
  struct stat info {};
  return ::stat(lockDir().c_str(), &info) == 0 && (info.st_mode & 0777) == 0777;
}

class GpuShare final : public Provisioner {
 public:
  Description describe() override {
    // Advisory: "none" has no limit, and a container can undo the settings of hami-core and mps in its environment.
    return {"gpushare.provisioner.elasticgpu.io", "0.1.0", "gpuShare", "Advisory"};
  }

  Status validate(const Parameters& parameters) override {
    if (Status status = refuseUnknown(parameters, {"isolation", "onBypass", "timeSlice"}); status.code != EGPU_OK)
      return status;
    Mode mode{};
    const std::string given = parameter(parameters, "isolation", "none");
    if (!parseMode(given, mode))
      return invalid("isolation is \"" + given + "\"; known are none, auto, driver, limiter, hami-core, mps");
    if (const auto reaction = parameters.find("onBypass"); reaction != parameters.end()) {
      if (reaction->second != "report" && reaction->second != "evict")
        return invalid("onBypass is \"" + reaction->second + "\"; known are report, evict");
      if (given != "limiter" && given != "driver" && given != "auto")
        return invalid("onBypass has no effect with isolation " + given + "; it needs limiter, driver or auto");
    }
    if (const auto slice = parameters.find("timeSlice"); slice != parameters.end()) {
      constexpr std::array<std::string_view, 4> kTimeSlices{"default", "short", "medium", "long"};
      if (std::find(kTimeSlices.begin(), kTimeSlices.end(), slice->second) == kTimeSlices.end())
        return invalid("timeSlice is \"" + slice->second + "\"; known are default, short, medium, long");
      if (given != "none") return invalid("timeSlice has no effect with isolation " + given + "; it needs none");
    }
    return ok();
  }

  Status provision(Call& call, const Device& device) override {
    if (Status status = fits(device); status.code != EGPU_OK) return status;
    call.isolation(provided(device));
    return records_.add(device);
  }

  Status deprovision(Call& call) override { return records_.remove(call.key()); }

  /// Needs no work: the node gives containers the amounts in force. Devices provisioned by an earlier process are
  /// unknown, so any content is replaced.
  Status resize(Call& call, const Device& device) override {
    if (Status status = fits(device); status.code != EGPU_OK) return status;
    call.isolation(provided(device));
    return records_.replace(device);
  }

  Status list(Call& call) override { return records_.list(call); }

  Status discover(Call& call) override {
    const std::string why = egpu::gpushare::whyNoLimiter();
    return egpu::nvidia::discover(call, {{kLimiterAttribute, why.empty() ? "available" : why}});
  }
  Status health(Call& call) override { return egpu::nvidia::health(call); }
  Status processes(Call& call) override { return egpu::nvidia::processes(call); }

  Status stage(Call&, const Device& device) override {
    Status cards = egpu::nvidia::stageCards(device);
    if (cards.code != EGPU_OK && cards.code != EGPU_NO_CHANGE) return cards;
    if (usesLimiter(device)) {
      if (!plainName(device.key)) return invalid("the key \"" + device.key + "\" cannot name a folder");
      return egpu::gpushare::stageLimiter(stateDir(), inOrder(device));
    }
    switch (modeFor(device)) {
      case Mode::none:
      case Mode::limiter:
      case Mode::driver:  // the agent sets the limits of the driver
        return cards;
      case Mode::hamiCore:
        if (!plainName(device.key)) return invalid("the key \"" + device.key + "\" cannot name a folder");
        if (!makeShared(cacheDir(device.key))) return cannotMake(cacheDir(device.key));
        if (const std::lock_guard lock(locking_); !makeLock()) return cannotMake(lockDir());
        return ok();
      case Mode::mps:
        for (const auto& card : device.cards)
          if (::access((pipeDir(card.uuid) + "/control").c_str(), F_OK) != 0)
            return unavailable("no MPS control daemon serves " + card.uuid +
                               ": start one with CUDA_MPS_PIPE_DIRECTORY=" + pipeDir(card.uuid));
        for (const auto& card : device.cards)
          if (const auto wrong = wrongWithSharedMemory(card.uuid); !wrong.empty())
            return unavailable("the MPS clients of card " + card.uuid + " have no shared memory of their own: " +
                               wrong + "; mount a tmpfs there, and start the card's MPS daemon with it as /dev/shm");
        return ok();
    }
    return ok();
  }

  Status mount(Call& call, const Device& given, const Container&) override {
    if (Status status = fits(given); status.code != EGPU_OK) return status;
    const Device device = inOrder(given);
    std::string uuids;
    for (const auto& card : device.cards) uuids += (uuids.empty() ? "" : ",") + card.uuid;
    call.env("ELASTICGPU_DEVICE", device.device);
    call.env("ELASTICGPU_CLAIM", device.claim);
    call.env("ELASTICGPU_CARDS", uuids);
    call.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");  // otherwise CUDA numbers the fastest model first
    for (std::size_t i = 0; i < device.cards.size(); ++i) {
      const std::string n = std::to_string(i);
      call.env("ELASTICGPU_CORE_" + n, std::to_string(device.cards[i].core));      // milli-cards
      call.env("ELASTICGPU_MEMORY_" + n, std::to_string(device.cards[i].memory));  // bytes
    }
    const Mode mode = modeFor(device);
    if (mode == Mode::mps && hasNamespaces(device.cards.front().uuid) &&
        ::access((socketsOf(device) + "/control").c_str(), F_OK) != 0)
      return unavailable("the MPS control daemon has not opened " + socketsOf(device) + "/control");
    std::vector<egpu::nvidia::StandIn> standIns;
    if (usesLimiter(device)) {
      standIns = egpu::gpushare::standIns(stateDir());
      if (standIns.empty()) return unavailable(egpu::gpushare::whyNoLimiter());
      egpu::gpushare::mountLimiterFiles(call, stateDir(), device.key);
    }
    if (Status status = egpu::nvidia::mountCards(call, device, standIns); status.code != EGPU_OK) return status;
    call.env("ELASTICGPU_ISOLATION", provided(device).mode);
    if (mode == Mode::hamiCore) editForHamiCore(call, device);
    if (mode == Mode::mps) editForMps(call, device);
    return ok();
  }

  Status unstage(Call& call) override {
    // The request contains only the key: removes everything that stage may have created.
    if (!plainName(call.key())) return noChange();
    Status limiter = egpu::gpushare::unstageLimiter(stateDir(), call.key());
    if (limiter.code != EGPU_OK && limiter.code != EGPU_NO_CHANGE) return limiter;
    const std::string dir = cacheDir(call.key());
    std::error_code error;
    const auto removed = std::filesystem::remove_all(dir, error);
    if (!error) return removed > 0 ? ok() : limiter;
    return setAside(call, dir);
  }

 private:
  /// A whole card is not shared and needs no limit.
  static Mode modeFor(const Device& device) {
    return isAdminAccess(device) || hasWholeCards(device) ? Mode::none : modeOf(device.parameters);
  }
  static bool usesLimiter(const Device& device) {
    const Mode mode = modeFor(device);
    return mode == Mode::limiter ||
           (mode == Mode::driver && parameter(device.parameters, kComputeParameter, "") == "limiter");
  }
  /// The limiter delays only kernels on cards with a share of compute.
  static const char* computeLevel(const Device& device) {
    const auto unlimited = [](const Card& card) { return card.core == 0; };
    const bool any = std::any_of(device.cards.begin(), device.cards.end(), unlimited);
    return usesLimiter(device) && !any ? "Soft" : "None";
  }
  static Isolation provided(const Device& device) {
    if (hasWholeCards(device)) return wholeCardIsolation();
    switch (modeFor(device)) {
      case Mode::none:
        break;
      case Mode::limiter:
        return {"limiter", "Soft", computeLevel(device), "Soft"};
      case Mode::driver:  // managed memory counts only while it is on the card
        return {"driver", "Enforced", computeLevel(device), "Soft", "None"};
      case Mode::hamiCore:
        return {"hami-core", "Soft", "Soft", "Soft"};
      case Mode::mps:  // clients share one server, and its faults; its memory limit is one of pinned memory
        return {"mps", "Soft", "Soft", "None", "None"};
    }
    return {"none", "None", "None", "Soft"};
  }

  /// The cards in the order in which containers number them.
  static Device inOrder(Device device) {
    std::stable_sort(device.cards.begin(), device.cards.end(), comesBefore);
    return device;
  }

  static Status cannotMake(const std::string& folder) {
    return unavailable("cannot make " + folder + ": " + std::strerror(errno));
  }

  /// Renames a cache that this process can't remove because a container wrote it as root. The agent, which is root,
  /// removes folders with such names. Leftover files neither block the device's release nor reach its next user.
  static Status setAside(Call& call, const std::string& dir) {
    std::string aside = dir + ".left-XXXXXX";
    if (::mkdtemp(aside.data()) == nullptr || ::rename(dir.c_str(), aside.c_str()) != 0)
      return unavailable("cannot remove " + dir + ": " + std::strerror(errno));
    call.log(EGPU_INFO, "a container left files in " + aside + " that only root can remove");
    return ok();
  }

  /// Checks that the mechanism can represent the device's shares.
  static Status fits(const Device& device) {
    const Mode mode = modeFor(device);
    for (const auto& card : device.cards) {
      if (card.core < 0 || card.core > kWholeCard || card.memory < 0)
        return invalid("card " + card.uuid + ": core " + std::to_string(card.core) + " and memory " +
                       std::to_string(card.memory) + " are not a share of a card");
      if (isAdminAccess(device)) continue;  // admin access: no limit
      if (card.core == 0 && card.memory == 0) return invalid("card " + card.uuid + ": an empty share beside others");
      if (card.core < kWholeCard && egpu::nvidia::hasUnifiedMemory(card.model))
        return invalid("card " + card.uuid + " (" + card.model +
                       ") has unified memory, which programs on the CPU use, too: "
                       "shares of it can't be enforced. Claim whole cards, elasticgpu.io/gpu");
      // 0m would mean no limit.
      if (mode == Mode::hamiCore && card.memory < kMiB)
        return invalid("card " + card.uuid + ": hami-core needs a memory share of at least 1 MiB");
    }
    if (mode == Mode::driver)
      for (const auto& card : device.cards)
        if (card.memory < kMiB)
          return invalid("card " + card.uuid + ": isolation driver needs a memory share of at least 1 MiB");
    if (usesLimiter(device))
      if (const auto wrong = egpu::gpushare::wrongForLimiter(device); !wrong.empty()) return invalid(wrong);
    if (mode == Mode::mps && device.cards.size() > 1)
      return invalid("mps serves shares of one card; this device has " + std::to_string(device.cards.size()));
    return ok();
  }

  static std::int64_t smallestPercent(const Device& device) {
    std::int64_t least = 0;
    for (const auto& card : device.cards)
      if (card.core > 0) least = least == 0 ? percent(card.core) : std::min(least, percent(card.core));
    return least;
  }

  static void editForHamiCore(Call& call, const Device& device) {
    for (std::size_t i = 0; i < device.cards.size(); ++i)
      call.env("CUDA_DEVICE_MEMORY_LIMIT_" + std::to_string(i), std::to_string(device.cards[i].memory / kMiB) + "m");
    // One limit applies to all cards: use the smallest, so that no card is exceeded.
    if (const auto limit = smallestPercent(device)) call.env("CUDA_DEVICE_SM_LIMIT", std::to_string(limit));
    call.env("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/vgpu/usage.cache");
    call.mount(cacheDir(device.key), "/tmp/vgpu", "rw,nosuid,nodev,bind");
    call.mount(lockDir(), "/tmp/vgpulock", "rw,nosuid,nodev,bind");
    call.mount(stateDir() + "/hami-core/libvgpu.so", "/usr/local/vgpu/libvgpu.so", "ro,nosuid,nodev,bind");
    call.mount(stateDir() + "/hami-core/ld.so.preload", "/etc/ld.so.preload", "ro,nosuid,nodev,bind");
  }

  static void editForMps(Call& call, const Device& device) {
    const Card& card = device.cards.front();
    call.env("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
    if (card.core > 0) call.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(percent(card.core)));
    if (card.memory >= kMiB)
      call.env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=" + std::to_string(card.memory / kMiB) + "M");
    call.mount(socketsOf(device), "/tmp/nvidia-mps", "rw,nosuid,nodev,bind");
    call.mount(sharedMemoryDir(card.uuid), "/dev/shm", "rw,nosuid,nodev,bind");
  }

  Records records_;
  std::mutex locking_;  ///< serializes makeLock()
};

}  // namespace

EGPU_PROVISIONER(GpuShare)

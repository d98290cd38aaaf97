#include "provisioners/nvidia/mig/records.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "provisioners/nvidia/open_file.h"
#include "provisioners/nvidia/system.h"

namespace egpu::nvidia {
namespace {

using sdk::Status;

constexpr std::size_t kMaxRecords = 4096;
constexpr std::size_t kMaxText = 1024;
constexpr int kMaxId = 1 << 16;
constexpr const char* kVersion = "elasticgpu-mig 1";

std::string folder() { return stateFolder() + "/mig"; }
std::string pathOf(const std::string& key) { return folder() + "/" + key; }

Status failed(const std::string& what) { return sdk::unavailable(what + ": " + std::strerror(errno)); }

Status syncFolder() {
  const OpenFile at(::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return at && ::fsync(at.get()) == 0 ? sdk::ok() : failed("cannot write " + folder());
}

/// Other plugins read the records, so the folder is readable by all; only the plugin of MIG writes there.
Status makeFolder() {
  if (::mkdir(folder().c_str(), 0755) == 0)
    return ::chmod(folder().c_str(), 0755) == 0 ? sdk::ok() : failed("cannot make " + folder());
  return errno == EEXIST ? sdk::ok() : failed("cannot make " + folder());
}

/// True for a name that is a file of its own in the folder.
bool isKey(const std::string& key) {
  return !key.empty() && key.size() <= 253 && key[0] != '.' && key.find('/') == std::string::npos &&
         key.rfind("lock-", 0) != 0 && key.find(".new") == std::string::npos;
}

std::string oneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, '?');
  return text.substr(0, kMaxText);
}

std::string written(const InstanceRecord& record) {
  std::ostringstream out;
  out << kVersion << "\ndevice " << oneLine(record.device) << "\nclaim " << oneLine(record.claim) << "\ncard "
      << oneLine(record.card) << "\nboot " << oneLine(record.boot) << "\nprofile " << oneLine(record.profile) << "\nid "
      << record.profileId << "\nsize " << record.size << "\nmedia " << (record.media ? 1 : 0) << "\n";
  for (const auto& part : record.parts)
    out << "part " << part.start << " " << part.gpuInstance << " " << part.computeInstance << " " << oneLine(part.uuid)
        << "\n";
  out << "end\n";
  return out.str();
}

/// Reads "4 7 0 MIG-…".
bool readPart(std::istringstream& in, InstanceRecord::Part& out) {
  in >> out.start >> out.gpuInstance >> out.computeInstance;
  const auto isId = [](int id) { return id >= -1 && id <= kMaxId; };
  const bool valid = !in.fail() && out.start < kMemorySlots && isId(out.gpuInstance) && isId(out.computeInstance);
  in >> out.uuid;  // may be missing
  return valid && (out.uuid.empty() || isUuid(out.uuid));
}

/// Parses a record; false if it is not one, or not a complete one.
bool parse(std::istream& from, InstanceRecord& out) {
  std::string line;
  if (!std::getline(from, line) || line != kVersion) return false;
  while (std::getline(from, line)) {
    if (line == "end") return !out.card.empty() && !out.parts.empty() && out.size > 0 && out.size <= kMemorySlots;
    const auto blank = line.find(' ');
    if (blank == std::string::npos) return false;
    const std::string name = line.substr(0, blank), value = line.substr(blank + 1);
    std::istringstream in(value);
    if (name == "device") out.device = value;
    if (name == "claim") out.claim = value;
    if (name == "card") out.card = value;
    if (name == "boot") out.boot = value;
    if (name == "profile") out.profile = value;
    if (name == "id" && !(in >> out.profileId)) return false;
    if (name == "size" && !(in >> out.size)) return false;
    if (name == "media") out.media = value == "1";
    if (name == "part" && !readPart(in, out.parts.emplace_back())) return false;
  }
  return false;
}

}  // namespace

std::string stateFolder() {
  const char* given = std::getenv("ELASTICGPU_STATE_DIR");  // NOLINT(concurrency-mt-unsafe): nothing sets it here
  return given != nullptr && *given != 0 ? given : "/var/lib/elasticgpu";
}

std::string bootId() {
  std::ifstream in(rooted("/proc/sys/kernel/random/boot_id"));
  std::string out;
  std::getline(in, out);
  return out;
}

Status readRecord(const std::string& key, std::optional<InstanceRecord>& out) {
  out.reset();
  if (!isKey(key)) return sdk::invalid("the key \"" + key + "\" can't name a file");
  std::ifstream in(pathOf(key));
  if (!in) return errno == ENOENT || errno == ENOTDIR ? sdk::ok() : failed("cannot read " + pathOf(key));
  InstanceRecord record;
  record.key = key;
  if (!parse(in, record))
    return sdk::unavailable("the record " + pathOf(key) +
                            " is damaged, so that the MIG instances of its device are unknown: compare nvidia-smi mig "
                            "-lgi with the other records there, destroy the instances that none names, and remove it");
  out = std::move(record);
  return sdk::ok();
}

Status readRecords(const std::string& card, std::vector<InstanceRecord>& out) {
  DIR* open = ::opendir(folder().c_str());
  if (!open) return errno == ENOENT ? sdk::ok() : failed("cannot read " + folder());
  std::vector<std::string> keys;
  while (const dirent* entry = ::readdir(open))  // NOLINT(concurrency-mt-unsafe): its own DIR
    if (isKey(entry->d_name) && keys.size() < kMaxRecords) keys.emplace_back(entry->d_name);
  ::closedir(open);
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    std::optional<InstanceRecord> record;
    if (Status status = readRecord(key, record); status.code != EGPU_OK) return status;
    if (record && record->card == card) out.push_back(std::move(*record));
  }
  return sdk::ok();
}

Status writeRecord(const InstanceRecord& record) {
  if (!isKey(record.key)) return sdk::invalid("the key \"" + record.key + "\" can't name a file");
  if (Status status = makeFolder(); status.code != EGPU_OK) return status;
  const std::string path = pathOf(record.key), draft = folder() + "/." + record.key + ".new";
  const std::string text = written(record);
  {
    const OpenFile file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file) return failed("cannot write " + draft);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t more = ::write(file.get(), text.data() + done, text.size() - done);
      if (more <= 0) return failed("cannot write " + draft);
      done += static_cast<std::size_t>(more);
    }
    if (::fchmod(file.get(), 0644) != 0 || ::fsync(file.get()) != 0) return failed("cannot write " + draft);
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) return failed("cannot write " + path);
  return syncFolder();
}

Status removeRecord(const std::string& key) {
  if (!isKey(key)) return sdk::invalid("the key \"" + key + "\" can't name a file");
  ::unlink((folder() + "/." + key + ".new").c_str());
  if (::unlink(pathOf(key).c_str()) == 0) return syncFolder();
  return errno == ENOENT || errno == ENOTDIR ? sdk::ok() : failed("cannot remove " + pathOf(key));
}

const InstanceRecord::Part* partOf(const InstanceRecord& record, const Instance& instance, const std::string& boot) {
  if (record.boot != boot || record.profileId != instance.profileId || record.size != instance.placement.size)
    return nullptr;
  for (const auto& part : record.parts) {
    if (part.start != instance.placement.start) continue;
    if (part.gpuInstance >= 0 && part.gpuInstance != static_cast<int>(instance.id)) continue;
    if (!part.uuid.empty() && !instance.uuid.empty() && part.uuid != instance.uuid) continue;
    return &part;
  }
  return nullptr;
}

CardLock::CardLock(const std::string& card, sdk::Call& call) {
  status_ = makeFolder();
  if (status_.code != EGPU_OK) return;
  const std::string path = folder() + "/lock-" + card;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    status_ = failed("cannot open " + path);
    return;
  }
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      status_ = failed("cannot lock " + path);
      return;
    }
    if (call.cancelled()) {
      status_ = sdk::unavailable("instances of card " + card + " are being changed by another call");
      return;
    }
    constexpr std::chrono::milliseconds kPause{5};
    std::this_thread::sleep_for(kPause);
  }
}

CardLock::~CardLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace egpu::nvidia

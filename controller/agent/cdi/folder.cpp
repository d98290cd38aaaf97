#include "controller/agent/cdi/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "controller/base/private_files.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::cdi {

namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::string_view kPrefix = "elasticgpu.io-device_", kFile = ".json", kPart = ".json.part", kPartEnd = ".part";
constexpr off_t kMax = 1 << 20;  // maximum size of a file, bytes
constexpr std::size_t kMaxUid = 63;
/// Name of the lock file. No runtime reads it. Only root can open it: any process that could open it could lock out all
/// agents.
constexpr std::string_view kLock = ".egpu-agent.lock";
constexpr std::chrono::milliseconds kBetweenTries{10};
constexpr int kMaxTries = 1000;

Status failed(const std::string& path, int error) {
  return {error == ENOENT ? Code::notFound : Code::unavailable, path + ": " + std::generic_category().message(error)};
}

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// Returns the uid in a file name with this suffix, or an empty string if the name has another form.
std::string uidIn(std::string_view name, std::string_view end) {
  if (name.substr(0, kPrefix.size()) != kPrefix || !endsWith(name, end)) return {};
  const auto uid = name.substr(kPrefix.size(), name.size() - kPrefix.size() - end.size());
  return isUid(uid) ? std::string(uid) : std::string();
}

Result<Spec> load(const std::string& path, const std::string& uid, off_t size) {
  if (size > kMax) return Status(Code::malformed, path + ": is larger than 1 MiB");
  const auto text = base::readPrivateFile(path);
  if (!text) return text.status();
  auto spec = codec::decodeCdiSpec(*text);
  if (!spec) return Status(spec.status().code(), path + ": " + spec.status().message());
  if (spec->deviceUid != uid) return Status(Code::malformed, path + ": belongs to another device, " + spec->deviceUid);
  return spec;
}

}  // namespace

std::string qualified(std::string_view deviceUid) {
  return std::string(codec::kCdiKind) + "=" + std::string(deviceUid);
}

bool isUid(std::string_view text) {
  if (text.empty() || text.size() > kMaxUid || text.front() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string Folder::nameOf(std::string_view deviceUid) {
  return std::string(kPrefix) + std::string(deviceUid) + std::string(kFile);
}
std::string Folder::fileOf(std::string_view deviceUid) const { return path_ + "/" + nameOf(deviceUid); }

Status Folder::open() {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) return {Code::unavailable, path_ + ": " + error.message()};
  const auto all = files();
  if (!all) return all.status();
  for (const auto& file : *all)
    if (file.name.back() == '~' && ::unlink((path_ + "/" + file.name).c_str()) != 0 && errno != ENOENT)
      return failed(path_ + "/" + file.name, errno);
  return Status::okay();
}

std::optional<Folder::Stamp> Folder::stampAt(int folder, const std::string& name) {
  struct stat is {};
  if (::fstatat(folder, name.c_str(), &is, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  constexpr int64_t kSecond = 1'000'000'000;
  return Stamp{is.st_ino, is.st_size, is.st_ctim.tv_sec * kSecond + is.st_ctim.tv_nsec};
}

/// Returns all files whose names have the agent's prefix, sorted by name.
Result<std::vector<Folder::File>> Folder::files() const {
  DIR* folder = ::opendir(path_.c_str());
  if (folder == nullptr) return failed(path_, errno);
  std::vector<File> out;
  errno = 0;
  while (const dirent* each = ::readdir(folder)) {
    std::string name = each->d_name;
    if (name.compare(0, kPrefix.size(), kPrefix) == 0) out.push_back({std::move(name), std::nullopt});
    errno = 0;
  }
  const int error = errno;
  for (auto& file : out) file.stamp = stampAt(::dirfd(folder), file.name);
  ::closedir(folder);
  if (error != 0) return failed(path_, error);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

Folder::File Folder::stampFile(std::string name) const {
  auto stamp = stampAt(AT_FDCWD, path_ + "/" + name);
  return {std::move(name), stamp};
}

Read Folder::read(const File& file) {
  const std::string path = path_ + "/" + file.name;
  if (!file.stamp) return failed(path, ENOENT);
  const auto it = cache_.find(file.name);
  if (it != cache_.end() && it->second.stamp == *file.stamp) return it->second.spec;
  const std::string uid = uidIn(file.name, endsWith(file.name, kPart) ? kPart : kFile);
  Read spec = load(path, uid, file.stamp->size);
  if (spec) cache_.insert_or_assign(file.name, CachedSpec{*file.stamp, spec});  // errors are not cached: they may pass
  return spec;
}

Folder::StoredSpec Folder::entry(const std::string& uid, const File* ready, const File* part) {
  StoredSpec out{uid, ready != nullptr, part != nullptr, read(ready != nullptr ? *ready : *part)};
  if (ready == nullptr || part == nullptr) return out;
  auto other = read(*part);
  if (other && out.spec)
    out.coming = std::move(other);
  else if (other)
    out.spec = std::move(other);
  return out;
}

Result<std::vector<Folder::StoredSpec>> Folder::list() {
  base::MutexLock lock(mutex_);
  const auto all = files();
  if (!all) return all.status();
  std::map<std::string, std::pair<const File*, const File*>> uids;
  for (const auto& file : *all) {
    if (auto uid = uidIn(file.name, kFile); !uid.empty()) uids[uid].first = &file;
    if (auto uid = uidIn(file.name, kPart); !uid.empty()) uids[uid].second = &file;
  }
  const auto isThere = [&](const std::string& name) {
    const auto at = std::lower_bound(all->begin(), all->end(), name,
                                     [](const File& file, const std::string& text) { return file.name < text; });
    return at != all->end() && at->name == name;
  };
  std::erase_if(cache_, [&](const auto& each) { return !isThere(each.first); });
  std::vector<StoredSpec> out;
  out.reserve(uids.size());
  for (const auto& [uid, which] : uids) out.push_back(entry(uid, which.first, which.second));
  return out;
}

Result<std::optional<Folder::StoredSpec>> Folder::find(std::string_view deviceUid) {
  if (!isUid(deviceUid)) return Status(Code::invalid, "\"" + std::string(deviceUid) + "\" is no uid");
  base::MutexLock lock(mutex_);
  const File ready = stampFile(nameOf(deviceUid)), part = stampFile(nameOf(deviceUid) + std::string(kPartEnd));
  if (!ready.stamp && !part.stamp) return std::optional<StoredSpec>();
  return std::optional<StoredSpec>(
      entry(std::string(deviceUid), ready.stamp ? &ready : nullptr, part.stamp ? &part : nullptr));
}

Result<Folder::Held> Folder::hold() {
  std::unique_lock here(holding_);
  const std::string path = path_ + "/" + std::string(kLock);
  auto file = base::openPrivateFile(path);
  if (!file) return file.status();
  for (int tries = 1; ::flock(file->get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failed(path, errno);
    if (tries == kMaxTries) return Status(Code::unavailable, path + ": another agent has held it for ten seconds");
    std::this_thread::sleep_for(kBetweenTries);
  }
  return Held(std::move(here), std::move(*file));
}

Status Folder::sync() const {
  const base::UniqueFd folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder && ::fsync(folder.get()) == 0 ? Status::okay() : failed(path_, errno);
}

Draft::~Draft() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<Draft> Folder::draft(const Spec& spec) const {
  if (!isUid(spec.deviceUid)) return Status(Code::invalid, "\"" + spec.deviceUid + "\" is no uid");
  const std::string text = codec::encodeCdiSpec(spec);
  if (text.size() > static_cast<std::size_t>(kMax))
    return Status(Code::invalid, fileOf(spec.deviceUid) + ": would be larger than 1 MiB");
  auto beside = base::writeBeside(fileOf(spec.deviceUid) + std::string(kPartEnd), text);
  if (!beside) return beside.status();
  Spec written = spec;
  for (auto& node : written.edits.deviceNodes)
    if (node.hostPath == node.path) node.hostPath.clear();
  return Draft(std::move(written), std::move(*beside));
}

Status Folder::write(const Spec& spec) {
  auto made = draft(spec);
  return made ? write(std::move(*made)) : made.status();
}

Status Folder::write(Draft draft) {
  const std::string beside = draft.path_.substr(path_.size() + 1);
  base::MutexLock lock(mutex_);
  if (const auto stamp = stampFile(beside).stamp) cache_.insert_or_assign(beside, CachedSpec{*stamp, draft.spec_});
  const auto s = rename(beside, nameOf(draft.deviceUid()) + std::string(kPartEnd));
  // The temporary may be missing: an agent that starts removes temporaries, which it takes for those of a dead agent.
  if (!s.ok()) return {Code::unavailable, s.message()};
  draft.path_.clear();
  return Status::okay();
}

/// Renames a file and keeps its cached contents under the new name.
Status Folder::rename(const std::string& from, const std::string& to) {
  const auto before = stampFile(from).stamp;
  if (std::rename((path_ + "/" + from).c_str(), (path_ + "/" + to).c_str()) != 0)
    return failed(path_ + "/" + to, errno);
  const auto known = cache_.extract(from);
  const auto now = stampFile(to).stamp;
  const bool same = before && now && before->inode == now->inode && before->size == now->size;
  if (same && !known.empty() && known.mapped().stamp == *before)
    cache_.insert_or_assign(to, CachedSpec{*now, known.mapped().spec});
  return Status::okay();
}

Status Folder::publish(const std::string& deviceUid) {
  const std::string file = nameOf(deviceUid);
  {
    base::MutexLock lock(mutex_);
    if (auto s = rename(file + std::string(kPartEnd), file); !s.ok()) return s;
  }
  return sync();  // the system combines concurrent syncs
}

Status Folder::withdraw(const std::string& deviceUid) {
  const std::string file = nameOf(deviceUid);
  base::MutexLock lock(mutex_);
  const auto s = rename(file, file + std::string(kPartEnd));
  return s.code() == Code::notFound ? Status::okay() : s;
}

Status Folder::removePart(const std::string& deviceUid) {
  const std::string part = fileOf(deviceUid) + ".part";
  base::MutexLock lock(mutex_);
  if (::unlink(part.c_str()) != 0 && errno != ENOENT) return failed(part, errno);
  return Status::okay();
}

}  // namespace egpu::agent::cdi

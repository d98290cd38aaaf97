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
constexpr off_t kMost = 1 << 20;  // bytes of a file
constexpr std::size_t kMostUid = 63;
/// No runtime reads it, and for nobody but root: whoever could open it could keep all agents out.
constexpr std::string_view kLock = ".egpu-agent.lock";
constexpr std::chrono::milliseconds kBetweenTries{10};
constexpr int kMostTries = 1000;

Status failed(const std::string& path, int error) {
  return {error == ENOENT ? Code::notFound : Code::unavailable, path + ": " + std::generic_category().message(error)};
}

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// The uid in a file's name that ends so; empty if it is no such name.
std::string uidIn(std::string_view name, std::string_view end) {
  if (name.substr(0, kPrefix.size()) != kPrefix || !endsWith(name, end)) return {};
  const auto uid = name.substr(kPrefix.size(), name.size() - kPrefix.size() - end.size());
  return isUid(uid) ? std::string(uid) : std::string();
}

Result<Spec> load(const std::string& path, const std::string& uid, off_t size) {
  if (size > kMost) return Status(Code::malformed, path + ": is larger than 1 MiB");
  const auto text = base::readPrivateFile(path);
  if (!text) return text.status();
  auto spec = codec::decodeCdiSpec(*text);
  if (!spec) return Status(spec.status().code(), path + ": " + spec.status().message());
  if (spec->deviceUid != uid) return Status(Code::malformed, path + ": is of another device, " + spec->deviceUid);
  return spec;
}

}  // namespace

std::string qualified(std::string_view deviceUid) {
  return std::string(codec::kCdiKind) + "=" + std::string(deviceUid);
}

bool isUid(std::string_view text) {
  if (text.empty() || text.size() > kMostUid || text.front() == '-') return false;
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
  const auto all = names();
  if (!all) return all.status();
  for (const auto& name : *all)
    if (name.back() == '~' && ::unlink((path_ + "/" + name).c_str()) != 0 && errno != ENOENT)
      return failed(path_ + "/" + name, errno);
  return Status::okay();
}

Result<std::vector<std::string>> Folder::names() const {
  DIR* folder = ::opendir(path_.c_str());
  if (folder == nullptr) return failed(path_, errno);
  std::vector<std::string> out;
  errno = 0;
  while (const dirent* each = ::readdir(folder)) {
    std::string name = each->d_name;
    if (name.compare(0, kPrefix.size(), kPrefix) == 0) out.push_back(std::move(name));
    errno = 0;
  }
  const int error = errno;
  ::closedir(folder);
  if (error != 0) return failed(path_, error);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<Folder::Stamp> Folder::stampOf(const std::string& name) const {
  struct stat is {};
  if (::lstat((path_ + "/" + name).c_str(), &is) != 0) return std::nullopt;
  constexpr int64_t kSecond = 1'000'000'000;
  return Stamp{is.st_ino, is.st_size, is.st_ctim.tv_sec * kSecond + is.st_ctim.tv_nsec};
}

Read Folder::read(const std::string& name) {
  const std::string path = path_ + "/" + name;
  const auto stamp = stampOf(name);
  if (!stamp) return failed(path, errno);
  const auto it = known_.find(name);
  if (it != known_.end() && it->second.stamp == *stamp) return it->second.spec;
  const std::string uid = uidIn(name, endsWith(name, kPart) ? kPart : kFile);
  Read spec = load(path, uid, stamp->size);
  if (spec) known_.insert_or_assign(name, Known{*stamp, spec});  // else it may be readable the next time
  return spec;
}

Folder::Entry Folder::entry(const std::string& uid, bool ready, bool part) {
  const std::string name = std::string(kPrefix) + uid;
  auto spec = ready ? read(name + std::string(kFile)) : read(name + std::string(kPart));
  if (ready && part && !spec)
    if (auto other = read(name + std::string(kPart)); other) spec = other;
  return {uid, ready, part, spec};
}

Result<std::vector<Folder::Entry>> Folder::list() {
  std::lock_guard lock(mutex_);
  const auto all = names();
  if (!all) return all.status();
  std::map<std::string, std::pair<bool, bool>> uids;
  for (const auto& name : *all) {
    if (auto uid = uidIn(name, kFile); !uid.empty()) uids[uid].first = true;
    if (auto uid = uidIn(name, kPart); !uid.empty()) uids[uid].second = true;
  }
  std::erase_if(known_, [&](const auto& each) { return !std::binary_search(all->begin(), all->end(), each.first); });
  std::vector<Entry> out;
  out.reserve(uids.size());
  for (const auto& [uid, which] : uids) out.push_back(entry(uid, which.first, which.second));
  return out;
}

Result<std::optional<Folder::Entry>> Folder::find(std::string_view deviceUid) {
  if (!isUid(deviceUid)) return Status(Code::invalid, "\"" + std::string(deviceUid) + "\" is no uid");
  std::lock_guard lock(mutex_);
  const std::string file = fileOf(deviceUid);
  const auto there = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  const bool ready = there(file), part = there(file + ".part");
  if (!ready && !part) return std::optional<Entry>();
  return std::optional<Entry>(entry(std::string(deviceUid), ready, part));
}

Result<Folder::Held> Folder::hold() {
  std::unique_lock here(holding_);
  const std::string path = path_ + "/" + std::string(kLock);
  auto file = base::openPrivateFile(path);
  if (!file) return file.status();
  for (int tries = 1; ::flock(file->get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failed(path, errno);
    if (tries == kMostTries) return Status(Code::unavailable, path + ": another agent has held it for ten seconds");
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
  if (text.size() > static_cast<std::size_t>(kMost))
    return Status(Code::invalid, fileOf(spec.deviceUid) + ": would be larger than 1 MiB");
  auto beside = base::writeBeside(fileOf(spec.deviceUid) + std::string(kPartEnd), text);
  if (!beside) return beside.status();
  return Draft(spec.deviceUid, std::move(*beside));
}

Status Folder::write(const Spec& spec) {
  auto made = draft(spec);
  return made ? write(std::move(*made)) : made.status();
}

Status Folder::write(Draft draft) {
  const std::string part = fileOf(draft.deviceUid_) + std::string(kPartEnd);
  std::lock_guard lock(mutex_);
  // Code::unavailable if it is gone: an agent that starts removes what it takes for a dead one's.
  if (std::rename(draft.path_.c_str(), part.c_str()) != 0) return {Code::unavailable, failed(part, errno).message()};
  draft.path_.clear();
  return Status::okay();
}

/// What is known of a file stays known under its new name. With mutex_ held.
Status Folder::rename(const std::string& from, const std::string& to) {
  const auto before = stampOf(from);
  if (std::rename((path_ + "/" + from).c_str(), (path_ + "/" + to).c_str()) != 0)
    return failed(path_ + "/" + to, errno);
  const auto known = known_.extract(from);
  const auto now = stampOf(to);
  const bool same = before && now && before->inode == now->inode && before->size == now->size;
  if (same && !known.empty() && known.mapped().stamp == *before)
    known_.insert_or_assign(to, Known{*now, known.mapped().spec});
  return Status::okay();
}

Status Folder::publish(const std::string& deviceUid) {
  const std::string file = nameOf(deviceUid);
  {
    std::lock_guard lock(mutex_);
    if (auto s = rename(file + std::string(kPartEnd), file); !s.ok()) return s;
  }
  return sync();  // of many at once the system makes few
}

Status Folder::withdraw(const std::string& deviceUid) {
  const std::string file = nameOf(deviceUid);
  std::lock_guard lock(mutex_);
  const auto s = rename(file, file + std::string(kPartEnd));
  return s.code() == Code::notFound ? Status::okay() : s;
}

Status Folder::removePart(const std::string& deviceUid) {
  const std::string part = fileOf(deviceUid) + ".part";
  std::lock_guard lock(mutex_);
  if (::unlink(part.c_str()) != 0 && errno != ENOENT) return failed(part, errno);
  return Status::okay();
}

}  // namespace egpu::agent::cdi

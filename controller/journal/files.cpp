#include "controller/journal/files.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "controller/base/private_files.h"
#include "controller/codec/journal_record.h"

namespace egpu::journal {

namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Status;

constexpr int64_t kVersion = 1;
constexpr const char* kLock = "journal.lock";
constexpr std::string_view kBefore = "journal-", kAfter = ".jsonl";

/// Returns the number in the name of a journal file, or 0 if it is not a journal file.
int64_t numberOf(std::string_view name) {
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return 0;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(kAfter.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && number > 0 ? number : 0;
}

std::string nameOf(int64_t number) {
  char text[48];
  std::snprintf(text, sizeof text, "journal-%08lld.jsonl", static_cast<long long>(number));
  return text;
}

Status failed(const std::string& path) {
  return {Code::unavailable, path + ": " + std::generic_category().message(errno)};
}

}  // namespace

base::Result<std::vector<std::pair<int64_t, std::string>>> journalFiles(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const auto number = numberOf(at->path().filename().string()); number > 0)
      files.emplace_back(number, at->path().string());
  if (error) return Status(Code::notFound, folder + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

base::Result<Files> Files::open(const std::string& folder, int64_t bytes, std::string program) {
  if (bytes < kMin)
    return Status(Code::invalid, "a journal needs at least 1MiB, not " + std::to_string(bytes) + " bytes");
  if (auto s = base::makePrivateFolder(folder, kLock); !s.ok()) return s;
  auto lock = base::openPrivateFile(folder + "/" + kLock);
  if (!lock) return lock.status();
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? Status(Code::unavailable, folder + ": another process writes its journal there")
                                : failed(folder);
  const auto there = journalFiles(folder);
  if (!there) return there.status();
  Files files(folder, bytes, std::move(program));
  files.lock_ = std::move(*lock);
  for (const auto& [number, path] : *there) {
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    files.old_.emplace_back(path, error ? 0 : size);
    files.oldBytes_ += files.old_.back().second;
    files.last_ = number;
  }
  return files;
}

Status Files::begin(bool continues, int64_t time) {
  if (file_) {
    old_.emplace_back(path_, size_);
    oldBytes_ += size_;
    file_.reset();
  }
  size_ = 0;
  full_ = bytes_;
  path_ = folder_ + "/" + nameOf(++last_);
  auto file = base::openPrivateFile(path_);
  if (!file) return file.status();
  file_ = std::move(*file);
  codec::JournalRecord first;
  first.time = time;
  first.journal = {kVersion, program_, continues};
  return append(codec::encode(first) + "\n");
}

Status Files::endSnapshot() {
  full_ = std::max(bytes_ / kParts, 2 * size_);
  if (size_ <= bytes_ / 4) return Status::okay();
  return {Code::tooLarge, "the cluster alone takes " + std::to_string(size_) +
                              " bytes; a journal needs four times that, and is limited to " + std::to_string(bytes_)};
}

Status Files::freeSpace(int64_t size) {
  while (oldBytes_ + size_ + size > bytes_ && !old_.empty()) {
    const auto [path, bytes] = old_.front();
    old_.pop_front();
    oldBytes_ -= bytes;
    std::error_code error;
    fs::remove(path, error);
    if (error) return {Code::unavailable, path + ": " + error.message()};
  }
  if (size_ + size <= bytes_) return Status::okay();
  return {Code::tooLarge, "a journal of " + std::to_string(bytes_) + " bytes is full"};
}

Status Files::append(std::string_view lines) {
  if (!file_) return {Code::unavailable, path_ + ": is not open"};
  if (auto s = freeSpace(static_cast<int64_t>(lines.size())); !s.ok()) return s;
  while (!lines.empty()) {
    const auto done = ::write(file_.get(), lines.data(), lines.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(path_);
    size_ += done;
    lines.remove_prefix(static_cast<std::size_t>(done));
  }
  return Status::okay();
}

}  // namespace egpu::journal

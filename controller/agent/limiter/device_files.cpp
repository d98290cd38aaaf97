#include "controller/agent/limiter/device_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "controller/base/subprocess.h"

namespace egpu::agent::limiter {

namespace {

using base::Code;
using base::Status;
using base::UniqueFd;

Status failed(const std::string& what) { return {Code::unavailable, what + ": " + strerrordesc_np(errno)}; }

UniqueFd openFile(const std::string& path, int flags) {
  UniqueFd file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (file && (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))) {
    errno = EINVAL;
    return {};
  }
  return file;
}

template <class Page>
Status readPage(const UniqueFd& file, const std::string& path, Page& out) {
  const auto size = ::pread(file.get(), &out, sizeof out, 0);
  if (size < 0) return failed(path);
  if (size != static_cast<ssize_t>(sizeof out) || out.magic != EGPU_LIMITER_MAGIC || out.size != sizeof out)
    return {Code::unavailable, path + ": it is not a file of this version of the limiter"};
  return Status::okay();
}

/// Writes part of a page. A write of eight aligned bytes is not torn.
template <class Value>
bool writeAt(const UniqueFd& file, std::size_t at, const Value& value) {
  return ::pwrite(file.get(), &value, sizeof value, static_cast<off_t>(at)) == static_cast<ssize_t>(sizeof value);
}

bool freeSlot(const UniqueFd& file, uint32_t slot, uint64_t owner) {
  const auto at = offsetof(egpu_limiter_usage, slot) + slot * sizeof(egpu_limiter_slot);
  uint64_t now = 0;
  if (::pread(file.get(), &now, sizeof now, static_cast<off_t>(at)) != static_cast<ssize_t>(sizeof now)) return false;
  if (now != owner) return true;  // freed by a process of its namespace, and possibly in use again
  const uint64_t none = 0;
  bool written = writeAt(file, offsetof(egpu_limiter_usage, want) + slot * sizeof(egpu_limiter_want), none);
  for (std::size_t card = 0; card < EGPU_LIMITER_CARDS; ++card)
    written = writeAt(file, offsetof(egpu_limiter_usage, used) + (card * EGPU_LIMITER_SLOTS + slot) * sizeof(uint64_t),
                      none) &&
              written;
  written = writeAt(file, at + offsetof(egpu_limiter_slot, started), none) && written;
  written = writeAt(file, at + offsetof(egpu_limiter_slot, pidNamespace), none) && written;
  return written && writeAt(file, at, none);  // last, because the next process may then take it
}

}  // namespace

std::optional<std::vector<uint8_t>> uuidOf(const std::string& text) {
  constexpr std::size_t kPrefix = 4, kDigits = 32;
  if (text.rfind("GPU-", 0) != 0) return std::nullopt;
  std::string digits;
  for (const char c : text.substr(kPrefix))
    if (c != '-') digits += c;
  const auto isDigit = [](unsigned char c) { return std::isxdigit(c) != 0; };
  if (digits.size() != kDigits || !std::all_of(digits.begin(), digits.end(), isDigit)) return std::nullopt;
  std::vector<uint8_t> out;
  for (std::size_t i = 0; i < kDigits; i += 2)
    out.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return out;
}

Status DeviceFiles::read() {
  egpu_limiter_limits page{};
  const std::string limitsPath = folder_ + "/limits", usagePath = folder_ + "/usage";
  const auto limits = openFile(limitsPath, O_RDONLY);
  if (!limits) return failed(limitsPath);
  if (auto s = readPage(limits, limitsPath, page); !s.ok()) return s;
  egpu_limiter_bank bank{};
  if (egpu_limiter_get(&page, &bank) != 0) return {Code::unavailable, limitsPath + ": its limits are damaged"};
  const auto usage = openFile(usagePath, O_RDONLY);
  if (!usage) return failed(usagePath);
  egpu_limiter_usage used{};
  if (auto s = readPage(usage, usagePath, used); !s.ok()) return s;
  limits_ = bank;
  usage_ = used;
  return Status::okay();
}

Status DeviceFiles::limit(const std::vector<egpu_limiter_card>& cards) {
  const std::string path = folder_ + "/limits";
  const UniqueFd lock(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return failed(folder_);
  const auto file = openFile(path, O_RDWR);
  if (!file) return failed(path);
  egpu_limiter_limits page{};
  if (auto s = readPage(file, path, page); !s.ok()) return s;
  egpu_limiter_set(&page, cards.data(), static_cast<uint32_t>(cards.size()), 0);
  // The bank that is not in force yet comes first.
  const auto next = page.sequence & 1;
  if (!writeAt(file, offsetof(egpu_limiter_limits, bank) + next * sizeof(egpu_limiter_bank), page.bank[next]) ||
      !writeAt(file, offsetof(egpu_limiter_limits, sequence), page.sequence))
    return failed(path);
  if (egpu_limiter_get(&page, &limits_) != 0) return {Code::unavailable, path + ": its limits are damaged"};
  return Status::okay();
}

Status DeviceFiles::freeSlots(const std::vector<uint32_t>& slots) {
  const std::string path = folder_ + "/usage";
  const auto file = openFile(path, O_RDWR);
  if (!file) return failed(path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return Status::okay();  // containers may hold it for ever
  for (const auto slot : slots)
    if (!freeSlot(file, slot, usage_.slot[slot].owner)) return failed(path);
  return Status::okay();
}

}  // namespace egpu::agent::limiter

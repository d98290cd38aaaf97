#include "controller/agent/sharing/daemon_records.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "controller/base/private_files.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;
using base::UniqueFd;

constexpr std::size_t kMaxName = 128;

template <class Number>
void readNumber(const std::string& text, Number& out) {
  std::from_chars(text.data(), text.data() + text.size(), out);
}

}  // namespace

bool isCardName(const std::string& uuid) {
  return !uuid.empty() && uuid.size() <= kMaxName && uuid.front() != '-' &&
         std::all_of(uuid.begin(), uuid.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
         });
}

std::vector<std::string> DaemonRecords::cards() const {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error))
    if (auto name = entry.path().filename().string(); isCardName(name)) out.push_back(std::move(name));
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::optional<DaemonRecord>> DaemonRecords::read(const std::string& card) const {
  const auto text = base::readPrivateFile(fileOf(card));
  if (!text && text.status().code() == Code::notFound) return std::optional<DaemonRecord>();
  if (!text) return text.status();
  DaemonRecord out;
  out.card = card;
  std::istringstream in(*text);
  for (std::string line; std::getline(in, line);) {
    const auto equals = line.find('=');
    if (equals == std::string::npos) continue;
    const auto name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "pid") readNumber(value, out.pid);
    if (name == "startTime") readNumber(value, out.startTime);
    if (name == "version") readNumber(value, out.version);
    if (name == "isEnding") out.isEnding = value == "true";
    if (name == "endedPid") readNumber(value, out.endedPid);
    if (name == "boot") out.boot = value;
    if (name == "computeMode") out.computeMode = value;
    if (name == "ownsTmpfs") out.ownsTmpfs = value == "true";
  }
  return std::optional(out);
}

Status DaemonRecords::write(const DaemonRecord& record) const {
  if (auto s = base::makePrivateFolder(folder_, record.card); !s.ok()) return s;
  const auto text =
      "pid=" + std::to_string(record.pid) + "\nstartTime=" + std::to_string(record.startTime) +
      "\nversion=" + std::to_string(record.version) + "\nisEnding=" + (record.isEnding ? "true" : "false") +
      "\nendedPid=" + std::to_string(record.endedPid) + "\nboot=" + record.boot +
      "\ncomputeMode=" + record.computeMode + "\nownsTmpfs=" + (record.ownsTmpfs ? "true" : "false") + "\n";
  return base::writePrivateFile(fileOf(record.card), text);
}

Status DaemonRecords::remove(const std::string& card) const {
  if (::unlink(fileOf(card).c_str()) == 0 || errno == ENOENT) return Status::okay();
  return {Code::unavailable, fileOf(card) + ": " + strerrordesc_np(errno)};
}

Result<UniqueFd> DaemonRecords::tryLock(const std::string& card) const {
  const auto name = ".lock-" + card;
  if (auto s = base::makePrivateFolder(folder_, name); !s.ok()) return s;
  auto file = base::openPrivateFile(folder_ + "/" + name);
  if (!file) return file.status();
  if (::flock(file->get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno == EWOULDBLOCK || errno == EINTR) return UniqueFd();
  return Status(Code::unavailable, folder_ + "/" + name + ": " + strerrordesc_np(errno));
}

}  // namespace egpu::agent::sharing

#include "controller/agent/sharing/mps_limits.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "controller/base/printable.h"
#include "controller/base/text.h"
#include "provisioners/gpushare/mps_namespace.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::size_t kMaxReply = 200;
constexpr int64_t kMiB = 1 << 20, kWholeCard = 1000, kAll = 100;
constexpr int64_t kNoMemoryLimit = int64_t{16}
                                   << 20;  ///< MiB; more than a card has, because no command removes a limit
constexpr int kStatus = 3;                 ///< column of `server list`
constexpr std::size_t kMaxServers = 4;     ///< a daemon of version 2 has one server, or one for each of few users

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (auto trimmed = base::trimmed(line); !trimmed.empty()) out.emplace_back(trimmed);
  return out;
}

/// Reads the PIDs of `get_server_list`. With version 2, a container can replace the daemon's socket and answer itself,
/// so that the number of the commands that follow is limited.
std::vector<std::string> serversIn(const std::string& text) {
  auto out = linesOf(text);
  std::erase_if(out, [](const auto& line) { return line.find_first_not_of("0123456789") != std::string::npos; });
  if (out.size() > kMaxServers) out.resize(kMaxServers);
  return out;
}

std::string column(const std::string& line, int index) {
  std::istringstream in(line);
  std::string out;
  for (int i = 0; i <= index; ++i)
    if (!std::getline(in, out, ',')) return {};
  return std::string(base::trimmed(out));
}

bool isFault(const std::string& status) { return base::lowered(status).find("fault") != std::string::npos; }

/// Reads a whole number at the beginning, such as "25" or "25.0", and returns the text behind it.
std::optional<std::pair<int64_t, std::string>> numberIn(const std::string& text) {
  const auto trimmed = std::string(base::trimmed(text));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (error != std::errc()) return std::nullopt;
  return std::pair(value, std::string(end, trimmed.data() + trimmed.size()));
}

/// Reads "25", "25.0" or "25%".
std::optional<int64_t> percentageIn(const std::string& text) {
  const auto number = numberIn(text);
  if (!number || number->second.find_first_not_of(".0%") != std::string::npos) return std::nullopt;
  return number->first;
}

/// Reads "4G", "4096M" or "4096MB" as MiB.
std::optional<int64_t> memoryIn(const std::string& text) {
  const auto number = numberIn(text);
  if (!number || number->second.empty()) return std::nullopt;
  switch (std::toupper(static_cast<unsigned char>(number->second.front()))) {
    case 'G':
      return number->first << 10;
    case 'M':
      return number->first;
    case 'K':
      return number->first >> 10;
    default:
      return std::nullopt;
  }
}

Status compare(const std::string& what, const std::string& reply, std::optional<int64_t> found, int64_t wanted) {
  if (found == wanted) return Status::okay();
  return {Code::unavailable,
          "MPS reports " + what + " " +
              base::quoted(base::shortened(base::printable(std::string(base::trimmed(reply))), kMaxReply)) +
              " after it was set to " + std::to_string(wanted)};
}

std::string megabytes(int64_t memory) { return std::to_string(memory) + "M"; }

}  // namespace

ClientLimits limitsOf(const v1alpha::DeviceCard& share) {
  ClientLimits out;
  if (share.core > 0) out.percentage = std::clamp<int64_t>(share.core * kAll / kWholeCard, 1, kAll);
  out.memory = std::max<int64_t>(0, share.memory / kMiB);
  return out;
}

Status MpsLimits::set(const std::string& card, int version, const LimitsByDevice& limits) const {
  if (version == 3) return setNamespaces(card, limits);
  if (limits.empty()) return Status::okay();
  ClientLimits most{1, 1};
  for (const auto& [device, each] : limits) {
    most.percentage = std::max(most.percentage, each.percentage == 0 ? kAll : each.percentage);
    most.memory = std::max(most.memory, each.memory == 0 ? kNoMemoryLimit : each.memory);
  }
  return setDefaults(card, most);
}

Status MpsLimits::setNamespaces(const std::string& card, const LimitsByDevice& limits) const {
  if (!commands_.control(card, {"server", "get", gpushare::kMpsServer, "name"})) {
    const auto created =
        commands_.control(card, {"server", "create", gpushare::kMpsServer, "--uid=0", "--allowed-devices=" + card});
    if (!created) return created.status();
  }
  for (const auto& [device, each] : limits)
    if (auto s = setNamespace(card, gpushare::mpsNamespaceOf(device), each); !s.ok()) return s;
  return removeOthers(card, limits);
}

Status MpsLimits::setNamespace(const std::string& card, const std::string& name, const ClientLimits& limits) const {
  const std::string server = std::string("--server=") + gpushare::kMpsServer;
  const auto get = [&](const char* field) {
    return commands_.control(card, {"namespace", "get", name, gpushare::kMpsServer, field});
  };
  if (!get("name"))
    if (const auto created = commands_.control(card, {"namespace", "create", name, server}); !created)
      return created.status();
  const auto percentage = limits.percentage == 0 ? kAll : limits.percentage;
  const auto memory = limits.memory == 0 ? kNoMemoryLimit : limits.memory;
  const auto done =
      commands_.control(card, {"namespace", "set", name, server, "--pinned-memory-limit=" + megabytes(memory),
                               "--active-thread-percentage=" + std::to_string(percentage)});
  if (!done) return done.status();
  const auto setMemory = get("pinned-memory-limit");
  if (!setMemory) return setMemory.status();
  if (auto s = compare("the pinned-memory-limit", *setMemory, memoryIn(*setMemory), memory); !s.ok()) return s;
  const auto setPercentage = get("active-thread-percentage");
  if (!setPercentage) return setPercentage.status();
  return compare("the active-thread-percentage", *setPercentage, percentageIn(*setPercentage), percentage);
}

/// A namespace that still has clients is not removed, and tried again with the next change.
Status MpsLimits::removeOthers(const std::string& card, const LimitsByDevice& limits) const {
  const std::string server = std::string("--server=") + gpushare::kMpsServer;
  const auto all = commands_.control(card, {"namespace", "list", server, "--format=csv,noheader"});
  if (!all) return all.status();
  for (const auto& line : linesOf(*all)) {
    const auto name = column(line, 0);
    const auto isOf = [&](const auto& each) { return gpushare::mpsNamespaceOf(each.first) == name; };
    if (name == "default" || std::any_of(limits.begin(), limits.end(), isOf)) continue;
    (void)commands_.control(card, {"namespace", "delete", name, server});
  }
  return Status::okay();
}

Result<std::string> MpsLimits::ask(const std::string& card, const std::string& command) const {
  return commands_.control(card, {}, command + "\n");
}

Status MpsLimits::setDefaults(const std::string& card, const ClientLimits& most) const {
  if (auto s = setBoth(card, "default_", "", most); !s.ok()) return s;
  // The defaults apply to the next server only.
  const auto servers = ask(card, "get_server_list");
  if (!servers) return servers.status();
  for (const auto& server : serversIn(*servers))
    if (auto s = setBoth(card, "", server + " ", most); !s.ok()) return s;
  return Status::okay();
}

Status MpsLimits::setBoth(const std::string& card, const std::string& scope, const std::string& of,
                          const ClientLimits& limits) const {
  const auto percentage = scope + "active_thread_percentage", memory = scope + "device_pinned_mem_limit";
  const auto done = ask(card, "set_" + percentage + " " + of + std::to_string(limits.percentage) + "\nset_" + memory +
                                  " " + of + card + " " + megabytes(limits.memory));
  if (!done) return done.status();
  const auto setPercentage = ask(card, "get_" + percentage + (of.empty() ? "" : " " + of));
  if (!setPercentage) return setPercentage.status();
  if (auto s = compare(percentage, *setPercentage, percentageIn(*setPercentage), limits.percentage); !s.ok()) return s;
  const auto setMemory = ask(card, "get_" + memory + " " + of + card);
  if (!setMemory) return setMemory.status();
  return compare(memory, *setMemory, memoryIn(*setMemory), limits.memory);
}

Result<bool> MpsLimits::isFaulty(const std::string& card, int version) const {
  if (version == 3) {
    const auto servers = commands_.control(card, {"server", "list", "--format=csv,noheader"});
    if (!servers) return servers.status();
    const auto lines = linesOf(*servers);
    return std::any_of(lines.begin(), lines.end(), [](const auto& line) { return isFault(column(line, kStatus)); });
  }
  const auto servers = ask(card, "get_server_list");
  if (!servers) return servers.status();
  for (const auto& server : serversIn(*servers)) {
    const auto status = ask(card, "get_server_status " + server);
    if (!status) return status.status();
    if (isFault(*status)) return true;
  }
  return false;
}

}  // namespace egpu::agent::sharing

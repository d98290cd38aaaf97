#include "controller/agent/health/foreign_use.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "controller/base/text.h"

namespace egpu::agent::health {

namespace {

constexpr std::string_view kNvidiaDriver = "gpu.nvidia.com";
constexpr std::size_t kUid = 36;                ///< of a pod: 8-4-4-4-12 hexadecimal digits
constexpr std::size_t kMostNamed = 4;           ///< users in the condition
constexpr std::size_t kLongestFile = 64 << 10;  ///< of what is read of a process

std::string contentOf(const std::string& path) {
  std::ifstream in(path);
  std::string out(kLongestFile, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(in.gcount()));
  return out;
}

bool isUid(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return text.size() == kUid;
}

/// The first few, and how many more.
std::string listed(const std::vector<std::string>& users) {
  std::string out;
  for (std::size_t i = 0; i < std::min(users.size(), kMostNamed); ++i) out += (i > 0 ? ", " : "") + users[i];
  if (users.size() > kMostNamed) out += " and " + std::to_string(users.size() - kMostNamed) + " more";
  return out;
}

}  // namespace

std::string podOf(std::string_view cgroups) {
  if (cgroups.find("kubepods") == std::string_view::npos) return {};
  for (std::size_t at = cgroups.find("pod"); at != std::string_view::npos; at = cgroups.find("pod", at + 1)) {
    std::string uid(cgroups.substr(at + 3, kUid));
    std::replace(uid.begin(), uid.end(), '_', '-');
    if (isUid(uid)) return uid;
  }
  return {};
}

std::optional<std::string> podOfProcess(const std::string& proc, int64_t pid) {
  const auto cgroups = contentOf(proc + "/" + std::to_string(pid) + "/cgroup");
  return cgroups.empty() ? std::nullopt : std::optional(podOf(cgroups));
}

bool isOf(const v1alpha::Card& card, const Given& given) {
  const auto uuid = base::lowered(card.uuid);
  const auto number = "gpu-" + std::to_string(card.index);
  return std::any_of(given.ids.begin(), given.ids.end(), [&](const std::string& each) {
    const auto id = base::lowered(each.substr(each.rfind('=') + 1));  // of a CDI name the device
    return id == uuid || id.starts_with(uuid + "::") || id.starts_with("mig-" + uuid + "/") ||
           (given.driver == kNvidiaDriver && (id == number || id.starts_with(number + "-")));
  });
}

std::optional<Finding> foreignUse(const v1alpha::Card& card, const std::vector<Given>& given,
                                  const std::vector<plugin::CardProcess>& processes, const std::string& proc,
                                  const HasClaim& hasClaim) {
  std::vector<std::string> users;
  for (const auto& each : given)
    if (isOf(card, each))
      users.push_back("container " + each.container + " of pod " + each.pod + ", which has it by " + each.by);
  for (const auto& process : processes) {
    if (base::lowered(process.uuid) != base::lowered(card.uuid)) continue;
    const auto pod = podOfProcess(proc, process.pid);
    if (!pod || (!pod->empty() && hasClaim(*pod, card.uuid).value_or(true))) continue;
    const auto name = contentOf(proc + "/" + std::to_string(process.pid) + "/comm");
    users.push_back("process " + std::to_string(process.pid) + " (" + std::string(base::trimmed(name)) + ")" +
                    (pod->empty() ? " outside of pods" : " of pod " + *pod));
  }
  if (users.empty()) return std::nullopt;
  auto out = illness("used without a claim by " + listed(users) +
                     "; end it, and keep NVIDIA's device plugin and DRA driver off this node's cards");
  out.reason = kForeignUse;
  return out;
}

}  // namespace egpu::agent::health

#include "controller/agent/health/foreign_use.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "controller/base/text.h"

namespace egpu::agent::health {

namespace {

constexpr std::string_view kNvidiaDriver = "gpu.nvidia.com";
constexpr std::string_view kMpsServer = "nvidia-cuda-mps";  ///< nvidia-cuda-mps-server; the kernel keeps 15 characters
constexpr std::size_t kUid = 36;                            ///< length of a pod's uid: 8-4-4-4-12 hexadecimal digits
constexpr std::size_t kMaxNamed = 4;                        ///< maximum users named in the condition
constexpr std::size_t kMaxFileBytes = 64 << 10;             ///< maximum bytes read from a file of a process

std::string contentOf(const std::string& path) {
  std::ifstream in(path);
  std::string out(kMaxFileBytes, '\0');
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

std::string nameOf(const std::string& proc, int64_t pid) {
  return std::string(base::trimmed(contentOf(proc + "/" + std::to_string(pid) + "/comm")));
}

bool servesMps(const Host& host, const std::string& card) {
  return ::access((host.state + "/mps/" + card + "/control").c_str(), F_OK) == 0;
}

/// Returns descriptions of the containers that have the card, sorted and without duplicates. The kubelet's order
/// changes with each call, and a changed message would cause a write.
std::vector<std::string> holders(const v1alpha::Card& card, const std::vector<Given>& given) {
  std::set<std::string> out;
  for (const auto& each : given)
    if (isOf(card, each))
      out.insert("container " + each.container + " of pod " + each.pod + ", which got it from " + each.by);
  return {out.begin(), out.end()};
}

std::set<int64_t> pidsOn(const v1alpha::Card& card, const std::vector<plugin::CardProcess>& processes) {
  std::set<int64_t> out;
  for (const auto& process : processes)
    if (base::lowered(process.uuid) == base::lowered(card.uuid)) out.insert(process.pid);
  return out;
}

/// Lists the first kMaxNamed users, and the number of further users.
std::string listed(const std::vector<std::string>& users) {
  std::string out;
  for (std::size_t i = 0; i < std::min(users.size(), kMaxNamed); ++i) out += (i > 0 ? ", " : "") + users[i];
  if (users.size() > kMaxNamed) out += " and " + std::to_string(users.size() - kMaxNamed) + " more";
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
    const auto id = base::lowered(each.substr(each.rfind('=') + 1));  // the device part of a CDI name
    return id == uuid || id.starts_with(uuid + "::") || id.starts_with("mig-" + uuid + "/") ||
           (given.driver == kNvidiaDriver && (id == number || id.starts_with(number + "-")));
  });
}

std::optional<Finding> foreignUse(const v1alpha::Card& card, const std::vector<Given>& given,
                                  const std::vector<plugin::CardProcess>& processes, const Host& host,
                                  const HasClaim& hasClaim, const PodName& podName) {
  auto users = holders(card, given);
  std::map<std::string, bool> mayUse;  // by uid of the pod; caches hasClaim
  for (const auto pid : pidsOn(card, processes)) {
    const auto pod = podOfProcess(host.proc, pid);
    if (!pod) continue;
    const auto name = nameOf(host.proc, pid);
    // Inside a pod, the process name proves nothing, because the user of the pod chooses it.
    if (pod->empty() && name == kMpsServer && servesMps(host, card.uuid)) continue;
    if (!pod->empty() && mayUse.count(*pod) == 0) mayUse[*pod] = hasClaim(*pod, card.uuid).value_or(true);
    if (!pod->empty() && mayUse[*pod]) continue;
    const std::string its = pod->empty() || !podName ? "" : podName(*pod);
    users.push_back("process " + std::to_string(pid) + " (" + name + ")" +
                    (pod->empty() ? " outside of pods" : " of pod " + (its.empty() ? *pod : its)));
  }
  if (users.empty()) return std::nullopt;
  auto out = illness("used without a claim by " + listed(users) +
                     "; end it, and keep NVIDIA's device plugin and DRA driver off this node's cards");
  out.reason = kForeignUse;
  return out;
}

}  // namespace egpu::agent::health

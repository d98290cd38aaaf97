#include "controller/plugin/sanity/checks.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace egpu::plugin::sanity {
namespace {

constexpr int kRepeats = 10;
const std::string kPod = "sanity/pod-1";
const std::string kContainer = "main";

std::string answerText(const std::string& what, const Reply& reply, const std::string& wanted) {
  return what + " answered " + std::string(toString(reply.outcome)) +
         (reply.message.empty() ? "" : " (" + reply.message + ")") + ", wanted " + wanted;
}
/// Empty if the reply is a success.
std::string good(const std::string& what, const Reply& reply) {
  return reply.ok() ? std::string() : answerText(what, reply, "ok or no change");
}
std::string wants(const std::string& what, const Reply& reply, ReplyCode outcome) {
  if (reply.outcome != outcome) return answerText(what, reply, std::string(toString(outcome)));
  if (outcome != ReplyCode::ok && reply.message.empty()) return what + " refused without a message";
  return {};
}
/// Returns the first error; evaluates the steps in order.
template <class... Steps>
std::string firstOf(Steps... steps) {
  std::string wrong;
  (void)((wrong = steps(), wrong.empty()) && ...);
  return wrong;
}
std::string repeated(const std::function<std::string()>& step) {
  for (int i = 1; i <= kRepeats; ++i)
    if (std::string wrong = step(); !wrong.empty()) return wrong + ", time " + std::to_string(i);
  return {};
}

std::string provision(PluginUnderTest& s, const DeviceRequest& d) {
  return good("provision", s.settle([&] { return s.plugin().provision(d); }));
}
/// Provisions the device, and writes the values that the plugin replies into it, as the host does.
std::string provisionAndFill(PluginUnderTest& s, DeviceRequest& d) {
  const Reply reply = s.settle([&] { return s.plugin().provision(d); });
  if (reply.ok() && d.source.empty()) d.source = reply.source;
  return good("provision", reply);
}
std::string deprovision(PluginUnderTest& s, const std::string& key) {
  return good("deprovision", s.settle([&] { return s.plugin().deprovision(key); }));
}
bool listed(PluginUnderTest& s, const std::string& key) {
  const auto keys = s.plugin().list().keys;
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}
std::string gone(PluginUnderTest& s, const std::string& key) {
  const ListReply list = s.plugin().list();
  if (!list.reply.ok()) return good("list", list.reply);
  return listed(s, key) ? "list still replies " + key : std::string();
}

std::string identity(PluginUnderTest& s) {
  return repeated([&]() -> std::string {
    const Answer a = s.plugin().perform(s.plugin().begin(Slot::describe, {}));
    if (a.outcome != ReplyCode::ok) return good("describe", {a.outcome, a.message});
    return a.description == s.plugin().description() ? std::string() : "describe changed its answer";
  });
}

std::string capabilities(PluginUnderTest& s) {
  // The host answers for absent slots, so success shows in both cases that calls are safe.
  return firstOf([&] { return good("discover", s.plugin().discover().reply); },
                 [&] { return good("health", s.plugin().health().reply); },
                 [&] { return good("list", s.plugin().list().reply); });
}

std::string cards(PluginUnderTest& s) {
  const DiscoverReply first = s.plugin().discover();
  std::set<std::string> uuids;
  for (const Gpu& gpu : first.gpus) uuids.insert(gpu.uuid);
  for (const Gpu& gpu : first.gpus)
    for (const GpuLink& link : gpu.links)
      if (link.peer == gpu.uuid || uuids.count(link.peer) == 0)
        return "the card " + gpu.uuid + " has a link to " + link.peer + ", which is no other card of discover's";
  return repeated([&]() -> std::string {
    const DiscoverReply again = s.plugin().discover();
    if (!again.reply.ok()) return good("discover", again.reply);
    return again.gpus == first.gpus ? std::string() : "discover changed its answer";
  });
}

std::string processes(PluginUnderTest& s) {
  const DiscoverReply cards = s.plugin().discover();
  return repeated([&]() -> std::string {
    const ProcessesReply reply = s.plugin().processes();
    if (!reply.reply.ok()) return good("processes", reply.reply);
    for (const auto& process : reply.processes) {
      const auto same = [&](const Gpu& card) { return card.uuid == process.uuid; };
      if (std::none_of(cards.gpus.begin(), cards.gpus.end(), same))
        return "processes named the card " + process.uuid + ", which discover does not reply";
    }
    return {};
  });
}

std::string preference(PluginUnderTest& s) {
  if (!s.plugin().description().prefers) return {};
  Wish wish{"sanity/claim", {}, s.options().parameters};
  for (const auto* node : {"sanity-a", "sanity-b", "sanity-c"}) wish.candidates.push_back({node, s.device().cards});
  // an answer that names a candidate twice, or an unknown one, is garbage
  const PreferReply first = s.plugin().prefer(wish);
  return repeated([&]() -> std::string {
    const PreferReply again = s.plugin().prefer(wish);
    if (!again.reply.ok()) return good("prefer", again.reply);
    return again.order == first.order && again.vetoes == first.vetoes ? std::string() : "prefer changed its answer";
  });
}

std::string validates(PluginUnderTest& s) {
  return repeated([&] { return good("validate", s.plugin().validate(s.options().parameters)); });
}

std::string refusesUnknown(PluginUnderTest& s) {
  core::StringMap all = s.options().parameters;
  all["surelyNobodyKnowsThis"] = "1";
  return repeated([&]() -> std::string {
    const Reply reply = s.plugin().validate(all);
    if (std::string wrong = wants("validate with an unknown parameter", reply, ReplyCode::invalid); !wrong.empty())
      return wrong;
    if (reply.message.find("surelyNobodyKnowsThis") == std::string::npos)
      return "the message \"" + reply.message + "\" does not name the unknown parameter";
    return {};
  });
}

std::string missingFields(PluginUnderTest& s) {
  DeviceRequest noKey = s.device();
  noKey.key.clear();
  auto& p = s.plugin();
  if (noKey.cards.empty())  // a remote device
    return firstOf(
        [&] { return wants("provision without key", p.provision(noKey), ReplyCode::invalid); },
        [&] { return wants("deprovision without key", p.deprovision(""), ReplyCode::invalid); },
        [&] { return wants("mount without key", p.mount(noKey, kPod, kContainer).reply, ReplyCode::invalid); });
  DeviceRequest noCards = s.device();
  noCards.cards.clear();
  DeviceRequest noUuid = s.device();
  noUuid.cards.front().uuid.clear();
  return firstOf(
      [&] { return wants("provision without key", p.provision(noKey), ReplyCode::invalid); },
      [&] { return wants("provision without cards", p.provision(noCards), ReplyCode::invalid); },
      [&] { return wants("provision of a card without uuid", p.provision(noUuid), ReplyCode::invalid); },
      [&] { return wants("deprovision without key", p.deprovision(""), ReplyCode::invalid); },
      [&] { return wants("mount without key", p.mount(noKey, kPod, kContainer).reply, ReplyCode::invalid); },
      [&] { return wants("mount without cards", p.mount(noCards, kPod, kContainer).reply, ReplyCode::invalid); },
      [&] { return gone(s, noCards.key); }, [&] { return gone(s, noUuid.key); });
}

std::string provisionRepeats(PluginUnderTest& s) {
  const DeviceRequest d = s.device();
  return firstOf([&] { return repeated([&] { return provision(s, d); }); }, [&] { return deprovision(s, d.key); });
}

std::string conflict(PluginUnderTest& s) {
  const DeviceRequest d = s.device();
  DeviceRequest other = d;
  if (other.cards.empty()) {
    other.capacity["elasticgpu.io/gpu-memory"] = "1Gi";
  } else {
    other.cards.front().uuid = "GPU-5a217e00-0000-4000-8000-0000000000ff";
    other.cards.front().index = 15;
  }
  return firstOf([&] { return provision(s, d); },
                 [&] {
                   return repeated([&] {
                     return wants("the same key with other content", s.plugin().provision(other), ReplyCode::exists);
                   });
                 },
                 [&] { return provision(s, d); }, [&] { return deprovision(s, d.key); },
                 [&] { return provision(s, other); }, [&] { return deprovision(s, d.key); });
}

std::string anotherClaim(PluginUnderTest& s) {
  const DeviceRequest d = s.device();
  DeviceRequest next = d;
  next.claim = "sanity/another-claim";
  return firstOf([&] { return provision(s, d); }, [&] { return repeated([&] { return provision(s, next); }); },
                 [&] { return provision(s, d); }, [&] { return deprovision(s, d.key); },
                 [&] { return gone(s, d.key); });
}

std::string isolation(PluginUnderTest& s) {
  const DeviceRequest d = s.device();
  std::optional<v1alpha::Isolation> first;
  const auto again = [&]() -> std::string {
    const Reply reply = s.settle([&] { return s.plugin().provision(d); });
    if (!reply.ok()) return good("provision", reply);
    if (!first) first = reply.isolation;
    return reply.isolation == first ? std::string() : "provision changed the isolation that it replies for a key";
  };
  return firstOf([&] { return repeated(again); }, [&] { return first ? s.killAndRecover() : std::string(); },
                 [&] { return repeated(again); }, [&] { return deprovision(s, d.key); });
}

std::string deprovisionRepeats(PluginUnderTest& s) {
  const DeviceRequest d = s.device();
  return firstOf([&] { return provision(s, d); }, [&] { return repeated([&] { return deprovision(s, d.key); }); },
                 [&] { return gone(s, d.key); });
}

std::string deprovisionUnknown(PluginUnderTest& s) {
  return repeated([&] { return deprovision(s, s.device().key); });
}

std::string listIsTrue(PluginUnderTest& s) {
  const DeviceRequest a = s.device();
  const DeviceRequest b = s.device();
  std::string wrong = firstOf([&] { return provision(s, a); }, [&] { return provision(s, b); });
  if (!wrong.empty()) return wrong;
  const auto keys = s.plugin().list().keys;
  const std::set<std::string> once(keys.begin(), keys.end());
  if (once.size() != keys.size()) return "list replies a key twice";
  // A plugin that keeps no state lists no keys; but then it must not list one of the two.
  if (once.count(a.key) != once.count(b.key)) return "list replies one of two provisioned keys";
  for (const auto& key : keys)
    if (key != a.key && key != b.key) return "list replies " + key + ", which is not provisioned";
  return firstOf([&] { return deprovision(s, a.key); },
                 [&] { return listed(s, b.key) || keys.empty() ? std::string() : "deprovision removed another key"; },
                 [&] { return deprovision(s, b.key); }, [&] { return gone(s, a.key); }, [&] { return gone(s, b.key); });
}

std::string nodeSideRepeats(PluginUnderTest& s) {
  DeviceRequest d = s.device();
  auto& p = s.plugin();
  return firstOf([&] { return provisionAndFill(s, d); },
                 [&] { return repeated([&] { return good("stage", s.settle([&] { return p.stage(d); })); }); },
                 [&] { return repeated([&] { return good("mount", p.mount(d, kPod, kContainer).reply); }); },
                 [&] { return repeated([&] { return good("unmount", p.unmount(d.key, kPod, kContainer)); }); },
                 [&] { return repeated([&] { return good("unstage", s.settle([&] { return p.unstage(d.key); })); }); },
                 [&] { return deprovision(s, d.key); });
}

std::string nodeSideUnknown(PluginUnderTest& s) {
  const std::string key = s.device().key;
  return firstOf([&] { return good("unmount of an unknown key", s.plugin().unmount(key, kPod, kContainer)); },
                 [&] { return good("unstage of an unknown key", s.plugin().unstage(key)); });
}

/// Runs the steps of a device's life; `between` runs after each.
std::string lifecycle(PluginUnderTest& s, DeviceRequest d, const std::function<std::string()>& between) {
  auto& p = s.plugin();
  return firstOf([&] { return good("validate", p.validate(d.parameters)); }, between,
                 [&] { return provisionAndFill(s, d); }, between,
                 [&] { return good("stage", s.settle([&] { return p.stage(d); })); }, between,
                 [&] { return good("mount", p.mount(d, kPod, kContainer).reply); }, between,
                 [&] { return good("unmount", p.unmount(d.key, kPod, kContainer)); }, between,
                 [&] { return good("unstage", s.settle([&] { return p.unstage(d.key); })); }, between,
                 [&] { return deprovision(s, d.key); }, between, [&] { return gone(s, d.key); });
}

std::string fullLife(PluginUnderTest& s) {
  return lifecycle(s, s.device(), [] { return std::string(); });
}
std::string fullLifeWithKills(PluginUnderTest& s) {
  return lifecycle(s, s.device(), [&] { return s.killAndRecover(); });
}

std::string recoversProvisioned(PluginUnderTest& s) {
  const DeviceRequest d = s.device();
  const auto killed = [&] { return s.killAndRecover(); };
  return firstOf([&] { return provision(s, d); }, killed, [&] { return provision(s, d); }, killed,
                 [&] { return deprovision(s, d.key); }, killed, [&] { return deprovision(s, d.key); },
                 [&] { return gone(s, d.key); });
}

std::string mountIsPure(PluginUnderTest& s) {
  DeviceRequest d = s.device();
  auto& p = s.plugin();
  std::string wrong = firstOf([&] { return provisionAndFill(s, d); },
                              [&] { return good("stage", s.settle([&] { return p.stage(d); })); });
  if (!wrong.empty()) return wrong;
  const MountReply first = p.mount(d, kPod, kContainer);
  const auto same = [&]() -> std::string {
    const MountReply again = p.mount(d, kPod, kContainer);
    if (!again.reply.ok()) return good("mount", again.reply);
    return again.edits == first.edits ? std::string() : "mount gave other edits for the same request";
  };
  return firstOf([&] { return good("mount", first.reply); }, [&] { return repeated(same); },
                 [&] { return s.killAndRecover(); }, same,
                 [&] { return good("unmount", p.unmount(d.key, kPod, kContainer)); }, same,
                 [&] { return good("unstage", s.settle([&] { return p.unstage(d.key); })); },
                 [&] { return deprovision(s, d.key); });
}

std::string mountIsCdi(PluginUnderTest& s) {
  DeviceRequest d = s.device();
  const bool provisioned = d.cards.empty();  // the node of a device with cards stages it without provision
  if (provisioned)
    if (std::string wrong = provisionAndFill(s, d); !wrong.empty()) return wrong;
  if (std::string wrong = good("stage", s.settle([&] { return s.plugin().stage(d); })); !wrong.empty()) return wrong;
  const MountReply reply = s.plugin().mount(d, kPod, kContainer);
  if (std::string wrong = good("unstage", s.settle([&] { return s.plugin().unstage(d.key); })); !wrong.empty())
    return wrong;
  if (provisioned)
    if (std::string wrong = deprovision(s, d.key); !wrong.empty()) return wrong;
  if (!reply.reply.ok()) return good("mount", reply.reply);
  // The host has checked names and paths: an invalid answer is garbage and not ok.
  const ContainerEdits& e = reply.edits;
  if (e.env.empty() && e.deviceNodes.empty() && e.mounts.empty() && e.cdiDevices.empty())
    return "mount gives the container nothing";
  std::set<std::string> seen;
  for (const auto& [name, value] : e.env)
    if (!seen.insert("env " + name).second) return "mount sets " + name + " twice";
  for (const auto& node : e.deviceNodes)
    if (!seen.insert("node " + node.path).second) return "mount gives the device node " + node.path + " twice";
  for (const auto& m : e.mounts)
    if (!seen.insert("mount " + m.containerPath).second) return "mount mounts " + m.containerPath + " twice";
  for (const auto& name : e.cdiDevices)
    if (!seen.insert("cdi " + name).second) return "mount names the CDI device " + name + " twice";
  return {};
}

std::string respectsDeadlines(PluginUnderTest& s) {
  const uint64_t starts = s.plugin().starts();
  for (const int ms : {1, 2, 5, 10, 20}) {
    Call call = s.plugin().begin(Slot::provision, {});
    call.device = s.device();
    call.key = call.device.key;
    call.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    s.plugin().perform(call);  // any answer is fine: the call must not end the process
    if (std::string wrong = deprovision(s, call.key); !wrong.empty())
      return wrong + " after a provision with a deadline of " + std::to_string(ms) + " ms";
  }
  while (s.plugin().outstanding() > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the grace bounds this
  if (std::string wrong = good("list", s.plugin().list().reply); !wrong.empty()) return wrong;
  return s.plugin().starts() == starts ? std::string() : "the process was killed or ended: a slot ignored its deadline";
}

std::string concurrent(PluginUnderTest& s) {
  std::vector<DeviceRequest> devices;
  devices.reserve(8);
  for (int i = 0; i < 8; ++i) devices.push_back(s.device());
  const DeviceRequest shared = s.device();
  std::vector<std::string> wrong(devices.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < devices.size(); ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 20 && wrong[i].empty(); ++n)
        wrong[i] = firstOf([&] { return lifecycle(s, devices[i], [] { return std::string(); }); },
                           [&] { return provision(s, shared); });
    });
  for (auto& t : threads) t.join();
  for (const auto& w : wrong)
    if (!w.empty()) return w;
  return deprovision(s, shared.key);
}

/// Descriptors, threads and resident KiB of the host process.
struct Usage {
  std::size_t descriptors = 0, threads = 0;
  long kib = 0;
};
Usage usageOf(pid_t pid) {
  Usage u;
  const std::string proc = "/proc/" + std::to_string(pid);
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(proc + "/fd", ignored), end; at != end; at.increment(ignored))
    ++u.descriptors;
  std::ifstream status(proc + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) u.kib = std::stol(line.substr(6));
    if (line.rfind("Threads:", 0) == 0) u.threads = std::stoul(line.substr(8));
  }
  return u;
}

std::string doesNotLeak(PluginUnderTest& s) {
  if (std::string wrong = s.killAndRecover(); !wrong.empty()) return wrong;
  // A leak grows in every window. Caches, allocators and garbage-collected heaps level off after their warm-up; later
  // fluctuations stay below the earlier peak.
  constexpr int kMin = 4, kMax = 100, kLevel = 2;
  constexpr long kMaxKib = 16 << 10;
  const int window = s.options().cycles / kMin + 1;
  const auto cycles = [&] {
    std::string wrong;
    for (int i = 0; i < window && wrong.empty(); ++i) wrong = fullLife(s);
    return wrong;
  };
  if (std::string wrong = cycles(); !wrong.empty()) return wrong;
  const Usage before = usageOf(s.plugin().pid());
#if defined(__SANITIZE_THREAD__)
  constexpr long kSlackKib = 1200;  // ThreadSanitizer keeps memory for every thread and lock that ever existed
#elif defined(__SANITIZE_ADDRESS__)
  constexpr long kSlackKib = 200;
#else
  constexpr long kSlackKib = 16;  // per window of any length: more cycles find smaller leaks
#endif
  Usage after = before;
  long highest = before.kib;
  int level = 0;  // consecutive windows
  int windows = 0;
  while (windows < kMin || (level < kLevel && windows < kMax && after.kib - before.kib < kMaxKib)) {
    if (std::string wrong = cycles(); !wrong.empty()) return wrong;
    after = usageOf(s.plugin().pid());
    level = after.kib <= highest + kSlackKib ? level + 1 : 0;
    highest = std::max(highest, after.kib);
    ++windows;
  }
  const std::string during = " in " + std::to_string(window * windows) + " lifecycles";
  constexpr std::size_t kRuntime = 3;  // descriptors that a language runtime opens at first use
  if (after.descriptors > before.descriptors + kRuntime)
    return "it opened " + std::to_string(after.descriptors - before.descriptors) + " more descriptors" + during;
  constexpr std::size_t kPool = 8;  // the host's own worker pool may have grown
  if (after.threads > before.threads + kPool)
    return "it has " + std::to_string(after.threads - before.threads) + " more threads" + during;
  if (level < kLevel) return "it grew by " + std::to_string(after.kib - before.kib) + " KiB" + during + ", steadily";
  return {};
}

std::string leavesNothing(PluginUnderTest& s) {
  const ListReply list = s.plugin().list();
  if (!list.reply.ok()) return good("list", list.reply);
  return list.keys.empty() ? std::string()
                           : "after all checks list still replies " + std::to_string(list.keys.size()) + " keys, " +
                                 list.keys.front();
}

}  // namespace

const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"identity", "describe gives the same answer ten times", identity},
      {"capabilities", "list, discover and health answer, or are absent", capabilities},
      {"cards", "discover replies the same cards ten times, linked to each other", cards},
      {"processes", "processes answers ten times, each with cards that discover replies, or is absent", processes},
      {"prefer", "prefer gives the same order ten times, or is absent", preference},
      {"validate", "the class's parameters are accepted, ten times", validates},
      {"unknown-parameter", "an unknown parameter is refused by name", refusesUnknown},
      {"missing-fields", "a missing key, card or uuid is invalid and leaves nothing", missingFields},
      {"provision-10", "provision repeats with its key", provisionRepeats},
      {"conflict", "the same key with other content is refused, without effect", conflict},
      {"another-claim", "a retained device goes to its next claim under its key", anotherClaim},
      {"isolation", "provision replies the same isolation each time, also after a restart, or none", isolation},
      {"deprovision-10", "deprovision repeats with its key", deprovisionRepeats},
      {"deprovision-unknown", "deprovision of an unknown key succeeds", deprovisionUnknown},
      {"list", "list replies what exists, once", listIsTrue},
      {"node-side-10", "stage, mount, unmount and unstage repeat", nodeSideRepeats},
      {"node-side-unknown", "unmount and unstage of an unknown key succeed", nodeSideUnknown},
      {"lifecycle", "provision to deprovision, in order", fullLife},
      {"lifecycle-kill-9", "the same with kill -9 between every two steps", fullLifeWithKills},
      {"recover", "provision and deprovision continue after kill -9", recoversProvisioned},
      {"mount-pure", "mount depends on its request alone", mountIsPure},
      {"mount-cdi", "mount replies valid CDI edits, each thing once", mountIsCdi},
      {"deadline", "a missed deadline does not end the process", respectsDeadlines},
      {"concurrency", "eight threads at once, one key shared", concurrent},
      {"leaks", "descriptors, threads and memory do not grow", doesNotLeak},
      {"nothing-left", "no key is left after all checks", leavesNothing},
  };
  return all;
}

}  // namespace egpu::plugin::sanity

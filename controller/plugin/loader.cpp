#include "controller/plugin/loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "controller/base/log.h"
#include "controller/base/mutex.h"

namespace egpu::plugin {
namespace {

using base::Code;
using base::Status;
using std::chrono::steady_clock;

/// A call in progress, referenced by host_state. Lives on the stack of the calling thread.
struct Running {
  const Call* call;
  const std::atomic<bool>* cancelled;
  base::Mutex mutex;  ///< plugins may reply from several threads
  Answer answer EGPU_GUARDED_BY(mutex);
  std::size_t bytes EGPU_GUARDED_BY(mutex) = 0;
  bool overflow EGPU_GUARDED_BY(mutex) = false;
  std::string misuse EGPU_GUARDED_BY(mutex);  ///< error such as a null text; makes the answer garbage

  /// Counts the size of an answer's item; false if the item must be dropped.
  bool take(std::initializer_list<const char*> texts) EGPU_REQUIRES(mutex) {
    for (const char* text : texts) {
      if (!text) {
        misuse = "it replied a null text";
        return false;
      }
      bytes += std::strlen(text) + 16;
    }
    overflow = overflow || bytes > kMaxAnswer;
    return !overflow;
  }
};

Running& running(const egpu_call* call) { return *static_cast<Running*>(call->host_state); }

/// Receiver of the plugins' log lines; without a sink, the controller's own log.
struct PluginLog {
  base::Mutex mutex;
  std::function<void(int, const std::string&)> sink EGPU_GUARDED_BY(mutex);
};
PluginLog& pluginLog() {
  static PluginLog log;
  return log;
}

extern "C" {

void hostLog(int level, const char* message) {
  if (!message) return;
  auto& log = pluginLog();
  const base::MutexLock lock(log.mutex);
  if (log.sink) return log.sink(level, message);
  const auto to = level <= EGPU_DEBUG  ? base::log::Level::debug
                  : level == EGPU_INFO ? base::log::Level::info
                  : level == EGPU_WARN ? base::log::Level::warn
                                       : base::log::Level::error;
  if (base::log::enabled(to)) base::log::write(to, message, {});
}

int64_t hostRemaining(const egpu_call* call) {
  const auto left = running(call).call->deadline - steady_clock::now();
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
}

int hostCancelled(const egpu_call* call) {
  const Running& r = running(call);
  return (r.cancelled && r.cancelled->load(std::memory_order_relaxed)) || steady_clock::now() >= r.call->deadline;
}

int hostMessage(const egpu_call* call, const char* message) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({message})) return EGPU_INVALID;
  r.answer.message = message;
  return EGPU_OK;
}

int hostDescription(const egpu_call* call, const egpu_description* d) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!d || !EGPU_HAS(d, egpu_description, isolation)) {
    r.misuse = "its description is null or too short";
    return EGPU_INVALID;
  }
  if (!r.take({d->name, d->version, d->source, d->isolation})) return EGPU_INVALID;
  r.answer.description = {d->name, d->version, d->source, d->isolation};
  return EGPU_OK;
}

int hostKey(const egpu_call* call, const char* key) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({key})) return EGPU_INVALID;
  r.answer.keys.emplace_back(key);
  return EGPU_OK;
}

int hostEnv(const egpu_call* call, const char* name, const char* value) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({name, value})) return EGPU_INVALID;
  auto& env = r.answer.edits.env;
  const auto same = std::find_if(env.begin(), env.end(), [&](const auto& e) { return e.first == name; });
  if (same == env.end()) {
    env.emplace_back(name, value);
  } else {
    same->second = value;
  }
  return EGPU_OK;
}

int hostDeviceNode(const egpu_call* call, const char* path, const char* hostPath, const char* permissions) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({path, hostPath, permissions})) return EGPU_INVALID;
  r.answer.edits.deviceNodes.push_back({path, *hostPath ? hostPath : path, *permissions ? permissions : "rw"});
  return EGPU_OK;
}

int hostMount(const egpu_call* call, const char* hostPath, const char* containerPath, const char* options) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({hostPath, containerPath, options})) return EGPU_INVALID;
  Mount mount{hostPath, containerPath, {}};
  std::string_view rest = *options ? options : "ro,nosuid,nodev,bind";
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    if (comma > 0) mount.options.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  r.answer.edits.mounts.push_back(std::move(mount));
  return EGPU_OK;
}

int hostCdiDevice(const egpu_call* call, const char* name) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({name})) return EGPU_INVALID;
  r.answer.edits.cdiDevices.emplace_back(name);
  return EGPU_OK;
}

int hostGpu(const egpu_call* call, const egpu_gpu* g) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!g || !EGPU_HAS(g, egpu_gpu, pci_address)) {
    r.misuse = "a card it replied is null or too short";
    return EGPU_INVALID;
  }
  if (!r.take({g->uuid, g->model, g->pci_address})) return EGPU_INVALID;
  Gpu out{g->uuid, g->model, g->index, g->memory, g->sm_count, g->numa_node, g->pci_address};
  if (EGPU_HAS(g, egpu_gpu, milli_tflops)) out.milliTflops = g->milli_tflops;
  for (std::size_t i = 0; EGPU_HAS(g, egpu_gpu, link_count) && i < g->link_count; ++i) {
    const egpu_link& link = g->links[i];
    if (!r.take({link.peer, link.type})) return EGPU_INVALID;
    out.links.push_back({link.peer, link.type, link.count});
  }
  for (std::size_t i = 0; EGPU_HAS(g, egpu_gpu, attribute_count) && i < g->attribute_count; ++i) {
    const egpu_pair& attribute = g->attributes[i];
    if (!r.take({attribute.key, attribute.value})) return EGPU_INVALID;
    out.attributes[attribute.key] = attribute.value;
  }
  for (std::size_t i = 0; EGPU_HAS(g, egpu_gpu, mig_profile_count) && i < g->mig_profile_count; ++i) {
    const egpu_mig_profile& profile = g->mig_profiles[i];
    if (!r.take({profile.name})) return EGPU_INVALID;
    if (profile.starts >> v1alpha::Slots::kMemory != 0) {
      r.misuse = "a profile that it replied starts beyond the memory slots";
      return EGPU_INVALID;
    }
    out.mig.push_back({profile.name, profile.memory, profile.compute, profile.size,
                       v1alpha::Slots{static_cast<uint16_t>(profile.starts)}, profile.media != 0});
  }
  r.answer.gpus.push_back(std::move(out));
  return EGPU_OK;
}

int hostHealth(const egpu_call* call, const char* uuid, int healthy, const char* message) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({uuid, message})) return EGPU_INVALID;
  r.answer.health.push_back({uuid, healthy != 0, message});
  return EGPU_OK;
}

int hostProcess(const egpu_call* call, const char* uuid, int64_t pid, int64_t memory) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!r.take({uuid})) return EGPU_INVALID;
  r.answer.processes.push_back({uuid, pid, memory, -1});
  return EGPU_OK;
}

int hostUse(const egpu_call* call, const egpu_use* u) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!u || !EGPU_HAS(u, egpu_use, processes)) {
    r.misuse = "a card's use that it replied is null or too short";
    return EGPU_INVALID;
  }
  if (!r.take({u->uuid})) return EGPU_INVALID;
  r.answer.use.push_back({u->uuid, u->memory, u->sm_percent, u->processes});
  return EGPU_OK;
}

int hostProcessUse(const egpu_call* call, const egpu_process_use* p) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!p || !EGPU_HAS(p, egpu_process_use, sm_percent)) {
    r.misuse = "a process that it replied is null or too short";
    return EGPU_INVALID;
  }
  if (!r.take({p->uuid})) return EGPU_INVALID;
  r.answer.processes.push_back({p->uuid, p->pid, p->memory, p->sm_percent});
  return EGPU_OK;
}

int hostPrefer(const egpu_call* call, size_t candidate) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (candidate >= r.call->wish.candidates.size()) {
    r.misuse = "it named a candidate that is not there";
    return EGPU_INVALID;
  }
  if (!r.take({""})) return EGPU_INVALID;
  r.answer.order.push_back(static_cast<uint32_t>(candidate));
  return EGPU_OK;
}

int hostVeto(const egpu_call* call, size_t candidate, const char* why) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (candidate >= r.call->wish.candidates.size()) {
    r.misuse = "it vetoed a candidate that is not there";
    return EGPU_INVALID;
  }
  if (!r.take({why})) return EGPU_INVALID;
  r.answer.vetoes.push_back({static_cast<uint32_t>(candidate), why});
  return EGPU_OK;
}

int hostIsolation(const egpu_call* call, const egpu_isolation* i) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!i || !EGPU_HAS(i, egpu_isolation, faults)) {
    r.misuse = "the isolation that it replied is null or too short";
    return EGPU_INVALID;
  }
  if (!r.take({i->mode, i->memory, i->compute, i->faults})) return EGPU_INVALID;
  const char* managed = EGPU_HAS(i, egpu_isolation, managed_memory) && i->managed_memory ? i->managed_memory : "";
  if (!r.take({managed})) return EGPU_INVALID;
  r.answer.isolation = {i->mode, i->memory, i->compute, i->faults, managed};
  return EGPU_OK;
}

int hostSource(const egpu_call* call, const egpu_source* s) {
  Running& r = running(call);
  const base::MutexLock lock(r.mutex);
  if (!s || !EGPU_HAS(s, egpu_source, endpoint)) {
    r.misuse = "the source that it replied is null or too short";
    return EGPU_INVALID;
  }
  if (!r.take({s->device_name, s->endpoint})) return EGPU_INVALID;
  SourceValues out{s->device_name, {}, s->endpoint};
  for (std::size_t i = 0; i < s->path_count; ++i) {
    if (!r.take({s->paths[i]})) return EGPU_INVALID;
    out.paths.emplace_back(s->paths[i]);
  }
  if (out.empty()) {
    r.misuse = "the source that it replied has no value";
    return EGPU_INVALID;
  }
  r.answer.source = std::move(out);
  return EGPU_OK;
}

}  // extern "C"

const egpu_host kHost = {
    sizeof(egpu_host), EGPU_ABI_VERSION, hostLog,        hostRemaining, hostCancelled, hostMessage,   hostDescription,
    hostKey,           hostEnv,          hostDeviceNode, hostMount,     hostCdiDevice, hostGpu,       hostHealth,
    hostProcess,       hostUse,          hostProcessUse, hostPrefer,    hostVeto,      hostIsolation, hostSource};

/// Returns the C view of a map; points into it.
std::vector<egpu_pair> pairsOf(const core::StringMap& map) {
  std::vector<egpu_pair> out;
  out.reserve(map.size());
  for (const auto& [key, value] : map) out.push_back({key.c_str(), value.c_str()});
  return out;
}

/// C view of a DeviceRequest; points into it.
class DeviceView {
 public:
  explicit DeviceView(const DeviceRequest& d) : parameters_(pairsOf(d.parameters)), capacity_(pairsOf(d.capacity)) {
    paths_.reserve(d.source.paths.size());
    for (const auto& path : d.source.paths) paths_.push_back(path.c_str());
    source_ = {sizeof(egpu_source), d.source.deviceName.c_str(), paths_.empty() ? nullptr : paths_.data(),
               paths_.size(), d.source.endpoint.c_str()};
    cards_.reserve(d.cards.size());
    for (const auto& c : d.cards) {
      cards_.push_back({sizeof(egpu_card), c.uuid.c_str(), c.model.c_str(), c.index, c.core, c.memory, c.cardMemory,
                        c.pciAddress.c_str(), c.migProfile.c_str(), c.slots.bits});
      pointers_.push_back(&cards_.back());
    }
    view_ = {sizeof(egpu_device),
             d.key.c_str(),
             d.device.c_str(),
             d.claim.c_str(),
             d.node.c_str(),
             pointers_.empty() ? nullptr : pointers_.data(),
             pointers_.size(),
             parameters_.empty() ? nullptr : parameters_.data(),
             parameters_.size(),
             d.resizeNumber,
             d.source.empty() ? nullptr : &source_,
             capacity_.empty() ? nullptr : capacity_.data(),
             capacity_.size()};
  }
  DeviceView(const DeviceView&) = delete;
  DeviceView& operator=(const DeviceView&) = delete;
  const egpu_device* get() const { return &view_; }

 private:
  std::vector<egpu_pair> parameters_, capacity_;
  std::vector<const char*> paths_;
  egpu_source source_{};
  std::vector<egpu_card> cards_;
  std::vector<const egpu_card*> pointers_;
  egpu_device view_{};
};

/// C view of a Wish; points into it.
class WishView {
 public:
  explicit WishView(const Wish& w) : parameters_(pairsOf(w.parameters)) {
    for (const auto& candidate : w.candidates) {
      auto& device = devices_.emplace_back(DeviceRequest{{}, {}, {}, candidate.node, candidate.cards, {}, 0});
      const auto* const cards = views_.emplace_back(std::make_unique<DeviceView>(device))->get();
      candidates_.push_back({sizeof(egpu_candidate), cards->node, cards->cards, cards->card_count});
    }
    pointers_.reserve(candidates_.size());
    for (const auto& candidate : candidates_) pointers_.push_back(&candidate);
    view_ = {sizeof(egpu_wish),
             w.claim.c_str(),
             pointers_.data(),
             pointers_.size(),
             parameters_.empty() ? nullptr : parameters_.data(),
             parameters_.size()};
  }
  WishView(const WishView&) = delete;
  WishView& operator=(const WishView&) = delete;
  const egpu_wish* get() const { return &view_; }

 private:
  std::vector<egpu_pair> parameters_;
  std::deque<DeviceRequest> devices_;
  std::vector<std::unique_ptr<DeviceView>> views_;
  std::deque<egpu_candidate> candidates_;
  std::vector<const egpu_candidate*> pointers_;
  egpu_wish view_{};
};

/// Returns the outcome of a C code; garbage for an unknown code.
ReplyCode outcomeOf(int code) {
  switch (code) {
    case EGPU_OK:
      return ReplyCode::ok;
    case EGPU_IN_PROGRESS:
      return ReplyCode::inProgress;
    case EGPU_NO_CHANGE:
      return ReplyCode::noChange;
    case EGPU_RESCHEDULE:
      return ReplyCode::reschedule;
    case EGPU_EXISTS:
      return ReplyCode::exists;
    case EGPU_INVALID:
      return ReplyCode::invalid;
    case EGPU_UNAVAILABLE:
      return ReplyCode::unavailable;
    case EGPU_INTERNAL:
      return ReplyCode::internal;
    default:
      return ReplyCode::garbage;
  }
}

/// Calls the slot. `absent` is the code returned for a slot that the plugin does not have.
int dispatch(const egpu_provisioner& t, const Call& call, const egpu_call* c) {
  const auto withDevice = [&](auto slot, int absent) { return slot ? slot(c, DeviceView(call.device).get()) : absent; };
  const auto withKey = [&](auto slot, int absent) { return slot ? slot(c) : absent; };
  const egpu_container container{sizeof(egpu_container), call.pod.c_str(), call.container.c_str()};
  switch (call.slot) {
    case Slot::describe:
      return t.describe(c);
    case Slot::validate: {
      const auto pairs = pairsOf(call.parameters);
      return t.validate(c, pairs.empty() ? nullptr : pairs.data(), pairs.size());
    }
    case Slot::provision:
      return withDevice(t.provision, EGPU_INVALID);
    case Slot::deprovision:
      return withKey(t.deprovision, EGPU_INVALID);
    case Slot::resize:
      return withDevice(t.resize, EGPU_INVALID);
    case Slot::list:
      return withKey(t.list, EGPU_INVALID);
    case Slot::discover:
      return withKey(t.discover, EGPU_OK);
    case Slot::stage:
      return withDevice(t.stage, EGPU_NO_CHANGE);
    case Slot::mount:
      return t.mount(c, DeviceView(call.device).get(), &container);
    case Slot::unmount:
      return t.unmount ? t.unmount(c, &container) : EGPU_NO_CHANGE;
    case Slot::unstage:
      return withKey(t.unstage, EGPU_NO_CHANGE);
    case Slot::health:
      return withKey(t.health, EGPU_OK);
    case Slot::prefer:
      return t.prefer ? t.prefer(c, WishView(call.wish).get()) : EGPU_NO_CHANGE;
    case Slot::processes:
      return withKey(t.processes, EGPU_NO_CHANGE);
  }
  return EGPU_INVALID;
}

Status broken(const std::string& what) { return {Code::invalid, what}; }

/// Copies the plugin's table, so that slots beyond its struct_size are null, and checks the required slots.
Status readTable(const egpu_provisioner* given, egpu_provisioner& out) {
  if (!given) return broken("its entry gave no table");
  if (given->struct_size < offsetof(egpu_provisioner, describe))
    return broken("its table has a struct_size of " + std::to_string(given->struct_size) +
                  " bytes, too short for a version");
  if (given->abi_version != EGPU_ABI_VERSION)
    return broken("it was built for ABI version " + std::to_string(given->abi_version) + ", this host speaks version " +
                  std::to_string(EGPU_ABI_VERSION));
  std::memcpy(&out, given, std::min(given->struct_size, sizeof out));
  const std::pair<std::string_view, bool> required[] = {{"describe", out.describe},   {"validate", out.validate},
                                                        {"provision", out.provision}, {"deprovision", out.deprovision},
                                                        {"list", out.list},           {"mount", out.mount}};
  for (const auto& [name, there] : required)
    if (!there)
      return broken("its table (struct_size " + std::to_string(given->struct_size) + ") lacks the required slot " +
                    std::string(name));
  return {};
}

}  // namespace

void setPluginLog(std::function<void(int level, const std::string& message)> sink) {
  auto& log = pluginLog();
  const base::MutexLock lock(log.mutex);
  log.sink = std::move(sink);
}

base::Result<std::unique_ptr<LoadedPlugin>> LoadedPlugin::open(const std::string& path) {
  // RTLD_NOW reports a missing symbol here instead of in the middle of a call. A bare name would be searched in the
  // system's library folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): thread-local in glibc
    return broken(std::string("it cannot be loaded: ") + (why ? why : "unknown error"));
  }
  void* symbol = dlsym(handle, "egpu_provisioner_entry");
  if (!symbol) {
    dlclose(handle);
    return broken("it has no symbol egpu_provisioner_entry");
  }
  return fromEntry(reinterpret_cast<EntryFunction>(symbol));
}

base::Result<std::unique_ptr<LoadedPlugin>> LoadedPlugin::fromEntry(EntryFunction entry) {
  const egpu_provisioner* given = nullptr;
  try {
    if (const int code = entry(&kHost, &given); code != EGPU_OK)
      return Status(Code::unavailable, "its entry refused with code " + std::to_string(code));
  } catch (...) {
    return broken("its entry let an exception out");
  }
  std::unique_ptr<LoadedPlugin> plugin(new LoadedPlugin);
  if (Status status = readTable(given, plugin->table_); !status.ok()) return status;
  Call describe;
  describe.deadline = steady_clock::now() + Deadlines{}.of(Slot::describe);
  Answer answer = plugin->call(describe, nullptr);
  if (answer.outcome == ReplyCode::garbage) return broken(answer.message);
  if (answer.outcome != ReplyCode::ok && answer.outcome != ReplyCode::noChange)
    return Status(Code::unavailable,
                  "describe answered " + std::string(toString(answer.outcome)) + ": " + answer.message);
  plugin->description_ = std::move(answer.description);
  return plugin;
}

Answer LoadedPlugin::call(const Call& call, const std::atomic<bool>* cancelled) const {
  Running r;
  r.call = &call;
  r.cancelled = cancelled;
  const egpu_call c{sizeof(egpu_call), call.key.c_str(),
                    std::chrono::duration_cast<std::chrono::nanoseconds>(call.deadline.time_since_epoch()).count(), &r};
  const auto garbage = [&](const std::string& what) {
    Answer out;
    out.outcome = ReplyCode::garbage;
    out.message = what;
    return out;
  };
  int code = EGPU_INTERNAL;
  try {
    code = dispatch(table_, call, &c);
  } catch (...) {
    return garbage(std::string(toString(call.slot)) + " let an exception out");
  }
  const base::MutexLock lock(r.mutex);
  r.answer.outcome = outcomeOf(code);
  if (r.answer.outcome == ReplyCode::garbage)
    return garbage(std::string(toString(call.slot)) + " returned " + std::to_string(code) + ", which is no code");
  if (r.overflow) return garbage(std::string(toString(call.slot)) + " answered more than 8 MiB");
  if (!r.misuse.empty()) return garbage(std::string(toString(call.slot)) + ": " + r.misuse);
  if (std::string wrong = findGarbage(call.slot, r.answer); !wrong.empty()) return garbage(wrong);
  r.answer.description.prefers = call.slot == Slot::describe && table_.prefer != nullptr;
  r.answer.description.resizes = call.slot == Slot::describe && table_.resize != nullptr;
  if (call.slot == Slot::resize && !table_.resize) r.answer.message = "this provisioner cannot resize a device";
  return std::move(r.answer);
}

}  // namespace egpu::plugin

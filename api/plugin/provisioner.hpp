// C++17 SDK for provisioner.h: derive from Provisioner, and name the class in EGPU_PROVISIONER. Header-only; uses only
// the standard library.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/plugin/provisioner.h"

namespace egpu::sdk {

/// Return value of a slot. The message appears in the claim's condition.
struct Status {
  int code = EGPU_OK;
  std::string message;
};
inline Status ok() { return {}; }
inline Status noChange() { return {EGPU_NO_CHANGE, {}}; }
inline Status inProgress(std::string why = {}) { return {EGPU_IN_PROGRESS, std::move(why)}; }
inline Status reschedule(std::string why) { return {EGPU_RESCHEDULE, std::move(why)}; }
inline Status exists(std::string why) { return {EGPU_EXISTS, std::move(why)}; }
inline Status invalid(std::string why) { return {EGPU_INVALID, std::move(why)}; }
inline Status unavailable(std::string why) { return {EGPU_UNAVAILABLE, std::move(why)}; }
inline Status internal(std::string why) { return {EGPU_INTERNAL, std::move(why)}; }

using Parameters = std::map<std::string, std::string, std::less<>>;

/// Returns the value of a parameter, or `otherwise`.
inline std::string parameter(const Parameters& parameters, std::string_view name, std::string_view otherwise = "") {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::string(otherwise) : found->second;
}

/// Refuses the first parameter that is not in `known`, with the list of known ones.
inline Status refuseUnknown(const Parameters& parameters, const std::vector<std::string>& known) {
  for (const auto& [name, value] : parameters) {
    bool found = false;
    for (const auto& k : known) found = found || name == k;
    if (found) continue;
    std::string message = "unknown parameter \"" + name + "\"; this provisioner knows ";
    if (known.empty()) message += "none of its own";
    for (std::size_t i = 0; i < known.size(); ++i) message += (i ? ", " : "") + known[i];
    return invalid(message);
  }
  return ok();
}

/// A card, and the amounts of it that the device gets, as in egpu_card.
struct Card {
  std::string uuid, model;
  std::int64_t index = 0, core = 0, memory = 0, cardMemory = 0;
  std::string pciAddress{};  ///< "" if unknown or the host is older
};

/// A device. A copy, which may be kept after the slot has returned.
struct Device {
  std::string key, device, claim, node;
  std::vector<Card> cards;
  Parameters parameters;
  std::int64_t resizeNumber = 0;  ///< resize: see egpu_device
};

struct Container {
  std::string pod, container;
};

/// A place for a device.
struct Candidate {
  std::string node;
  std::vector<Card> cards;
};
/// A claim that is about to be placed; candidates in the host's order of preference.
struct Wish {
  std::string claim;
  std::vector<Candidate> candidates;
  Parameters parameters;
};

struct Description {
  std::string name, version, source, isolation;
};

/// What keeps a device's containers within its share: a mechanism, and "Enforced", "Soft" or "None" for each resource.
struct Isolation {
  std::string mode, memory, compute, faults;
};
/// True if the device has all of each of its cards, so that nobody shares them.
inline bool hasWholeCards(const Device& device) {
  for (const auto& card : device.cards)
    if (card.core < 1000 || card.cardMemory <= 0 || card.memory < card.cardMemory) return false;
  return !device.cards.empty();
}
/// True for admin access: the device has no share of any card.
inline bool isAdminAccess(const Device& device) {
  for (const auto& card : device.cards)
    if (card.core != 0 || card.memory != 0) return false;
  return !device.cards.empty();
}
inline Isolation wholeCardIsolation() { return {"whole-card", "Enforced", "Enforced", "Enforced"}; }

/// The running call: its identity and the reply functions. Valid while the slot runs, on any thread.
class Call {
 public:
  Call(const egpu_host& host, const egpu_call& call) : host_(host), call_(call) {}
  std::string key() const { return call_.key; }
  std::int64_t remainingMs() const { return host_.remaining_ms(&call_); }
  bool cancelled() const { return host_.cancelled(&call_) != 0; }

  /// Writes a line to the host's log, which only the operator sees. `level`: egpu_log_level.
  void log(int level, const std::string& text) { host_.log(level, text.c_str()); }
  void message(const std::string& text) { host_.reply_message(&call_, text.c_str()); }
  void listed(const std::string& key) { host_.reply_key(&call_, key.c_str()); }
  void env(const std::string& name, const std::string& value) { host_.reply_env(&call_, name.c_str(), value.c_str()); }
  void deviceNode(const std::string& path, const std::string& permissions = "rw", const std::string& hostPath = "") {
    host_.reply_device_node(&call_, path.c_str(), hostPath.c_str(), permissions.c_str());
  }
  void mount(const std::string& hostPath, const std::string& containerPath, const std::string& options = "") {
    host_.reply_mount(&call_, hostPath.c_str(), containerPath.c_str(), options.c_str());
  }
  void cdiDevice(const std::string& name) { host_.reply_cdi_device(&call_, name.c_str()); }
  void gpu(const egpu_gpu& gpu) { host_.reply_gpu(&call_, &gpu); }
  void health(const std::string& uuid, bool healthy, const std::string& why) {
    host_.reply_health(&call_, uuid.c_str(), healthy ? 1 : 0, why.c_str());
  }
  /// Replies the usage of a card; numbers as in egpu_use, -1 = unknown.
  void use(const std::string& uuid, std::int64_t memory, std::int64_t smPercent, std::int64_t processes) {
    if (!EGPU_HAS(&host_, egpu_host, reply_use)) return;
    const egpu_use use{sizeof use, uuid.c_str(), memory, smPercent, processes};
    host_.reply_use(&call_, &use);
  }
  /// Replies a process that computes on a card; numbers as in egpu_process_use. An older host receives only the values
  /// that it supports.
  void process(const std::string& uuid, std::int64_t pid, std::int64_t memory, std::int64_t smPercent = -1) {
    if (EGPU_HAS(&host_, egpu_host, reply_process_use)) {
      const egpu_process_use process{sizeof process, uuid.c_str(), pid, memory, smPercent};
      host_.reply_process_use(&call_, &process);
    } else if (EGPU_HAS(&host_, egpu_host, reply_process)) {
      host_.reply_process(&call_, uuid.c_str(), pid, memory);
    }
  }
  /// prefer: ranks this candidate next. An older host never calls prefer.
  void preferred(std::size_t candidate) { host_.reply_prefer(&call_, candidate); }
  /// prefer: excludes this candidate.
  void veto(std::size_t candidate, const std::string& why) { host_.reply_veto(&call_, candidate, why.c_str()); }
  /// provision, resize: what keeps the device's containers within its share, as in egpu_isolation. An older host does
  /// not report it.
  void isolation(const Isolation& i) {
    if (!EGPU_HAS(&host_, egpu_host, reply_isolation)) return;
    const egpu_isolation out{sizeof out, i.mode.c_str(), i.memory.c_str(), i.compute.c_str(), i.faults.c_str()};
    host_.reply_isolation(&call_, &out);
  }
  void description(const Description& d) {
    egpu_description out{};
    out.struct_size = sizeof out;
    out.name = d.name.c_str();
    out.version = d.version.c_str();
    out.source = d.source.c_str();
    out.isolation = d.isolation.c_str();
    host_.reply_description(&call_, &out);
  }

 private:
  const egpu_host& host_;
  const egpu_call& call_;
};

/// A plugin. One object per process, created at entry. The host calls it from several threads at once (convention 5 of
/// provisioner.h). An exception becomes EGPU_INTERNAL with what() as its message. Functions for a device or a key are
/// called only with a key, and a device has at least one card and every card a uuid; otherwise the SDK returns
/// EGPU_INVALID.
class Provisioner {
 public:
  virtual ~Provisioner() = default;
  virtual Description describe() = 0;
  virtual Status validate(const Parameters& parameters) = 0;
  virtual Status provision(Call& call, const Device& device) = 0;
  virtual Status deprovision(Call& call) = 0;
  virtual Status list(Call& call) = 0;
  virtual Status mount(Call& call, const Device& device, const Container& container) = 0;

  /// The host requests resizes only from plugins that override this.
  virtual Status resize(Call&, const Device&) { return invalid("this provisioner cannot resize a device"); }
  virtual Status discover(Call&) { return ok(); }
  virtual Status stage(Call&, const Device&) { return noChange(); }
  virtual Status unmount(Call&, const Container&) { return noChange(); }
  virtual Status unstage(Call&) { return noChange(); }
  virtual Status health(Call&) { return ok(); }
  /// Called only if the plugin overrides it.
  virtual Status prefer(Call&, const Wish&) { return noChange(); }
};

/// Provisioned devices by key, in memory. Provides the idempotency of convention 5 to plugins whose devices need no
/// work. Thread-safe. The records end with the process; after a restart, a repeated provision returns OK again.
class Records {
 public:
  /// Records `device`: returns OK if it is new, NO_CHANGE if it is known with the same content, even for another claim,
  /// and EXISTS if it is known with other content.
  Status add(const Device& device) {
    const std::string content = fingerprint(device);
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = records_.emplace(device.key, content);
    if (fresh) return ok();
    if (at->second == content) return noChange();
    return exists("key " + device.key + " is in use with other content");
  }
  /// Forgets the key; returns OK also if it is unknown.
  Status remove(const std::string& key) {
    const std::lock_guard lock(mutex_);
    records_.erase(key);
    return ok();
  }
  /// Records `device` and replaces the known content.
  Status replace(const Device& device) {
    const std::lock_guard lock(mutex_);
    records_[device.key] = fingerprint(device);
    return ok();
  }
  bool has(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    return records_.count(key) != 0;
  }
  Status list(Call& call) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, content] : records_) call.listed(key);
    return ok();
  }
  /// Returns the content of convention 5 as one text, which is equal for equal contents only.
  static std::string fingerprint(const Device& d) {
    std::string out;
    const auto field = [&out](const std::string& text) { out += std::to_string(text.size()) + ":" + text; };
    field(d.device), field(d.node);
    for (const auto& c : d.cards) {
      field(c.uuid);
      out += std::to_string(c.core) + "," + std::to_string(c.memory) + ";";
    }
    for (const auto& [name, value] : d.parameters) field(name), field(value);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> records_;  ///< key → fingerprint
};

// Hidden; otherwise the dynamic linker would merge the variables of all plugins in one process.
namespace detail __attribute__((visibility("hidden"))) {

  /// State of the C slots; set once at entry, before any slot runs.
  inline const egpu_host* host = nullptr;
  inline Provisioner* plugin = nullptr;

  inline std::string text(const char* s) { return s ? s : ""; }

  inline Parameters copy(const egpu_pair* pairs, std::size_t count) {
    Parameters out;
    for (std::size_t i = 0; i < count; ++i) out[text(pairs[i].key)] = text(pairs[i].value);
    return out;
  }

  inline std::vector<Card> copy(const egpu_card* const* cards, std::size_t count) {
    std::vector<Card> out;
    for (std::size_t i = 0; i < count; ++i) {
      const egpu_card& c = *cards[i];
      out.push_back({text(c.uuid), text(c.model), c.index, c.core, c.memory, c.card_memory,
                     EGPU_HAS(&c, egpu_card, pci_address) ? text(c.pci_address) : ""});
    }
    return out;
  }

  inline Device copy(const egpu_device& d) {
    return {text(d.key),
            text(d.device),
            text(d.claim),
            text(d.node),
            copy(d.cards, d.card_count),
            copy(d.parameters, d.parameter_count),
            EGPU_HAS(&d, egpu_device, resize_number) ? d.resize_number : 0};
  }

  inline Wish copy(const egpu_wish& w) {
    Wish out{text(w.claim), {}, copy(w.parameters, w.parameter_count)};
    for (std::size_t i = 0; i < w.candidate_count; ++i)
      out.candidates.push_back(
          {text(w.candidates[i]->node), copy(w.candidates[i]->cards, w.candidates[i]->card_count)});
    return out;
  }

  /// Runs the body of a slot and converts exceptions to EGPU_INTERNAL.
  template <class Body>
  int guarded(const egpu_call* call, Body body) noexcept {
    try {
      Call c(*host, *call);
      const Status status = body(c);
      if (!status.message.empty()) c.message(status.message);
      return status.code;
    } catch (const std::exception& e) {
      host->reply_message(call, e.what());
    } catch (...) {
      host->reply_message(call, "an exception of unknown type");
    }
    return EGPU_INTERNAL;
  }

  inline Status complete(const egpu_call* call) { return call->key[0] ? ok() : invalid("the call has no key"); }
  inline Status complete(const egpu_call* call, const egpu_device* d) {
    if (!call->key[0]) return invalid("the device has no key");
    if (d->card_count == 0) return invalid("the device has no cards");
    for (std::size_t i = 0; i < d->card_count; ++i)
      if (!d->cards[i]->uuid[0]) return invalid("card " + std::to_string(i) + " has no uuid");
    return ok();
  }
  /// Runs `body` if the input is complete, otherwise returns EGPU_INVALID with the reason.
  template <class Body, class... Inputs>
  int checked(Body body, const egpu_call* call, const Inputs*... inputs) noexcept {
    return guarded(call, [&](Call& c) {
      Status status = complete(call, inputs...);
      return status.code == EGPU_OK ? body(c) : status;
    });
  }

  inline int describe(const egpu_call* c) {
    return guarded(c, [](Call& call) { return call.description(plugin->describe()), ok(); });
  }
  inline int validate(const egpu_call* c, const egpu_pair* pairs, std::size_t count) {
    return guarded(c, [&](Call&) { return plugin->validate(copy(pairs, count)); });
  }
  inline int provision(const egpu_call* c, const egpu_device* d) {
    return checked([&](Call& call) { return plugin->provision(call, copy(*d)); }, c, d);
  }
  inline int deprovision(const egpu_call* c) {
    return checked([&](Call& call) { return plugin->deprovision(call); }, c);
  }
  inline int resize(const egpu_call* c, const egpu_device* d) {
    return checked([&](Call& call) { return plugin->resize(call, copy(*d)); }, c, d);
  }
  inline int list(const egpu_call* c) {
    return guarded(c, [](Call& call) { return plugin->list(call); });
  }
  inline int discover(const egpu_call* c) {
    return guarded(c, [](Call& call) { return plugin->discover(call); });
  }
  inline int stage(const egpu_call* c, const egpu_device* d) {
    return checked([&](Call& call) { return plugin->stage(call, copy(*d)); }, c, d);
  }
  inline int mount(const egpu_call* c, const egpu_device* d, const egpu_container* k) {
    return checked([&](Call& call) { return plugin->mount(call, copy(*d), {text(k->pod), text(k->container)}); }, c, d);
  }
  inline int unmount(const egpu_call* c, const egpu_container* k) {
    return checked([&](Call& call) { return plugin->unmount(call, {text(k->pod), text(k->container)}); }, c);
  }
  inline int unstage(const egpu_call* c) {
    return checked([&](Call& call) { return plugin->unstage(call); }, c);
  }
  inline int health(const egpu_call* c) {
    return guarded(c, [](Call& call) { return plugin->health(call); });
  }
  inline int prefer(const egpu_call* c, const egpu_wish* w) {
    return guarded(c, [&](Call& call) { return plugin->prefer(call, copy(*w)); });
  }

  /// Implements the entry symbol.
  template <class P>
  int enter(const egpu_host* h, const egpu_provisioner** out) noexcept {
    constexpr bool resizes = !std::is_same_v<decltype(&P::resize), decltype(&Provisioner::resize)>;
    constexpr bool prefers = !std::is_same_v<decltype(&P::prefer), decltype(&Provisioner::prefer)>;
    static const egpu_provisioner table = {sizeof(egpu_provisioner),
                                           EGPU_ABI_VERSION,
                                           describe,
                                           validate,
                                           provision,
                                           deprovision,
                                           resizes ? resize : nullptr,
                                           list,
                                           discover,
                                           stage,
                                           mount,
                                           unmount,
                                           unstage,
                                           health,
                                           prefers ? prefer : nullptr};
    if (h->abi_version != EGPU_ABI_VERSION || !EGPU_HAS(h, egpu_host, reply_health)) {
      h->log(EGPU_ERROR, "the host is older than this plugin");
      return EGPU_INVALID;
    }
    try {
      static P instance;  // never destroyed before the process ends, as slots may run until then
      host = h;
      plugin = &instance;
      *out = &table;
      return EGPU_OK;
    } catch (const std::exception& e) {
      h->log(EGPU_ERROR, e.what());
    } catch (...) {
      h->log(EGPU_ERROR, "an exception of unknown type");
    }
    return EGPU_INTERNAL;
  }

  // The formatter mistakes the attribute for the name.
  // clang-format off
}  // namespace detail
// clang-format on
}  // namespace egpu::sdk

/// Makes `Class` the plugin of this shared object. `Class` is default-constructible and derives from
/// egpu::sdk::Provisioner.
#define EGPU_PROVISIONER(Class)                                                                            \
  extern "C" EGPU_EXPORT int egpu_provisioner_entry(const egpu_host* host, const egpu_provisioner** out) { \
    return ::egpu::sdk::detail::enter<Class>(host, out);                                                   \
  }

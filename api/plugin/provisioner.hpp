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

#include "api/plugin/call.hpp"
#include "api/plugin/provisioner.h"
#include "api/plugin/records.hpp"

namespace egpu::sdk {

/// A plugin. One object per process, created at entry. The host calls it from several threads at once (convention 5 of
/// provisioner.h). An exception becomes EGPU_INTERNAL with what() as its message. Functions for a device or a key are
/// called only with a key, and a device has at least one card, unless the source is "remote", and every card a uuid;
/// otherwise the SDK returns EGPU_INVALID.
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
  /// Called only if the plugin overrides it, as the following function.
  virtual Status prefer(Call&, const Wish&) { return noChange(); }
  virtual Status processes(Call&) { return noChange(); }
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
      Card& card = out.emplace_back();
      card = {text(c.uuid), text(c.model), c.index, c.core, c.memory, c.card_memory};
      if (EGPU_HAS(&c, egpu_card, pci_address)) card.pciAddress = text(c.pci_address);
      if (!EGPU_HAS(&c, egpu_card, mig_slots)) continue;
      card.migProfile = text(c.mig_profile);
      card.migSlots = c.mig_slots;
    }
    return out;
  }

  inline DeviceSource copy(const egpu_source& s) {
    DeviceSource out{text(s.device_name), {}, text(s.endpoint)};
    for (std::size_t i = 0; i < s.path_count; ++i) out.paths.push_back(text(s.paths[i]));
    return out;
  }

  inline Device copy(const egpu_device& d) {
    Device out{text(d.key),
               text(d.device),
               text(d.claim),
               text(d.node),
               copy(d.cards, d.card_count),
               copy(d.parameters, d.parameter_count),
               EGPU_HAS(&d, egpu_device, resize_number) ? d.resize_number : 0};
    if (!EGPU_HAS(&d, egpu_device, capacity_count)) return out;
    if (d.source) out.source = copy(*d.source);
    out.capacity = copy(d.capacity, d.capacity_count);
    return out;
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
    if (d->card_count == 0 && plugin->describe().source != "remote") return invalid("the device has no cards");
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
  inline int processes(const egpu_call* c) {
    return guarded(c, [](Call& call) { return plugin->processes(call); });
  }

  /// Implements the entry symbol.
  template <class P>
  int enter(const egpu_host* h, const egpu_provisioner** out) noexcept {
    constexpr bool resizes = !std::is_same_v<decltype(&P::resize), decltype(&Provisioner::resize)>;
    constexpr bool prefers = !std::is_same_v<decltype(&P::prefer), decltype(&Provisioner::prefer)>;
    constexpr bool measures = !std::is_same_v<decltype(&P::processes), decltype(&Provisioner::processes)>;
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
                                           prefers ? prefer : nullptr,
                                           measures ? processes : nullptr};
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

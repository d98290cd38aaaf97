// The mirror of a kind that a cluster may not have: DeviceTaintRules, served from 1.36 on where they are switched on and by themselves
// from 1.37 on; PodGroups, served from 1.36 on where they are switched on, in another version each release.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "controller/base/status.h"
#include "controller/cache/sinks.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/reflector.h"

namespace egpu::cache {

struct OptionalMirrorOptions {
  kube::ReflectorOptions reflector;
  std::chrono::milliseconds lookEvery{600'000};  ///< for the kind, or for another version of it
  std::chrono::milliseconds lookAgain{5'000};    ///< after an answer that told nothing
  std::function<void(bool)> served{};  ///< told whether it can be listed, when that is known and when it changes
};

/// Fills the store from the first version that the server has: of DeviceTaintRules v1, v1beta2 (v1alpha3, 1.33 to 1.35, has other fields
/// and is not read), of PodGroups v1beta1, v1alpha3, v1alpha2 (1.35 has them in other objects). Where it has none, or doesn't permit to
/// list them, the store is empty, the log says so once, and the kind is looked for again seldom. start() once; the destructor stops and
/// joins. Client and store must outlive it.
template <class T>
class OptionalMirror {
 public:
  OptionalMirror(kube::Client& client, Store<T>& store, OptionalMirrorOptions options = {});
  ~OptionalMirror() { stop(); }

  void start();
  void stop();  ///< idempotent
  /// They are listed, or it is known that there can be none. Blocks until then; false if stopped first.
  bool waitForSync(std::stop_token stop);

 private:
  class Sink final : public StoreSink<T> {
   public:
    Sink(Store<T>& store, OptionalMirror& mirror) : StoreSink<T>(store), mirror_(mirror) {}
    void endList(const std::string& resourceVersion) override;

   private:
    OptionalMirror& mirror_;
  };
  void run(const std::stop_token& stop);
  /// The version that can be listed, empty if none can; an error tells nothing.
  base::Result<std::string_view> served(const std::stop_token& stop);
  void follow(std::string_view version);
  void clear();
  void setSynced();

  kube::Client client_;  ///< asks once: it comes again by itself
  kube::Client& mirrored_;
  Store<T>& store_;
  const OptionalMirrorOptions options_;
  Sink sink_;
  // Of the thread alone:
  std::optional<std::string_view> version_;  ///< that is followed; empty: none; no value: not known yet
  std::optional<kube::Reflector<T>> reflector_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool synced_ = false;  ///< protected by mutex_
  std::jthread thread_;
};

}  // namespace egpu::cache

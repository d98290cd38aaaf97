// Mirror of a kind that a cluster may not serve. DeviceTaintRules are served from 1.36 on if enabled, and by default
// from 1.37 on. PodGroups are served from 1.36 on if enabled, in a different version in each release.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/cache/sinks.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/reflector.h"

namespace egpu::cache {

struct OptionalMirrorOptions {
  kube::ReflectorOptions reflector;
  std::chrono::milliseconds checkInterval{600'000};  ///< interval between checks for the kind, or another version of it
  std::chrono::milliseconds checkBackoff{5'000};     ///< interval after an inconclusive answer
  /// Receives whether the kind can be listed, when that is known and when it changes.
  std::function<void(bool)> served{};
};

/// Fills the store from the first version that the server serves: of DeviceTaintRules v1, v1beta2 (v1alpha3, 1.33 to
/// 1.35, has other fields and is not read); of PodGroups v1beta1, v1alpha3, v1alpha2 (1.35 has them in other objects).
/// If it serves none, or does not permit to list them, the store is empty, the log reports it once, and the kind is
/// checked for rarely. Call start() once; the destructor stops and joins. Client and store must outlive the mirror.
template <class T>
class OptionalMirror {
 public:
  OptionalMirror(kube::Client& client, Store<T>& store, OptionalMirrorOptions options = {});
  ~OptionalMirror() { stop(); }

  void start();
  void stop();  ///< idempotent
  /// Blocks until the objects are listed, or are known not to exist. False if stopped first.
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
  /// Returns the version that can be listed, empty if none can. An error is inconclusive.
  base::Result<std::string_view> served(const std::stop_token& stop);
  void follow(std::string_view version);
  void clear();
  void setSynced();

  kube::Client client_;  ///< without retries: run() repeats the call
  kube::Client& mirrored_;
  Store<T>& store_;
  const OptionalMirrorOptions options_;
  Sink sink_;
  // Used by the thread only:
  /// Version that is followed; empty: none is served; nullopt: not known yet.
  std::optional<std::string_view> version_;
  std::optional<kube::Reflector<T>> reflector_;

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  bool synced_ EGPU_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace egpu::cache

// The mirror of the DeviceTaintRules, of which a cluster may have none: the kind is served from 1.36 on where it is
// switched on, and by itself from 1.37 on.
#pragma once

#include <chrono>
#include <condition_variable>
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

struct TaintRulesOptions {
  kube::ReflectorOptions reflector;
  std::chrono::milliseconds lookEvery{600'000};  ///< for the kind, or for another version of it
  std::chrono::milliseconds lookAgain{5'000};    ///< after an answer that told nothing
};

/// Fills the store from v1, else from v1beta2; v1alpha3 (1.33 to 1.35) has other fields and is not read. Where the server
/// has neither, or doesn't permit to list them, the store is empty, the log says so once, and the kind is looked for
/// again seldom. start() once; the destructor stops and joins. Client and store must outlive it.
class TaintRulesMirror {
 public:
  TaintRulesMirror(kube::Client& client, Store<core::DeviceTaintRule>& store, TaintRulesOptions options = {});
  ~TaintRulesMirror() { stop(); }

  void start();
  void stop();  ///< idempotent
  /// The rules are listed, or it is known that there can be none. Blocks until then; false if stopped first.
  bool waitForSync(std::stop_token stop);

 private:
  class Sink final : public StoreSink<core::DeviceTaintRule> {
   public:
    Sink(Store<core::DeviceTaintRule>& store, TaintRulesMirror& mirror) : StoreSink(store), mirror_(mirror) {}
    void endList(const std::string& resourceVersion) override;

   private:
    TaintRulesMirror& mirror_;
  };
  void run(const std::stop_token& stop);
  /// The version that can be listed, empty if none can; an error tells nothing.
  base::Result<std::string_view> served(const std::stop_token& stop);
  void follow(std::string_view version);
  void clear();
  void setSynced();

  kube::Client client_;  ///< asks once: it comes again by itself
  kube::Client& mirrored_;
  Store<core::DeviceTaintRule>& store_;
  const TaintRulesOptions options_;
  Sink sink_;
  // Of the thread alone:
  std::optional<std::string_view> version_;  ///< that is followed; empty: none; no value: not known yet
  std::optional<kube::Reflector<core::DeviceTaintRule>> reflector_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool synced_ = false;  ///< protected by mutex_
  std::jthread thread_;
};

}  // namespace egpu::cache

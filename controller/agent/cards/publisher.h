// What the plugins found becomes ElasticGPU cards.
//
//   found, no object                → created
//   found, object differs           → labels, capacity and spec.card written; never the ledger
//   found, object on another node   → left alone and told: the API lets no agent write another node's cards. Once that
//                                     node's agent has deleted it, it is created here
//   object, not found, its plugin
//     calls it unhealthy            → Healthy False with the plugin's words
//     answers, without a word of it → Healthy False CardGone; deleted after a while if its ledger is empty
//     fails, or is not there        → as it was; after a while Healthy False DriverNotAnswering
//   no object, not found, its plugin
//     calls it unhealthy            → an event of the Node, as for all that plugins say beside their cards
//
// Besides, what is used of a card stands in its status.usage: written when it moved noticeably, once a minute at most, and
// taken away when it is no longer known. Illnesses that are known by an event alone are remembered: health/repairs.h.
//
// What was found is compared with the objects as the watch shows them. Only of a card that the server keeps otherwise than
// it was written (its CRD is of an older version and lacks a field) is remembered what was written and what it became: the
// card is written again when either changes.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "controller/agent/cards/answers.h"
#include "controller/agent/health/foreign_use.h"
#include "controller/agent/health/health.h"
#include "controller/agent/health/repairs.h"
#include "controller/base/clock.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::agent::cards {

using Gpu = v1alpha::ElasticGPU;

struct PublisherOptions {
  std::string node;  ///< the one that this agent runs on
  /// Who may use a card; empty = nobody looks at who does.
  health::HasClaim hasClaim{};
  health::Host host{};
  std::chrono::milliseconds quiet{300'000};        ///< that a card must be well before it is used again
  std::chrono::milliseconds deleteAfter{600'000};  ///< a card is gone that long before its object goes
  /// A plugin fails, or is missing, that long before its cards are fenced.
  std::chrono::milliseconds notAnsweringAfter{180'000};
  std::chrono::milliseconds usageEvery{60'000};  ///< between two writes of a card's use; 0 = it is not written
  /// What the kubelet has given to containers by others than us, asked at each publication; empty = it isn't asked.
  /// nullopt = it does not answer: what it said last stands, or nothing if it never did.
  std::function<std::optional<std::vector<health::Given>>(const std::stop_token& stop)> given{};
  /// Warning about the node's settings, read at each publication and reported by an event of the Node; empty = none.
  std::function<std::string()> warning{};
  health::PodName podName{};  ///< for the condition of a card that is used without a claim
  std::string boot{};         ///< the machine's boot id
};

/// Of one thread. References must outlive it. `store` holds the cards of this node, and what we write.
class Publisher {
 public:
  Publisher(kube::Client& client, cache::Store<Gpu>& store, kube::EventSink& events, base::Clock& clock,
            PublisherOptions options);

  /// Makes the objects what the answers say. A card that fails keeps no other from being written; the first failure is
  /// returned, and the caller tries again. One that needs time to pass is done by a later call.
  base::Status publish(const Answers& answers, std::stop_token stop);
  /// Likewise status.usage, after publish() of the same answers.
  base::Status publishUsage(const Answers& answers, const usage::Usage& usage, std::stop_token stop);
  /// For a listener of the store: whether this change is the answer to a write of ours. Any thread.
  bool writes() const { return writes_ == std::this_thread::get_id(); }

 private:
  using Step = std::function<base::Status(const Gpu&)>;
  base::Status publishCard(const std::string& name, const FoundCard& found, const Answers& answers,
                           std::stop_token stop);
  base::Status create(const Gpu& card, std::stop_token stop);
  base::Status update(const Gpu& have, const Gpu& want, std::stop_token stop);
  base::Status missing(const std::string& name, const Answers& answers, std::stop_token stop);
  base::Status gone(const Gpu& have, std::stop_token stop);
  /// State of a card at one look.
  struct Diagnosis {
    health::Finding finding;               ///< without the event
    std::optional<health::Finding> event;  ///< event that the plugin reports
    bool silent = false;                   ///< the plugin answered and reports neither event nor illness
  };
  /// answer: of the plugin that the diagnosis is of; null if it is not loaded.
  base::Status tellHealth(const std::string& name, const Diagnosis& diagnosis, const Answer* answer,
                          std::stop_token stop);
  base::Status writeHealth(const Gpu& have, const v1alpha::ElasticGPUStatus& after, std::stop_token stop);
  /// Takes the operator's word off the card, once it was heard. obeyed: it ended the repair.
  base::Status takeWord(const Gpu& have, bool obeyed, std::stop_token stop);
  base::Status tellUsage(const std::string& name, const usage::CardUse* now, std::stop_token stop);
  /// Whether who found this card has nothing more to say of it.
  bool silentOn(const Gpu& card, const Answers& answers) const;
  /// Takes a step on the object as the store has it, again on what a read shows while the object changes meanwhile.
  base::Status step(const std::string& name, std::stop_token stop, const Step& take);
  /// A card as it was written, and as the server stored it.
  struct Kept {
    Gpu written, stored;
  };
  bool isKept(const Gpu& have, const Gpu& want) const;
  /// Into the store: what the server answered to our write.
  void wrote(const Gpu& answer);
  /// What is known of a card of this plugin, found or not; nullopt = nothing.
  std::optional<Diagnosis> diagnose(const std::string& uuid, const std::string& plugin, const Answers& answers,
                                    const v1alpha::Card* found) const;
  /// Finding of a card whose plugin reports no illness. notice: the plugin's opinion on it; may be null.
  health::Finding findingOf(const v1alpha::Card& found, const Answer& answer, const plugin::CardHealth* notice) const;
  void noteFailures(const Answers& answers);
  /// The ill cards that were never published: without an object nothing else would tell of them.
  void noteUnpublished(const Answers& answers, Found& found) const;
  void tell(const std::vector<std::string>& refused, const std::vector<std::string>& said);

  kube::Client& client_;
  cache::Store<Gpu>& store_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const PublisherOptions options_;
  const base::Clock::Steady since_;                                       ///< when it was made
  std::map<std::string, base::Clock::Steady, std::less<>> failingSince_;  ///< by plugin
  std::atomic<std::thread::id> writes_{};          ///< this one changes the store by what it wrote
  std::map<std::string, Kept, std::less<>> kept_;  ///< by object, of those that the server keeps otherwise
  std::map<std::string, base::Clock::Steady, std::less<>> usagePruned_;  ///< by object: last write that was not kept
  health::Repairs repairs_;
  std::vector<std::string> remarks_;  ///< of the present call, besides those of the answers
  std::vector<health::Given> given_;  ///< to containers, by others, as the kubelet last said
  std::vector<std::string> told_;     ///< the last time, so that nothing is told twice
};

}  // namespace egpu::agent::cards

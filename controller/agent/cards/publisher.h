// Publishes the cards that plugins found as ElasticGPU objects.
//
//   found, no object                → created
//   found, object differs           → labels, capacity and spec.card written; never the ledger
//   found, the object's plugin
//     fails, but another answers    → unchanged for a while, because plugins report different attributes of a card
//   found, object on another node   → not written, but reported: the API lets no agent write another node's cards.
//                                     Once that node's agent has deleted the object, it is created here
//   object, not found, its plugin
//     reports it as unhealthy       → Healthy False with the plugin's message
//     answers, does not mention it  → Healthy False CardGone; deleted after a while if its ledger is empty
//     fails, or is not loaded       → unchanged; after a while Healthy False DriverNotAnswering
//   no object, not found, its plugin
//     reports it as unhealthy       → an event of the Node, as for all messages of plugins in addition to their cards
//
// The usage of a card is in its status.usage: written when it moved noticeably, at most once a minute, and removed when
// it is no longer known. Illnesses that only an event reveals are recorded by health/repairs.h.
//
// Found cards are compared with the objects in the watch's store. If the server alters a card (an older CRD lacks a
// field), the publisher remembers the written and the stored version, and writes again when either changes.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/cards/discovery_results.h"
#include "controller/agent/cards/own_writes.h"
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
  std::string node;  ///< node of this agent
  /// Returns whether a pod has a claim on a card; empty = foreign use is not checked.
  health::HasClaim hasClaim{};
  health::Host host{};
  std::chrono::milliseconds quiet{300'000};        ///< how long an ill card must be well before it is used again
  std::chrono::milliseconds deleteAfter{600'000};  ///< how long a card must be gone before its object is deleted
  /// How long a plugin must fail or be missing before its cards become unhealthy.
  std::chrono::milliseconds notAnsweringAfter{180'000};
  std::chrono::milliseconds usageEvery{60'000};  ///< minimum between two writes of a card's usage; 0 = none
  /// Lists containers' devices from other plugins and drivers, at each publication; empty = not checked. nullopt = the
  /// kubelet does not answer; the last list stays in force.
  std::function<std::optional<std::vector<health::Given>>(const std::stop_token& stop)> given{};
  /// Warning about the node's settings, read at each publication and reported by an event of the Node; empty = none.
  std::function<std::string()> warning{};
  /// Adds the agent's attributes to a card that a plugin found; empty = none.
  std::function<void(v1alpha::Card& card)> describe{};
  /// Returns true for the uid of a prepared device without cards. Plugins report the health of these devices, too; it
  /// is not published here.
  std::function<bool(const std::string& uid)> isDevice{};
  health::PodName podName{};  ///< for the condition of a card that is used without a claim
  std::string boot{};         ///< the machine's boot id
};

/// Not thread-safe, except ownWrites(). References must outlive it. `store` contains the cards of this node and
/// receives the results of writes.
class Publisher {
 public:
  Publisher(kube::Client& client, cache::Store<Gpu>& store, kube::EventSink& events, base::Clock& clock,
            PublisherOptions options);

  /// Writes the objects according to `answers`. A failed write prevents other writes only if the server can't be
  /// reached. Returns the first failure: the caller must try again. Changes that need time are left to later calls.
  base::Status publish(const Answers& answers, std::stop_token stop);
  /// Writes status.usage of the cards; call after publish() with the same answers. Errors as for publish().
  base::Status publishUsage(const Answers& answers, const usage::Usage& usage, std::stop_token stop);
  /// Distinguishes changes of the store by this publisher from others.
  OwnWrites& ownWrites() { return ownWrites_; }

 private:
  using Step = std::function<base::Status(const Gpu&)>;
  base::Status publishCard(const std::string& name, const FoundCard& found, const Answers& answers,
                           std::stop_token stop);
  base::Status create(const Gpu& card, std::stop_token stop);
  base::Status update(const Gpu& have, const Gpu& want, std::stop_token stop);
  base::Status missing(const std::string& name, const Answers& answers, std::stop_token stop);
  base::Status gone(const Gpu& have, std::stop_token stop);
  /// Result of one check of a card.
  struct Diagnosis {
    health::Finding finding;               ///< without the event
    std::optional<health::Finding> event;  ///< event that the plugin reports
    bool silent = false;                   ///< the plugin answered and reports neither event nor illness
  };
  /// `answer`: answer of the plugin that the diagnosis comes from; null if the plugin is not loaded.
  base::Status reportHealth(const std::string& name, const Diagnosis& diagnosis, const PluginReport* answer,
                            std::stop_token stop);
  base::Status writeHealth(const Gpu& have, const v1alpha::ElasticGPUStatus& after, std::stop_token stop);
  /// Removes the operator's annotation from the card after it was evaluated. `acknowledged`: the annotation ended the
  /// repair.
  base::Status removeRepairedAnnotation(const Gpu& have, bool acknowledged, std::stop_token stop);
  base::Status reportUsage(const std::string& name, const usage::CardUse* now, std::stop_token stop);
  /// True if usage that the answers lack must be removed: the card's plugin answers, or has failed for
  /// notAnsweringAfter.
  bool silentOn(const Gpu& card, const Answers& answers) const;
  /// True if the plugin that found the card can't list its cards, and has not failed for notAnsweringAfter.
  bool failsBriefly(const Gpu& card, const Answers& answers) const;
  /// Calls `take` with the stored object; if it has changed, reads it and tries again, up to kAttempts times.
  base::Status step(const std::string& name, std::stop_token stop, const Step& take);
  /// Card as it was written, and as the server stored it.
  struct StoredCard {
    Gpu written, stored;
  };
  bool remainsStored(const Gpu& have, const Gpu& want) const;
  /// Writes an object by `call`, and puts the server's answer into the store.
  base::Result<Gpu> write(const std::string& name, const std::function<base::Result<Gpu>()>& call);
  /// Returns the state of a card of this plugin, found or not; nullopt = unknown.
  std::optional<Diagnosis> diagnose(const std::string& uuid, const std::string& plugin, const Answers& answers,
                                    const v1alpha::Card* found) const;
  /// Returns the finding for a card whose plugin reports no illness. `notice`: the plugin's healthy report with a
  /// message; may be null.
  health::Finding findingOf(const v1alpha::Card& found, const PluginReport& answer,
                            const plugin::CardHealth* notice) const;
  void noteFailures(const Answers& answers);
  /// Adds messages about ill cards that have no object, as no condition reports them.
  void noteUnpublished(const Answers& answers, MergedCards& found) const;
  void report(const std::vector<std::string>& refused, const std::vector<std::string>& warnings);

  kube::Client& client_;
  cache::Store<Gpu>& store_;
  kube::EventSink& events_;
  base::Clock& clock_;
  const PublisherOptions options_;
  const base::Clock::Steady since_;                                       ///< time of construction
  std::map<std::string, base::Clock::Steady, std::less<>> failingSince_;  ///< by plugin
  OwnWrites ownWrites_;
  std::map<std::string, StoredCard, std::less<>> stored_;  ///< by object: cards that the server stores differently
  /// By object: time of the last usage write that the server did not store.
  std::map<std::string, base::Clock::Steady, std::less<>> usagePruned_;
  health::Repairs repairs_;
  std::vector<std::string> remarks_;   ///< remarks of the current call, in addition to the answers'
  std::vector<health::Given> given_;   ///< devices from other plugins and drivers, as last listed
  std::vector<std::string> reported_;  ///< events of the last call, so that none is repeated
};

}  // namespace egpu::agent::cards

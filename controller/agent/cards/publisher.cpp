#include "controller/agent/cards/publisher.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/v1alpha/card_object.h"
#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/base/log.h"
#include "controller/base/text.h"
#include "controller/base/timestamp.h"
#include "controller/codec/patch.h"

namespace egpu::agent::cards {

namespace {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;
namespace log = base::log;

constexpr int kAttempts = 4;  ///< maximum tries on an object that changes meanwhile
/// Interval between two writes of usage that the server does not store.
constexpr std::chrono::minutes kPrunedUsageInterval{10};

/// True if the server can't be reached, so that writing other cards is pointless.
bool away(const Status& status) {
  return status.code() == Code::unavailable || status.code() == Code::deadline || status.code() == Code::throttled ||
         status.code() == Code::cancelled || status.code() == Code::unauthorized;
}

/// Returns the plugin that found the card, as a label value.
std::string labelOf(const Gpu& card) {
  const auto it = card.metadata.labels.find(keys::kDiscoveredByLabel);
  return it == card.metadata.labels.end() ? std::string() : it->second;
}

/// Returns the name and the answer of the plugin that found the card; null if it has not answered yet or is not loaded.
const Answers::value_type* answerFor(const Gpu& card, const Answers& answers) {
  const auto by = labelOf(card);
  const auto it = std::find_if(answers.begin(), answers.end(),
                               [&](const auto& each) { return v1alpha::labelValueOf(each.first) == by; });
  return it == answers.end() ? nullptr : &*it;
}

bool same(const Gpu& have, const Gpu& want) {
  return have.spec.card == want.spec.card && have.spec.capacity == want.spec.capacity &&
         std::all_of(want.metadata.labels.begin(), want.metadata.labels.end(), [&](const auto& label) {
           const auto it = have.metadata.labels.find(label.first);
           return it != have.metadata.labels.end() && it->second == label.second;
         });
}

health::Finding migMode(const std::string& uuid) {
  return {
      false, std::string(health::kMigMode),
      "it is in MIG mode, but its instances are unknown, so that nothing of it can be allocated; see the event of its "
      "Node for the reason. To use it as one card, drain the node, remove the agent from it (label "
      "elasticgpu.io/agent=false) and run nvidia-smi -i " +
          uuid + " -mig 0"};
}

}  // namespace

Publisher::Publisher(kube::Client& client, cache::Store<Gpu>& store, kube::EventSink& events, base::Clock& clock,
                     PublisherOptions options)
    : client_(client),
      store_(store),
      events_(events),
      clock_(clock),
      options_(std::move(options)),
      since_(clock.now()) {}

Status Publisher::publish(const Answers& answers, std::stop_token stop) {
  noteFailures(answers);
  if (options_.given)
    if (auto now = options_.given(stop)) given_ = std::move(*now);
  MergedCards found = merge(answers, options_.node);
  noteUnpublished(answers, found);
  remarks_ = std::move(found.remarks);
  Status first;
  const auto proceed = [&](const Status& status) {
    if (first.ok() && !status.ok()) first = status;
    return !away(status);
  };
  const auto isGone = [&](const auto& each) { return found.cards.count(each.first) == 0; };
  std::erase_if(stored_, isGone);
  std::erase_if(usagePruned_, isGone);
  repairs_.retain([&](const std::string& name) { return found.cards.count(name) > 0 || store_.get({"", name}); });
  std::vector<std::string> absent;
  store_.forEach([&](const auto& card) {
    if (card->isCard() && found.cards.count(card->metadata.name) == 0) absent.push_back(card->metadata.name);
  });
  bool there = true;
  for (auto it = found.cards.begin(); there && it != found.cards.end(); ++it)
    there = proceed(publishCard(it->first, it->second, answers, stop));
  for (auto it = absent.begin(); there && it != absent.end(); ++it) there = proceed(missing(*it, answers, stop));
  report(std::exchange(remarks_, {}), found.warnings);
  return first;
}

Status Publisher::step(const std::string& name, std::stop_token stop, const Step& take) {
  Status last;
  for (int i = 0; i < kAttempts; ++i) {
    const auto have = store_.get({"", name});
    if (!have) return Status::okay();
    last = take(*have);
    // A failed test of a JSON patch results in 422.
    if (last.ok() || (last.code() != Code::conflict && last.code() != Code::notFound && last.code() != Code::invalid &&
                      last.code() != Code::unknownOutcome))
      return last;
    auto now = client_.get<Gpu>({"", name}, stop);
    if (now.status().code() == Code::notFound) return store_.observedGone({"", name}, have->metadata.uid), last;
    if (!now.ok()) return now.status();
    if (last.code() == Code::invalid && now->metadata.uid == have->metadata.uid) return last;
    store_.observed(*now);
  }
  return last;
}

base::Result<Gpu> Publisher::write(const std::string& name, const std::function<base::Result<Gpu>()>& call) {
  ownWrites_.begin(name);
  auto written = call();
  if (written.ok()) store_.observed(*written);
  ownWrites_.end(written.ok() ? written->metadata.resourceVersion : "");
  return written;
}

Status Publisher::publishCard(const std::string& name, const FoundCard& found, const Answers& answers,
                              std::stop_token stop) {
  auto card = found.card;
  if (options_.describe) options_.describe(card);
  Gpu want = v1alpha::cardObject(card);
  want.metadata.labels[std::string(keys::kDiscoveredByLabel)] = v1alpha::labelValueOf(found.plugin);
  if (!store_.get({"", name}))
    if (auto made = create(want, stop); !made.ok()) return made;
  auto written = step(name, stop, [&](const Gpu& have) {
    return failsBriefly(have, answers) ? Status::okay() : update(have, want, stop);
  });
  if (!written.ok()) {
    remarks_.push_back("card " + found.card.uuid + " could not be published: " + written.message());
    return written;
  }
  const auto diagnosis = diagnose(found.card.uuid, found.plugin, answers, &found.card);
  return diagnosis ? reportHealth(name, *diagnosis, &answers.find(found.plugin)->second, stop) : Status::okay();
}

Status Publisher::create(const Gpu& card, std::stop_token stop) {
  auto made = write(card.metadata.name, [&] { return client_.create(card, stop); });
  const core::ObjectKey key{"", card.metadata.name};
  if (made.ok()) {
    log::info("card published", {{"card", card.metadata.name}});
    return Status::okay();
  }
  const auto code = made.status().code();
  if (code != Code::alreadyExists && code != Code::unknownOutcome) {
    remarks_.push_back("card " + card.spec.card->uuid + " could not be published: " + made.status().message());
    return made.status();
  }
  auto have = client_.get<Gpu>(key, stop);
  if (!have.ok()) return have.status();
  if (have->isCard() && have->spec.card->nodeName == options_.node)
    store_.observed(*have);
  else
    remarks_.push_back("card " + card.spec.card->uuid + " is not published: the ElasticGPU of its name " +
                       (have->isCard() ? "is a card of node " + have->spec.card->nodeName +
                                             "; delete it if the card was moved here and no claim there uses it"
                                       : "is a device"));
  return Status::okay();
}

bool Publisher::remainsStored(const Gpu& have, const Gpu& want) const {
  const auto known = stored_.find(have.metadata.name);
  if (known == stored_.end() || !same(known->second.written, want)) return false;
  const Gpu& stored = known->second.stored;
  return have.spec.capacity == stored.spec.capacity && have.spec.card == stored.spec.card &&
         have.metadata.labels == stored.metadata.labels;
}

Status Publisher::update(const Gpu& have, const Gpu& want, std::stop_token stop) {
  if (have.metadata.deleting() || !have.isCard() || same(have, want) || remainsStored(have, want))
    return Status::okay();
  auto written = write(have.metadata.name, [&] {
    return client_.patch<Gpu>({"", have.metadata.name}, kube::PatchType::json, codec::patch::publishedCard(have, want),
                              {}, stop);
  });
  if (!written.ok()) return written.status();
  log::info("card published again", {{"card", have.metadata.name}});
  if (same(*written, want)) {
    stored_.erase(have.metadata.name);
  } else {
    log::warn("the API server dropped fields of a card; apply the CRDs of this version",
              {{"card", have.metadata.name}});
    stored_[have.metadata.name] = {want, *written};
  }
  return Status::okay();
}

Status Publisher::missing(const std::string& name, const Answers& answers, std::stop_token stop) {
  const auto have = store_.get({"", name});
  if (!have) return Status::okay();
  const auto by = labelOf(*have);
  for (const auto& [plugin, answer] : answers) {
    if (by != v1alpha::labelValueOf(plugin)) continue;
    if (const auto diagnosis = diagnose(have->spec.card->uuid, plugin, answers, nullptr))
      return reportHealth(name, *diagnosis, &answer, stop);
    if (!answer.cards.reply.ok()) return Status::okay();
    const auto written =
        reportHealth(name,
                     {{false, std::string(health::kCardGone),
                       "provisioner " + plugin + " no longer finds it on node " + options_.node +
                           "; put it back, or delete the claims that use it: its object is deleted after them"},
                      std::nullopt},
                     &answer, stop);
    return written.ok() ? step(name, stop, [&](const Gpu& now) { return gone(now, stop); }) : written;
  }
  // The plugin that found the card is not installed, or has not started yet.
  if (by.empty() || clock_.now() - since_ < options_.notAnsweringAfter) return Status::okay();
  return reportHealth(name,
                      {{false, std::string(health::kDriverNotAnswering),
                        "provisioner " + by + ", which found it, is not loaded on node " + options_.node +
                            "; install it again, or delete the claims that use the card, then the card"},
                       std::nullopt},
                      nullptr, stop);
}

Status Publisher::gone(const Gpu& have, std::stop_token stop) {
  const auto* healthy = health::healthyOf(have.status.conditions);
  if (have.metadata.deleting() || !have.spec.allocations.empty() || !healthy || healthy->reason != health::kCardGone)
    return Status::okay();
  const auto since = base::parseRfc3339(healthy->lastTransitionTime);
  if (!since || clock_.wall() - *since < options_.deleteAfter) return Status::okay();
  // The resourceVersion prevents the deletion if the ledger gets an entry meanwhile.
  auto removed = client_.remove<Gpu>(
      {"", have.metadata.name}, codec::patch::deleteOptions(have.metadata.uid, have.metadata.resourceVersion), stop);
  if (removed.ok()) log::info("missing card deleted", {{"card", have.metadata.name}});
  return removed;
}

Status Publisher::reportHealth(const std::string& name, const Diagnosis& diagnosis, const PluginReport* answer,
                               std::stop_token stop) {
  return step(name, stop, [&](const Gpu& have) {
    if (!have.isCard()) return Status::okay();
    const auto& attributes = have.spec.card->attributes;
    const auto driver = attributes.find(std::string_view("driverVersion"));
    const std::string repaired(have.metadata.annotation(keys::kRepairedAnnotation));
    auto counted =
        repairs_.count(name, have.status.conditions,
                       {diagnosis.finding, diagnosis.event, diagnosis.silent, answer ? answer->process : 0,
                        options_.boot, driver == attributes.end() ? std::string() : driver->second, repaired},
                       clock_.wall());
    auto after = have.status;
    after.conditions = health::judge(counted.conditions, counted.finding, clock_.wall(), options_.quiet);
    if (auto written = writeHealth(have, after, stop); !written.ok()) return written;
    return repaired.empty() ? Status::okay() : removeRepairedAnnotation(have, counted.acknowledged, stop);
  });
}

Status Publisher::writeHealth(const Gpu& have, const v1alpha::ElasticGPUStatus& after, std::stop_token stop) {
  if (after == have.status) return Status::okay();
  const auto& name = have.metadata.name;
  auto written = write(name, [&] {
    return client_.patch<Gpu>(
        {"", name}, kube::PatchType::merge,
        codec::patch::gpuStatus(have.metadata.uid, have.metadata.resourceVersion, have.status, after), "status", stop);
  });
  if (!written.ok()) return written.status();
  const auto& now = *health::healthyOf(after.conditions);
  log::info("card's health", {{"card", name}, {"healthy", now.status}, {"reason", now.reason}});
  // A new card that works needs no event.
  if (health::healthyOf(have.status.conditions) || now.status == "False")
    events_.event(kube::referenceTo(have),
                  now.status == "False" && now.reason != health::kProbation ? "Warning" : "Normal", now.reason,
                  now.message.empty() ? "it works" : now.message);
  return Status::okay();
}

Status Publisher::removeRepairedAnnotation(const Gpu& have, bool acknowledged, std::stop_token stop) {
  const auto repaired = std::string(have.metadata.annotation(keys::kRepairedAnnotation));
  if (!acknowledged) {
    const auto& conditions = have.status.conditions;
    const bool named = std::any_of(conditions.begin(), conditions.end(), [&](const auto& condition) {
      return condition.type == health::kNeedsRepair && condition.reason == repaired;
    });
    events_.event(kube::referenceTo(have), "Warning", "NotRepaired",
                  "annotation " + std::string(keys::kRepairedAnnotation) + "=" + repaired +
                      " has no effect: the card has " +
                      (named ? "had another error since then; see its condition NeedsRepair"
                             : "no condition NeedsRepair with that reason"));
  }
  // An annotation that was changed meanwhile stays for the next call.
  const auto without = codec::patch::withoutAnnotation(have.metadata.uid, keys::kRepairedAnnotation, repaired);
  auto written = write(have.metadata.name, [&] {
    return client_.patch<Gpu>({"", have.metadata.name}, kube::PatchType::json, without, {}, stop);
  });
  if (!written.ok()) return written.status();
  log::info("repair annotation accepted", {{"card", have.metadata.name}, {"repaired", repaired}});
  return Status::okay();
}

Status Publisher::publishUsage(const Answers& answers, const usage::Usage& usage, std::stop_token stop) {
  std::map<std::string, const usage::CardUse*> all;
  if (options_.usageEvery.count() > 0)
    for (const auto& card : usage.cards) all.emplace(card.name, &card);
  store_.forEach([&](const auto& card) {
    if (card->isCard() && card->status.usage && (options_.usageEvery.count() == 0 || silentOn(*card, answers)))
      all.emplace(card->metadata.name, nullptr);  // no effect if the card has usage
  });
  Status first;
  for (const auto& [name, now] : all) {
    const auto status = reportUsage(name, now, stop);
    if (first.ok() && !status.ok()) first = status;
    if (away(status)) break;
  }
  return first;
}

bool Publisher::silentOn(const Gpu& card, const Answers& answers) const {
  const auto* const answer = answerFor(card, answers);
  if (answer == nullptr) return false;
  const auto since = failingSince_.find(answer->first);
  return since == failingSince_.end() || clock_.now() - since->second >= options_.notAnsweringAfter;
}

bool Publisher::failsBriefly(const Gpu& card, const Answers& answers) const {
  const auto* const answer = answerFor(card, answers);
  if (answer == nullptr || answer->second.cards.reply.ok()) return false;
  const auto since = failingSince_.find(answer->first);
  return since == failingSince_.end() || clock_.now() - since->second < options_.notAnsweringAfter;
}

Status Publisher::reportUsage(const std::string& name, const usage::CardUse* now, std::stop_token stop) {
  return step(name, stop, [&](const Gpu& have) {
    auto after = have.status;
    const auto pruned = usagePruned_.find(name);
    if (pruned != usagePruned_.end() && !have.status.usage && clock_.now() - pruned->second < kPrunedUsageInterval)
      return Status::okay();
    if (!have.isCard() || !usage::shouldReport(have.status.usage, now, clock_.wall(), options_.usageEvery, after.usage))
      return Status::okay();
    auto written = write(name, [&] {
      return client_.patch<Gpu>(
          {"", name}, kube::PatchType::merge,
          codec::patch::gpuStatus(have.metadata.uid, have.metadata.resourceVersion, have.status, after), "status",
          stop);
    });
    if (!written.ok()) return written.status();
    // The CRD may be older and lack status.usage.
    if (after.usage && !written->status.usage) usagePruned_[name] = clock_.now();
    return Status::okay();
  });
}

health::Finding Publisher::findingOf(const v1alpha::Card& found, const PluginReport& answer,
                                     const plugin::CardHealth* notice) const {
  const auto mig = found.attributes.find("migMode");
  if (mig != found.attributes.end() && mig->second == "enabled" && found.mig.empty()) return migMode(found.uuid);
  if (options_.hasClaim)
    if (auto foreign = health::foreignUse(found, given_, answer.health.processes, options_.host, options_.hasClaim,
                                          options_.podName))
      return *foreign;
  auto finding = notice ? health::illness(notice->message) : health::Finding{};
  finding.healthy = true;
  if (finding.reason == health::kUnhealthy) finding.reason = health::kWorking;
  return finding;
}

std::optional<Publisher::Diagnosis> Publisher::diagnose(const std::string& uuid, const std::string& plugin,
                                                        const Answers& answers, const v1alpha::Card* found) const {
  const auto& answer = answers.find(plugin)->second;
  if (answer.health.reply.ok()) {
    Diagnosis out;
    const plugin::CardHealth* notice = nullptr;
    for (const auto& warnings : answer.health.cards) {
      if (base::lowered(warnings.uuid) != base::lowered(uuid)) continue;
      auto illness = health::illness(warnings.message);
      if (warnings.healthy)
        notice = notice || warnings.message.empty() ? notice : &warnings;
      else if (!health::isEvent(illness.reason))
        out.finding = out.finding.healthy ? std::move(illness) : out.finding;
      else if (!out.event)
        out.event = std::move(illness);
    }
    if (!found && out.finding.healthy && !out.event) return std::nullopt;
    if (!found && out.finding.healthy) out.finding = *out.event;
    if (!out.finding.healthy) return out;
    out.silent = !out.event;
    out.finding = findingOf(*found, answer, notice);
    return out;
  }
  const auto since = failingSince_.find(plugin);
  if (since == failingSince_.end() || clock_.now() - since->second < options_.notAnsweringAfter) return std::nullopt;
  auto failing = health::illness(
      "provisioner " + plugin + " has failed for " +
      std::to_string(std::chrono::duration_cast<std::chrono::minutes>(options_.notAnsweringAfter).count()) +
      " minutes: " + answer.health.reply.message);
  failing.reason = health::kDriverNotAnswering;
  return Diagnosis{std::move(failing), std::nullopt};
}

void Publisher::noteFailures(const Answers& answers) {
  for (const auto& [plugin, answer] : answers)
    if (answer.health.reply.ok())
      failingSince_.erase(plugin);
    else
      failingSince_.try_emplace(plugin, clock_.now());
}

void Publisher::noteUnpublished(const Answers& answers, MergedCards& found) const {
  std::set<std::string> noted;
  for (const auto& [plugin, answer] : answers) {
    if (!answer.health.reply.ok()) continue;
    for (const auto& card : answer.health.cards) {
      const auto name = base::lowered(card.uuid);
      if (card.healthy || found.cards.count(name) > 0 || store_.get({"", name}) || noted.size() == kMaxCards ||
          !noted.insert(name).second || (options_.isDevice && options_.isDevice(card.uuid)))
        continue;
      const auto ill = health::illness(card.message);
      found.warnings.push_back(
          warningOf(plugin, "card " + card.uuid + " is not published: " + ill.reason + ": " + ill.message));
    }
  }
}

void Publisher::report(const std::vector<std::string>& refused, const std::vector<std::string>& warnings) {
  std::vector<std::string> reports;
  const auto each = [&](const std::vector<std::string>& all, const std::string& reason, const char* what) {
    for (const auto& words : all) {
      reports.push_back(words);
      if (std::find(reported_.begin(), reported_.end(), words) != reported_.end()) continue;
      log::warn(what, {{"node", options_.node}, {"what", words}});
      // Refers to the node as the kubelet does where it does not know the uid.
      events_.event({"v1", "Node", "", options_.node, options_.node, ""}, "Warning", reason, words);
    }
  };
  each(refused, "CardRefused", "card refused");
  each(warnings, "DiscoveryWarning", "warning of a provisioner about the node's cards");
  if (const auto warning = options_.warning ? options_.warning() : ""; !warning.empty())
    each({warning}, "CardsReachableWithoutClaim", "cards are accessible without a claim");
  reported_ = std::move(reports);
}

}  // namespace egpu::agent::cards

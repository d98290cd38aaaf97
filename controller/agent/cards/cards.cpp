#include "controller/agent/cards/cards.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/base/log.h"
#include "controller/base/text.h"

namespace egpu::agent::cards {

namespace keys = v1alpha::keys;

namespace {

kube::ReflectorOptions ofNode(const std::string& node) {
  kube::ReflectorOptions out;
  out.fieldSelector = "spec.card.nodeName=" + node;
  return out;
}

/// True if the server refuses a card itself. Such a card must not slow down the others.
bool refusedAsItIs(const base::Status& status) {
  return status.code() == base::Code::invalid || status.code() == base::Code::forbidden;
}

}  // namespace

Cards::Cards(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, base::Clock& clock,
             base::Random& random, CardsOptions options)
    : client_(client.brief()),
      clock_(clock),
      random_(random),
      options_(std::move(options)),
      reflector_(client, sink_, ofNode(options_.publisher.node)),
      discovery_(plugins, clock, random, options_.interval, [this] { alarm_.ring(); }),
      publisher_(client_, store_, events, clock, options_.publisher) {
  // Corrects changes and deletions by an administrator immediately. The agent's own writes must not wake the loop: a
  // card that changes with every query would be written in an endless loop.
  store_.listen([this](const Gpu* before, const Gpu* after) {
    const auto& name = (after != nullptr ? after : before)->metadata.name;
    if (publisher_.ownWrites().recordChange(name, after != nullptr ? after->metadata.resourceVersion : ""))
      alarm_.ring();
  });
}

Cards::~Cards() { stop(); }

void Cards::start() {
  discovery_.start();
  reflector_.start();
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void Cards::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  discovery_.stop();
  reflector_.stop();
}

std::string Cards::whyGone(const std::string& card) const {
  const auto have = store_.get({"", card});
  if (!have || !have->isCard()) return {};
  const auto by = have->metadata.label(keys::kDiscoveredByLabel);
  const auto same = [&](const auto& each) { return base::lowered(each.uuid) == card; };
  for (const auto& [plugin, answer] : discovery_.answers()) {
    if (by != v1alpha::labelValueOf(plugin)) continue;
    const auto& found = answer.cards.gpus;
    if (!answer.cards.reply.ok() || std::any_of(found.begin(), found.end(), same)) return {};
    for (const auto& known : answer.health.cards)
      if (answer.health.reply.ok() && !known.healthy && same(known)) {
        const auto ill = health::illness(known.message);
        return "does not work: " + ill.reason + ": " + ill.message;
      }
    return "is no longer present on node " + options_.publisher.node +
           ": the plugin that discovered it no longer reports it";
  }
  return {};
}

std::optional<v1alpha::Card> Cards::foundCard(const std::string& card) const {
  auto found = merge(discovery_.answers(), options_.publisher.node).cards;
  const auto it = found.find(card);
  return it == found.end() ? std::nullopt : std::optional(std::move(it->second.card));
}

std::optional<int64_t> Cards::memoryOf(const std::string& card) const {
  const auto found = foundCard(card);
  return found ? std::optional(found->memory) : std::nullopt;
}

void Cards::wake() { discovery_.wake(); }

void Cards::run(std::stop_token stop) {
  if (!reflector_.waitForSync(stop)) return;
  const auto patience = clock_.now() + options_.patience;
  while (!discovery_.complete() && clock_.now() < patience && alarm_.sleepUntil(clock_, patience, stop)) {
  }
  for (int failures = 0; !stop.stop_requested();) {
    const auto complete = discovery_.complete();
    const auto status = publish(stop);
    if (publisher_.ownWrites().takeMissed()) alarm_.ring();
    if (status.ok() || refusedAsItIs(status)) {
      if (complete) published_ = true;
      failures = 0;
      alarm_.sleepUntil(clock_, clock_.now() + options_.interval, stop);
      continue;
    }
    if (failures++ == 0) base::log::warn("cards could not be published", {{"why", status.str()}});
    // Rings do not shorten this sleep, so that the server is not overloaded.
    clock_.sleepFor(wait(failures, status), stop);
  }
}

base::Status Cards::publish(const std::stop_token& stop) {
  const auto answers = discovery_.answers();
  auto status = publisher_.publish(answers, stop);
  if (options_.publishDevices && (status.ok() || refusedAsItIs(status))) {
    auto devices = options_.publishDevices(answers, stop);
    if (status.ok()) status = std::move(devices);
  }
  if (!options_.attribute || !(status.ok() || refusedAsItIs(status))) return status;
  const auto readings = readingsOf(merge(answers, options_.publisher.node), answers);
  const auto published = publisher_.publishUsage(answers, options_.attribute(readings, stop), stop);
  return status.ok() ? published : status;
}

std::vector<usage::Reading> Cards::readings() const {
  const auto answers = discovery_.answers();
  return readingsOf(merge(answers, options_.publisher.node), answers);
}

std::chrono::milliseconds Cards::wait(int failures, const base::Status& status) {
  const auto doubled = options_.backoff * (int64_t{1} << std::min(failures - 1, 20));
  const auto max = std::min(doubled, options_.maxBackoff);
  const std::chrono::milliseconds half(max / 2);
  const auto jittered = half + std::chrono::milliseconds(random_.below(static_cast<uint64_t>(half.count() + 1)));
  return status.retryAfter ? std::max(jittered, *status.retryAfter) : jittered;
}

}  // namespace egpu::agent::cards

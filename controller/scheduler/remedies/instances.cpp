#include "controller/scheduler/remedies/instances.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "api/v1alpha/keys.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/remedies/each_node.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

using v1alpha::MigProfile;
using v1alpha::Slots;

class InstanceRemedies {
 public:
  InstanceRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits, const Pause& pause)
      : cluster_(cluster),
        state_(cluster.state()),
        request_(request),
        suits_(suits),
        pause_(pause),
        needs_(state_, request) {}

  std::vector<Remedy> run() {
    std::vector<Remedy> found;
    eachNode(state_, pause_, [this](std::string_view name, const NodeRecord& node) {
      if (!node.offered() || (suits_ && !suits_(name))) return;
      for (const CardId card : node.cards) look(card);
    });
    if (auto smaller = ask()) found.push_back(*std::move(smaller));
    if (!best_.shortages.empty()) found.push_back(best_);
    return found;
  }

 private:
  void look(CardId id) {
    const CardRecord& card = state_.cards[id];
    for (const MigProfile& profile : state_.types[card.type].mig) profiles_.emplace(mig::keyOf(profile.name), profile);
    const Need& need = needs_.of(card.type);
    if (!card.healthy || !need.possible() || need.profile == nullptr || !isAllowedByPin(state_, request_, id)) return;
    release(id, *need.profile);
  }

  /// Keeps the card's placement with the fewest claims in its slots, if it is better than the best one.
  void release(CardId id, const MigProfile& profile) {
    if (request_.mig.instances != 1) return;
    for (unsigned start = 0; start < Slots::kMemory; ++start) {
      if (!profile.starts.has(start)) continue;
      const Slots place = profile.slotsFrom(start);
      int64_t claims = 0;
      Slots blocked;
      state_.eachTake(id, [&](std::string_view, const Amount& charged, const NodeAmount&) {
        if (!charged.slots.overlaps(place)) return;
        ++claims;
        blocked = blocked.with({static_cast<uint16_t>(charged.slots.bits & place.bits)});
      });
      if (claims == 0 || (!best_.shortages.empty() && best_.nodeClaims <= claims)) continue;
      const auto name = std::string(state_.cardName(id));
      best_.kind = Remedy::Kind::release;
      best_.node = state_.nodes[state_.cards[id].node].name;
      best_.nodeClaims = claims;
      best_.shortages = {{name, {0, 0, blocked}, claims}};
      best_.text = "release " + std::to_string(claims) + (claims == 1 ? " claim" : " claims") + " in slots " +
                   v1alpha::slotList(blocked) + " of card " + name + " (node " + best_.node + ")";
    }
  }

  std::optional<Remedy> ask() const {
    Request smaller = request_;
    for (int64_t n = request_.mig.instances - 1; n > 0; --n) {
      smaller.mig.instances = n;
      if (auto remedy = fitting(smaller)) return remedy;
    }
    const auto wanted = profiles_.find(request_.mig.profile);
    if (wanted == profiles_.end()) return std::nullopt;
    std::vector<const MigProfile*> others;
    for (const auto& [key, profile] : profiles_)
      if (profile.memory < wanted->second.memory && !profile.media) others.push_back(&profile);
    std::stable_sort(others.begin(), others.end(), [](const MigProfile* a, const MigProfile* b) {
      return std::pair(a->memory, a->compute) > std::pair(b->memory, b->compute);
    });
    for (const MigProfile* profile : others) {
      smaller.mig = {mig::keyOf(profile->name), 1};
      if (auto remedy = fitting(smaller)) return remedy;
    }
    return std::nullopt;
  }

  std::optional<Remedy> fitting(const Request& smaller) const {
    if (pause_) pause_();
    const Decision decision = decide(cluster_, smaller, suits_);
    if (!decision.fits) return std::nullopt;
    Remedy remedy;
    remedy.request = smaller;
    remedy.node = decision.node;
    remedy.text = std::string(v1alpha::keys::kMigPrefix) + smaller.mig.profile + " " +
                  std::to_string(smaller.mig.instances) + " fits now (node " + decision.node + ")";
    return remedy;
  }

  const Cluster& cluster_;
  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  const Pause& pause_;
  Needs needs_;
  std::map<std::string, MigProfile> profiles_;  ///< profiles of all cards, by key
  Remedy best_;                                 ///< best card to release claims of; no shortages = none
};

}  // namespace

std::vector<Remedy> findInstanceRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                                         const Pause& pause) {
  return InstanceRemedies(cluster, request, suits, pause).run();
}

}  // namespace egpu::scheduler

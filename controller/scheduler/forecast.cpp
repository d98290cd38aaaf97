#include "controller/scheduler/forecast.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/state/holdings.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

/// Returns how many times `each` fits into `free`; unbounded if `each` is 0.
int64_t times(int64_t free, int64_t each) { return each > 0 ? free / each : kUnbounded; }

class Forecasting {
 public:
  Forecasting(const Cluster& cluster, const Request& request, const NodePredicate& suits, int64_t limit,
              const Pause& pause)
      : cluster_(cluster),
        state_(cluster.state()),
        request_(request),
        suits_(suits),
        needs_(state_, request),
        policy_(findCardPolicy(request.cardPolicy)),
        decisionsLeft_(limit),
        limit_(limit),
        pause_(pause) {}

  Forecast run() {
    if (request_.cards < 1 || policy_ == nullptr) return {};
    for (const auto& [name, id] : state_.nodesByName()) {
      if (pause_) pause_();
      const NodeRecord& node = state_.nodes[id];
      if (!node.offered() || (suits_ && !suits_(name))) continue;
      if (!request_.pinnedNode.empty() && name != request_.pinnedNode) continue;
      if (!byDivision(node)) byTrying(std::string(name));
      if (forecast_.more) break;
    }
    return std::move(forecast_);
  }

 private:
  /// Returns how many further claims fit the node's own limits, whatever its cards hold.
  int64_t capacityOfNode(const NodeRecord& node) const {
    const NodeAmount free = node.free();
    int64_t capacity = std::min(times(free.cpuMilli, request_.cpuMilli), times(free.memory, request_.podMemory));
    if (request_.maxClaimsPerNode > 0) capacity = std::min(capacity, request_.maxClaimsPerNode - node.claims);
    return std::max<int64_t>(capacity, 0);
  }

  int64_t instancesOn(const CardRecord& card, const v1alpha::MigProfile& profile) const {
    const auto& profiles = state_.types[card.type].mig;
    v1alpha::Slots used = card.left.used();
    int64_t times = 0;
    while (const auto slots = mig::chooseSlots(profiles, profile, request_.mig.instances, used)) {
      used = used.with(*slots);
      ++times;
    }
    if (request_.maxClaimsPerCard > 0) times = std::min(times, request_.maxClaimsPerCard - card.claims());
    return times;
  }

  int64_t timesOn(const CardRecord& card, const Need& need) const {
    if (request_.wholeCards) return 1;
    if (need.profile != nullptr) return instancesOn(card, *need.profile);
    const Amount free = card.free();
    int64_t n = std::min(times(free.core, need.charged.core), times(free.memory, need.charged.memory));
    if (request_.maxClaimsPerCard > 0) n = std::min(n, request_.maxClaimsPerCard - card.claims());
    return n;
  }

  /// Counts by division. Returns false if only decisions can give the number: if the choice of cards matters (shares
  /// of, or a total over, several cards; policies for which it matters which cards are taken), or if a node with
  /// several models is limited by itself.
  bool byDivision(const NodeRecord& node) {
    if (!request_.pinnedCards.empty() || divides(request_) || !policy_->takesAny) return false;
    if (request_.cards > 1 && !request_.wholeCards) return false;
    std::map<std::string_view, int64_t> counts;
    int64_t sum = 0;
    for (CardId id : node.cards) {
      const CardRecord& card = state_.cards[id];
      const Need& need = needs_.of(card.type);
      if (!need.possible() || !canHold(card, need, request_)) continue;
      const int64_t n = timesOn(card, need);
      if (n == kUnbounded) return false;
      counts[state_.types[card.type].model] += n;
      sum += n;
    }
    const int64_t capacity = capacityOfNode(node);
    const bool oneModel = counts.size() == 1;
    if (!oneModel && (request_.cards > 1 || capacity < sum)) return counts.empty();
    for (const auto& [model, n] : counts)
      add(std::string(model), std::min(n / request_.cards, oneModel ? capacity : n));
    return true;
  }

  void byTrying(const std::string& node) {
    if (!copy_) copy_ = cluster_;
    Request here = request_;
    here.pinnedNode = node;
    for (;;) {
      if (pause_) pause_();
      if (decisionsLeft_-- <= 0) {
        forecast_.more = true;
        return;
      }
      const Decision decision = decide(*copy_, here);
      if (!decision.fits) return;
      std::set<std::string_view> models;
      for (const Placement& placement : decision.placements) models.insert(copy_->findCard(placement.card).model);
      std::string label;
      for (std::string_view model : models) label += (label.empty() ? "" : "|") + std::string(model);
      hold(*copy_, "forecast/" + std::to_string(limit_ - decisionsLeft_), decision,
           {request_.cpuMilli, request_.podMemory});
      add(label, 1);
    }
  }

  void add(const std::string& model, int64_t n) {
    if (n == 0) return;
    forecast_.count += n;
    forecast_.byModel[model] += n;
  }

  const Cluster& cluster_;
  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  Needs needs_;
  const CardPolicy* const policy_;
  int64_t decisionsLeft_;
  const int64_t limit_;
  const Pause& pause_;
  std::optional<Cluster> copy_;
  Forecast forecast_;
};

}  // namespace

Forecast forecast(const Cluster& cluster, const Request& request, const NodePredicate& suits, int64_t limit,
                  const Pause& pause) {
  return Forecasting(cluster, request, suits, limit, pause).run();
}

}  // namespace egpu::scheduler

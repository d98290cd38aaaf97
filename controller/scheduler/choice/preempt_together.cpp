#include "controller/scheduler/choice/preempt_together.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {
namespace {

class PreemptingTogether {
 public:
  PreemptingTogether(const Cluster& cluster, const std::vector<GangMember>& members, const QuotaBook& book,
                     const StandingOf& standing, int64_t limit, const Pause& pause)
      : copy_(cluster),
        members_(members),
        book_(book),
        standing_(standing),
        limit_(limit),
        left_(limit),
        pause_(pause) {}

  PreemptionTogether run(const std::vector<TopologyGroup>* within, const MayGo& mayGo) {
    best_.after = decideGang(copy_, members_, within, book_, pause_);
    if (!best_.after.lacking) return std::move(best_);
    for (auto& [device, holdings] : holdingsOf(copy_))
      if (!mayGo || mayGo(device)) holders_.emplace(device, holderOf(device, holdings));
    if (holders_.empty()) return std::move(best_);
    if (within == nullptr) tryIn(nullptr);
    for (std::size_t i = 0; within != nullptr && i < within->size(); ++i) {
      if (found_ && left_ <= 0) {
        best_.exact = false;
        break;
      }
      tryIn(&(*within)[i]);
    }
    return std::move(best_);
  }

 private:
  struct Holder {
    std::vector<Holding> holdings;
    std::string node;
    Standing standing;
    int64_t amount = 0;  ///< millionths of cards
  };
  using Devices = std::set<std::string, std::less<>>;
  /// How many go, Σ priorities, −Σ since, Σ amounts.
  using Cost = std::tuple<std::size_t, int64_t, int64_t, int64_t>;

  Holder holderOf(const std::string& device, const std::vector<Holding>& holdings) const {
    Holder holder{holdings, {}, standing_ ? standing_(device) : Standing{}, 0};
    for (const Holding& each : holdings) {
      const CardView card = copy_.findCard(each.card);
      holder.node = card.node;
      holder.amount += fillOf(each.charged, card.capacity);
    }
    return holder;
  }

  void tryIn(const TopologyGroup* group) {
    group_ = group;
    only_.clear();
    if (group != nullptr) only_.push_back(*group);
    Devices gone;
    if (auto few = oneAfterTheOther(); few && fitWithout(*few)) {
      gone = *std::move(few);
    } else {
      for (const auto& [device, holder] : holders_)
        if (inGroup(holder.node)) gone.insert(device);
      if (!fitWithout(gone)) return;
      Devices there = gone;
      std::erase_if(there, [this](const auto& device) {
        const auto& all = decided_.decisions;
        const auto& node = holders_.at(device).node;
        return std::none_of(all.begin(), all.end(), [&node](const Decision& each) { return each.node == node; });
      });
      if (fitWithout(there)) gone = std::move(there);
    }
    spare(gone);
    keep(gone);
  }

  bool inGroup(std::string_view node) const {
    return group_ == nullptr || std::find(group_->nodes.begin(), group_->nodes.end(), node) != group_->nodes.end();
  }

  /// Each member beside those before it, by preempt(). Nothing: one can't be helped so.
  std::optional<Devices> oneAfterTheOther() {
    Devices gone;
    std::map<std::string, std::vector<std::size_t>, std::less<>> on;
    std::vector<QuotaAsked> asked;
    std::vector<Decision> decisions;
    const MayGo mayGo = [this](std::string_view device) { return holders_.find(device) != holders_.end(); };
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const GangMember& member = members_[i];
      Request request = member.request;
      if (member.with) request.pinnedNode = decisions[*member.with].node;
      if (member.claim) request.quota = book_.rooms(*member.claim, asked);
      const bool elsewhere = !member.request.pinnedNode.empty() && member.request.pinnedNode != request.pinnedNode;
      const NodePredicate suits = [&](std::string_view node) {
        if (!inGroup(node) || (member.suits && !member.suits(node))) return false;
        return !member.hasRoom || member.hasRoom(node, on[std::string(node)]);
      };
      Preemption one;
      if (!elsewhere)
        one = preempt(copy_, request, suits, mayGo,
                      std::max<int64_t>(1, limit_ / static_cast<int64_t>(members_.size())), pause_, {}, standing_);
      if (!one.possible) break;
      for (const Victim& victim : one.victims) {
        release(copy_, victim.device, victim.holdings);
        gone.insert(victim.device);
      }
      hold(copy_, uidOf(i), one.decision, {member.request.cpuMilli, member.request.podMemory});
      if (member.claim) asked.push_back({*member.claim, partsOf(copy_, one.decision)});
      on[one.node].push_back(i);
      decisions.push_back(std::move(one.decision));
    }
    for (std::size_t i = 0; i < decisions.size(); ++i)
      for (const Placement& p : decisions[i].placements) copy_.giveBack(p.ref(), uidOf(i));
    set(gone, false);
    return decisions.size() == members_.size() ? std::optional(std::move(gone)) : std::nullopt;
  }

  static std::string uidOf(std::size_t member) { return "preempting/" + std::to_string(member); }

  void set(const Devices& devices, bool gone) {
    for (const auto& device : devices) {
      const auto& holdings = holders_.at(device).holdings;
      if (gone)
        release(copy_, device, holdings);
      else
        hold(copy_, device, holdings);
    }
  }

  bool fit() {
    if (pause_) pause_();
    left_ -= static_cast<int64_t>(members_.size());
    decided_ = decideGang(copy_, members_, group_ == nullptr ? nullptr : &only_, book_, pause_);
    return !decided_.lacking;
  }

  bool fitWithout(const Devices& gone) {
    set(gone, true);
    const bool all = fit();
    set(gone, false);
    return all;
  }

  /// Until none can stay: who was needed beside one that stays now may be needed no more.
  void spare(Devices& gone) {
    std::vector<std::string> order(gone.begin(), gone.end());
    std::stable_sort(order.begin(), order.end(), [this](const auto& a, const auto& b) {
      const auto rank = [](const Holder& of) {
        return std::tuple(of.amount, -of.standing.priority, of.standing.since);
      };
      return rank(holders_.at(a)) < rank(holders_.at(b));
    });
    set(gone, true);
    for (bool any = true; any && left_ > 0;) {
      any = false;
      for (const auto& device : order) {
        if (!gone.contains(device) || left_ <= 0) continue;
        hold(copy_, device, holders_.at(device).holdings);
        if (fit()) {
          gone.erase(device);
          any = true;
        } else {
          release(copy_, device, holders_.at(device).holdings);
        }
      }
    }
    (void)fit();  // what is decided without them
    set(gone, false);
    cut_ = left_ <= 0;
  }

  void keep(const Devices& gone) {
    Cost cost{gone.size(), 0, 0, 0};
    for (const auto& device : gone) {
      const Holder& holder = holders_.at(device);
      std::get<1>(cost) += holder.standing.priority;
      std::get<2>(cost) -= holder.standing.since;
      std::get<3>(cost) += holder.amount;
    }
    if (found_ && cost_ <= cost) return;
    found_ = true;
    cost_ = cost;
    best_.after = std::move(decided_);
    best_.exact = !cut_;
    best_.victims.clear();
    for (const auto& device : gone) best_.victims.push_back({device, holders_.at(device).holdings});
  }

  Cluster copy_;
  const std::vector<GangMember>& members_;
  const QuotaBook& book_;
  const StandingOf& standing_;
  const int64_t limit_;
  int64_t left_;  ///< decisions
  const Pause& pause_;
  std::map<std::string, Holder, std::less<>> holders_;  ///< who may go
  // Of the group that is being tried.
  const TopologyGroup* group_ = nullptr;
  std::vector<TopologyGroup> only_;
  GangDecision decided_;
  bool cut_ = false;
  bool found_ = false;
  Cost cost_;
  PreemptionTogether best_;
};

}  // namespace

PreemptionTogether preemptTogether(const Cluster& cluster, const std::vector<GangMember>& members,
                                   const std::vector<TopologyGroup>* within, const QuotaBook& book, const MayGo& mayGo,
                                   const StandingOf& standing, int64_t limit, const Pause& pause) {
  return PreemptingTogether(cluster, members, book, standing, limit, pause).run(within, mayGo);
}

}  // namespace egpu::scheduler

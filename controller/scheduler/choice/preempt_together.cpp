#include "controller/scheduler/choice/preempt_together.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/nominated_capacity.h"
#include "controller/scheduler/choice/victim_places.h"
#include "controller/scheduler/quota/preempt_within.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/holdings.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

/// Maximum product of victims and members for which members can move while victims are spared.
constexpr std::size_t kMaxTriesToSpare = 4096;
constexpr std::size_t kGroups = 16;  ///< each group gets at least this fraction of the decisions

/// Upper bound of the parts of members that some nodes could hold without evictable holders. A part is a member's
/// amount on one card.
class Capacity {
 public:
  Capacity(const Cluster& cluster, const std::vector<GangMember>& members) : state_(cluster.state()) {
    const Request* last = nullptr;
    for (const GangMember& member : members) {
      const Request& request = member.request;
      if (request.adminAccess || request.cards == 0) continue;
      (request.wholeCards ? whole_ : shares_) += request.cards;
      if (!request.wholeCards && (last == nullptr || !(request == *last))) least(request);
      last = &request;
    }
    freed_.resize(state_.cards.size());
  }

  /// Adds an evictable holding.
  void isEvictable(const Holding& holding) {
    Freed& freed = freed_[state_.findCard(holding.card)];
    ++freed.claims;
    freed.amount.core += holding.charged.core;
    freed.amount.memory += holding.charged.memory;
  }

  /// Returns false if these nodes can never hold all members.
  bool mayHold(const std::vector<std::string>& nodes) const {
    int64_t empty = 0, shares = 0;
    for (const std::string& name : nodes) {
      const NodeId id = state_.findNode(name);
      if (id == kNone || !state_.nodes[id].offered()) continue;
      for (const CardId card : state_.nodes[id].cards) {
        if (!state_.cards[card].healthy) continue;
        const bool whole = state_.cards[card].claims() == freed_[card].claims;
        empty += whole;
        shares += std::max<int64_t>(sharesOn(card), whole);
      }
      if (empty >= whole_ && shares >= whole_ + shares_) return true;
    }
    return false;
  }

 private:
  struct Freed {
    int64_t claims = 0;
    Amount amount;
  };

  /// Lowers least_ to the request's smallest amount on one card of any type.
  void least(const Request& request) {
    for (const CardType& type : state_.types)
      if (const Need need = needOn(type, request); need.possible())
        least_ = {std::min(least_.core, need.charged.core), std::min(least_.memory, need.charged.memory)};
  }

  int64_t sharesOn(CardId card) const {
    const Amount left = state_.cards[card].free(), &freed = freed_[card].amount;
    const auto times = [](int64_t capacity, int64_t each) {
      return each > 0 ? std::max<int64_t>(0, capacity) / each : kAny;
    };
    return shares_ == 0
               ? 0
               : std::min(times(left.core + freed.core, least_.core), times(left.memory + freed.memory, least_.memory));
  }

  static constexpr int64_t kAny = int64_t{1} << 32;
  const Cluster::State& state_;
  int64_t whole_ = 0, shares_ = 0;  ///< number of parts
  Amount least_{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
  std::vector<Freed> freed_;  ///< by card
};

class PreemptingTogether {
 public:
  PreemptingTogether(const Cluster& cluster, const std::vector<GangMember>& members, const QuotaBook& book,
                     const EvictionRankOf& standing, int64_t limit, const StopCondition& enough)
      : copy_(cluster),
        members_(members),
        namespace_(namespaceOf(members)),
        book_(book.of(namespace_)),
        standing_(standing),
        share_(limit / static_cast<int64_t>(std::max<std::size_t>(members.size(), 1))),
        tries_(limit),
        left_(limit),
        enough_(enough) {}

  PreemptionTogether run(const std::vector<TopologyGroup>* within, const IsEvictable& isEvictable) {
    best_.after = decideGang(copy_, members_, within, book_);
    if (!best_.after.lacking) return std::move(best_);
    Capacity capacity(copy_, members_);
    for (auto& [device, holdings] : holdingsOf(copy_)) {
      if (isEvictable && !isEvictable(device)) continue;
      for (const Holding& each : holdings) capacity.isEvictable(each);
      const GangVictim& holder = holders_.emplace(device, holderOf(device, holdings)).first->second;
      holdersOn_[holder.node].push_back(device);
    }
    for (const auto& device : book_.holdersIn(namespace_))
      if (holders_.contains(device)) givers_.insert(device);
    if (holders_.empty()) return std::move(best_);
    if (within == nullptr)
      tryIn(nullptr);
    else
      tryEach(*within, capacity);
    return std::move(best_);
  }

 private:
  struct GangVictim {
    std::vector<Holding> holdings;
    std::string node;
    EvictionRank standing;
    int64_t amount = 0;            ///< millionths of cards
    QuotaBook::Withdrawn quota{};  ///< set while it is released
  };
  using Devices = std::set<std::string, std::less<>>;
  static std::string namespaceOf(const std::vector<GangMember>& members) {
    for (const GangMember& member : members)
      if (member.claim) return member.claim->namespace_;
    return {};
  }

  /// Number of victims, sum of priorities, −sum of since, sum of amounts.
  using Cost = std::tuple<std::size_t, int64_t, int64_t, int64_t>;

  GangVictim holderOf(const std::string& device, const std::vector<Holding>& holdings) const {
    GangVictim holder{holdings, {}, standing_ ? standing_(device) : EvictionRank{}, 0, {}};
    for (const Holding& each : holdings) {
      const CardView card = copy_.findCard(each.card);
      holder.node = card.node;
      holder.amount += fillOf(each.charged, card.capacity);
    }
    return holder;
  }

  bool enough() const { return enough_ && enough_(); }
  bool spent() const { return left_ <= 0 || enough(); }
  bool over() const { return tries_ <= 0 || spent(); }

  void tryEach(const std::vector<TopologyGroup>& within, const Capacity& capacity) {
    share_ /= static_cast<int64_t>(std::clamp<std::size_t>(within.size(), 1, kGroups));
    for (const TopologyGroup& group : within) {
      if (over()) {
        best_.exact = false;
        break;
      }
      if (capacity.mayHold(group.nodes)) tryIn(&group);
    }
  }

  void tryIn(const TopologyGroup* group) {
    group_ = group;
    only_.clear();
    if (group != nullptr) only_.push_back(*group);
    Devices gone;
    if (auto few = oneAfterTheOther(); few && fitWithout(*few)) {
      gone = *std::move(few);
    } else {
      if (enough()) {
        best_.exact = false;
        return;
      }
      gone = allHere();
      if (!fitWithout(gone)) return;
      Devices there = gone;
      std::erase_if(there, [this](const auto& device) {
        const auto& all = decided_.decisions;
        const auto& node = holders_.at(device).node;
        if (givers_.contains(device)) return false;
        return std::none_of(all.begin(), all.end(), [&node](const Decision& each) { return each.node == node; });
      });
      if (fitWithout(there)) gone = std::move(there);
    }
    if (gone.size() * members_.size() <= kMaxTriesToSpare)
      spare(gone);
    else
      spareOnTheirNodes(gone);
    consider(gone);
  }

  /// Returns the evictable holders on the group's nodes, and those elsewhere that release quota.
  Devices allHere() const {
    Devices all = givers_;
    for (const auto& [node, devices] : holdersOn_)
      if (group_ == nullptr) all.insert(devices.begin(), devices.end());
    for (std::size_t i = 0; group_ != nullptr && i < group_->nodes.size(); ++i)
      if (const auto on = holdersOn_.find(group_->nodes[i]); on != holdersOn_.end())
        all.insert(on->second.begin(), on->second.end());
    return all;
  }

  /// Finds victims for each member with preempt(), beside the members before it. nullopt if that fails for a member.
  std::optional<Devices> oneAfterTheOther() {
    Devices gone;
    std::map<std::string, std::vector<std::size_t>, std::less<>> on;
    std::vector<QuotaAsked> asked;
    std::vector<Decision> decisions;
    VictimPlaces known;
    const IsEvictable isEvictable = [this](std::string_view device) { return holders_.find(device) != holders_.end(); };
    const SearchScope among{group_ == nullptr ? nullptr : &group_->nodes,
                            [this](std::string_view node) { return holdersOn_.find(node) != holdersOn_.end(); }};
    for (std::size_t i = 0; i < members_.size() && !enough(); ++i) {
      const GangMember& member = members_[i];
      Request request = member.request;
      if (member.with) request.pinnedNode = decisions[*member.with].node;
      const bool elsewhere = !member.request.pinnedNode.empty() && member.request.pinnedNode != request.pinnedNode;
      const NodePredicate suits = [&](std::string_view node) {
        if (member.suits && !member.suits(node)) return false;
        return !member.hasCapacity || member.hasCapacity(node, on[std::string(node)]);
      };
      Preemption one;
      int64_t left = std::max<int64_t>(1, share_);
      tries_ -= left;
      if (!elsewhere && member.claim)
        one = preemptWithinIn(copy_, book_, {*member.claim, request, asked}, among, suits, isEvictable, left, standing_,
                              enough_);
      else if (!elsewhere)
        one = preemptIn(copy_, request, among, suits, isEvictable, left, standing_, enough_, {}, &known);
      tries_ += left;
      if (!one.possible) break;
      Devices victims;
      for (const Victim& victim : one.victims) victims.insert(victim.device);
      set(victims, true);
      gone.insert(victims.begin(), victims.end());
      known.changed.insert(copy_.state().findNode(one.node));
      for (const auto& victim : victims) known.changed.insert(copy_.state().findNode(holders_.at(victim).node));
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
    for (const auto& device : devices) set(device, gone);
  }
  void set(const std::string& device, bool gone) {
    GangVictim& holder = holders_.at(device);
    if (gone) {
      release(copy_, device, holder.holdings);
      holder.quota = book_.withdraw(device);
    } else {
      hold(copy_, device, holder.holdings);
      book_.restore(device, holder.quota);
    }
  }

  bool fit() {
    decided_ = decideGang(copy_, members_, group_ == nullptr ? nullptr : &only_, book_);
    left_ -= static_cast<int64_t>(decided_.lacking ? decided_.lacking->fit + 1 : members_.size());
    return !decided_.lacking;
  }

  bool fitWithout(const Devices& gone) {
    set(gone, true);
    const bool all = fit();
    set(gone, false);
    return all;
  }

  /// Returns the victims in the order in which they are spared.
  std::vector<std::string> inOrder(const Devices& gone) const {
    std::vector<std::string> order(gone.begin(), gone.end());
    std::stable_sort(order.begin(), order.end(), [this](const auto& a, const auto& b) {
      const auto rank = [](const GangVictim& of) {
        return std::tuple(of.amount, -of.standing.priority, of.standing.since);
      };
      return rank(holders_.at(a)) < rank(holders_.at(b));
    });
    return order;
  }

  /// As spare(), with one try per victim: each member stays on its node. Otherwise fewer victims might be enough.
  void spareOnTheirNodes(Devices& gone) {
    cut_ = true;
    if (!fitWithout(gone)) return;  // as in the earlier try
    NominatedCapacity nominated(book_);
    for (std::size_t i = 0; i < members_.size(); ++i)
      nominated.add(copy_, decided_.decisions[i].node, members_[i].request,
                    members_[i].request.adminAccess ? std::nullopt : members_[i].claim);
    const auto order = inOrder(gone);
    if (!nominated.release(order)) return;
    for (const auto& device : order) {
      if (spent()) break;
      --left_;
      if (nominated.spare(device)) gone.erase(device);
    }
    decided_.decisions = nominated.decisions();
  }

  /// Repeats until no further victim can be spared, because a spared victim can make another one unnecessary.
  void spare(Devices& gone) {
    const std::vector<std::string> order = inOrder(gone);
    set(gone, true);
    for (bool any = true; any && !spent();) {
      any = false;
      for (const auto& device : order) {
        if (!gone.contains(device) || spent()) continue;
        set(device, false);
        if (fit()) {
          gone.erase(device);
          any = true;
        } else {
          set(device, true);
        }
      }
    }
    (void)fit();  // the decision without the victims
    set(gone, false);
    cut_ = spent();
  }

  void consider(const Devices& gone) {
    Cost cost{gone.size(), 0, 0, 0};
    for (const auto& device : gone) {
      const GangVictim& holder = holders_.at(device);
      std::get<1>(cost) += holder.standing.priority;
      std::get<2>(cost) -= holder.standing.since;
      std::get<3>(cost) += holder.amount;
    }
    best_.exact = best_.exact && !cut_;  // fewer victims might be enough
    if (found_ && cost_ <= cost) return;
    found_ = true;
    cost_ = cost;
    best_.after = std::move(decided_);
    best_.victims.clear();
    for (const auto& device : gone) best_.victims.push_back({device, holders_.at(device).holdings});
  }

  Cluster copy_;
  const std::vector<GangMember>& members_;
  const std::string namespace_;  ///< namespace of the counted quotas; empty if no member is counted
  QuotaBook book_;
  const EvictionRankOf& standing_;
  int64_t share_;  ///< decisions per member and group to find victims
  int64_t tries_;  ///< decisions left to find victims
  int64_t left_;   ///< decisions left to spare victims
  const StopCondition& enough_;
  std::map<std::string, GangVictim, std::less<>> holders_;                  ///< evictable holders
  std::map<std::string, std::vector<std::string>, std::less<>> holdersOn_;  ///< evictable holders by node
  Devices givers_;                                                          ///< holders that release quota
  // State of the current group.
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
                                   const std::vector<TopologyGroup>* within, const QuotaBook& book,
                                   const IsEvictable& isEvictable, const EvictionRankOf& standing, int64_t limit,
                                   const StopCondition& enough) {
  return PreemptingTogether(cluster, members, book, standing, limit, enough).run(within, isEvictable);
}

}  // namespace egpu::scheduler

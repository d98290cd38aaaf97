#include "controller/scheduler/choice/plan_reservations.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/choice/expected_availability.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

constexpr std::size_t kMaxUnlike = 8;  ///< maximum number of different requests; each costs a scan
constexpr std::string_view kMember = "member/";
/// Start time of a holder that is expected to stay. Differences to now do not overflow.
constexpr int64_t kSinceEver = std::numeric_limits<int64_t>::min() / 4;
constexpr int64_t kNever = -kSinceEver;  ///< seconds

class ReservationPlan {
 public:
  ReservationPlan(const Cluster& cluster, const std::vector<GangMember>& members, const QuotaBook& book, int64_t now,
                  const HeldSince& heldSince, const CurrentReservations& before, std::size_t max,
                  const HolderLasts& lasts)
      : cluster_(cluster),
        members_(members),
        book_(book),
        now_(now),
        heldSince_(heldSince),
        before_(before),
        max_(max),
        lasts_(lasts),
        leavesSince_([this](std::string_view device) { return lasts_(device) ? kSinceEver : heldSince_(device); }) {
    std::vector<std::size_t> podOf(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      podOf[i] = members[i].with ? podOf[*members[i].with] : pods_.size();
      if (!members[i].with) pods_.emplace_back();
      pods_[podOf[i]].members.push_back(i);
      pods_[podOf[i]].requests.push_back(members[i].request);
    }
  }

  /// Plans within the group; null = among all nodes. Returns false if they cannot hold all members.
  bool in(const TopologyGroup* group) {
    then_ = {};
    planned_.clear();
    alike_.clear();
    asked_.clear();
    last_ = 0;
    return std::all_of(pods_.begin(), pods_.end(), [&](const MemberPod& pod) { return place(pod, group); }) &&
           (asked_.empty() || !book_.excess(asked_));
  }

  /// Expected number of seconds until all nodes are free.
  int64_t last() const {
    const auto& nodes = before_.nodes;
    const bool same =
        !nodes.empty() && std::all_of(nodes.begin(), nodes.end(), [this](const auto& node) { return isPlanned(node); });
    return same ? expectedOfReserved(last_, before_.moves) : last_;
  }

  std::vector<MemberReservation> nodes() const {
    std::vector<MemberReservation> nodes;
    nodes.reserve(planned_.size());
    for (const PlannedNode& node : planned_) nodes.push_back({node.placed.front(), node.name});
    return nodes;
  }

 private:
  struct MemberPod {
    std::vector<std::size_t> members;
    std::vector<Request> requests;
  };
  struct PlannedNode {
    std::string name;
    std::vector<std::size_t> placed{};  ///< members
    bool empty = false;                 ///< no holders except the members
  };
  struct NodeCandidate {
    int64_t in = 0;     ///< seconds
    bool fresh = true;  ///< not reserved before
    std::string_view name;
    bool checked = false;  ///< `in` accounts for holders that stay
  };
  using Expected = std::deque<ExpectedAvailability>;  ///< one per request of a pod; with stable addresses
  /// Pods with equal requests.
  struct Alike {
    const MemberPod* pod = nullptr;       ///< the first of them
    std::vector<NodeCandidate> soonest;   ///< a heap with the soonest candidate in front
    std::shared_ptr<Expected> leaving{};  ///< as `soonest`, with holders that stay; null until the first check
    std::size_t from = 0;                 ///< position in planned_: earlier nodes are full for them
  };

  bool place(const MemberPod& pod, const TopologyGroup* group) {
    Alike* const alike = alikeOf(pod, group);
    if (alike == nullptr) return false;
    for (; alike->from < planned_.size(); ++alike->from)
      if (putOn(planned_[alike->from], pod)) return true;
    while (!alike->soonest.empty()) {
      if (planned_.size() == max_ && !isPlanned(alike->soonest.front().name)) return false;
      const NodeCandidate candidate = popSoonest(*alike);
      if (isPlanned(candidate.name)) continue;
      if (!candidate.checked && lasts_) {
        checkAgain(*alike, candidate);
        continue;
      }
      PlannedNode node{std::string(candidate.name)};
      copyNode(cluster_, node.name, then_);
      if (!putOn(node, pod) && !makeMoreOf(node, pod)) continue;
      last_ = std::max(last_, candidate.in);
      planned_.push_back(std::move(node));
      return true;
    }
    return std::any_of(planned_.begin(), planned_.end(), [&](PlannedNode& node) { return makeMoreOf(node, pod); });
  }

  bool isLater(const NodeCandidate& a, const NodeCandidate& b) const {
    const auto rank = [this](const NodeCandidate& each) {
      return std::tuple(each.fresh ? each.in : expectedOfReserved(each.in, before_.moves), each.fresh, each.name);
    };
    return rank(b) < rank(a);
  }

  NodeCandidate popSoonest(Alike& alike) const {
    std::pop_heap(alike.soonest.begin(), alike.soonest.end(),
                  [this](const auto& a, const auto& b) { return isLater(a, b); });
    const NodeCandidate soonest = alike.soonest.back();
    alike.soonest.pop_back();
    return soonest;
  }

  /// Reinserts the candidate with holders that stay taken into account, unless it then never has capacity.
  void checkAgain(Alike& alike, NodeCandidate candidate) const {
    if (!alike.leaving) {
      alike.leaving = std::make_shared<Expected>();
      for (const Request& request : alike.pod->requests)
        alike.leaving->emplace_back(cluster_.state(), request, now_, leavesSince_);
    }
    candidate.in = 0;
    for (ExpectedAvailability& expected : *alike.leaving) {
      const auto in = expected.on(cluster_.state().findNode(candidate.name));
      if (!in || *in >= kNever) return;
      candidate.in = std::max(candidate.in, *in);
    }
    candidate.checked = true;
    alike.soonest.push_back(candidate);
    std::push_heap(alike.soonest.begin(), alike.soonest.end(),
                   [this](const auto& a, const auto& b) { return isLater(a, b); });
  }

  /// Empties a node that has capacity for some members already, and places the pod there.
  bool makeMoreOf(PlannedNode& node, const MemberPod& pod) {
    if (std::exchange(node.empty, true)) return false;
    makeEmpty(node.name);
    for (Alike& alike : alike_) alike.from = 0;
    return putOn(node, pod);
  }

  bool isPlanned(std::string_view node) const {
    return std::any_of(planned_.begin(), planned_.end(), [node](const PlannedNode& each) { return each.name == node; });
  }

  void makeEmpty(const std::string& node) {
    for (const auto& card : then_.cardsOf(node))
      for (const auto& taken : then_.allocationsOn(card))
        if (!taken.uid.starts_with(kMember) && !(lasts_ && lasts_(taken.uid))) then_.giveBack(card, taken.uid);
  }

  bool putOn(PlannedNode& node, const MemberPod& pod) {
    if (!suits(pod, node.name, node.placed)) return false;
    const auto decisions = togetherOn(then_, pod.requests, node.name);
    if (decisions.empty()) return false;
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      const Request& request = pod.requests[i];
      const GangMember& member = members_[pod.members[i]];
      if (member.claim && !request.adminAccess) asked_.push_back({*member.claim, partsOf(then_, decisions[i])});
      NodeAmount ofNode{request.cpuMilli, request.podMemory};
      for (const Placement& each : decisions[i].placements)
        then_.take(each, std::string(kMember) + std::to_string(pod.members[i]), std::exchange(ofNode, {}));
    }
    node.placed.insert(node.placed.end(), pod.members.begin(), pod.members.end());
    return true;
  }

  bool suits(const MemberPod& pod, std::string_view node, const std::vector<std::size_t>& placed) const {
    return std::all_of(pod.members.begin(), pod.members.end(), [&](std::size_t i) {
      const GangMember& member = members_[i];
      return (!member.suits || member.suits(node)) && (!member.hasCapacity || member.hasCapacity(node, placed));
    });
  }

  bool askTheSame(const MemberPod& a, const MemberPod& b) const {
    return a.requests == b.requests &&
           std::equal(a.members.begin(), a.members.end(), b.members.begin(), [this](std::size_t i, std::size_t j) {
             const GangMember &x = members_[i], &y = members_[j];
             const bool any = !x.suits && !x.hasCapacity && !y.suits && !y.hasCapacity;
             return any || i == j || (x.kind && x.kind == y.kind);
           });
  }

  Alike* alikeOf(const MemberPod& pod, const TopologyGroup* group) {
    for (Alike& alike : alike_)
      if (askTheSame(*alike.pod, pod)) return &alike;
    if (alike_.size() == kMaxUnlike) return nullptr;
    alike_.push_back({&pod, {}, {}, 0});
    search(alike_.back(), group);
    return &alike_.back();
  }

  void search(Alike& alike, const TopologyGroup* group) const {
    const auto& state = cluster_.state();
    Expected expected;
    for (const Request& request : alike.pod->requests) expected.emplace_back(state, request, now_, heldSince_);
    const auto add = [&](std::string_view name, NodeId id) {
      if (!suits(*alike.pod, name, {})) return;
      const auto& before = before_.nodes;
      NodeCandidate candidate{0, std::find(before.begin(), before.end(), name) == before.end(), name};
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto& pinned = alike.pod->requests[i].pinnedNode;
        const auto in = pinned.empty() || pinned == name ? expected[i].on(id) : std::nullopt;
        if (!in) return;
        candidate.in = std::max(candidate.in, *in);
      }
      alike.soonest.push_back(candidate);
    };
    if (group == nullptr)
      for (const auto& [name, id] : state.nodesByName()) add(name, id);
    else
      for (const std::string& name : group->nodes)
        if (const NodeId id = state.findNode(name); id != kNone) add(name, id);
    std::make_heap(alike.soonest.begin(), alike.soonest.end(),
                   [this](const auto& a, const auto& b) { return isLater(a, b); });
  }

  const Cluster& cluster_;
  const std::vector<GangMember>& members_;
  const QuotaBook& book_;
  const int64_t now_;
  const HeldSince& heldSince_;
  const CurrentReservations& before_;
  const std::size_t max_;
  const HolderLasts& lasts_;
  const HeldSince leavesSince_;  ///< holders that stay have kSinceEver
  std::vector<MemberPod> pods_;
  // State of the current try.
  Cluster then_;  ///< the reserved nodes as they will be
  std::vector<PlannedNode> planned_;
  std::vector<Alike> alike_;
  std::vector<QuotaAsked> asked_;
  int64_t last_ = 0;
};

}  // namespace

std::vector<MemberReservation> planReservations(const Cluster& cluster, const std::vector<GangMember>& members,
                                                const std::vector<TopologyGroup>* within, const QuotaBook& book,
                                                int64_t now, const HeldSince& heldSince,
                                                const CurrentReservations& before, std::size_t max,
                                                const HolderLasts& lasts) {
  ReservationPlan plan(cluster, members, book, now, heldSince, before, max, lasts);
  if (within == nullptr) return plan.in(nullptr) ? plan.nodes() : std::vector<MemberReservation>();
  std::vector<MemberReservation> best;
  std::optional<int64_t> least;
  for (const TopologyGroup& group : *within) {
    if (!plan.in(&group) || (least && plan.last() >= *least)) continue;
    least = plan.last();
    best = plan.nodes();
  }
  return best;
}

}  // namespace egpu::scheduler

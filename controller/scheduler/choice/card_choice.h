// The card choice: which cards of a node fit, whether they are enough, and which of them are given, with their amounts.
// Internal to scheduler/.
#pragma once

#include <optional>
#include <vector>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

class CardChoice {
 public:
  /// The arguments must outlive it.
  CardChoice(const Cluster::State& state, const Request& request, const CardPolicy& policy, Needs& needs);

  Needs& needs() { return needs_; }
  /// True if the node's cards can hold the request. Does not check the node's own limits.
  bool fits(const NodeRecord& node);
  struct Pick {
    CardId card = kNone;
    Amount granted, charged;
  };
  /// Chooses the cards of the node for the request. Returns false if its cards cannot hold it.
  bool pick(const NodeRecord& node, std::vector<Pick>& picks);
  /// Returns the decision for a node on which the request fits.
  Decision choose(const NodeRecord& node);

 private:
  bool canHold(CardId id);
  /// Returns the request's MIG instances on the card, none if it requests none.
  MigInstances instancesOn(CardId id);
  void collect(const NodeRecord& node);
  /// Returns the slots that the request's MIG instances get on a card that can hold them.
  v1alpha::Slots slotsOn(const CardRecord& card);
  /// Drops the collected cards on which the request's MIG instances would lose more placements than on another one.
  void keepLeastLoss();
  /// Lets the policy choose among the collected cards. Returns false if too few fit, or a pinned one does not.
  bool applyPolicy(const NodeRecord& node, Chosen& chosen);
  /// Returns the capacities of the collected cards for a total to be divided, and drops cards without capacity.
  std::vector<int64_t> capacities();
  /// As pick(); sets `linkGap` to Chosen::linkGap.
  bool pickInto(const NodeRecord& node, std::vector<Pick>& picks, int64_t& linkGap);
  /// As applyPolicy(), for a total that is divided among the collected cards.
  bool applyPolicyToTotal(const NodeRecord& node, const Division& division, Chosen& chosen) const;

  const Cluster::State& state_;
  const Request& request_;
  const CardPolicy& policy_;
  Needs& needs_;
  std::optional<SplitTotal> total_;  ///< set if the request is to be divided
  std::vector<CardCandidate> candidates_;
  std::vector<uint32_t> required_;  ///< positions in candidates_ of pinned cards, if further cards are wanted
  Chosen chosen_;
};

}  // namespace egpu::scheduler

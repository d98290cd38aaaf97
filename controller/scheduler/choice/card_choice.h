// The card tier: which cards of a node fit, whether they are enough, and which of them are given how much. Internal to
// scheduler/.
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
  /// All of them must outlive it.
  CardChoice(const Cluster::State& state, const Request& request, const CardPolicy& policy, Needs& needs);

  Needs& needs() { return needs_; }
  /// Whether the node's cards can hold the request; the node's own limits are not asked.
  bool fits(const NodeRecord& node);
  struct Pick {
    CardId card = kNone;
    Amount granted, charged;
  };
  /// The cards that the request would be given there; false if the node's cards can't hold it.
  bool pick(const NodeRecord& node, std::vector<Pick>& picks);
  /// What the request is given there. Only if it fits.
  Decision choose(const NodeRecord& node);

 private:
  bool cardFits(CardId id);
  void collect(const NodeRecord& node);
  /// Lets the policy choose among the collected cards; false if too few fit, or a pinned one does not.
  bool choosePolicy(const NodeRecord& node, Chosen& chosen);
  /// Of a total to be divided: the rooms of the collected cards; cards without room are dropped.
  std::vector<int64_t> rooms();
  /// The same, without asking first whether it fits; linkGap as in Chosen.
  bool pickInto(const NodeRecord& node, std::vector<Pick>& picks, int64_t& linkGap);
  bool divided(const NodeRecord& node, const Division& division, Chosen& chosen) const;

  const Cluster::State& state_;
  const Request& request_;
  const CardPolicy& policy_;
  Needs& needs_;
  std::optional<SplitTotal> total_;  ///< if the request is to be divided
  std::vector<Candidate> candidates_;
  std::vector<uint32_t> required_;  ///< positions in candidates_ of pinned cards, where more cards are wanted than these
  Chosen chosen_;
};

}  // namespace egpu::scheduler

// What the claims of each namespace that has quotas have: counted part by part, in the ledger's unit, whoever says so
// (cache/cluster_view.h). Pure state, not thread-safe.
//
// A namespace is counted from its first quota on; until then nothing of it is kept. What it had before is told again:
// untold().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/scheduler/quota/quota.h"

namespace egpu::scheduler {

/// Whose something is. A part whose class is not known counts for every class.
struct QuotaClaim {
  std::string namespace_, name;
  std::string id;  ///< the claim's uid, or, where none is known, what stands for it
  std::string className;
  bool operator==(const QuotaClaim&) const = default;
};

/// A claim, and the cards that it would have besides what it has.
struct QuotaAsked {
  QuotaClaim claim;
  std::vector<QuotaPart> parts;
  std::string insteadOf{};  ///< what else it gives up for them: another QuotaClaim::id
};

class QuotaBook {
 public:
  /// All quotas of a namespace; none = it is no longer counted.
  void setQuotas(const std::string& namespace_, std::vector<Quota> quotas);
  bool empty() const { return spaces_.empty(); }
  bool counts(std::string_view namespace_) const { return spaces_.find(namespace_) != spaces_.end(); }
  /// Whether some namespace came to be counted since this was asked last: then every part is to be put once more.
  bool untold() { return std::exchange(untold_, false); }

  /// The holder (a device's uid, or a decision) has this part of the card for that claim; replaces what it had of it.
  /// Of a namespace without quotas nothing is kept.
  void put(const std::string& holder, const QuotaClaim& claim, const std::string& card, const QuotaPart& part);
  /// It has nothing of the card any more; absent = no-op.
  void drop(const std::string& holder, const std::string& card);
  /// It has nothing any more.
  void drop(const std::string& holder);
  /// The part as it was put last; null if there is none.
  const QuotaPart* find(const std::string& holder, const std::string& card) const;

  /// What the namespace's quotas leave to a claim that gives up what it has, once these others have theirs.
  std::vector<QuotaRoom> rooms(const QuotaClaim& claim, const std::vector<QuotaAsked>& besides = {}) const;
  /// Why these claims can't all have their parts instead of what they have: the first quota by name that is exceeded,
  /// one that refuses before one that lets wait. Only what grows is judged: of a quota that was lowered under what is
  /// used, a claim may still be given less than it has, and what the quota does not count.
  std::optional<QuotaExcess> excess(const std::vector<QuotaAsked>& asked) const;
  /// Somebody of the namespace was told so: he is to be tried again once less is used than now.
  void refused(std::string_view namespace_);

  /// Used, by all claims that count. Nothing: no such quota.
  std::optional<QuotaAmounts> used(std::string_view namespace_, std::string_view quota) const;
  /// Who has most of that key under the quota, "default/a 40Gi, default/b 4Gi and 3 more"; empty if nobody has any.
  std::string holders(std::string_view namespace_, std::string_view quota, QuotaKey key, std::size_t most) const;
  /// Of the namespace's quotas, if one of them refuses; it differs once any of them changed.
  std::optional<uint64_t> refusing(std::string_view namespace_) const;

  struct Change {
    std::string namespace_;
    bool freed = false;  ///< who was refused may be within its quotas now
  };
  bool changed() const { return !changed_.empty(); }
  /// Namespaces of which something changed since this was asked last.
  std::vector<Change> takeChanges();

 private:
  struct Counted {
    Quota quota;
    QuotaAmounts used{};
    std::optional<QuotaAmounts> refusedAt;  ///< the most that was used when somebody was refused
  };
  struct Held {
    std::string holder, card;
    QuotaPart part;
  };
  struct Holder {
    std::string name, className;
    std::vector<Held> parts;
    std::vector<QuotaPart> plain() const;
  };
  struct Space {
    std::vector<Counted> quotas;
    std::map<std::string, Holder, std::less<>> claims;  ///< by QuotaClaim::id
    uint64_t version = 0;
  };
  struct Place {
    std::string namespace_, claim;
  };

  static bool classCounts(const Quota& quota, std::string_view className) {
    return className.empty() || anyOf(quota.classes, className);
  }
  /// Of one quota: own is what the claim has, others what all others have.
  static std::optional<QuotaExcess> judge(const Quota& quota, const QuotaAsked& asked, const QuotaAmounts& own,
                                          const QuotaAmounts& others);
  static QuotaAmounts contribution(const Quota& quota, const Holder& holder);
  void count(Space& space, const Holder& holder, int sign);
  static QuotaAmounts has(const Space& space, const Quota& quota, const std::string& claim);
  static QuotaAmounts givenUp(const Space& space, const Quota& quota, const QuotaAsked& asked);
  /// What it has of one card, or, if that is null, of all.
  void erase(const std::string& holder, const std::string* card);
  const Space* spaceOf(std::string_view namespace_) const;

  std::map<std::string, Space, std::less<>> spaces_;
  std::unordered_map<std::string, Place> places_;  ///< by holder
  std::map<std::string, bool> changed_;            ///< namespace → its limits changed
  uint64_t lastVersion_ = 0;
  bool untold_ = false;
};

}  // namespace egpu::scheduler

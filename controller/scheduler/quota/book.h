// Counts the usage of each namespace with quotas, part by part, in the ledger's unit. The allocator supplies the parts.
// Pure state, not thread-safe.
//
// A namespace is counted from its first quota on; before, its parts are not stored. Then its existing parts must be put
// again: takeUncounted().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/scheduler/quota/quota.h"

namespace egpu::scheduler {

/// Quota that is nominated to or reserved for a claim. Other claims are checked as if the claim used it.
struct QuotaHold {
  QuotaAsked owner;
  std::vector<std::string> victims{};  ///< holders to evict for it: the quota that they release belongs to the owner
};

/// Amount by which one key of one quota is exceeded.
struct QuotaLack {
  std::size_t quota = 0;  ///< position among the namespace's quotas, by name and profile
  QuotaKey key = QuotaKey::gpu;
  int64_t amount = 0;
  bool operator==(const QuotaLack&) const = default;
};

class QuotaBook {
 public:
  /// Replaces all quotas of a namespace; without quotas it is no longer counted.
  void setQuotas(const std::string& namespace_, std::vector<Quota> quotas);
  bool empty() const { return spaces_.empty(); }
  bool counts(std::string_view namespace_) const { return spaces_.find(namespace_) != spaces_.end(); }
  /// Returns true if a namespace came to be counted since the last call. Then every part must be put again.
  bool takeUncounted() { return std::exchange(hasUncounted_, false); }

  /// Records the part of a card that the holder (a device's uid, or a decision) has for the claim. Replaces an earlier
  /// part of that holder and card. Ignored in a namespace without quotas.
  void put(const std::string& holder, const QuotaClaim& claim, const std::string& card, const QuotaPart& part);
  /// Removes the holder's part of the card; no-op if there is none.
  void drop(const std::string& holder, const std::string& card);
  /// Removes all parts of the holder.
  void drop(const std::string& holder);
  /// All parts of one holder, for restore().
  struct Withdrawn {
    QuotaClaim claim;
    std::vector<std::pair<std::string, QuotaPart>> parts;  ///< by card
  };
  /// Like drop(), but can be undone by restore(). For trials on a copy.
  Withdrawn withdraw(const std::string& holder);
  void restore(const std::string& holder, const Withdrawn& withdrawn);
  /// Returns a copy with this namespace only.
  QuotaBook of(std::string_view namespace_) const;
  /// Returns the holders in the namespace, by name.
  std::vector<std::string> holdersIn(std::string_view namespace_) const;

  /// Makes remaining(), excess() and lacks() treat the held quota as used by its owners, and the victims as released.
  /// The remaining quota is never higher than without holds. Replaces earlier holds; used() and the changes are not
  /// affected.
  void hold(const std::vector<QuotaHold>& holds);
  /// Reports the namespace as freed: rejected claims may be within its quotas now, although none was released.
  void noteFreed(std::string_view namespace_);

  /// Returns the recorded part, or null.
  const QuotaPart* find(const std::string& holder, const std::string& card) const;

  /// Returns the remaining quotas for a claim that releases its parts, after the claims in `besides` have theirs.
  std::vector<RemainingQuota> remaining(const QuotaClaim& claim, const std::vector<QuotaAsked>& besides = {}) const;
  /// Returns why these claims cannot all have their new parts: the first exceeded quota by name, quotas that refuse
  /// before quotas that let claims wait. nullopt if they can. Only growth is checked: under a quota that was lowered
  /// below its usage, a claim can still shrink, or get parts that the quota does not count.
  std::optional<QuotaExcess> excess(const std::vector<QuotaAsked>& asked) const;
  /// Returns every excess of these claims together, one per quota and key. nullopt: no release of other claims would
  /// bring them within their quotas. alone: without the namespace's other claims.
  std::optional<std::vector<QuotaLack>> lacks(const std::vector<QuotaAsked>& asked, bool alone = false) const;
  /// Returns the amounts that the holder's release frees in each of the namespace's quotas, by name.
  std::vector<QuotaAmounts> givenBackBy(const std::string& holder) const;
  /// Notes a rejection, so that takeChanges() reports `freed` when usage falls below the present one.
  void refused(std::string_view namespace_);

  /// Usage of all claims that the quota counts. nullopt: no such quota.
  std::optional<QuotaAmounts> used(std::string_view namespace_, std::string_view quota) const;
  /// As used(), with the usage of each profile that the quota limits. Empty: no such quota.
  QuotaUsage usage(std::string_view namespace_, std::string_view quota) const;
  /// Returns the largest holders of the exceeded quota except the requesting claims, "default/a 40Gi, default/b 4Gi and
  /// 3 more"; empty if there are none.
  std::string holders(const QuotaExcess& excess, std::size_t max) const;
  /// Returns at most `max` names of claims, the largest holders first, that would bring the request within its quotas
  /// if released. Empty: these are not enough.
  std::vector<std::string> releasesThatDo(const QuotaExcess& excess, std::size_t max) const;
  /// Version of the namespace's quotas if one of them refuses claims; changes when any of them changes.
  std::optional<uint64_t> refusing(std::string_view namespace_) const;

  struct Change {
    std::string namespace_;
    bool freed = false;  ///< rejected claims may be within its quotas now
  };
  bool changed() const { return !changed_.empty(); }
  /// True if takeChanges() would report a namespace as freed.
  bool hasFreed() const;
  /// Returns and clears the namespaces that changed since the last call.
  std::vector<Change> takeChanges();

 private:
  struct Counted {
    Quota quota;
    QuotaAmounts used{};
    std::optional<QuotaAmounts> refusedAt;  ///< maximum usage at which a claim was rejected
    QuotaAmounts held{};                    ///< held for claims earlier in the order; not in `used`
    std::vector<std::string> heldFor;       ///< names of those claims
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
  /// Share that one claim has of a key of a quota; the largest sorts first.
  struct Share {
    int64_t negative = 0;
    std::string name, id;
    auto operator<=>(const Share&) const = default;
  };
  /// True if rejected claims of the namespace may be within its quotas now.
  bool isFreed(std::string_view namespace_, bool limitsChanged) const;
  /// Shares of the exceeded quota, without the requesting claims.
  std::vector<Share> sharesOf(const QuotaExcess& excess) const;

  static bool classCounts(const Quota& quota, std::string_view className) {
    return className.empty() || anyOf(quota.classes, className);
  }
  /// Visits each excess of one quota until `visit` returns true. own: amounts of the claim; others: of all other
  /// claims.
  static void judge(const Quota& quota, const QuotaAsked& asked, const QuotaAmounts& own, const QuotaAmounts& others,
                    const std::function<bool(QuotaExcess)>& visit);
  static QuotaAmounts contribution(const Quota& quota, const Holder& claim, std::string_view holder);
  static QuotaAmounts contribution(const Quota& quota, const Holder& holder);
  void count(Space& space, const Holder& holder, int sign);
  static QuotaAmounts has(const Space& space, const Quota& quota, const std::string& claim);
  static QuotaAmounts givenUp(const Space& space, const Quota& quota, const QuotaAsked& asked);
  /// Removes the holder's part of one card, or all parts if `card` is null.
  void erase(const std::string& holder, const std::string* card);
  const Space* spaceOf(std::string_view namespace_) const;

  std::map<std::string, Space, std::less<>> spaces_;
  std::unordered_map<std::string, Place> places_;  ///< by holder
  std::map<std::string, bool> changed_;            ///< namespace → its limits changed
  std::set<std::string, std::less<>> holdsIn_;     ///< namespaces with held quota
  uint64_t lastVersion_ = 0;
  bool hasUncounted_ = false;
};

/// Returns "held by default/a 40Gi, default/b 4Gi and 3 more: without default/a it would be within its quotas"; empty
/// if no other claim has any. releases: include the part after the colon if few releases are enough.
std::string quotaHoldersText(const QuotaBook& book, const QuotaExcess& excess, bool releases);

}  // namespace egpu::scheduler

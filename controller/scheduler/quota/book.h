// What the claims of each namespace that has quotas have: counted part by part, in the ledger's unit, whoever says so
// (cache/cluster_view.h). Pure state, not thread-safe.
//
// A namespace is counted from its first quota on; until then nothing of it is kept. What it had before is told again:
// untold().
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

/// Quota that is nominated to a claim, or reserved for it: other claims are judged as if it had it.
struct QuotaHold {
  QuotaAsked owner;
  std::vector<std::string> victims{};  ///< holders that have to go for it: the quota that they give back is the owner's
};

/// Amount by which one key of one quota is exceeded.
struct QuotaLack {
  std::size_t quota = 0;  ///< position among the namespace's quotas, by name
  QuotaKey key = QuotaKey::gpu;
  int64_t amount = 0;
  bool operator==(const QuotaLack&) const = default;
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
  /// Everything of one holder, for restore().
  struct Withdrawn {
    QuotaClaim claim;
    std::vector<std::pair<std::string, QuotaPart>> parts;  ///< by card
  };
  /// As drop(), to be taken back by restore(): for trials on a copy.
  Withdrawn withdraw(const std::string& holder);
  void restore(const std::string& holder, const Withdrawn& withdrawn);
  /// A copy of one namespace alone.
  QuotaBook of(std::string_view namespace_) const;
  /// Holders of the namespace, by name.
  std::vector<std::string> holdersIn(std::string_view namespace_) const;

  /// From now on rooms(), excess() and lacks() judge as if these claims had the quota that is held for them and their
  /// victims were gone, but leave no more than is free now. Replaces earlier holds; used() and the changes stay as they
  /// are.
  void hold(const std::vector<QuotaHold>& holds);
  /// Claims of the namespace that were refused may be within its quotas now, though nothing was given back.
  void noteFreed(std::string_view namespace_);

  /// The part as it was put last; null if there is none.
  const QuotaPart* find(const std::string& holder, const std::string& card) const;

  /// What the namespace's quotas leave to a claim that gives up what it has, once these others have theirs.
  std::vector<QuotaRoom> rooms(const QuotaClaim& claim, const std::vector<QuotaAsked>& besides = {}) const;
  /// Why these claims can't all have their parts instead of what they have: the first quota by name that is exceeded,
  /// one that refuses before one that lets wait. Only what grows is judged: of a quota that was lowered under what is
  /// used, a claim may still be given less than it has, and what the quota does not count.
  std::optional<QuotaExcess> excess(const std::vector<QuotaAsked>& asked) const;
  /// Every excess of these claims together, one per quota and key. Nothing: no release of another claim would bring
  /// them within their quotas. alone: judged as if the namespace's other claims were gone.
  std::optional<std::vector<QuotaLack>> lacks(const std::vector<QuotaAsked>& asked, bool alone = false) const;
  /// Amounts that the holder's release gives back to each of the namespace's quotas, by name.
  std::vector<QuotaAmounts> givenBackBy(const std::string& holder) const;
  /// Somebody of the namespace was told so: he is to be tried again once less is used than now.
  void refused(std::string_view namespace_);

  /// Used, by all claims that count. Nothing: no such quota.
  std::optional<QuotaAmounts> used(std::string_view namespace_, std::string_view quota) const;
  /// Claims that have most of the exceeded quota, "default/a 40Gi, default/b 4Gi and 3 more", the asking ones left out;
  /// empty if there are none.
  std::string holders(const QuotaExcess& excess, std::size_t most) const;
  /// Names of claims, the largest holders first and at most `most`, without which the request would be within its
  /// quotas. Empty: these are not enough.
  std::vector<std::string> releasesThatDo(const QuotaExcess& excess, std::size_t most) const;
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
    QuotaAmounts held{};                    ///< for claims that come first: besides `used`
    std::vector<std::string> heldFor;       ///< their names
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
  /// Share of one claim of one quota's key; the largest comes first.
  struct Share {
    int64_t negative = 0;
    std::string name, id;
    auto operator<=>(const Share&) const = default;
  };
  /// Shares of the exceeded quota, those of the asking claims left out.
  std::vector<Share> sharesOf(const QuotaExcess& excess) const;

  static bool classCounts(const Quota& quota, std::string_view className) {
    return className.empty() || anyOf(quota.classes, className);
  }
  /// Visits each excess of one quota until `visit` ends it. own: amounts of the claim, others: of all other claims.
  static void judge(const Quota& quota, const QuotaAsked& asked, const QuotaAmounts& own, const QuotaAmounts& others,
                    const std::function<bool(QuotaExcess)>& visit);
  static QuotaAmounts contribution(const Quota& quota, const Holder& claim, std::string_view holder);
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
  std::set<std::string, std::less<>> holdsIn_;     ///< namespaces in which anything is held
  uint64_t lastVersion_ = 0;
  bool untold_ = false;
};

/// "held by default/a 40Gi, default/b 4Gi and 3 more: without default/a it would be within its quotas"; empty if no
/// other claim has any. releases: with what follows the colon, if releases of few would do.
std::string quotaHoldersText(const QuotaBook& book, const QuotaExcess& excess, bool releases);

}  // namespace egpu::scheduler

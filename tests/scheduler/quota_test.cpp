// Quotas: parsing, messages, counting, and random claims compared with a list that is summed up each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "controller/scheduler/explain.h"
#include "controller/scheduler/quota/within.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

constexpr auto kMemory = static_cast<std::size_t>(QuotaKey::memory);
constexpr auto kTflops = static_cast<std::size_t>(QuotaKey::tflops);
constexpr auto kClaims = static_cast<std::size_t>(QuotaKey::claims);

v1alpha::ElasticGPUQuota object(core::StringMap hard) {
  v1alpha::ElasticGPUQuota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "ns";
  quota.spec.hard = std::move(hard);
  return quota;
}

QuotaClaim claimOf(const std::string& id, const std::string& cls = "share") { return {"ns", "ns/" + id, id, cls}; }

CardInfo ratedCard(const std::string& name, const std::string& node, int64_t index, int64_t memory,
                   const std::string& model, int64_t tflops) {
  auto info = makeCard(name, node, index, memory, model);
  info.card.milliTflops = tflops * 1000;
  return info;
}

Request shareOf(int64_t core, int64_t memory, int64_t cards = 1) {
  Request request;
  request.cards = cards;
  request.perCard = {core, memory};
  return request;
}

/// Decides, and gives the claim its decision.
Together give(Cluster& cluster, QuotaBook& book, const QuotaClaim& claim, const Request& request) {
  auto together = decideWithin(cluster, book, {claim}, {request});
  if (together.decisions.empty()) return together;
  commit(cluster, together.decisions.front(), claim.id);
  const auto parts = partsOf(cluster, together.decisions.front());
  for (std::size_t i = 0; i < parts.size(); ++i)
    book.put(claim.id, claim, together.decisions.front().placements[i].card, parts[i]);
  return together;
}

TEST(Quota, IsReadInTheLedgersUnit) {
  const auto quota = readQuota(
      object({{"gpu", "8"}, {"gpu-core", "150"}, {"gpu-memory", "40"}, {"tflops", "312.5"}, {"claims", "1e1"}}));
  EXPECT_EQ(quota.hard, (QuotaLimits{8, 1500, 40 * kGi, 312'500, 10}));
  EXPECT_EQ(readQuota(object({{"gpu-memory", "512Mi"}})).hard[kMemory], 512 * kMi);
  EXPECT_EQ(readQuota(object({})).hard, QuotaLimits{});  // resources that are not named are not limited
  EXPECT_EQ(readQuota(object({{"claims", "many"}})).hard[kClaims], 0);
  EXPECT_EQ(quotaText(QuotaKey::core, 1505), "150.5");
  EXPECT_EQ(quotaText(QuotaKey::memory, 40 * kGi), "40Gi");
  EXPECT_EQ(quotaText(QuotaKey::tflops, 312'500), "312.5");
}

TEST(Quota, CountsEachCardOfAClaimAndOnceTheClaim) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (int i = 0; i < 8; ++i) cluster.upsertCard(ratedCard("c" + std::to_string(i), "n", i, 32 * kGi, "V100", 100));
  QuotaBook book;
  book.setQuotas("ns",
                 {readQuota(object({{"gpu", "5"}, {"gpu-core", "100"}, {"gpu-memory", "60Gi"}, {"claims", "9"}}))});
  ASSERT_FALSE(give(cluster, book, claimOf("a"), shareOf(200, 10 * kGi, 4)).decisions.empty());
  EXPECT_EQ(book.used("ns", "team"), (QuotaAmounts{4, 800, 40 * kGi, 80'000, 1}));
  // 2 × 10Gi would be 60Gi, 2 × 20% more than 100%, 2 more cards than 5.
  const auto gpu = give(cluster, book, claimOf("b"), shareOf(10, kGi, 2));
  ASSERT_TRUE(gpu.excess);
  EXPECT_EQ(gpu.excess->text(), "quota team allows gpu 5, 4 is used: 1 too little for another 2");
  EXPECT_EQ(give(cluster, book, claimOf("b"), shareOf(300, kGi)).excess->text(),
            "quota team allows gpu-core 100, 80 is used: 10 too little for another 30");
  EXPECT_EQ(give(cluster, book, claimOf("b"), shareOf(10, 20 * kGi + 1)).excess->key, QuotaKey::memory);
  EXPECT_FALSE(give(cluster, book, claimOf("b"), shareOf(200, 20 * kGi)).decisions.empty());
  QuotaExcess excess;
  excess.quota = "team";
  excess.key = QuotaKey::memory;
  excess.asked = {{claimOf("another"), {}}};
  EXPECT_EQ(book.holders(excess, 1), "ns/a 40Gi and 1 more");
}

TEST(Quota, CountsWhatIsChargedNotWhatIsGranted) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(ratedCard("c", "n", 0, 32 * kGi, "V100", 100));
  QuotaBook book;
  book.setQuotas("ns", {readQuota(object({{"gpu-core", "25"}}))});
  auto request = shareOf(500, kGi);
  request.coreOvercommit = 2000;
  EXPECT_FALSE(give(cluster, book, claimOf("a"), request).decisions.empty());
  EXPECT_EQ((*book.used("ns", "team"))[1], 250);
}

TEST(Quota, OfAModelLeavesOutCardsOfThatModelOnly) {
  Cluster cluster;
  for (const auto* model : {"A100", "V100"}) {
    cluster.upsertNode({model, true});
    for (int i = 0; i < 4; ++i)
      cluster.upsertCard(ratedCard(model + std::to_string(i), model, i, 32 * kGi, model, 100));
  }
  QuotaBook book;
  auto quota = readQuota(object({{"gpu", "2"}}));
  quota.models = {"A100"};
  book.setQuotas("ns", {quota});
  auto whole = shareOf(0, 0);
  whole.wholeCards = true;
  for (int i = 0; i < 6; ++i)
    EXPECT_FALSE(give(cluster, book, claimOf("w" + std::to_string(i)), whole).decisions.empty()) << i;
  EXPECT_EQ((*book.used("ns", "team"))[0], 2);
  const auto more = give(cluster, book, claimOf("more"), whole);
  ASSERT_TRUE(more.excess);
  EXPECT_TRUE(more.excess->elsewhere);  // V100s are not limited, but full
  auto request = whole;
  request.quota = book.remaining(claimOf("more"));
  EXPECT_NE(explain(cluster, request).text().find("over a quota of the namespace"), std::string::npos);
}

TEST(Quota, OfAClassCountsItsClaimsOnly) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(ratedCard("c", "n", 0, 32 * kGi, "V100", 100));
  QuotaBook book;
  auto quota = readQuota(object({{"claims", "1"}}));
  quota.classes = {"dear"};
  book.setQuotas("ns", {quota});
  EXPECT_FALSE(give(cluster, book, claimOf("a", "dear"), shareOf(10, kGi)).decisions.empty());
  EXPECT_TRUE(give(cluster, book, claimOf("b", "dear"), shareOf(10, kGi)).excess);
  EXPECT_FALSE(give(cluster, book, claimOf("b", "cheap"), shareOf(10, kGi)).decisions.empty());
}

TEST(Quota, OfTflopsCountsPercentTooAndGivesNoCardWithoutARating) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(ratedCard("rated", "n", 0, 32 * kGi, "V100", 100));
  QuotaBook book;
  book.setQuotas("ns", {readQuota(object({{"tflops", "50"}}))});
  EXPECT_FALSE(give(cluster, book, claimOf("a"), shareOf(400, kGi)).decisions.empty());
  EXPECT_EQ((*book.used("ns", "team"))[kTflops], 40'000);
  EXPECT_EQ(give(cluster, book, claimOf("b"), shareOf(200, kGi)).excess->key, QuotaKey::tflops);
  EXPECT_FALSE(give(cluster, book, claimOf("c"), shareOf(0, kGi)).decisions.empty());  // no compute
  cluster.removeCard("rated");
  cluster.upsertCard(ratedCard("unrated", "n", 0, 32 * kGi, "T4", 0));
  const auto none = give(cluster, book, claimOf("d"), shareOf(10, kGi));
  ASSERT_TRUE(none.excess);
  EXPECT_TRUE(none.excess->unrated);
}

TEST(Quota, OfTwoTheOneThatRefusesSpeaks) {
  QuotaBook book;
  auto waits = readQuota(object({{"gpu", "0"}})), refuses = waits;
  waits.name = "a";
  refuses.name = "b";
  refuses.refuse = true;
  book.setQuotas("ns", {waits, refuses});
  const auto excess = book.excess({{claimOf("x"), {{"V100", {10, kGi}, 1000, 0, true}}}});
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->quota, "b");
  EXPECT_TRUE(excess->refuse);
  EXPECT_EQ(book.refusing("ns"), excess->version);
}

/// A claim grows or shrinks: the per-claim cap applies to its new size, the total to its growth, and shrinking is
/// always permitted, regardless of the usage.
TEST(Quota, OfAClaimThatGrowsOrShrinks) {
  QuotaBook book;
  auto quota = readQuota(object({{"gpu-memory", "100Gi"}}));
  quota.perClaim[kMemory] = 60 * kGi;
  book.setQuotas("ns", {quota});
  const auto memory = [](int64_t gi) { return QuotaPart{"A100", {100, gi * kGi}, 1000, 0, true}; };
  book.put("a", claimOf("a"), "c0", memory(40));
  book.put("b", claimOf("b"), "c1", memory(50));
  EXPECT_FALSE(book.excess({{claimOf("a"), {memory(50)}}}));
  const auto total = book.excess({{claimOf("a"), {memory(51)}}});
  ASSERT_TRUE(total);
  EXPECT_FALSE(total->perClaim);
  EXPECT_EQ(total->missing(), kGi);
  EXPECT_TRUE(book.excess({{claimOf("b"), {memory(61)}}})->perClaim);
  quota.hard[kMemory] = 10 * kGi;  // lowered below the usage
  quota.perClaim[kMemory] = 5 * kGi;
  book.setQuotas("ns", {quota});
  EXPECT_FALSE(book.excess({{claimOf("a"), {memory(39)}}}));
  EXPECT_FALSE(book.excess({{claimOf("a"), {memory(40)}}}));
  EXPECT_TRUE(book.excess({{claimOf("a"), {memory(41)}}}));
  EXPECT_EQ(book.used("ns", "team"), (QuotaAmounts{2, 200, 90 * kGi, 0, 2}));  // checks change nothing
}

TEST(Quota, OfAClaimThatGrowsBothFiguresCountWhatItHas) {
  QuotaBook book;
  book.setQuotas("ns", {readQuota(object({{"gpu-memory", "80Gi"}}))});
  const auto memory = [](int64_t gi) { return QuotaPart{"A100", {100, gi * kGi}, 1000, 0, true}; };
  book.put("a", claimOf("a"), "c0", memory(30));
  book.put("b", claimOf("b"), "c1", memory(40));
  EXPECT_EQ(book.excess({{claimOf("a"), {memory(50)}}})->text(),
            "quota team allows gpu-memory 80Gi, 70Gi is used (30Gi of it by this claim): 10Gi too little for this one "
            "to have 50Gi");
}

TEST(Quota, OfAPodWhoseClaimsAreOverItTogetherNoCardIsReportedFull) {
  for (const bool another : {false, true}) {
    Cluster cluster;
    cluster.upsertNode({"n", true});
    cluster.upsertCard(ratedCard("c", "n", 0, 40 * kGi, "X40", 100));
    if (another) {  // counted and full: it would not help if it were empty
      cluster.upsertNode({"m", true});
      cluster.upsertCard(ratedCard("d", "m", 0, 80 * kGi, "X80", 100));
      ASSERT_TRUE(cluster.take("d", "someone", {1000, 80 * kGi}));
    }
    QuotaBook book;
    book.setQuotas("ns", {readQuota(object({{"gpu-memory", "24Gi"}}))});
    const auto together =
        decideWithin(cluster, book, {claimOf("a"), claimOf("b")}, {shareOf(400, 16 * kGi), shareOf(400, 16 * kGi)});
    ASSERT_TRUE(together.excess);
    EXPECT_FALSE(together.excess->elsewhere) << another;
    EXPECT_EQ(together.excess->missing(), 8 * kGi);
  }
}

TEST(Quota, OfAPodWhoseClaimsFitUncountedCardsThatAreFullItReportsIt) {
  Cluster cluster;
  for (const auto* model : {"A100", "V100"}) {
    cluster.upsertNode({model, true});
    cluster.upsertCard(ratedCard(model, model, 0, 40 * kGi, model, 100));
  }
  ASSERT_TRUE(cluster.take("V100", "someone", {1000, 40 * kGi}));
  auto quota = readQuota(object({{"gpu-memory", "24Gi"}}));
  quota.models = {"A100"};
  QuotaBook book;
  book.setQuotas("ns", {quota});
  const auto together =
      decideWithin(cluster, book, {claimOf("a"), claimOf("b")}, {shareOf(400, 16 * kGi), shareOf(400, 16 * kGi)});
  ASSERT_TRUE(together.excess);
  EXPECT_TRUE(together.excess->elsewhere);
}

TEST(Quota, OfAPodCountsItsClaimsTogether) {
  Cluster cluster;
  for (const auto* model : {"A100", "V100"}) {
    cluster.upsertNode({model, true});
    cluster.upsertCard(ratedCard(model, model, 0, 32 * kGi, model, 100));
  }
  QuotaBook book;
  auto quota = readQuota(object({{"gpu", "1"}}));
  quota.models = {"A100"};
  book.setQuotas("ns", {quota});
  const std::vector<QuotaClaim> pod{claimOf("a"), claimOf("b")};
  const auto together = decideWithin(cluster, book, pod, {shareOf(100, kGi), shareOf(100, kGi)});
  ASSERT_EQ(together.decisions.size(), 2u);  // each alone would be within the quota on the A100
  EXPECT_EQ(together.decisions[0].node, "V100");
  EXPECT_EQ(together.decisions[1].node, "V100");
}

/// The model of the book: a list of claims and their holdings, summed up for each question.
class PlainBook {
 public:
  struct CountedClaim {
    std::string cls;
    std::vector<QuotaPart> parts;
  };
  static bool names(const std::vector<std::string>& all, const std::string& one) {
    return all.empty() || std::find(all.begin(), all.end(), one) != all.end();
  }
  static QuotaAmounts of(const Quota& quota, const CountedClaim& claim) {
    QuotaAmounts sum{};
    if (!names(quota.classes, claim.cls)) return sum;
    for (const auto& part : claim.parts) {
      if (!names(quota.models, part.model)) continue;
      sum[0] += 1;
      sum[1] += part.charged.core;
      sum[2] += part.charged.memory;
      sum[3] += (part.charged.core * part.cardTflops + part.cardCore - 1) / part.cardCore;
      sum[4] = 1;
    }
    return sum;
  }
  QuotaAmounts used(const Quota& quota) const {
    QuotaAmounts sum{};
    for (const auto& [id, claim] : claims)
      for (std::size_t i = 0; i < kQuotaKeys; ++i) sum[i] += of(quota, claim)[i];
    return sum;
  }
  bool allows(const CountedClaim& claim) const {
    for (const auto& quota : quotas) {
      const auto have = used(quota), want = of(quota, claim);
      for (std::size_t i = 0; i < kQuotaKeys; ++i) {
        if (want[i] > 0 && quota.hard[i] && have[i] + want[i] > *quota.hard[i]) return false;
        if (want[i] > 0 && quota.perClaim[i] && want[i] > *quota.perClaim[i]) return false;
      }
      const bool limitsTflops = quota.hard[3] || quota.perClaim[3];
      for (const auto& part : claim.parts)
        if (limitsTflops && names(quota.classes, claim.cls) && names(quota.models, part.model) &&
            part.cardTflops == 0 && part.charged.core > 0)
          return false;
    }
    return true;
  }
  std::map<std::string, CountedClaim> claims;
  std::vector<Quota> quotas;
};

class RandomClaims {
 public:
  explicit RandomClaims(uint64_t seed) : random_(seed) {
    for (int n = 0; n < 6; ++n) {
      const std::string node = "n" + std::to_string(n);
      nodes_.push_back(node);
      cluster_.upsertNode({node, true});
      for (int c = 0; c < 4; ++c) addCard(node, c, n == 5 ? pick(random_, 0, 3) : n % 4);  // n5 is mixed
    }
    changeQuotas();
  }

  void step() {
    const int64_t what = pick(random_, 0, 99);
    if (what < 60)
      ask();
    else if (what < 92)
      release();
    else
      changeQuotas();
    for (const auto& quota : plain_.quotas) ASSERT_EQ(book_.used("ns", quota.name), plain_.used(quota)) << quota.name;
    wakeUp();
  }
  int given = 0, refused = 0, stillWaiting = 0;

 private:
  void addCard(const std::string& node, int index, int64_t kind) {
    static const struct {
      const char* model;
      int64_t gi, tflops;
    } kKinds[] = {{"A100", 80, 312}, {"A100", 40, 312}, {"V100", 32, 125}, {"T4", 16, 0}};
    const auto& k = kKinds[kind];
    cluster_.upsertCard(ratedCard(node + "-" + std::to_string(index), node, index, k.gi * kGi, k.model, k.tflops));
  }

  void changeQuotas() {
    plain_.quotas.clear();
    for (int64_t n = pick(random_, 1, 3); n > 0; --n) {
      Quota quota;
      quota.name = "q" + std::to_string(n);
      const int64_t max[] = {20, 12'000, 500 * kGi, 1'500'000, 15};
      for (std::size_t i = 0; i < kQuotaKeys; ++i) {
        if (pick(random_, 0, 2) == 0) quota.hard[i] = pick(random_, 0, max[i]);
        if (pick(random_, 0, 5) == 0) quota.perClaim[i] = pick(random_, 0, max[i] / 3);
      }
      if (pick(random_, 0, 2) == 0) quota.models = {pick(random_, 0, 1) == 0 ? "A100" : "V100"};
      if (pick(random_, 0, 2) == 0) quota.classes = {"a"};
      quota.refuse = pick(random_, 0, 3) == 0;
      plain_.quotas.push_back(std::move(quota));
    }
    book_.setQuotas("ns", plain_.quotas);
    if (!book_.takeUncounted()) return;
    for (const auto& [id, claim] : plain_.claims)
      for (std::size_t i = 0; i < claim.parts.size(); ++i)
        book_.put(id, claimOf(id, claim.cls), id + std::to_string(i), claim.parts[i]);
  }

  Request request() {
    Request r = shareOf(pick(random_, 0, 100) * 10, pick(random_, 1, 40) * kGi, pick(random_, 0, 3) == 0 ? 2 : 1);
    if (pick(random_, 0, 4) == 0) r.wholeCards = true;
    if (pick(random_, 0, 4) == 0) r.memoryFromCore = r.perCard.core > 0;
    if (pick(random_, 0, 6) == 0 && !r.wholeCards && r.cards == 1) r.split = Split::evenly;
    if (pick(random_, 0, 4) == 0) r.coreOvercommit = pick(random_, 1000, 2000);
    if (!r.wholeCards && r.perCard.core == 0 && pick(random_, 0, 1) == 0)
      r.milliTflopsPerCard = pick(random_, 1, 200'000);
    return r;
  }

  void ask() {
    const auto id = "c" + std::to_string(next_++);
    const std::string cls = pick(random_, 0, 1) == 0 ? "a" : "b";
    const auto r = request();
    const auto together = decideWithin(cluster_, book_, {claimOf(id, cls)}, {r});
    if (!together.decisions.empty()) {
      ++given;
      const PlainBook::CountedClaim claim{cls, partsOf(cluster_, together.decisions.front())};
      ASSERT_TRUE(plain_.allows(claim)) << id;
      plain_.claims[id] = claim;
      commit(cluster_, together.decisions.front(), id);
      held_[id] = together.decisions.front();
      for (std::size_t i = 0; i < claim.parts.size(); ++i)
        book_.put(id, claimOf(id, cls), id + std::to_string(i), claim.parts[i]);
      return;
    }
    bool anywhere = false;
    for (const auto& node : nodes_) {
      auto pinned = r;
      pinned.pinnedNode = node;
      const auto there = decide(cluster_, pinned);
      if (!there.fits) continue;
      anywhere = true;
      // On a mixed node other cards may have been intended, and elsewhere another division.
      ASSERT_TRUE(node == "n5" || r.split != Split::none || !plain_.allows({cls, partsOf(cluster_, there)}))
          << id << " on " << node;
    }
    ASSERT_TRUE(!anywhere || together.excess) << id;
    if (!together.excess) return;
    ++refused;
    book_.refused("ns");
    if (!together.excess->elsewhere) waiting_.push_back({claimOf(id, cls), r});
  }

  void release() {
    if (plain_.claims.empty()) return;
    auto it = plain_.claims.begin();
    std::advance(it, pick(random_, 0, static_cast<int64_t>(plain_.claims.size()) - 1));
    for (const auto& placement : held_[it->first].placements) cluster_.giveBack(placement.card, it->first);
    if (pick(random_, 0, 1) == 0)
      book_.drop(it->first);
    else
      for (std::size_t i = 0; i < it->second.parts.size(); ++i) book_.drop(it->first, it->first + std::to_string(i));
    held_.erase(it->first);
    plain_.claims.erase(it);
  }

  /// Every claim that waits for quota is either woken or still exceeds it.
  void wakeUp() {
    bool woken = false;
    for (const auto& change : book_.takeChanges()) woken = woken || change.freed;
    if (woken) return waiting_.clear();
    for (const auto& [claim, r] : waiting_) {
      ++stillWaiting;
      ASSERT_TRUE(decideWithin(cluster_, book_, {claim}, {r}).decisions.empty()) << claim.name;
    }
  }

  Random random_;
  Cluster cluster_;
  QuotaBook book_;
  PlainBook plain_;
  std::vector<std::string> nodes_;
  std::map<std::string, Decision> held_;
  std::vector<std::pair<QuotaClaim, Request>> waiting_;
  int next_ = 0;
};

TEST(Quota, RandomClaimsStayWithinAndNoneIsRefusedForNothing) {
  int given = 0, refused = 0, waited = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomClaims claims(seed);
    for (int i = 0; i < 150 && !HasFatalFailure(); ++i) claims.step();
    given += claims.given;
    refused += claims.refused;
    waited += claims.stillWaiting;
  }
  EXPECT_GT(given, 1000);
  EXPECT_GT(refused, 500);
  EXPECT_GT(waited, 500);
}

}  // namespace
}  // namespace egpu::scheduler::testing

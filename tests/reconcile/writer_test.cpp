// Lists of claims that are read page by page.
#include "controller/reconcile/writer.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

/// 600 claims: more than one page. The stores have an earlier version of two of them.
class WriterTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    driver.reset();  // no watch informs the stores
    for (int i = 100; i < 700; ++i) world.addClaim(name(i), "absent", {{"gpu-core", "10"}});
    for (const int i : {100, 300, 699}) {
      stores.claims.informed(world.claim(name(i)));
      wanted.push_back(stores.claims.get({"default", name(i)}));
    }
    for (const int i : {100, 699})
      world.json<cache::Claim>({"default", name(i)}, R"({"metadata":{"annotations":{"a":"b"}}})");
    world.removeClaim(name(300));
  }
  static std::string name(int i) { return "c" + std::to_string(i); }
  /// True if the stores have the claim as it is now.
  bool isCurrent(int i) {
    const auto known = stores.claims.get({"default", name(i)});
    return known && known->metadata.resourceVersion == world.claim(name(i)).metadata.resourceVersion;
  }

  cache::Stores stores;
  base::NoMetrics metrics;
  StatusAlternations alternations{world.clock, kDefaultTimeouts, metrics};
  Writer writer{world.client, stores, alternations};
  std::vector<cache::Store<cache::Claim>::Ptr> wanted;
};

TEST_F(WriterTest, EachPageInformsTheStores) {
  ClaimListing listing(wanted);
  EXPECT_FALSE(support::World::must(writer.readPage(listing, {})));
  EXPECT_TRUE(isCurrent(100));
  EXPECT_FALSE(isCurrent(699));
  EXPECT_TRUE(stores.claims.get({"default", name(300)})) << "it could be on the next page";
  EXPECT_TRUE(support::World::must(writer.readPage(listing, {})));
  EXPECT_TRUE(isCurrent(699));
  EXPECT_FALSE(stores.claims.get({"default", name(300)}));
  EXPECT_FALSE(stores.claims.get({"default", name(101)})) << "nobody asked for it";
}

TEST_F(WriterTest, AClaimThatIsCreatedBetweenThePagesStays) {
  ClaimListing listing(wanted);
  EXPECT_FALSE(support::World::must(writer.readPage(listing, {})));
  world.addClaim("c000", "absent", {{"gpu-core", "10"}});
  stores.claims.informed(world.claim("c000"));
  EXPECT_TRUE(support::World::must(writer.readPage(listing, {})));
  EXPECT_TRUE(stores.claims.get({"default", "c000"}));
}

TEST_F(WriterTest, ReadAllReadsAllPages) {
  for (const int i : {101, 102}) {
    stores.claims.informed(world.claim(name(i)));
    wanted.push_back(stores.claims.get({"default", name(i)}));
  }
  ASSERT_GT(wanted.size(), Writer::kFewReads);
  support::World::mustOk(writer.readAll(wanted, {}));
  EXPECT_TRUE(isCurrent(100) && isCurrent(699));
  EXPECT_FALSE(stores.claims.get({"default", name(300)}));
}

}  // namespace
}  // namespace egpu::reconcile

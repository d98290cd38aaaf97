#include "controller/allocator/state/unschedulable_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace egpu::allocator {
namespace {

scheduler::Request share(int64_t core) {
  scheduler::Request request;
  request.perCard = {core, 10};
  return request;
}

TEST(UnschedulableCache, EntriesDependOnRequestAndNodes) {
  UnschedulableCache cache;
  EXPECT_EQ(cache.find(share(100), "tainted"), nullptr);
  PredicateTrace trace;
  trace.refused = {"n1"};
  cache.store(share(100), "tainted", trace);
  ASSERT_NE(cache.find(share(100), "tainted"), nullptr);
  EXPECT_EQ(cache.find(share(100), "tainted")->refused, trace.refused);
  EXPECT_EQ(cache.find(share(100), "other"), nullptr);
  EXPECT_EQ(cache.find(share(200), "tainted"), nullptr);
  EXPECT_FALSE(cache.isUnschedulable(share(100))) << "other nodes may hold it";
}

TEST(UnschedulableCache, EntriesWithinQuotasDependOnNamespaceAndClass) {
  UnschedulableCache cache;
  cache.storeUnschedulableWithin({"ns", "ns/a", "a", "share"}, share(100));
  EXPECT_TRUE(cache.isUnschedulableWithin({"ns", "ns/b", "b", "share"}, share(100)));
  EXPECT_FALSE(cache.isUnschedulableWithin({"ns", "ns/b", "b", "whole"}, share(100)));
  EXPECT_FALSE(cache.isUnschedulableWithin({"other", "other/b", "b", "share"}, share(100)));
  EXPECT_FALSE(cache.isUnschedulableWithin({"ns", "ns/b", "b", "share"}, share(200)));
  cache.forgetQuotasOf("other");
  EXPECT_TRUE(cache.isUnschedulableWithin({"ns", "ns/b", "b", "share"}, share(100)));
  cache.forgetQuotasOf("ns");
  EXPECT_FALSE(cache.isUnschedulableWithin({"ns", "ns/b", "b", "share"}, share(100)));
}

TEST(UnschedulableCache, FreedCapacityRemovesAllEntries) {
  UnschedulableCache cache;
  cache.store(share(100), "tainted", {});
  cache.storeUnschedulable(share(100));
  cache.storeUnschedulableWithin({"ns", "ns/a", "a", "share"}, share(100));
  cache.clear();
  EXPECT_EQ(cache.find(share(100), "tainted"), nullptr);
  EXPECT_FALSE(cache.isUnschedulable(share(100)));
  EXPECT_FALSE(cache.isUnschedulableWithin({"ns", "ns/a", "a", "share"}, share(100)));
}

TEST(UnschedulableCache, OldestEntryIsRemovedFirst) {
  UnschedulableCache cache;
  const auto max = static_cast<int64_t>(UnschedulableCache::kMaxEntries);
  for (int64_t core = 1; core <= max + 1; ++core) cache.storeUnschedulable(share(core));
  EXPECT_FALSE(cache.isUnschedulable(share(1)));
  for (int64_t core = 2; core <= max + 1; ++core) EXPECT_TRUE(cache.isUnschedulable(share(core))) << core;
}

}  // namespace
}  // namespace egpu::allocator

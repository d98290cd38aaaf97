#include "controller/allocator/state/demand_statistics.h"

#include <gtest/gtest.h>

#include "controller/allocator/state/snapshot_cache.h"
#include "controller/scheduler/state/demand.h"
#include "controller/scheduler/state/state.h"

namespace egpu::allocator {
namespace {

TEST(DemandStatistics, CountEachPendingClaimOnce) {
  ObservedCluster cluster;
  DemandStatistics demand;
  scheduler::Request request;
  request.perCard = {100, 10};
  const auto seen = [&] { return cluster.state().outlook.demand().seen(); };
  demand.record(cluster, "a", request);
  demand.record(cluster, "a", request);
  EXPECT_EQ(seen(), 1u);
  demand.record(cluster, "b", request);
  EXPECT_EQ(seen(), 2u);
  demand.forget("a");
  demand.record(cluster, "a", request);
  EXPECT_EQ(seen(), 3u) << "it is pending again";
  request.adminAccess = true;
  demand.record(cluster, "c", request);
  EXPECT_EQ(seen(), 3u) << "it takes no capacity";
}

TEST(SnapshotCache, OneCopyUntilTheClusterChanges) {
  ObservedCluster cluster;
  SnapshotCache snapshots;
  const auto first = snapshots.snapshotOf(cluster);
  EXPECT_EQ(snapshots.snapshotOf(cluster), first);
  EXPECT_EQ(snapshots.copies(), 1u);
  EXPECT_EQ(snapshots.takeOutdated(cluster), nullptr) << "it is up to date";
  cluster.upsertNode({"n1", true});
  EXPECT_EQ(snapshots.takeOutdated(cluster), first);
  EXPECT_EQ(snapshots.takeOutdated(cluster), nullptr) << "it was taken";
  EXPECT_EQ(snapshots.snapshotOf(cluster)->nodeCount(), 1u);
  EXPECT_EQ(first->nodeCount(), 0u);
  EXPECT_EQ(snapshots.copies(), 2u);
}

}  // namespace
}  // namespace egpu::allocator

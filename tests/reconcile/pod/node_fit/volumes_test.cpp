#include "controller/reconcile/pod/node_fit/volumes.h"

#include <gtest/gtest.h>

namespace egpu::reconcile {
namespace {

core::NodeSelector inZone(const std::string& name) { return {{{{{"zone", "In", {name}}}, {}}}}; }

TEST(Volumes, AllBoundVolumesAreReached) {
  core::Node node;
  node.metadata.labels = {{"zone", "x"}};
  EXPECT_TRUE(reachable({}, node));
  EXPECT_TRUE(reachable({inZone("x"), inZone("x")}, node));
  EXPECT_FALSE(reachable({inZone("x"), inZone("y")}, node));
  EXPECT_FALSE(reachable({core::NodeSelector{}}, node)) << "a volume that no node reaches";
}

}  // namespace
}  // namespace egpu::reconcile

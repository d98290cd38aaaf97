// A claim's total over several cards: the scheduler's part on each card is in the device, in each card's ledger and in
// the scheduler's state, and is released card by card.
#include <map>
#include <set>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using SplitTest = ReconcileTest;

std::map<int64_t, v1alpha::DeviceCard> byIndex(support::World& world, const v1alpha::ElasticGPU& device) {
  std::map<int64_t, v1alpha::DeviceCard> cards;
  for (const auto& card : device.spec.cards) cards[world.gpu(card.name).spec.card->index] = card;
  return cards;
}

TEST_F(SplitTest, UnequalPartsStandInDeviceAndLedger) {
  world.addClass("fill", "Delete", "Immediate", {{"split", "fill"}, {"coreOvercommit", "2"}});
  world.addClaim("first", "fill", {{"gpu-core", "20"}, {"gpu-memory", "1"}});
  settle();
  world.addClaim("second", "fill", {{"gpu-core", "150"}, {"gpu-memory", "3"}});
  settle();
  EXPECT_EQ(world.claim("second").status.phase, "Bound") << world.message("second");
  EXPECT_EQ(world.claim("second").status.capacity.at("core"), "150%");
  EXPECT_EQ(world.claim("second").status.capacity.at("memory"), "3Gi");
  const auto device = world.gpu(deviceOf("second"));
  const auto cards = byIndex(world, device);
  ASSERT_EQ(cards.size(), 2u);
  // The freest card is filled up to a whole granted card; the other card has the rest.
  EXPECT_EQ(cards.at(0).core + cards.at(1).core, 1500);
  EXPECT_NE(cards.at(0).core, cards.at(1).core);
  EXPECT_EQ(cards.at(0).memory + cards.at(1).memory, 3 * kGi);
  for (const auto& [index, card] : cards) {
    // In proportion, to a MiB.
    EXPECT_NEAR(static_cast<double>(card.memory), 3.0 * kGi * static_cast<double>(card.core) / 1500, 1 << 20) << index;
    EXPECT_EQ(card.chargedCore, card.core / 2);
    EXPECT_EQ(card.chargedMemory, card.memory);
    const auto entry = world.gpu(card.name).spec.allocations.at(device.metadata.uid);
    EXPECT_EQ(entry.core, card.chargedCore);
    EXPECT_EQ(entry.memory, card.chargedMemory);
  }
  world.removeClaim("second");
  settle();
  for (const auto& [index, card] : cards)
    EXPECT_FALSE(world.gpu(card.name).spec.allocations.contains(device.metadata.uid)) << index;
}

TEST_F(SplitTest, ThePublishedCaseEndToEnd) {
  world.addClass("even", "Delete", "Immediate", {{"split", "evenly"}});
  world.addClaim("a", "even", {{"gpu-core", "20"}});
  settle();
  world.addClaim("b", "even", {{"gpu-core", "120"}});
  settle();
  ASSERT_EQ(world.claim("b").status.phase, "Bound") << world.message("b");
  std::multiset<int64_t> held;
  for (const auto& [index, card] : byIndex(world, world.gpu(deviceOf("b")))) {
    int64_t sum = 0;
    for (const auto& [uid, entry] : world.gpu(card.name).spec.allocations) sum += entry.core;
    held.insert(sum);
  }
  EXPECT_EQ(held, (std::multiset<int64_t>{600, 800}));
  world.addClaim("c", "even", {{"gpu-core", "61"}});
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit");
  EXPECT_NE(world.message("c").find("gpu-core 60 would fit now"), std::string::npos) << world.message("c");
}

}  // namespace
}  // namespace egpu::reconcile

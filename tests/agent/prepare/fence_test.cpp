#include "controller/agent/prepare/fence.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace egpu::agent {
namespace {

constexpr int64_t kGi = 1LL << 30;

cdi::Spec spec(const std::string& uid, int64_t core, int64_t memory, const std::string& card = "GPU-1") {
  cdi::Spec out;
  out.deviceUid = uid;
  out.claimNamespace = "team";
  out.claimName = "claim-" + uid;
  out.cards = {{"", card, 1000, 80 * kGi, core, memory}};
  return out;
}
cdi::Folder::Entry entry(const cdi::Spec& spec) { return {spec.deviceUid, true, false, spec}; }

const std::vector<v1alpha::Card>& cards() {
  static const std::vector<v1alpha::Card> all = [] {
    v1alpha::Card card;
    card.uuid = "GPU-1";
    card.memory = 80 * kGi;
    return std::vector<v1alpha::Card>{card};
  }();
  return all;
}

TEST(Fence, WhatFitsByItsCharge) {
  EXPECT_TRUE(fits(spec("a", 1000, 80 * kGi), cards(), {}).ok());
  EXPECT_TRUE(fits(spec("a", 500, kGi), cards(), {entry(spec("b", 500, kGi))}).ok()) << "granted are 1000 each";
  EXPECT_TRUE(fits(spec("a", 1000, kGi), cards(), {entry(spec("a", 1000, kGi))}).ok()) << "its own file";
  EXPECT_TRUE(fits(spec("a", 1000, kGi), cards(), {entry(spec("b", 1000, kGi, "GPU-2"))}).ok()) << "another card";
}

TEST(Fence, WhatWouldExceedTheCardIsRefusedWithItsHolders) {
  const auto s = fits(spec("a", 300, kGi), cards(), {entry(spec("b", 500, kGi)), entry(spec("c", 201, kGi))});
  EXPECT_EQ(s.code(), base::Code::invalid);
  for (const char* word : {"GPU-1", "team/claim-b with core 500", "team/claim-c with core 201"})
    EXPECT_NE(s.message().find(word), std::string::npos) << s.message();
  EXPECT_FALSE(fits(spec("a", 0, 80 * kGi), cards(), {entry(spec("b", 0, 1))}).ok()) << "memory alone";
  EXPECT_FALSE(fits(spec("a", 1001, 1), cards(), {}).ok()) << "alone on the card";
}

TEST(Fence, SumsDontGoRound) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(fits(spec("a", most, 1), cards(), {entry(spec("b", most, 1))}).ok());
}

TEST(Fence, AFileThatCantBeReadMayHoldTheCard) {
  const cdi::Folder::Entry broken{"b", true, false, base::Status(base::Code::malformed, "/x/b.json: not JSON")};
  const auto s = fits(spec("a", 1, 1), cards(), {broken});
  EXPECT_EQ(s.code(), base::Code::unavailable);
  EXPECT_NE(s.message().find("/x/b.json: not JSON"), std::string::npos);
  EXPECT_TRUE(fits(spec("b", 1, 1), cards(), {broken}).ok()) << "its own file is made anew";
}

TEST(Fence, ManyHoldersAreCountedNotNamed) {
  std::vector<cdi::Folder::Entry> all;
  for (int i = 0; i < 20; ++i) all.push_back(entry(spec("b" + std::to_string(i), 50, 1)));
  EXPECT_NE(fits(spec("a", 1, 1), cards(), all).message().find("and 12 more"), std::string::npos);
}

}  // namespace
}  // namespace egpu::agent

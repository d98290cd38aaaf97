#include <atomic>
#include <latch>
#include <thread>

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

/// Runs `work(i)` for 0 … n-1, each on a thread of its own.
void atOnce(int n, const std::function<void(int)>& work) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&work, i] { work(i); });
}

TEST_F(PrepareTest, AHundredPodsAtOnce) {
  constexpr int n = 100;
  std::vector<ClaimRef> claims;
  for (int i = 0; i < n; ++i) {
    const std::string name = "c" + std::to_string(i);
    world.addClaim(name, "share", {{"gpu-core", "1"}, {"gpu-memory", "16Mi"}});
    world.addPod(name, {name});
  }
  driver->settle();
  for (int i = 0; i < n; ++i) {
    const std::string name = "c" + std::to_string(i);
    world.schedule(name);
    claims.push_back({"default", name, world.resourceClaim(name)->metadata.uid});
  }
  std::vector<std::string> errors(n);
  atOnce(n, [&](int i) { errors[i] = preparer.prepare(claims[i], {}).status().message(); });
  for (const auto& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(files().size(), static_cast<std::size_t>(n));
  EXPECT_EQ(plugin.staged(), static_cast<std::size_t>(n));
  for (const auto& claim : claims) world.removePod(claim.name);
  atOnce(n, [&](int i) { errors[i] = preparer.unprepare(claims[i], {}).message(); });
  for (const auto& error : errors) EXPECT_EQ(error, "");
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(plugin.staged(), 0U);
}

TEST_F(PrepareTest, ACardIsReadForAllWhoAskedAtTheSameTime) {
  constexpr int n = 8;
  std::vector<ClaimRef> claims;
  for (int i = 0; i < n; ++i) claims.push_back(claimed("c" + std::to_string(i)));
  std::atomic<int> cards{0}, devices{0};
  std::latch all(n);
  line.refuses = [&](const kube::HttpRequest& request) {
    if (request.target.find("/elasticgpus/egpu-") != std::string::npos) {
      ++devices;
      all.count_down();
    }
    if (request.target.find("/elasticgpus/gpu-n1-0") != std::string::npos && ++cards == 1) {
      all.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // long enough for a read that is not shared
      EXPECT_EQ(cards, 1) << "nobody reads it beside this read";
    }
    return false;
  };
  std::vector<std::string> errors(n);
  atOnce(n, [&](int i) { errors[i] = preparer.prepare(claims[i], {}).status().message(); });
  for (const auto& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(devices, n) << "a claim's own device is its own read";
  EXPECT_GE(cards, 2) << "who asked after the read began has another one";
  line.refuses = [](const auto&) { return false; };
}

TEST_F(PrepareTest, OneClaimAskedForByManyAtOnceIsStagedOnce) {
  const auto claim = claimed("a");
  std::vector<std::vector<std::string>> answers(20);
  atOnce(20, [&](int i) {
    if (const auto prepared = preparer.prepare(claim, {})) answers[i] = *prepared;
  });
  for (const auto& answer : answers) EXPECT_EQ(answer, ids(uidOf(claim)));
  EXPECT_EQ(plugin.calls(), (Calls{"stage", "mount"}));
}

TEST_F(PrepareTest, OfManyAtOnceTheFenceLetsInWhatFits) {
  // According to the API all claims fit; a file that the API does not know holds half of the card.
  cdi::Spec holder;
  holder.deviceUid = "old";
  holder.cards = {{"gpu-n1-0", "GPU-n1-0", 500, 0, 500, 0}};
  ASSERT_TRUE(folder.write(holder).ok() && folder.publish("old").ok());
  std::vector<ClaimRef> claims;
  for (int i = 0; i < 10; ++i) claims.push_back(claimed("c" + std::to_string(i)));
  std::vector<int> prepared(10);
  atOnce(10, [&](int i) { prepared[i] = preparer.prepare(claims[i], {}).ok() ? 1 : 0; });
  EXPECT_EQ(std::count(prepared.begin(), prepared.end(), 1), 5);
  EXPECT_EQ(plugin.staged(), 5U);
  EXPECT_EQ(files().size(), 6U) << "those refused leave nothing";
}

TEST_F(PrepareTest, ADeviceOfAsManyCardsAsTheApiTakes) {
  constexpr int kCards = 128;
  for (int i = 1; i < kCards; ++i) world.addCard("n1", i);
  world.addClaim("all", "share", {{"gpu", std::to_string(kCards)}});
  world.addPod("all", {"all"});
  driver->run();  // its ledger entries are written in several steps
  world.schedule("all");
  // As gpushare with hami-core: three variables per card, and a driver's files.
  plugin.editsOf = [](const plugin::DeviceRequest& request) {
    plugin::ContainerEdits out;
    for (const auto& card : request.cards) {
      const auto n = std::to_string(card.index);
      for (const char* name : {"CORE_", "MEMORY_", "LIMIT_"}) out.env.emplace_back(name + n, "1");
      out.deviceNodes.push_back({"/dev/nvidia" + n, "", "rw"});
    }
    for (int i = 0; i < 300; ++i) out.mounts.push_back({"/usr/lib/libcuda.so." + std::to_string(i), "/lib/x", {}});
    return out;
  };
  const auto prepared = preparer.prepare({"default", "all", world.resourceClaim("all")->metadata.uid}, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().str();
  EXPECT_EQ(plugin.last.cards.size(), static_cast<std::size_t>(kCards));
}

TEST_F(PrepareTest, PrepareAndUnprepareOfOneClaimAlternate) {
  const auto claim = claimed("a");
  atOnce(20, [&](int i) {
    if (i % 2 == 0)
      (void)preparer.prepare(claim, {});
    else
      EXPECT_TRUE(preparer.unprepare(claim, {}).ok());
  });
  EXPECT_EQ(plugin.staged(), files().size());
  ASSERT_TRUE(preparer.unprepare(claim, {}).ok());
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace egpu::agent

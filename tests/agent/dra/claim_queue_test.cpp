#include "controller/agent/dra/claim_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tests/agent/dra/kubelet.h"

namespace egpu::agent::dra {
namespace {

TEST(ClaimQueue, DoesAllBeforeItEnds) {
  std::atomic<int> done{0};
  {
    ClaimQueue queue(3);
    for (int i = 0; i < 100; ++i) queue.add(std::to_string(i % 7), [&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(ClaimQueue, WorksOnAsManyAsItMayAndNoMore) {
  Gate gate;
  std::atomic<int> now{0}, max{0};
  std::mutex mutex;
  {
    ClaimQueue queue(3);
    for (int i = 0; i < 8; ++i)
      queue.add(std::to_string(i), [&] {
        {
          std::lock_guard lock(mutex);
          max = std::max(max.load(), ++now);
        }
        gate.pass({});
        --now;
      });
    EXPECT_TRUE(eventually([&] { return gate.waiting() == 3; }));
    gate.open();
  }
  EXPECT_EQ(max, 3);
}

TEST(ClaimQueue, RetainsTheOrderOfOneClaimAndLetsOthersPass) {
  Gate gate;
  std::vector<std::string> order;
  std::mutex mutex;
  const auto note = [&](const char* what) {
    std::lock_guard lock(mutex);
    order.emplace_back(what);
  };
  {
    ClaimQueue queue(4);
    queue.add("a", [&] {
      gate.pass({});
      note("a1");
    });
    queue.add("a", [&] { note("a2"); });
    queue.add("a", [&] { note("a3"); });
    std::atomic<bool> other{false};
    queue.add("b", [&] {
      note("b");
      other = true;
    });
    EXPECT_TRUE(eventually([&] { return other.load(); }));
    gate.open();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"b", "a1", "a2", "a3"}));
}

}  // namespace
}  // namespace egpu::agent::dra

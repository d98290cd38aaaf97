// Too many requests at once: refused in plain text with a Retry-After, retried, and all complete in the end.
#include <atomic>
#include <thread>

#include "tests/kube/contract/contract_fixture.h"

namespace egpu::kube {
namespace {

using ::testing::Contains;
using ::testing::Pair;

TEST_F(ContractTest, WritesBeyondTheLimitWaitAndPass) {
  const auto limited = connect(server.ordinaryUser(), clock);
  WatchedTransport watched(*limited);
  Client crowded(watched, clock, random, metrics);
  std::atomic<bool> refused{false};
  // The embedded server is fast: its writes wait until one request beyond the limit was refused.
  server.onWrite([&] {
    while (!refused) {
      refused = watched.answered(429) > 0;
      std::this_thread::yield();
    }
  });
  constexpr int kThreads = 32, kEach = 4;
  std::atomic<int> made{0};
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < kThreads; ++w)
      writers.emplace_back([&, w] {
        for (int i = 0; i < kEach; ++i) {
          const auto done = crowded.create(lease("l" + std::to_string(w) + "-" + std::to_string(i)));
          EXPECT_TRUE(done.ok()) << done.status().str();
          if (done) ++made;
        }
      });
  }
  server.onWrite({});
  EXPECT_EQ(made, kThreads * kEach);
  EXPECT_GT(watched.answered(429), 0);
  EXPECT_THAT(watched.headersOf(429), Contains(Pair("retry-after", "1")));
  ListOptions all;
  all.namespace_ = ns;
  EXPECT_EQ(client.listAll<core::Lease>(all)->size(), static_cast<std::size_t>(kThreads * kEach));
}

}  // namespace
}  // namespace egpu::kube

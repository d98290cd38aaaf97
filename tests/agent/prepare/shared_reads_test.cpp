// Which callers share a read.
#include "controller/agent/prepare/shared_reads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace egpu::agent {
namespace {

using base::Code;
using base::Result;
using base::Status;

/// Reads that block until the test releases them. Each returns the number of reads that began before it.
class SharedReadsTest : public ::testing::Test {
 protected:
  Result<int> read(const std::stop_token& stop) {
    const int number = begun++;
    const std::stop_callback hurry(stop, [this] { letGo.release(); });
    entered.release();
    letGo.acquire();
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped");
    return number;
  }
  SharedReads<int>::Answer get(const std::string& key, const std::stop_token& stop = {}) {
    return reads.get(
        key, [this](const std::stop_token& its) { return read(its); }, stop);
  }

  SharedReads<int> reads;
  std::atomic<int> begun{0};
  std::counting_semaphore<> entered{0}, letGo{0};
};

TEST_F(SharedReadsTest, WhoAsksWhileOneIsUnderWaySharesTheNext) {
  int first = -1;
  std::vector<int> others(10, -1);
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { first = **get("a"); });
    entered.acquire();
    for (int& other : others) threads.emplace_back([&] { other = **get("a"); });
    while (reads.waiting() < static_cast<int>(others.size())) std::this_thread::yield();
    letGo.release(2);
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(others, std::vector<int>(10, 1)) << "one read for all, begun after they asked";
}

TEST_F(SharedReadsTest, OtherKeysDoNotWait) {
  std::jthread other([&] { EXPECT_TRUE(get("a").ok()); });
  entered.acquire();
  std::jthread own([&] { EXPECT_TRUE(get("b").ok()); });
  entered.acquire();  // while the first read is in progress
  letGo.release(2);
}

TEST_F(SharedReadsTest, WhoIsStoppedStopsNobodyElse) {
  std::stop_source stop;
  Result<int> first = 0;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      const auto answer = get("a", stop.get_token());
      first = answer ? Result<int>(**answer) : Result<int>(answer.status());
    });
    entered.acquire();
    threads.emplace_back([&] { EXPECT_EQ(**get("a"), 1); });
    stop.request_stop();
    entered.acquire();
    letGo.release();
  }
  EXPECT_EQ(first.status().code(), Code::cancelled);
}

TEST_F(SharedReadsTest, AStoppedOneDoesNotWaitForAnothersRead) {
  std::jthread other([&] { EXPECT_TRUE(get("a").ok()); });
  entered.acquire();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(get("a", stop.get_token()).status().code(), Code::cancelled);
  letGo.release();
}

TEST_F(SharedReadsTest, AnErrorIsThatOfAllAndTheNextOneReadsAgain) {
  SharedReads<int> shared;
  EXPECT_EQ(shared.get("a", [](const std::stop_token&) -> Result<int> { return Status(Code::unavailable, "away"); }, {})
                .status()
                .message(),
            "away");
  EXPECT_EQ(**shared.get("a", [](const std::stop_token&) -> Result<int> { return 7; }, {}), 7);
}

}  // namespace
}  // namespace egpu::agent

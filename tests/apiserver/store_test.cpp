// The store and its journal: writers share flushes, no change is visible before it is durable, a failed flush changes
// nothing.
#include "controller/standalone/apiserver/storage/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <thread>

namespace egpu::apiserver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeJournal final : public Journal {
 public:
  base::Status append(const std::vector<Record>& records, uint64_t version) override {
    std::unique_lock lock(mutex);
    batches.push_back(records.size());
    last = version;
    changed.notify_all();
    changed.wait(lock, [&] { return !held; });
    return fail ? base::Status(base::Code::unavailable, "disk full") : base::Status();
  }
  void awaitBatches(std::size_t n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return batches.size() >= n; });
  }
  void release() {
    std::lock_guard lock(mutex);
    held = false;
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::size_t> batches;
  uint64_t last = 0;
  bool held = false, fail = false;
};

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    Resource r;
    r.group = "g";
    r.versions = {"v1"};
    r.storageVersion = "v1";
    r.plural = "things";
    EXPECT_TRUE(table.add(std::move(r)).ok());
    things = table.find("g", "v1", "things");
    store.emplace(table, 100, &journal);
  }
  Write write(Change change, const std::string& name, ObjectPtr expected = nullptr, const Json& more = Json::object()) {
    Json body = {{"apiVersion", "g/v1"}, {"kind", "Thing"}, {"metadata", {{"name", name}, {"uid", "uid-" + name}}}};
    body.update(more);
    return {change, things, Key{"", name}, std::move(expected), std::move(body)};
  }
  ResourceTable table;
  const Resource* things = nullptr;
  FakeJournal journal;
  std::optional<Store> store;
};

TEST_F(StoreTest, ComparesBeforeItSwaps) {
  ObjectPtr one = *store->commit(write(Change::create, "a"));
  EXPECT_EQ(store->commit(write(Change::create, "a")).status().code(), base::Code::alreadyExists);
  ObjectPtr two = *store->commit(write(Change::update, "a", one, {{"spec", 1}}));
  EXPECT_EQ(store->commit(write(Change::update, "a", one, {{"spec", 2}})).status().code(), base::Code::conflict);
  EXPECT_EQ(store->commit(write(Change::remove, "a", one)).status().code(), base::Code::conflict);
  EXPECT_TRUE(store->commit(write(Change::remove, "a", two)).ok());
  EXPECT_EQ(store->commit(write(Change::update, "a", two)).status().code(), base::Code::conflict);
  EXPECT_EQ(store->get(*things, Key{"", "a"}), nullptr);
}

TEST_F(StoreTest, TextAndBodyCarryTheVersionWhateverTheObjectHolds) {
  ObjectPtr o = *store->commit(write(Change::create, "a", nullptr,
                                     {{"also", {{"resourceVersion", "x"}}}, {"note", "\"resourceVersion\":\"7\""}}));
  Json parsed = Json::parse(o->text);
  EXPECT_EQ(parsed, o->body);
  EXPECT_EQ(parsed["metadata"]["resourceVersion"], std::to_string(o->version));
  EXPECT_EQ(parsed["also"]["resourceVersion"], "x");
}

TEST_F(StoreTest, WritersThatWaitShareOneFlushAndNothingIsSeenBefore) {
  journal.held = true;
  std::vector<std::jthread> writers;
  writers.emplace_back([&] { EXPECT_TRUE(store->commit(write(Change::create, "first")).ok()); });
  journal.awaitBatches(1);
  std::atomic<int> begun{0};
  for (int i = 0; i < 5; ++i)
    writers.emplace_back([&, i] {
      ++begun;
      EXPECT_TRUE(store->commit(write(Change::create, "w" + std::to_string(i))).ok());
    });
  while (begun < 5) std::this_thread::yield();
  uint64_t version = 0;
  EXPECT_THAT(store->list(*things, {}, version), IsEmpty()) << "seen before it was kept";
  EXPECT_EQ(version, 1u);
  journal.release();
  writers.clear();
  EXPECT_EQ(store->list(*things, {}, version).size(), 6u);
  EXPECT_EQ(version, 7u);
  EXPECT_EQ(journal.last, 7u);
  std::size_t records = 0;
  for (std::size_t n : journal.batches) records += n;
  EXPECT_EQ(records, 6u);
}

TEST_F(StoreTest, AFailedFlushChangesNothing) {
  ObjectPtr a = *store->commit(write(Change::create, "a"));
  journal.fail = true;
  EXPECT_EQ(store->commit(write(Change::create, "b")).status().code(), base::Code::unavailable);
  EXPECT_EQ(store->commit(write(Change::remove, "a", a)).status().code(), base::Code::unavailable);
  EXPECT_EQ(store->version(), a->version);
  EXPECT_EQ(store->get(*things, Key{"", "a"}), a);
  journal.fail = false;
  EXPECT_EQ((*store->commit(write(Change::create, "b")))->version, a->version + 1);
}

TEST_F(StoreTest, OneObjectTwiceInOneBatchIsDecidedInOrder) {
  ObjectPtr a = *store->commit(write(Change::create, "a"));
  std::atomic<int> good{0}, stale{0}, begun{0};
  journal.held = true;  // lets eight writers queue up behind a ninth
  {
    std::jthread first([&] { EXPECT_TRUE(store->commit(write(Change::create, "other")).ok()); });
    journal.awaitBatches(2);
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i)
      writers.emplace_back([&, i] {
        ++begun;
        auto done = store->commit(write(Change::update, "a", a, {{"spec", i}}));
        ++(done.ok() ? good : stale);
      });
    while (begun < 8) std::this_thread::yield();
    journal.release();
  }
  EXPECT_EQ(good, 1);
  EXPECT_EQ(stale, 7);
}

TEST_F(StoreTest, EarlierStatesAreRebuiltFromTheHistory) {
  ObjectPtr a = *store->commit(write(Change::create, "a")), b = *store->commit(write(Change::create, "b"));
  const uint64_t then = store->version();
  ASSERT_TRUE(store->commit(write(Change::remove, "a", a)).ok());
  ASSERT_TRUE(store->commit(write(Change::create, "a", nullptr, {{"spec", "new"}})).ok());
  ASSERT_TRUE(store->commit(write(Change::update, "b", b, {{"spec", "new"}})).ok());
  ASSERT_TRUE(store->commit(write(Change::create, "c")).ok());
  std::vector<ObjectPtr> out;
  ASSERT_TRUE(store->listAt(*things, {}, then, Key{}, out));
  EXPECT_THAT(out, ElementsAre(a, b));
  out.clear();
  ASSERT_TRUE(store->listAt(*things, {}, then, Key{"", "a"}, out));
  EXPECT_THAT(out, ElementsAre(b));
  out.clear();
  EXPECT_FALSE(store->listAt(*things, {}, store->version() + 1, Key{}, out));
  store->compact();
  EXPECT_FALSE(store->listAt(*things, {}, then, Key{}, out));
}

}  // namespace
}  // namespace egpu::apiserver

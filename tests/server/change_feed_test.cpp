#include "controller/server/page/change_feed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/stored_objects.h"

namespace egpu::server {
namespace {

void expectIn(const std::string& all, const std::string& part) {
  EXPECT_NE(all.find(part), std::string::npos) << part << " is not in " << all;
}
void expectWithout(const std::string& all, const std::string& part) {
  EXPECT_EQ(all.find(part), std::string::npos) << part << " is in " << all;
}

constexpr const char* kPlanted = "<img src=x onerror=\"alert(1)\">\n\ndata: {}";

/// A feed of a cluster with the nodes n1 and n2, with one card each, and claim ns/c.
class ChangeFeedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"n1", "n2"}) {
      node(name);
      card(std::string("card-") + name, name);
    }
    claim("c", "Pending");
  }
  std::string next() { return std::to_string(++version_); }
  void node(const std::string& name) { stores_.nodes.informed(support::readyNode(name, next())); }
  void card(const std::string& name, const std::string& on) {
    auto gpu = support::cardOn(on, name, next());
    gpu.spec.card->topology.numa = 1;
    gpu.spec.card->topology.links = {{name, "nvlink", 4}, {"elsewhere", "system", 1}};
    stores_.cards.informed(gpu);
  }
  cache::Claim makeClaim(const std::string& name, const std::string& phase, const std::string& message = "no room") {
    cache::Claim c;
    c.metadata.namespace_ = "ns";
    c.metadata.name = name;
    c.metadata.uid = "claim-" + name;
    c.metadata.resourceVersion = next();
    c.metadata.creationTimestamp = "2026-01-02T03:04:05Z";
    c.spec.className = "share";
    c.spec.requests = {{"elasticgpu.io/gpu-core", "30"}};
    c.status.phase = phase;
    c.status.conditions = {{"Bound", "False", "NoFit", message, "2026-01-02T03:04:06Z"}};
    return c;
  }
  void claim(const std::string& name, const std::string& phase, const std::string& message = "no room") {
    stores_.claims.informed(makeClaim(name, phase, message));
  }
  /// Opens a stream; null if it is refused.
  std::unique_ptr<http::BodyStream> open(ChangeFeed::StillAllowed stillAllowed = {}) {
    return std::move(feed_.open(std::move(stillAllowed)).stream);
  }
  /// Reads the stream until it has sent `text`, and returns everything read. Fails at the end of the stream.
  static std::string readUntil(http::BodyStream& stream, const std::string& text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      std::string chunk;
      const bool more = stream.next(chunk, {});
      all += chunk;
      if (more) continue;
      EXPECT_NE(all.find(text), std::string::npos) << "the stream ended after: " << all;
      break;
    }
    return all;
  }
  static std::string readAll(http::BodyStream& stream) { return readUntil(stream, "event: complete\n"); }

  static constexpr std::size_t kMarks = 100;
  int version_ = 0;
  cache::Stores stores_;
  allocator::Allocator cluster_{stores_};
  ChangeFeedOptions options_{std::chrono::milliseconds(1), std::chrono::milliseconds(20), std::chrono::milliseconds(0),
                             kMarks};
  ChangeFeed feed_{stores_, cluster_, options_};
};

TEST_F(ChangeFeedTest, AStreamBeginsWithAllObjects) {
  const auto answer = feed_.open({});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.contentType, "text/event-stream; charset=utf-8");
  const auto all = readAll(*answer.stream);
  EXPECT_TRUE(all.starts_with("event: start\ndata: {\"nodes\":2,\"claims\":1}\n\n")) << all;
  expectIn(all, R"("name":"card-n1","uuid":"card-n1","index":0)");
  expectIn(all, R"("numa":1,"links":{"nvlink":[0]})");
  expectIn(all, R"({"claim":"ns/c","class":"share","phase":"Pending","created":1767323045,"asks":)");
  expectIn(all, R"("type":"Bound","status":"False","reason":"NoFit","message":"no room","since":1767323046)");
}

TEST_F(ChangeFeedTest, ChangesFollowAndObjectsThatAreGoneAreNamed) {
  const auto stream = open();
  readAll(*stream);
  claim("c", "Bound");
  claim("d", "Pending");
  const auto changes = readUntil(*stream, "ns/d");
  expectIn(changes, R"("claim":"ns/c","class":"share","phase":"Bound")");
  expectWithout(changes, "card-n1");
  stores_.claims.informedGone(makeClaim("c", "Bound"));
  expectIn(readUntil(*stream, "event: claims"), R"({"claims":[],"gone":["ns/c"]})");
  card("card-more", "n2");
  const auto nodes = readUntil(*stream, "card-more");
  expectIn(nodes, "card-n2");
  expectWithout(nodes, "card-n1");
}

TEST_F(ChangeFeedTest, QuotasShowUsedAmountsInTheUnitOfTheirLimits) {
  cache::Quota quota;
  quota.metadata.namespace_ = "ns";
  quota.metadata.name = "team";
  quota.metadata.uid = "quota";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "400"}, {"gpu-memory", "40Gi"}};
  quota.status.used = {{"gpu-core", "150"}};
  stores_.quotas.informed(quota);
  const auto stream = open();
  const auto all = readAll(*stream);
  expectIn(all, R"({"key":"gpu-core","used":1500,"hard":4000,"text":"150 of 400"})");
  expectIn(all, R"("key":"gpu-memory","used":0,"hard":42949672960)");
}

TEST_F(ChangeFeedTest, TextsOfTenantsCannotEndAnEvent) {
  claim("c", "Pending", kPlanted);
  const auto stream = open();
  const auto all = readAll(*stream);
  expectIn(all, R"(<img src=x onerror=\"alert(1)\">\n\ndata: {}")");
  expectWithout(all, "\n\ndata: {}\"");
}

TEST_F(ChangeFeedTest, StreamsAreLimited) {
  std::vector<std::unique_ptr<http::BodyStream>> streams;
  for (int i = 0; i < ChangeFeed::kMaxStreams; ++i) streams.push_back(open());
  const auto refused = feed_.open({});
  EXPECT_EQ(refused.status, 503);
  EXPECT_FALSE(refused.stream);
  expectIn(refused.body, "too many pages");
  streams.pop_back();
  EXPECT_TRUE(open());
  streams.clear();
  EXPECT_EQ(feed_.streams(), 0);
}

TEST_F(ChangeFeedTest, AllStreamsGetTheSameChanges) {
  const auto a = open(), b = open();
  readAll(*a);
  readAll(*b);
  claim("c", "Bound");
  expectIn(readUntil(*a, "event: claims"), "\"phase\":\"Bound\"");
  expectIn(readUntil(*b, "event: claims"), "\"phase\":\"Bound\"");
}

TEST_F(ChangeFeedTest, AStreamWithoutChangesSendsAHeartbeat) {
  const auto stream = open();
  readAll(*stream);
  expectWithout(readUntil(*stream, ": alive\n\n"), "event: claims");
}

TEST_F(ChangeFeedTest, ASlowClientStartsAgain) {
  const auto slow = open(), fast = open();
  readAll(*slow);
  readAll(*fast);
  for (std::size_t i = 0; i <= ChangeFeed::kLogged; ++i) {
    claim("c" + std::to_string(i), "Pending");
    readUntil(*fast, "ns/c" + std::to_string(i) + "\"");
  }
  const auto again = readAll(*slow);
  expectIn(again, "event: start");
  expectIn(again, "ns/c" + std::to_string(ChangeFeed::kLogged));
}

TEST_F(ChangeFeedTest, TooManyChangesStartAllStreamsAgain) {
  const auto stream = open();
  readAll(*stream);
  for (std::size_t i = 0; i <= kMarks; ++i) claim("many" + std::to_string(i), "Pending");
  expectIn(readAll(*stream), "event: start");
}

TEST_F(ChangeFeedTest, AStreamEndsWhenItsCallerIsNoLongerAllowed) {
  bool allowed = true;
  const auto stream = open([&allowed](std::stop_token) { return allowed; });
  readAll(*stream);
  allowed = false;
  std::string chunk;
  EXPECT_FALSE(stream->next(chunk, {}));
  EXPECT_EQ(chunk, "event: denied\ndata: {}\n\n");
}

TEST_F(ChangeFeedTest, AStopEndsAStreamThatWaits) {
  const auto stream = open();
  readAll(*stream);
  std::stop_source stop;
  std::jthread stopping([&stop] { stop.request_stop(); });
  std::string chunk;
  while (stream->next(chunk, stop.get_token())) chunk.clear();
}

TEST_F(ChangeFeedTest, CloseEndsStreamsAndRefusesNewOnes) {
  const auto stream = open();
  readAll(*stream);
  std::jthread closing([this] { feed_.close(); });
  std::string chunk;
  while (stream->next(chunk, {})) chunk.clear();
  closing.join();
  EXPECT_EQ(feed_.open({}).status, 503);
}

TEST_F(ChangeFeedTest, ChangesDuringTheFirstObjectsAreNotLost) {
  const auto stream = open();
  std::string chunk;
  while (chunk.find("event: nodes") == std::string::npos) ASSERT_TRUE(stream->next(chunk, {}));
  card("card-late", "n1");
  const auto rest = readAll(*stream);
  expectWithout(rest, "card-late");
  readUntil(*stream, "card-late");
}

TEST_F(ChangeFeedTest, ReadersAndWritersRunAtOnce) {
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([this] {
      const auto stream = open();
      readUntil(*stream, "ns/last");
    });
  for (int i = 0; i < 200; ++i) {
    claim("c", i % 2 == 0 ? "Bound" : "Pending");
    node("n1");
    card("card-n2", "n2");
  }
  claim("last", "Pending");
}

}  // namespace
}  // namespace egpu::server

#include "controller/kube/reflector.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "controller/kube/line_framer.h"
#include "tests/kube/fake_transport.h"
#include "tests/kube/objects.h"

namespace egpu::kube {
namespace {

using base::Code;
using core::Node;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A clock whose sleeps take no time and are recorded. Sleeps of `standing` length are watchdogs and wait for a stop.
class SleepLog final : public base::Clock {
 public:
  explicit SleepLog(milliseconds standing) : standing_(standing) {}
  Steady now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  Wall wall() const override { return {}; }
  bool sleepUntil(Steady until, std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    const auto nap = std::chrono::duration_cast<milliseconds>(until - now_);
    if (nap == standing_) {
      changed_.wait(lock, stop, [] { return false; });
      return false;
    }
    naps_.push_back(nap);
    now_ = until;
    return !stop.stop_requested();
  }
  void advance(milliseconds d) {
    std::lock_guard lock(mutex_);
    now_ += d;
  }
  std::vector<milliseconds> naps() const {
    std::lock_guard lock(mutex_);
    return naps_;
  }

 private:
  const milliseconds standing_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Steady now_{std::chrono::hours(1)};
  std::vector<milliseconds> naps_;
};

/// The contents of a cache, and the order of its changes. endList() generates deletions as the contract requires.
class MirrorSink final : public Sink<Node> {
 public:
  void beginList() override { listed_.clear(); }
  void listed(const Node& node) override { listed_[node.metadata.name] = node.metadata.resourceVersion; }
  void unlisted(const Node& node) override { listed_.erase(node.metadata.name); }
  void endList(const std::string& version) override {
    std::lock_guard lock(mutex_);
    for (const auto& [name, seen] : listed_) world_[name] = seen;
    for (auto it = world_.begin(); it != world_.end();)
      if (listed_.contains(it->first)) {
        ++it;
      } else {
        log_.push_back("gone " + it->first);
        it = world_.erase(it);
      }
    log_.push_back("replace " + version);
    changed_.notify_all();
  }
  void apply(codec::WatchEvent<Node>&& event) override {
    std::lock_guard lock(mutex_);
    const auto& meta = event.object.metadata;
    if (event.type == codec::EventType::deleted)
      world_.erase(meta.name);
    else if (event.type != codec::EventType::bookmark)
      world_[meta.name] = meta.resourceVersion;
    log_.push_back((event.type == codec::EventType::bookmark ? "bookmark " : "event ") + meta.resourceVersion);
    changed_.notify_all();
  }
  void waitFor(const std::string& entry) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::find(log_.begin(), log_.end(), entry) != log_.end(); });
  }
  std::map<std::string, std::string> world() const {
    std::lock_guard lock(mutex_);
    return world_;
  }
  std::vector<std::string> log() const {
    std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::string> listed_;  // used only by the reflector's thread
  std::map<std::string, std::string> world_;
  std::vector<std::string> log_;
};

using World = std::map<std::string, std::string>;
using Log = std::vector<std::string>;

class ReflectorTest : public ::testing::Test {
 protected:
  static constexpr seconds kInitialIdle{31};
  /// List first, without WatchList.
  ReflectorOptions plain() const {
    ReflectorOptions options;
    options.watchList = false;
    options.initialIdle = kInitialIdle;
    return options;
  }
  ReflectorOptions streamed() const {
    ReflectorOptions options = plain();
    options.watchList = true;
    return options;
  }
  void start(ReflectorOptions options) {
    reflector = std::make_unique<Reflector<Node>>(client, sink, std::move(options));
    reflector->start();
  }
  std::string parameter(std::size_t request, const std::string& name) const {
    const std::string target = transport.request(request).target;
    auto at = target.find("&" + name + "=");
    if (at == std::string::npos) at = target.find("?" + name + "=");
    if (at == std::string::npos) return "<none>";
    at += name.size() + 2;
    return target.substr(at, target.find('&', at) - at);
  }
  /// Sets the server's answer to the check for a restored history, which precedes the resumption of a watch.
  void standsAt(const std::string& version) {
    transport.onPerform([version](const HttpRequest& request) {
      EXPECT_EQ(request.target, "/api/v1/nodes?limit=1");
      return FakeTransport::response(200, nodeList({nodeJson("any", "1")}, version, "t"));
    });
  }
  FakeTransport transport;
  SleepLog clock{kInitialIdle};
  base::Random random{3};
  base::NoMetrics metrics;
  Client client{transport, clock, random, metrics};
  MirrorSink sink;
  std::unique_ptr<Reflector<Node>> reflector;
};

TEST_F(ReflectorTest, ListsInPagesThenWatchesFromThere) {
  transport.reply(200, nodeList({nodeJson("a", "1")}, "10", "t"));
  transport.reply(200, nodeList({nodeJson("b", "2")}, "10"));
  auto watch = transport.openStream();
  EXPECT_FALSE(Reflector<Node>(client, sink).hasSynced());
  start(plain());
  EXPECT_TRUE(reflector->waitForSync());
  EXPECT_TRUE(reflector->hasSynced());
  EXPECT_EQ(sink.world(), (World{{"a", "1"}, {"b", "2"}}));
  transport.waitForRequests(3);
  EXPECT_EQ(parameter(2, "watch"), "true");
  EXPECT_EQ(parameter(2, "resourceVersion"), "10");
  EXPECT_EQ(parameter(2, "allowWatchBookmarks"), "true");
  watch->sendLine(event("ADDED", nodeJson("c", "11")));
  watch->sendLine(event("MODIFIED", nodeJson("a", "12")));
  watch->sendLine(event("DELETED", nodeJson("b", "13")));
  watch->waitDrained();
  EXPECT_EQ(sink.world(), (World{{"a", "12"}, {"c", "11"}}));
  EXPECT_EQ(reflector->lastResourceVersion(), "13");
}

TEST_F(ReflectorTest, SelectorsAndNamespaceGoToListAndWatch) {
  transport.reply(200, nodeList({}, "10"));
  (void)transport.openStream();
  auto options = plain();
  options.labelSelector = "role=card";
  options.fieldSelector = "metadata.name=x";
  start(options);
  transport.waitForRequests(2);
  for (std::size_t i : {0U, 1U}) {
    EXPECT_EQ(parameter(i, "labelSelector"), "role%3Dcard");
    EXPECT_EQ(parameter(i, "fieldSelector"), "metadata.name%3Dx");
  }
}

TEST_F(ReflectorTest, EventsCutAtEveryByte) {
  transport.reply(200, nodeList({}, "10"));
  auto watch = transport.openStream();
  start(plain());
  transport.waitForRequests(2);
  const std::string name = "k\xc3\xb6ln\xe2\x82\xac";
  const std::string text = event("ADDED", nodeJson(name, "11")) + "\n" + event("MODIFIED", nodeJson(name, "12")) + "\n";
  for (const char c : text) watch->send(std::string(1, c));
  watch->waitDrained();
  EXPECT_EQ(sink.log(), (Log{"replace 10", "event 11", "event 12"}));
  EXPECT_EQ(sink.world(), (World{{name, "12"}}));
}

TEST_F(ReflectorTest, WatchTimeOutIsRandomWithinItsBoundsAndSilenceBeyondItIsDeath) {
  transport.reply(200, nodeList({}, "10"));
  std::set<std::string> seen;
  standsAt("10");
  for (int i = 0; i < 20; ++i) transport.replyStream(500, "");
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(42);
  for (std::size_t i = 1; i < 42; i += 2) {
    const int timeout = std::stoi(parameter(i, "timeoutSeconds"));
    EXPECT_GE(timeout, 300);
    EXPECT_LE(timeout, 600);
    EXPECT_EQ(transport.request(i).timeout, seconds(timeout) + seconds(30));
    EXPECT_EQ(transport.request(i).headTimeout, seconds(30));
    seen.insert(parameter(i, "timeoutSeconds"));
  }
  EXPECT_GT(seen.size(), 3U);
}

TEST_F(ReflectorTest, CleanEndResumesAtTheLastVersionBookmarksIncluded) {
  transport.reply(200, nodeList({nodeJson("a", "1")}, "10"));
  auto first = transport.openStream();
  auto second = transport.openStream();
  start(plain());
  transport.waitForRequests(2);
  first->sendLine(event("MODIFIED", nodeJson("a", "11")));
  first->sendLine(bookmark("20"));
  first->waitDrained();
  clock.advance(seconds(600));
  first->end();
  transport.waitForRequests(3);
  EXPECT_EQ(parameter(2, "resourceVersion"), "20");
  EXPECT_TRUE(clock.naps().empty());  // a watch that lasted long is resumed without delay
  second->sendLine(event("MODIFIED", nodeJson("a", "21")));
  second->waitDrained();
  EXPECT_EQ(sink.log(), (Log{"replace 10", "event 11", "bookmark 20", "event 21"}));
}

TEST_F(ReflectorTest, PartialTailIsDroppedAndItsEventComesAgain) {
  transport.reply(200, nodeList({}, "10"));
  standsAt("11");
  auto first = transport.openStream();
  auto second = transport.openStream();
  start(plain());
  transport.waitForRequests(2);
  const std::string line = event("ADDED", nodeJson("a", "11"));
  first->send(line.substr(0, line.size() / 2));
  first->fail(base::Status(Code::unknownOutcome, "connection reset"));
  transport.waitForRequests(4);
  EXPECT_EQ(parameter(3, "resourceVersion"), "10");
  second->sendLine(line);
  second->waitDrained();
  EXPECT_EQ(sink.log(), (Log{"replace 10", "event 11"}));
}

TEST_F(ReflectorTest, ServerThatClosesAtOnceIsNotAskedInAHotLoop) {
  transport.reply(200, nodeList({}, "10"));
  standsAt("10");
  transport.openStream()->end();
  transport.openStream()->end();
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(6);
  EXPECT_EQ(clock.naps().size(), 2U);
}

TEST_F(ReflectorTest, LostConnectionToARestoredServerListsAnew) {
  transport.reply(200, nodeList({nodeJson("ghost", "7"), nodeJson("kept", "1")}, "9"));
  auto first = transport.openStream();
  (void)transport.openStream();
  start(plain());
  first->sendLine(event("MODIFIED", nodeJson("kept", "10")));
  first->waitDrained();
  transport.reply(200, nodeList({nodeJson("kept", "1")}, "9", "t"));  // 9 is less than 10
  transport.reply(200, nodeList({nodeJson("kept", "1"), nodeJson("new", "9")}, "9"));
  first->fail(base::Status(Code::unknownOutcome, "connection reset"));
  transport.waitForRequests(5);
  EXPECT_EQ(transport.request(2).target, "/api/v1/nodes?limit=1");
  EXPECT_EQ(transport.request(3).target, "/api/v1/nodes?limit=500");
  EXPECT_EQ(parameter(4, "resourceVersion"), "9");
  EXPECT_EQ(sink.world(), (World{{"kept", "1"}, {"new", "9"}}));
}

TEST_F(ReflectorTest, WatchThatEndsBeforeItsTimeMayMeanARestoredServer) {
  transport.reply(200, nodeList({nodeJson("ghost", "1")}, "10"));
  auto first = transport.openStream();
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(2);
  clock.advance(seconds(299));  // a server that shuts down ends its watches cleanly
  transport.reply(200, nodeList({}, "8"));
  transport.reply(200, nodeList({}, "8"));
  first->end();
  transport.waitForRequests(5);
  EXPECT_EQ(parameter(4, "resourceVersion"), "8");
  EXPECT_TRUE(sink.world().empty());
}

TEST_F(ReflectorTest, NoWatchIsResumedBeforeTheServerReportsItsVersion) {
  transport.reply(200, nodeList({}, "10"));
  transport.failStream(Code::unavailable, "connection refused");
  transport.fail(Code::unavailable, "connection refused");
  transport.reply(503, statusJson(503, "ServiceUnavailable"), {{"retry-after", "9"}});
  transport.reply(200, "half a li");
  transport.reply(200, nodeList({}, "10"));
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(7);
  for (const std::size_t i : {2U, 3U, 4U, 5U}) EXPECT_EQ(transport.request(i).target, "/api/v1/nodes?limit=1");
  EXPECT_EQ(parameter(6, "resourceVersion"), "10");
  ASSERT_EQ(clock.naps().size(), 4U);
  EXPECT_GE(clock.naps()[2], seconds(9));
  EXPECT_FALSE(reflector->lastError().ok());
}

TEST_F(ReflectorTest, ExpiredAsErrorEventRelistsAndReportsWhatVanished) {
  transport.reply(200, nodeList({nodeJson("a", "1"), nodeJson("b", "2")}, "10"));
  auto first = transport.openStream();
  auto second = transport.openStream();
  start(plain());
  transport.waitForRequests(2);
  transport.reply(200, nodeList({nodeJson("b", "15")}, "30"));
  first->sendLine(event("ERROR", statusJson(410, "Expired")));
  sink.waitFor("replace 30");
  transport.waitForRequests(4);
  EXPECT_EQ(sink.world(), (World{{"b", "15"}}));
  EXPECT_EQ(sink.log(), (Log{"replace 10", "gone a", "replace 30"}));
  EXPECT_EQ(parameter(2, "resourceVersion"), "<none>");  // a quorum read never goes back in time
  EXPECT_EQ(parameter(3, "resourceVersion"), "30");
  second->sendLine(event("ADDED", nodeJson("c", "31")));
  second->waitDrained();
  EXPECT_EQ(reflector->lastResourceVersion(), "31");
}

TEST_F(ReflectorTest, ExpiredAsHttpStatusRelists) {
  transport.reply(200, nodeList({nodeJson("a", "1")}, "10"));
  transport.reply(200, nodeList({}, "30"));
  transport.replyStream(410, statusJson(410, "Gone"));
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(4);
  EXPECT_EQ(parameter(3, "resourceVersion"), "30");
  EXPECT_TRUE(sink.world().empty());
}

TEST_F(ReflectorTest, VersionTooLargeRelistsWithoutOne) {
  transport.reply(200, nodeList({}, "10"));
  transport.reply(200, nodeList({}, "8"));
  transport.replyStream(504, statusJson(504, "Timeout", "ResourceVersionTooLarge"), {{"retry-after", "1"}});
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(4);
  EXPECT_EQ(parameter(2, "resourceVersion"), "<none>");
  EXPECT_EQ(parameter(3, "resourceVersion"), "8");
  EXPECT_GE(clock.naps().at(0), seconds(1));
}

TEST_F(ReflectorTest, MalformedOrOversizedLineRelists) {
  transport.reply(200, nodeList({}, "10"));
  transport.reply(200, nodeList({}, "20"));
  transport.reply(200, nodeList({}, "30"));
  auto first = transport.openStream();
  auto second = transport.openStream();
  (void)transport.openStream();
  start(plain());
  first->sendLine("{\"type\":\"ADDED\",\"object\":");
  sink.waitFor("replace 20");
  second->send(std::string(LineFramer::kMaxLine + 1, 'x'));
  sink.waitFor("replace 30");
}

TEST_F(ReflectorTest, BackOffGrowsIsCappedJitteredAndReset) {
  transport.reply(200, nodeList({}, "10"));
  standsAt("10");
  for (int i = 0; i < 8; ++i) transport.failStream(Code::unavailable, "connection refused");
  auto good = transport.openStream();
  start(plain());
  transport.waitForRequests(18);
  auto naps = clock.naps();
  ASSERT_EQ(naps.size(), 8U);
  milliseconds ceiling{800};
  for (const auto nap : naps) {
    EXPECT_GT(nap, milliseconds(0));
    EXPECT_LE(nap, ceiling);
    ceiling = std::min(ceiling * 2, milliseconds(30'000));
  }
  EXPECT_EQ(reflector->lastError().code(), Code::unavailable);
  good->sendLine(bookmark("11"));
  good->waitDrained();
  EXPECT_TRUE(reflector->lastError().ok());
  clock.advance(seconds(121));
  (void)transport.openStream();
  standsAt("11");
  good->fail(base::Status(Code::deadline, "silence"));
  transport.waitForRequests(20);
  EXPECT_LE(clock.naps().at(8), milliseconds(800));  // after two quiet minutes the backoff starts again
  EXPECT_EQ(parameter(19, "resourceVersion"), "11");
}

TEST_F(ReflectorTest, RetryAfterOfARefusedWatchIsHonoured) {
  transport.reply(200, nodeList({}, "10"));
  transport.replyStream(429, "too many requests", {{"retry-after", "7"}});
  standsAt("10");
  (void)transport.openStream();
  start(plain());
  transport.waitForRequests(4);
  EXPECT_GE(clock.naps().at(0), seconds(7));
  EXPECT_EQ(parameter(3, "resourceVersion"), "10");
}

TEST_F(ReflectorTest, MissingPermissionIsTriedAgainUntilItIsGiven) {
  transport.reply(403, statusJson(403, "Forbidden"));
  transport.reply(401, statusJson(401, "Unauthorized"));
  transport.reply(200, nodeList({}, "10"));
  transport.replyStream(403, statusJson(403, "Forbidden"));
  standsAt("10");
  auto watch = transport.openStream();
  start(plain());
  transport.waitForRequests(6);
  EXPECT_EQ(clock.naps().size(), 3U);
  EXPECT_EQ(reflector->lastError().code(), Code::forbidden);
  EXPECT_TRUE(reflector->hasSynced());  // stale but synced; lastError() shows the difference
}

TEST_F(ReflectorTest, WatchListStreamsTheWorldThenGoesOnAsTheWatch) {
  auto stream = transport.openStream();
  start(streamed());
  transport.waitForRequests(1);
  EXPECT_EQ(parameter(0, "sendInitialEvents"), "true");
  EXPECT_EQ(parameter(0, "resourceVersionMatch"), "NotOlderThan");
  EXPECT_EQ(parameter(0, "resourceVersion"), "<none>");
  stream->sendLine(event("ADDED", nodeJson("a", "1")));
  stream->sendLine(event("ADDED", nodeJson("b", "2")));
  stream->sendLine(event("MODIFIED", nodeJson("a", "3")));
  stream->sendLine(event("DELETED", nodeJson("b", "4")));
  stream->waitDrained();
  EXPECT_FALSE(reflector->hasSynced());
  EXPECT_TRUE(sink.log().empty());
  stream->sendLine(bookmark("10", true));
  EXPECT_TRUE(reflector->waitForSync());
  stream->sendLine(event("ADDED", nodeJson("c", "11")));
  stream->waitDrained();
  EXPECT_EQ(sink.log(), (Log{"replace 10", "event 11"}));
  EXPECT_EQ(sink.world(), (World{{"a", "3"}, {"c", "11"}}));
  EXPECT_EQ(transport.requests().size(), 1U);  // one request in all
}

TEST_F(ReflectorTest, WatchListRefusedFallsBackToListForGood) {
  for (const int http : {422, 400}) {
    FakeTransport refusing;
    Client other(refusing, clock, random, metrics);
    MirrorSink mirror;
    refusing.replyStream(http, statusJson(http, http == 422 ? "Invalid" : "BadRequest"));
    refusing.reply(200, nodeList({nodeJson("a", "1")}, "10"));
    refusing.replyStream(410, statusJson(410, "Expired"));
    refusing.reply(200, nodeList({nodeJson("a", "1")}, "20"));
    (void)refusing.openStream();
    Reflector<Node> r(other, mirror, streamed());
    r.start();
    mirror.waitFor("replace 20");
    refusing.waitForRequests(5);
    EXPECT_EQ(refusing.request(3).target.find("sendInitialEvents"), std::string::npos);
  }
}

TEST_F(ReflectorTest, WatchListThatEndsWithoutItsBookmarkFallsBackToList) {
  auto stream = transport.openStream();
  (void)transport.openStream();
  transport.reply(200, nodeList({nodeJson("b", "2")}, "10"));
  start(streamed());
  stream->sendLine(event("ADDED", nodeJson("a", "1")));
  stream->end();
  EXPECT_TRUE(reflector->waitForSync());
  EXPECT_EQ(sink.world(), (World{{"b", "2"}}));  // nothing of the incomplete stream
}

TEST_F(ReflectorTest, WatchListWithoutAnEndFallsBackToListAfterSilence) {
  base::ManualClock turned;
  Client other(transport, turned, random, metrics);
  auto stream = transport.openStream();
  (void)transport.openStream();
  transport.reply(200, nodeList({nodeJson("a", "1")}, "10"));
  Reflector<Node> r(other, sink, streamed());
  r.start();
  stream->sendLine(event("ADDED", nodeJson("a", "1")));  // then silence: a server that ignores the parameter
  stream->waitDrained();
  std::jthread turning([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      turned.advance(kInitialIdle);
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(r.waitForSync());
  turning.request_stop();
  transport.waitForRequests(2);
  EXPECT_EQ(transport.request(1).target, "/api/v1/nodes?limit=500");
}

TEST_F(ReflectorTest, BrokenWatchListIsTriedAgain) {
  auto first = transport.openStream();
  auto second = transport.openStream();
  start(streamed());
  first->sendLine(event("ADDED", nodeJson("a", "1")));
  first->fail(base::Status(Code::unknownOutcome, "reset"));
  second->sendLine(event("ADDED", nodeJson("b", "2")));
  second->sendLine(bookmark("10", true));
  EXPECT_TRUE(reflector->waitForSync());
  EXPECT_EQ(sink.world(), (World{{"b", "2"}}));
  EXPECT_EQ(parameter(1, "sendInitialEvents"), "true");
}

TEST_F(ReflectorTest, StopEndsAWatchAndAWaiter) {
  start(plain());  // no answer is scripted: the list hangs
  transport.waitForRequests(1);
  std::jthread waiter([&](std::stop_token stop) { EXPECT_FALSE(reflector->waitForSync(stop)); });
  waiter.request_stop();
  waiter.join();
  reflector->stop();
  reflector->stop();
  EXPECT_EQ(transport.requests().size(), 1U);
}

}  // namespace
}  // namespace egpu::kube

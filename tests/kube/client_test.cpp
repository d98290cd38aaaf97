#include "controller/kube/client.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/kube/fake_transport.h"
#include "tests/kube/objects.h"

namespace egpu::kube {
namespace {

using base::Code;
using core::Node;
using std::chrono::milliseconds;

/// A clock whose sleeps end immediately and are recorded.
class LeapingClock final : public base::Clock {
 public:
  Steady now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  Wall wall() const override { return {}; }
  bool sleepUntil(Steady until, std::stop_token stop) override {
    std::lock_guard lock(mutex_);
    if (stop.stop_requested()) return false;
    naps.push_back(std::chrono::duration_cast<milliseconds>(until - now_));
    now_ = until;
    return true;
  }
  std::vector<milliseconds> naps;

 private:
  mutable std::mutex mutex_;
  Steady now_{std::chrono::hours(1)};
};

class CountingMetrics final : public base::Metrics {
 public:
  void add(std::string_view name, double by, const base::MetricLabels& labels) override {
    std::string key(name);
    for (const auto& [k, v] : labels) key += " " + k + "=" + v;
    std::lock_guard lock(mutex);
    counts[key] += by;
  }
  void set(std::string_view, double, const base::MetricLabels&) override {}
  void observe(std::string_view name, double, const base::MetricLabels& labels) override { add(name, 1, labels); }
  void forget(std::string_view, const base::MetricLabels&) override {}
  std::mutex mutex;
  std::map<std::string, double> counts;
};

class ClientTest : public ::testing::Test {
 protected:
  base::Result<Node> getNode() { return client.get<Node>({"", "n1"}); }
  base::Result<Node> patchNode() { return client.patch<Node>({"", "n1"}, PatchType::merge, "{}"); }
  std::vector<std::string> listNames(const ListOptions& options) {
    std::vector<std::string> names;
    auto meta = client.list<Node>(
        options, [&](Node&& n) { names.push_back(n.metadata.name); },
        [&] {
          names.clear();
          ++restarts;
        });
    listStatus = meta.status();
    if (meta) version = meta->resourceVersion, next = meta->continueToken;
    return names;
  }
  FakeTransport transport;
  LeapingClock clock;
  base::Random random{7};
  CountingMetrics metrics;
  Client client{transport, clock, random, metrics};
  base::Status listStatus;
  std::string version, next;
  int restarts = 0;
};

TEST_F(ClientTest, PathsArePercentEncoded) {
  EXPECT_EQ(Client::path(core::kindOf<core::Pod>, "ns", "a/b c", "binding"),
            "/api/v1/namespaces/ns/pods/a%2Fb%20c/binding");
  EXPECT_EQ(Client::path(core::kindOf<v1alpha::ElasticGPUClaim>, "n", "x", "status"),
            "/apis/elasticgpu.io/v1alpha/namespaces/n/elasticgpuclaims/x/status");
  EXPECT_EQ(Client::path(core::kindOf<core::Pod>, ""), "/api/v1/pods");
  EXPECT_EQ(Client::path(core::kindOf<Node>, "ignored", "n"), "/api/v1/nodes/n");
}

TEST_F(ClientTest, ADeletionReportsWhatAFinalizerRetains) {
  const auto removed = [this](const std::string& answer) {
    transport.reply(200, answer);
    std::optional<Node> left = Node();
    EXPECT_TRUE(client.remove<Node>({"", "n1"}, {}, {}, &left).ok());
    return left;
  };
  const auto object = removed(
      R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u","resourceVersion":"6","finalizers":["f"],)"
      R"("deletionTimestamp":"2026-01-01T00:00:00Z"}})");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->metadata.resourceVersion, "6");
  EXPECT_FALSE(removed(R"({"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"n1","uid":"u"}})"));
  EXPECT_FALSE(removed(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u"}})")) << "gone at once";
  EXPECT_FALSE(removed("no JSON")) << "the caller reads it";
}

TEST_F(ClientTest, VerbsAsTheServerWantsThem) {
  for (int i = 0; i < 5; ++i) transport.reply(200, nodeJson("n1", "5"));
  Node node;
  node.metadata.name = "n1";
  EXPECT_EQ(getNode()->metadata.resourceVersion, "5");
  EXPECT_TRUE(client.create(node).ok());
  EXPECT_TRUE(client.patch<Node>({"", "n1"}, PatchType::json, "[]", "status").ok());
  EXPECT_TRUE(client.replace(node, "status").ok());
  EXPECT_TRUE(client.remove<Node>({"", "n1"}, R"({"preconditions":{"uid":"u"}})").ok());

  const auto r = transport.requests();
  ASSERT_EQ(r.size(), 5U);
  EXPECT_EQ(toString(r[0].method), "GET");
  EXPECT_EQ(r[0].target, "/api/v1/nodes/n1");
  EXPECT_EQ(toString(r[1].method), "POST");
  EXPECT_EQ(r[1].target, "/api/v1/nodes?fieldManager=elastic-gpu-controller");
  EXPECT_NE(r[1].body.find("\"n1\""), std::string::npos);
  EXPECT_EQ(toString(r[2].method), "PATCH");
  EXPECT_EQ(r[2].target, "/api/v1/nodes/n1/status?fieldManager=elastic-gpu-controller");
  EXPECT_NE(std::find(r[2].headers.begin(), r[2].headers.end(),
                      std::make_pair(std::string("Content-Type"), std::string("application/json-patch+json"))),
            r[2].headers.end());
  EXPECT_EQ(toString(r[3].method), "PUT");
  EXPECT_EQ(r[3].target, "/api/v1/nodes/n1/status?fieldManager=elastic-gpu-controller");
  EXPECT_EQ(toString(r[4].method), "DELETE");
  EXPECT_EQ(r[4].body, R"({"preconditions":{"uid":"u"}})");
}

TEST_F(ClientTest, PlainText429IsRetriedAfterTheServersWish) {
  transport.reply(429, "Too many requests, please try again later.\n", {{"retry-after", "3"}});
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(getNode().ok());
  ASSERT_EQ(clock.naps.size(), 1U);
  EXPECT_GE(clock.naps[0], milliseconds(3000));
  EXPECT_LT(clock.naps[0], milliseconds(3100));
}

TEST_F(ClientTest, AbsurdRetryAfterIsBoundedAndNonsenseIgnored) {
  transport.reply(503, "", {{"retry-after", "99999999999999"}});
  transport.reply(503, "", {{"retry-after", "999999"}});
  transport.reply(503, "", {{"retry-after", "soon"}});
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(getNode().ok());
  ASSERT_EQ(clock.naps.size(), 3U);
  EXPECT_LE(clock.naps[0], milliseconds(60'100));
  EXPECT_LE(clock.naps[1], milliseconds(60'100));
  EXPECT_LE(clock.naps[2], milliseconds(1'000));
}

TEST_F(ClientTest, GivesUpAfterTenAttemptsWithGrowingJitteredWaits) {
  for (int i = 0; i < 10; ++i) transport.reply(503, statusJson(503, "ServiceUnavailable"));
  const auto got = patchNode();
  EXPECT_EQ(got.status().code(), Code::unavailable);
  EXPECT_EQ(got.status().http, 503);
  EXPECT_EQ(transport.requests().size(), 10U);
  ASSERT_EQ(clock.naps.size(), 9U);
  milliseconds ceiling{100};
  for (const auto nap : clock.naps) {
    EXPECT_GE(nap, ceiling / 2);
    EXPECT_LE(nap, ceiling);
    ceiling = std::min(ceiling * 2, milliseconds(10'000));
  }
}

TEST_F(ClientTest, BriefReturnsAFailingServersAnswerAtOnce) {
  const Client brief = client.brief();
  for (const int http : {500, 502, 503, 504}) {
    transport.reply(http, statusJson(http, "InternalError"), {{"retry-after", "7"}});
    const auto got = Client(brief).patch<Node>({"", "n1"}, PatchType::merge, "{}");
    EXPECT_EQ(got.status().code(), Code::unavailable) << http;
    EXPECT_EQ(got.status().retryAfter, milliseconds(7000)) << http;
  }
  transport.reply(500, "");
  EXPECT_FALSE(Client(brief).get<Node>({"", "n1"}).ok());
  transport.reply(500, "");
  EXPECT_FALSE(Client(brief).listAll<Node>({}).ok());
  EXPECT_EQ(transport.requests().size(), 6U);
  EXPECT_TRUE(clock.naps.empty());
}

TEST_F(ClientTest, BriefRepeatsOnceWhatHelpsWithinASecond) {
  Client brief = client.brief();
  const auto patch = [&] { return brief.patch<Node>({"", "n1"}, PatchType::merge, "{}"); };
  transport.reply(429, "", {{"retry-after", "1"}});
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(patch().ok());
  transport.fail(Code::unavailable);  // nothing was sent
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(patch().ok());
  transport.fail(Code::unknownOutcome);  // a read may be repeated after any outcome
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(brief.get<Node>({"", "n1"}).ok());
  EXPECT_EQ(clock.naps.size(), 3U);
  for (const auto nap : clock.naps) EXPECT_LE(nap, milliseconds(1100));
}

TEST_F(ClientTest, BriefRepeatsNothingTwice) {
  Client brief = client.brief();
  for (int i = 0; i < 2; ++i) transport.reply(429, "", {{"retry-after", "1"}});
  EXPECT_EQ(brief.get<Node>({"", "n1"}).status().code(), Code::throttled);
  for (int i = 0; i < 2; ++i) transport.fail(Code::unavailable);
  EXPECT_EQ(brief.get<Node>({"", "n1"}).status().code(), Code::unavailable);
  EXPECT_EQ(transport.requests().size(), 4U);
}

TEST_F(ClientTest, BriefDoesNotWaitWhereWaitingIsLong) {
  Client brief = client.brief();
  transport.reply(429, "", {{"retry-after", "2"}});
  EXPECT_EQ(brief.get<Node>({"", "n1"}).status().retryAfter, milliseconds(2000));
  transport.reply(429, "");
  EXPECT_FALSE(brief.get<Node>({"", "n1"}).ok());
  transport.fail(Code::deadline);
  EXPECT_FALSE(brief.get<Node>({"", "n1"}).ok());
  transport.fail(Code::unknownOutcome);
  EXPECT_EQ(brief.patch<Node>({"", "n1"}, PatchType::merge, "{}").status().code(), Code::unknownOutcome);
  EXPECT_EQ(transport.requests().size(), 4U);
  EXPECT_TRUE(clock.naps.empty());
}

TEST_F(ClientTest, RepeatedRequestsAreTheSameRequest) {
  transport.reply(500, "");
  transport.reply(429, "");
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(patchNode().ok());
  const auto r = transport.requests();
  ASSERT_EQ(r.size(), 3U);
  EXPECT_EQ(r[0].headers, r[2].headers);
  EXPECT_EQ(r[0].target, r[2].target);
}

TEST_F(ClientTest, AnswersThatRetryingCannotMendAreReturnedAtOnce) {
  const std::pair<int, Code> cases[] = {{400, Code::invalid},  {401, Code::unauthorized}, {403, Code::forbidden},
                                        {404, Code::notFound}, {410, Code::expired},      {422, Code::invalid}};
  for (const auto& [http, code] : cases) {
    transport.reply(http, "");
    EXPECT_EQ(patchNode().status().code(), code) << http;
  }
  transport.reply(409, statusJson(409, "Conflict"));
  EXPECT_EQ(patchNode().status().code(), Code::conflict);
  transport.reply(409, statusJson(409, "AlreadyExists"));
  EXPECT_EQ(patchNode().status().code(), Code::alreadyExists);
  transport.reply(302, "", {{"location", "http://elsewhere/"}});
  EXPECT_FALSE(getNode().ok());  // a redirect is not accepted
  EXPECT_TRUE(clock.naps.empty());
}

TEST_F(ClientTest, UnknownOutcomeOfAWriteIsReturnedAndOfAReadRepeated) {
  transport.fail(Code::unknownOutcome);
  EXPECT_EQ(patchNode().status().code(), Code::unknownOutcome);
  transport.fail(Code::deadline);
  EXPECT_EQ(patchNode().status().code(), Code::unknownOutcome);
  EXPECT_EQ(transport.requests().size(), 2U);
  transport.fail(Code::unknownOutcome);
  transport.fail(Code::deadline);
  transport.fail(Code::unavailable);
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(getNode().ok());
}

TEST_F(ClientTest, NothingSentIsRepeatedForWritesToo) {
  transport.fail(Code::unavailable);
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(patchNode().ok());
}

TEST_F(ClientTest, UnreadableAnswerToAWriteLeavesItsOutcomeUnknown) {
  transport.reply(200, "{\"metadata\":");
  EXPECT_EQ(patchNode().status().code(), Code::unknownOutcome);
  transport.reply(200, "{\"metadata\":");
  EXPECT_EQ(getNode().status().code(), Code::malformed);
}

TEST_F(ClientTest, StopEndsTheWaitForARetry) {
  base::ManualClock standing;
  Client slow(transport, standing, random, metrics);
  transport.reply(503, "");
  std::jthread caller([&](std::stop_token stop) {
    EXPECT_EQ(slow.get<Node>({"", "n1"}, stop).status().code(), Code::cancelled);
  });
  transport.waitForRequests(1);
  caller.request_stop();
  caller.join();
  EXPECT_EQ(transport.requests().size(), 1U);
}

TEST_F(ClientTest, ListFollowsPages) {
  transport.reply(200, nodeList({nodeJson("a", "1")}, "9", "tok en"));
  transport.reply(200, nodeList({nodeJson("b", "2")}, "9"));
  ListOptions options;
  options.labelSelector = "role=card,x!=y";
  options.resourceVersion = "7";
  EXPECT_EQ(listNames(options), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(version, "9");
  EXPECT_EQ(transport.request(0).target,
            "/api/v1/"
            "nodes?labelSelector=role%3Dcard%2Cx%21%3Dy&limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(transport.request(1).target,
            "/api/v1/nodes?labelSelector=role%3Dcard%2Cx%21%3Dy&limit=500&continue=tok%20en");
}

TEST_F(ClientTest, ListStartsOverInOnePieceWhenItsSnapshotExpiresMidway) {
  transport.reply(200, nodeList({nodeJson("a", "1")}, "9", "t"));
  transport.reply(410, statusJson(410, "Expired"));
  transport.reply(200, nodeList({nodeJson("a", "1"), nodeJson("b", "2")}, "12"));
  EXPECT_EQ(listNames({}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(restarts, 1);
  EXPECT_EQ(transport.request(2).target, "/api/v1/nodes");
  EXPECT_EQ(version, "12");
}

TEST_F(ClientTest, OnePageOfAList) {
  transport.reply(200, nodeList({nodeJson("b", "2")}, "9", "third"));
  ListOptions options;
  options.continueToken = "second";
  options.onePage = true;
  EXPECT_EQ(listNames(options), std::vector<std::string>{"b"});
  EXPECT_EQ(next, "third");
  EXPECT_EQ(transport.request(0).target, "/api/v1/nodes?limit=500&continue=second");
  EXPECT_EQ(transport.requests().size(), 1U);
  EXPECT_EQ(restarts, 0);
}

TEST_F(ClientTest, AnExpiredPageListsTheRestInOnePieceAndSaysSo) {
  transport.reply(410, statusJson(410, "Expired"));
  transport.reply(200, nodeList({nodeJson("a", "1"), nodeJson("b", "2")}, "12"));
  ListOptions options;
  options.continueToken = "second";
  options.onePage = true;
  EXPECT_EQ(listNames(options), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(next, "");
  EXPECT_EQ(restarts, 1) << "the pages before are listed again";
  EXPECT_EQ(transport.request(1).target, "/api/v1/nodes");
}

TEST_F(ClientTest, ListExpiredFromTheStartIsAnError) {
  transport.reply(410, statusJson(410, "Expired"));
  EXPECT_TRUE(listNames({}).empty());
  EXPECT_EQ(listStatus.code(), Code::expired);
}

TEST_F(ClientTest, ListOfAVersionTheServerHasNotSeenIsAskedWithoutOne) {
  transport.reply(504, statusJson(504, "Timeout", "ResourceVersionTooLarge"), {{"retry-after", "1"}});
  transport.reply(200, nodeList({nodeJson("a", "1")}, "3"));
  ListOptions options;
  options.resourceVersion = "999";
  EXPECT_EQ(listNames(options), std::vector<std::string>{"a"});
  EXPECT_EQ(transport.request(1).target, "/api/v1/nodes?limit=500");
  EXPECT_TRUE(clock.naps.empty());
}

TEST_F(ClientTest, RepeatedContinueTokenIsNoEndlessLoop) {
  for (int i = 0; i < 3; ++i) transport.reply(200, nodeList({}, "9", "same"));
  listNames({});
  EXPECT_EQ(listStatus.code(), Code::malformed);
  transport.reply(200, nodeList({}, "9", "same"));
  ListOptions options;
  options.continueToken = "same";
  options.onePage = true;
  listNames(options);
  EXPECT_EQ(listStatus.code(), Code::malformed);
}

TEST_F(ClientTest, CallReturnsAnyAnswerOf2xxRaw) {
  transport.reply(201, "whatever");
  HttpRequest request;
  request.method = Method::post;
  request.target = "/api/v1/namespaces/n/pods/p/binding";
  request.body = "{}";
  const auto answer = client.call(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->body, "whatever");
}

TEST_F(ClientTest, MetricsCountAttemptsAndWrites) {
  transport.reply(429, "");
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(patchNode().ok());
  transport.fail(Code::unknownOutcome);
  EXPECT_FALSE(patchNode().ok());
  transport.reply(200, nodeJson("n1", "5"));
  EXPECT_TRUE(getNode().ok());
  EXPECT_EQ(metrics.counts["elasticgpu_api_requests_total code=429 verb=patch"], 1);
  EXPECT_EQ(metrics.counts["elasticgpu_api_requests_total code=200 verb=patch"], 1);
  EXPECT_EQ(metrics.counts["elasticgpu_api_requests_total code=unknown outcome verb=patch"], 1);
  EXPECT_EQ(metrics.counts["elasticgpu_api_requests_total code=200 verb=get"], 1);
  EXPECT_EQ(metrics.counts["elasticgpu_api_writes_total resource=nodes verb=patch"], 3);
  EXPECT_EQ(metrics.counts["elasticgpu_api_request_duration_seconds verb=patch"], 3);
}

}  // namespace
}  // namespace egpu::kube

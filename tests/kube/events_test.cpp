#include "controller/kube/events.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/kube/fake_transport.h"

namespace egpu::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

core::ObjectReference claim(const std::string& name) {
  v1alpha::ElasticGPUClaim object;
  object.metadata.namespace_ = "ns";
  object.metadata.name = name;
  object.metadata.uid = "u-" + name;
  return referenceTo(object);
}

core::Event makeEvent(const std::string& about, const std::string& message, const std::string& reason = "NoFit") {
  core::Event e;
  e.involvedObject = claim(about);
  e.type = "Warning";
  e.reason = reason;
  e.message = message;
  e.firstTimestamp = e.lastTimestamp = "2026-01-01T00:00:00Z";
  return e;
}

class CorrelatorTest : public ::testing::Test {
 protected:
  EventCorrelator::Verdict consider(const core::Event& e) {
    auto v = correlator.consider(e, now);
    if (!v.drop && v.name.empty()) correlator.created(v.memory, "name" + std::to_string(++names));
    return v;
  }
  base::Clock::Steady now{std::chrono::hours(10)};
  EventCorrelator correlator{EventOptions{}};
  int names = 0;
};

TEST_F(CorrelatorTest, RepetitionIsACount) {
  EXPECT_TRUE(consider(makeEvent("a", "m")).name.empty());
  const auto second = consider(makeEvent("a", "m"));
  EXPECT_EQ(second.name, "name1");
  EXPECT_EQ(second.event.count, 2);
  EXPECT_EQ(consider(makeEvent("a", "m")).event.count, 3);
  EXPECT_TRUE(consider(makeEvent("b", "m")).name.empty());  // another object
  EXPECT_TRUE(consider(makeEvent("a", "other")).name.empty());
}

TEST_F(CorrelatorTest, TenSimilarBecomeOne) {
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(consider(makeEvent("a", "m" + std::to_string(i))).name.empty()) << i;
  const auto tenth = consider(makeEvent("a", "m9"));
  EXPECT_TRUE(tenth.name.empty());
  EXPECT_EQ(tenth.event.message, "(combined from similar events): m9");
  const auto next = consider(makeEvent("a", "m10"));
  EXPECT_EQ(next.name, "name10");
  EXPECT_EQ(next.event.count, 2);
  EXPECT_EQ(next.event.message, "(combined from similar events): m10");
  now += seconds(601);  // the window is over
  EXPECT_EQ(consider(makeEvent("a", "m11")).event.message, "m11");
}

TEST_F(CorrelatorTest, TwentyFivePerObjectThenOneEachFiveMinutes) {
  for (int i = 0; i < 25; ++i) EXPECT_FALSE(consider(makeEvent("a", "m")).drop) << i;
  EXPECT_TRUE(consider(makeEvent("a", "m")).drop);
  EXPECT_FALSE(consider(makeEvent("b", "m")).drop);
  now += seconds(299);
  EXPECT_TRUE(consider(makeEvent("a", "m")).drop);
  now += seconds(1);
  EXPECT_FALSE(consider(makeEvent("a", "m")).drop);
  EXPECT_TRUE(consider(makeEvent("a", "m")).drop);
}

TEST_F(CorrelatorTest, SpamIsCountedThoughNotWritten) {
  for (int i = 0; i < 30; ++i) (void)consider(makeEvent("a", "m"));
  now += seconds(300);
  const auto next = consider(makeEvent("a", "m"));
  EXPECT_FALSE(next.drop);
  EXPECT_EQ(next.event.count, 31);
}

TEST_F(CorrelatorTest, ComponentsHaveTokensOfTheirOwn) {
  for (int i = 0; i < 26; ++i) (void)consider(makeEvent("a", "m"));
  auto other = makeEvent("a", "m");
  other.component = "simulated-node";
  EXPECT_FALSE(consider(other).drop);
  EXPECT_TRUE(consider(makeEvent("a", "m")).drop);
}

TEST_F(CorrelatorTest, MessagesAreNotStored) {
  const auto verdict = consider(makeEvent("a", std::string(1024, 'x')));
  EXPECT_LT(verdict.memory.size(), 200U);
}

TEST_F(CorrelatorTest, MemoryIsBounded) {
  EventOptions options;
  options.remembered = 2;
  EventCorrelator small(options);
  auto first = small.consider(makeEvent("a", "m"), now);
  small.created(first.memory, "n");
  (void)small.consider(makeEvent("b", "m"), now);
  (void)small.consider(makeEvent("c", "m"), now);
  EXPECT_TRUE(small.consider(makeEvent("a", "m"), now).name.empty());  // was forgotten, so it is new
}

class RecorderTest : public ::testing::Test {
 protected:
  FakeTransport transport;
  base::ManualClock clock;
  base::Random random{1};
  base::NoMetrics metrics;
  Client client{transport, clock, random, metrics};
};

TEST_F(RecorderTest, CreatesThenPatches) {
  transport.onPerform([](const HttpRequest& r) -> base::Result<HttpResponse> {
    return FakeTransport::response(r.method == Method::post ? 201 : 200, r.method == Method::post ? r.body : "{}");
  });
  EventRecorder recorder(client, "elastic-gpu-controller");
  recorder.event(claim("a"), "Normal", "Bound", "bound to \"x\"");
  recorder.event(claim("a"), "Normal", "Bound", "bound to \"x\"");
  recorder.stop();
  const auto r = transport.requests();
  ASSERT_EQ(r.size(), 2U);
  EXPECT_EQ(toString(r[0].method), "POST");
  EXPECT_EQ(r[0].target, "/api/v1/namespaces/ns/events?fieldManager=elastic-gpu-controller");
  EXPECT_NE(r[0].body.find("\"involvedObject\""), std::string::npos);
  EXPECT_NE(r[0].body.find("\"apiVersion\":\"elasticgpu.io/v1alpha1\""), std::string::npos) << r[0].body;
  EXPECT_EQ(toString(r[1].method), "PATCH");
  EXPECT_EQ(r[1].target.rfind("/api/v1/namespaces/ns/events/a.", 0), 0U);
  EXPECT_NE(r[1].body.find("\"count\":2"), std::string::npos);
}

TEST_F(RecorderTest, NamesFitHoweverLongTheObjectsIs) {
  transport.onPerform(
      [](const HttpRequest& r) -> base::Result<HttpResponse> { return FakeTransport::response(201, r.body); });
  EventRecorder recorder(client, "c");
  recorder.event(claim(std::string(239, 'a') + ".bcdefghijklm"), "Normal", "R", "m");
  recorder.stop();
  const std::string body = transport.request(0).body;
  const std::string cut = "\"name\":\"" + std::string(239, 'a') + ".";  // the cut name must not end with a dot
  const auto at = body.find(cut);
  ASSERT_NE(at, std::string::npos) << body;
  EXPECT_EQ(body.find('"', at + cut.size()), at + cut.size() + 12);
}

TEST_F(RecorderTest, EventThatExpiredIsCreatedAnew) {
  transport.reply(201, "{}");
  transport.reply(404, "");
  transport.reply(201, "{}");
  transport.reply(200, "{}");
  EventRecorder recorder(client, "c");
  recorder.event(claim("a"), "Normal", "R", "m");
  recorder.event(claim("a"), "Normal", "R", "m");
  recorder.event(claim("a"), "Normal", "R", "m");
  recorder.stop();
  const auto r = transport.requests();
  ASSERT_EQ(r.size(), 4U);
  EXPECT_EQ(toString(r[2].method), "POST");
  EXPECT_EQ(r[2].body.find("\"count\":2"), std::string::npos);
  EXPECT_NE(r[3].body.find("\"count\":2"), std::string::npos);  // counts from the recreated event
}

TEST_F(RecorderTest, ClusterScopedObjectsHaveTheirEventsInDefault) {
  transport.reply(201, "{}");
  core::Node node;
  node.metadata.name = "n";
  EventRecorder recorder(client, "c");
  recorder.event(referenceTo(node), "Normal", "R", "m");
  recorder.stop();
  EXPECT_EQ(transport.request(0).target.rfind("/api/v1/namespaces/default/events", 0), 0U);
}

TEST_F(RecorderTest, NeverBlocksAndDropsBeyondTheQueue) {
  EventOptions options;
  options.queue = 3;
  EventRecorder recorder(client, "c", options);
  recorder.event(claim("a"), "Normal", "R", "m");
  transport.waitForRequests(1);  // its write hangs: the transport has no answer yet
  for (int i = 0; i < 10; ++i) recorder.event(claim("b" + std::to_string(i)), "Normal", "R" + std::to_string(i), "m");
  transport.onPerform(
      [](const HttpRequest&) -> base::Result<HttpResponse> { return FakeTransport::response(201, "{}"); });
  recorder.stop();
  EXPECT_EQ(transport.requests().size(), 4U);  // the one in flight and the three queued
}

TEST_F(RecorderTest, WhileManyWaitThoseAlikeAreMergedInsteadOfDropped) {
  EventOptions options;
  options.queue = 4;
  EventRecorder recorder(client, "c", options);
  recorder.event(claim("a"), "Warning", "NoFit", "no node has room");
  transport.waitForRequests(1);  // its write hangs
  for (int i = 0; i < 100; ++i) {
    recorder.event(claim("b" + std::to_string(i)), "Warning", "NoFit", "no node has room for " + std::to_string(i));
    if (i == 50) recorder.event(claim("other"), "Normal", "Bound", "is bound");
  }
  transport.onPerform(
      [](const HttpRequest&) -> base::Result<HttpResponse> { return FakeTransport::response(201, "{}"); });
  recorder.stop();
  const auto requests = transport.requests();
  ASSERT_EQ(requests.size(), 5U) << "the first three, those that are alike, and the other one";
  EXPECT_NE(requests[3].body.find("no node has room for 2 (and 97 more NoFit events of this namespace"),
            std::string::npos)
      << requests[3].body;
  EXPECT_NE(requests[4].body.find("is bound"), std::string::npos) << requests[4].body;
  EXPECT_EQ(requests[4].body.find("more"), std::string::npos) << requests[4].body;
}

TEST_F(RecorderTest, StopIsBoundedWhenTheServerHangs) {
  EventOptions options;
  options.drain = milliseconds(5000);
  EventRecorder recorder(client, "c", options);
  recorder.event(claim("a"), "Normal", "R", "m");
  recorder.event(claim("b"), "Normal", "R", "m");
  transport.waitForRequests(1);
  std::jthread stopper([&] { recorder.stop(); });
  // The clock stands still, so stop() waits; each advance brings the end of the drain nearer, whenever stop() began.
  std::atomic<bool> done{false};
  std::jthread turning([&] {
    while (!done) {
      clock.advance(milliseconds(5000));
      std::this_thread::yield();
    }
  });
  stopper.join();
  done = true;
  EXPECT_EQ(transport.requests().size(), 1U);
}

}  // namespace
}  // namespace egpu::kube

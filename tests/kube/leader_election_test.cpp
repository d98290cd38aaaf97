// Election on the embedded API server: the test makes every attempt and advances the clock.
#include "controller/kube/leader_election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/standalone/apiserver/server.h"
#include "tests/support/handler_transport.h"

namespace egpu::kube {
namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Role = LeaderElector::Role;

/// Applies faults to the next requests of one elector, in order; later requests succeed.
class FaultyTransport final : public Transport {
 public:
  using Fault = std::function<base::Result<HttpResponse>(Transport& real, const HttpRequest&, std::stop_token)>;
  explicit FaultyTransport(http::Handler& server) : real_(server) {}
  base::Result<HttpResponse> perform(const HttpRequest& request, std::stop_token stop) override {
    requests.push_back(request);
    if (always) return always(real_, request, std::move(stop));
    if (next.empty()) return real_.perform(request, std::move(stop));
    const Fault fault = next.front();
    next.erase(next.begin());
    return fault(real_, request, std::move(stop));
  }
  base::Result<HttpResponse> stream(const HttpRequest& request, const std::function<bool(std::string_view)>& data,
                                    std::stop_token stop) override {
    return real_.stream(request, data, std::move(stop));
  }
  std::vector<Fault> next;
  Fault always;  ///< overrides `next`
  std::vector<HttpRequest> requests;

 private:
  support::HandlerTransport real_;
};

base::Result<HttpResponse> refused(Transport&, const HttpRequest&, std::stop_token) {
  return base::Status(Code::unavailable, "connection refused");
}
base::Result<HttpResponse> answerLost(Transport& real, const HttpRequest& request, std::stop_token stop) {
  (void)real.perform(request, std::move(stop));
  return base::Status(Code::unknownOutcome, "connection reset");
}

class RoleMetrics final : public base::Metrics {
 public:
  void add(std::string_view, double, const base::MetricLabels&) override {}
  void set(std::string_view name, double value, const base::MetricLabels&) override {
    if (name == "elasticgpu_leader") leader = value;
  }
  void observe(std::string_view, double, const base::MetricLabels&) override {}
  void forget(std::string_view, const base::MetricLabels&) override {}
  double leader = -1;
};

class LeaderElectionTest : public ::testing::Test {
 protected:
  /// One candidate with its own connection and its own clock, as on a separate machine.
  struct Replica {
    Replica(LeaderElectionTest& test, const std::string& name) : transport(*test.server) {
      LeaderElectionOptions options;
      options.namespace_ = "default";
      options.name = "lock";
      options.identity = name;
      elector = std::make_unique<LeaderElector>(transport, clock, random, metrics, options);
    }
    Role step() {
      next = elector->step({});
      return elector->role();
    }
    milliseconds untilNext() const { return std::chrono::duration_cast<milliseconds>(next - clock.now()); }
    FaultyTransport transport;
    base::ManualClock clock;
    base::Random random{5};
    RoleMetrics metrics;
    std::unique_ptr<LeaderElector> elector;
    base::Clock::Steady next{};
  };

  void SetUp() override {
    auto made = apiserver::Server::create({}, serverClock, random);
    ASSERT_TRUE(made.ok()) << made.status().str();
    server = std::move(*made);
    direct = std::make_unique<support::HandlerTransport>(*server);
    client = std::make_unique<Client>(*direct, serverClock, random, none);
    a = std::make_unique<Replica>(*this, "a");
    b = std::make_unique<Replica>(*this, "b");
  }
  core::Lease lease() {
    auto got = client->get<core::Lease>({"default", "lock"});
    EXPECT_TRUE(got.ok()) << got.status().str();
    return got ? *got : core::Lease{};
  }
  void patch(const std::string& body) {
    const auto done = client->patch<core::Lease>({"default", "lock"}, PatchType::merge, body);
    ASSERT_TRUE(done.ok()) << done.status().str();
  }
  void pass(milliseconds d) {
    a->clock.advance(d);
    b->clock.advance(d);
  }

  base::ManualClock serverClock;
  base::Random random{1};
  base::NoMetrics none;
  std::unique_ptr<apiserver::Server> server;
  std::unique_ptr<support::HandlerTransport> direct;
  std::unique_ptr<Client> client;
  std::unique_ptr<Replica> a, b;
};

TEST_F(LeaderElectionTest, OptionsThatCanNotWorkAreRefused) {
  const auto wrong = [](const std::function<void(LeaderElectionOptions&)>& change) {
    LeaderElectionOptions options;
    options.namespace_ = "n";
    options.identity = "i";
    EXPECT_TRUE(options.check().ok()) << options.check().str();
    change(options);
    return options.check().code() == Code::invalid;
  };
  EXPECT_TRUE(wrong([](auto& o) { o.namespace_.clear(); }));
  EXPECT_TRUE(wrong([](auto& o) { o.name.clear(); }));
  EXPECT_TRUE(wrong([](auto& o) { o.identity.clear(); }));
  EXPECT_TRUE(wrong([](auto& o) { o.leaseDuration = milliseconds(15'500); }));
  EXPECT_TRUE(wrong([](auto& o) { o.leaseDuration = o.renewDeadline; }));
  EXPECT_TRUE(wrong([](auto& o) { o.renewDeadline = milliseconds(2'400); }));
  EXPECT_TRUE(wrong([](auto& o) { o.retryPeriod = milliseconds(0); }));
}

TEST_F(LeaderElectionTest, IdentitiesDifferFromProcessToProcess) {
  const std::string one = electionIdentity("host", random), two = electionIdentity("host", random);
  EXPECT_EQ(one.rfind("host_", 0), 0U);
  EXPECT_NE(one, two);
}

TEST_F(LeaderElectionTest, FirstComerLeadsAndWritesTheRecordAsClientGoDoes) {
  EXPECT_EQ(a->metrics.leader, 0);
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(a->metrics.leader, 1);
  EXPECT_EQ(a->elector->holder(), "a");
  EXPECT_EQ(a->untilNext(), seconds(2));
  const auto record = lease();
  EXPECT_EQ(record.holderIdentity, "a");
  EXPECT_EQ(record.leaseDurationSeconds, 15);
  EXPECT_EQ(record.leaseTransitions, 0);
  EXPECT_EQ(record.acquireTime, base::rfc3339Micro(a->clock.wall()));
  EXPECT_EQ(record.renewTime, record.acquireTime);
}

TEST_F(LeaderElectionTest, ARenewalIsOneRequestAndRetainsTheTimeOfAcquisition) {
  a->step();
  const auto before = lease();
  a->transport.requests.clear();
  a->clock.advance(seconds(2));
  EXPECT_EQ(a->step(), Role::leader);
  ASSERT_EQ(a->transport.requests.size(), 1U);
  EXPECT_EQ(toString(a->transport.requests[0].method), "PATCH");
  const auto after = lease();
  EXPECT_EQ(after.acquireTime, before.acquireTime);
  EXPECT_EQ(after.renewTime, base::rfc3339Micro(a->clock.wall()));
  EXPECT_EQ(after.leaseTransitions, 0);
}

TEST_F(LeaderElectionTest, WhatOthersWroteOnTheLeaseSurvivesARenewal) {
  a->step();
  patch(R"({"metadata":{"labels":{"team":"x"}},"spec":{"strategy":"OldestEmulationVersion"}})");
  EXPECT_EQ(a->step(), Role::leader);  // 409, then a read and a second try
  EXPECT_EQ(lease().metadata.label("team"), "x");
}

TEST_F(LeaderElectionTest, AStandbyReadsAgainAfterTwoSecondsAndUpToTwoPointFourMore) {
  a->step();
  std::vector<milliseconds> waits;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(b->step(), Role::standby);
    waits.push_back(b->untilNext());
  }
  EXPECT_GE(*std::min_element(waits.begin(), waits.end()), milliseconds(2'000));
  EXPECT_LE(*std::max_element(waits.begin(), waits.end()), milliseconds(4'400));
  EXPECT_GT(*std::max_element(waits.begin(), waits.end()), milliseconds(3'500));
  EXPECT_LT(*std::min_element(waits.begin(), waits.end()), milliseconds(2'500));
  EXPECT_EQ(b->metrics.leader, 0);
  EXPECT_EQ(b->elector->holder(), "a");
}

TEST_F(LeaderElectionTest, ADeadLeadersLeaseIsTakenWhenItsRecordHasStoodStillForItsDuration) {
  a->step();
  b->step();  // b sees the record for the first time: the wait starts now, whatever times the record has
  b->clock.advance(milliseconds(14'999));
  EXPECT_EQ(b->step(), Role::standby);
  b->clock.advance(milliseconds(1));
  EXPECT_EQ(b->step(), Role::leader);
  const auto record = lease();
  EXPECT_EQ(record.holderIdentity, "b");
  EXPECT_EQ(record.leaseTransitions, 1);
  EXPECT_EQ(record.acquireTime, base::rfc3339Micro(b->clock.wall()));
}

TEST_F(LeaderElectionTest, EveryRenewalStartsTheWaitAnew) {
  a->step();
  b->step();
  for (int i = 0; i < 10; ++i) {
    pass(seconds(9));
    EXPECT_EQ(a->step(), Role::leader);
    EXPECT_EQ(b->step(), Role::standby);
  }
  EXPECT_EQ(lease().leaseTransitions, 0);
}

TEST_F(LeaderElectionTest, TimestampsOfOthersMeanNothing) {
  a->step();
  b->step();
  // A holder whose wall clock is far behind, or far ahead.
  for (const char* time : {"2000-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"}) {
    patch(std::string(R"({"spec":{"renewTime":")") + time + R"("}})");
    EXPECT_EQ(b->step(), Role::standby);
    b->clock.advance(milliseconds(14'999));
    EXPECT_EQ(b->step(), Role::standby);
  }
  b->clock.advance(milliseconds(1));
  EXPECT_EQ(b->step(), Role::leader);
}

TEST_F(LeaderElectionTest, AChangeOfMetadataIsNoSignOfLife) {
  a->step();
  b->step();
  b->clock.advance(seconds(10));
  patch(R"({"metadata":{"labels":{"team":"x"}}})");
  b->step();
  b->clock.advance(seconds(5));
  EXPECT_EQ(b->step(), Role::leader);
}

TEST_F(LeaderElectionTest, TheWaitIsAsLongAsTheHolderStates) {
  a->step();
  patch(R"({"spec":{"leaseDurationSeconds":60}})");
  b->step();
  b->clock.advance(seconds(59));
  EXPECT_EQ(b->step(), Role::standby);
  b->clock.advance(seconds(1));
  EXPECT_EQ(b->step(), Role::leader);
  EXPECT_EQ(lease().leaseDurationSeconds, 15);
}

TEST_F(LeaderElectionTest, ALeaderThatCanNotRenewIsLostAtItsDeadlineAndForGood) {
  a->step();
  a->transport.always = refused;
  for (int i = 0; i < 4; ++i) {
    a->clock.advance(seconds(2));
    EXPECT_EQ(a->step(), Role::leader);
    EXPECT_EQ(a->untilNext(), seconds(2));
  }
  a->clock.advance(milliseconds(1'500));
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(a->untilNext(), milliseconds(500));  // not beyond the deadline
  a->clock.advance(milliseconds(500));
  const auto asked = a->transport.requests.size();
  EXPECT_EQ(a->step(), Role::lost);
  EXPECT_EQ(a->transport.requests.size(), asked);  // too late to send a request: its answer could not be used
  EXPECT_EQ(a->metrics.leader, 0);
  EXPECT_EQ(lease().holderIdentity, "a");
  a->elector->release();
  EXPECT_EQ(lease().holderIdentity, "a");  // it no longer belongs to this elector
}

TEST_F(LeaderElectionTest, TheOldLeaderIsGoneBeforeTheNextOneBegins) {
  a->step();
  b->step();
  // The worst case: renewals are applied, but their answers are lost.
  a->transport.always = [](Transport& real, const HttpRequest& r, std::stop_token s) {
    return r.method == Method::patch ? answerLost(real, r, s) : real.perform(r, s);
  };
  milliseconds lostAt{0}, tookAt{0};
  for (milliseconds t{0}; tookAt.count() == 0; t += milliseconds(100)) {
    ASSERT_LT(t, seconds(60));
    if (a->next <= a->clock.now() && a->elector->role() == Role::leader && a->step() == Role::lost) lostAt = t;
    if (b->next <= b->clock.now() && b->step() == Role::leader) tookAt = t;
    EXPECT_FALSE(a->elector->role() == Role::leader && b->elector->role() == Role::leader);
    pass(milliseconds(100));
  }
  EXPECT_EQ(lostAt, seconds(10));
  EXPECT_GE(tookAt, seconds(23));  // 15 s after the last renewal that was applied, at 8 s
}

TEST_F(LeaderElectionTest, AnAttemptOfALeaderEndsByItsDeadline) {
  a->step();
  milliseconds given{0};
  const auto hangs = [&](Transport&, const HttpRequest& request, std::stop_token) -> base::Result<HttpResponse> {
    given = request.timeout;
    a->clock.advance(request.timeout);
    return base::Status(Code::deadline, "no answer");
  };
  a->transport.always = hangs;
  a->clock.advance(seconds(2));
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(given, seconds(5));
  a->clock.advance(seconds(2));
  EXPECT_EQ(a->step(), Role::lost);
  EXPECT_EQ(given, seconds(1));
}

TEST_F(LeaderElectionTest, ALostAnswerToAnAcquisitionIsFoundOut) {
  a->transport.next = {[](Transport& real, const HttpRequest& r, std::stop_token s) { return real.perform(r, s); },
                       answerLost};  // the GET succeeds, the answer to the create is lost
  EXPECT_EQ(a->step(), Role::standby);
  EXPECT_EQ(lease().holderIdentity, "a");
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(lease().leaseTransitions, 0);
}

TEST_F(LeaderElectionTest, ALostAnswerToARenewalIsFoundOut) {
  a->step();
  a->clock.advance(seconds(2));
  a->transport.next = {answerLost};
  EXPECT_EQ(a->step(), Role::leader);
  a->clock.advance(seconds(2));
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(lease().renewTime, base::rfc3339Micro(a->clock.wall()));
}

TEST_F(LeaderElectionTest, AnAnswerThatComesAfterTheDeadlineMakesNoLeader) {
  a->transport.next = {[this](Transport& real, const HttpRequest& r, std::stop_token s) {
    a->clock.advance(seconds(11));
    return real.perform(r, s);
  }};
  EXPECT_EQ(a->step(), Role::standby);
  EXPECT_EQ(a->step(), Role::leader);
}

TEST_F(LeaderElectionTest, OfTwoThatTryAtOnceOneWins) {
  // Both have seen that there is no lease; then both create it.
  a->transport.next = {[this](Transport& real, const HttpRequest& r, std::stop_token s) {
    auto absent = real.perform(r, s);
    b->step();
    return absent;
  }};
  EXPECT_EQ(a->step(), Role::standby);
  EXPECT_EQ(b->elector->role(), Role::leader);
  // Both have seen that the lease has expired; then both take it.
  Replica c(*this, "c");
  c.step();
  a->step();
  c.clock.advance(seconds(15));
  a->clock.advance(seconds(15));
  a->transport.next = {[&](Transport& real, const HttpRequest& r, std::stop_token s) {
    auto seen = real.perform(r, s);
    c.step();
    return seen;
  }};
  EXPECT_EQ(a->step(), Role::standby);
  EXPECT_EQ(c.elector->role(), Role::leader);
  EXPECT_EQ(lease().holderIdentity, "c");
  EXPECT_EQ(lease().leaseTransitions, 1);
}

TEST_F(LeaderElectionTest, ALeaderThatFindsAnotherIsLostAtOnce) {
  a->step();
  patch(R"({"spec":{"holderIdentity":"thief"}})");
  a->clock.advance(seconds(2));
  EXPECT_EQ(a->step(), Role::lost);
  EXPECT_EQ(lease().holderIdentity, "thief");
}

TEST_F(LeaderElectionTest, AProcessThatWasFrozenLearnsItFromTheConflict) {
  a->step();
  b->step();
  b->clock.advance(seconds(15));  // a's clock stood still
  EXPECT_EQ(b->step(), Role::leader);
  EXPECT_EQ(a->step(), Role::lost);
  EXPECT_EQ(b->step(), Role::leader);
}

TEST_F(LeaderElectionTest, AStandbyWithoutTheRightReportsTheLeaseAndWhatIsMissing) {
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(a->elector->refusal(), "");
  b->transport.always = [](Transport&, const HttpRequest&, std::stop_token) -> base::Result<HttpResponse> {
    HttpResponse refusal;
    refusal.status = 403;
    refusal.body = R"({"kind":"Status","status":"Failure","reason":"Forbidden","code":403,)"
                   R"("message":"cannot get resource leases"})";
    return refusal;
  };
  EXPECT_EQ(b->step(), Role::standby);
  const auto why = b->elector->refusal();
  for (const char* part :
       {"Lease default/lock", "get, create and patch", "namespace default", "cannot get resource leases"})
    EXPECT_NE(why.find(part), std::string::npos) << why;
  b->transport.always = nullptr;
  b->step();
  EXPECT_EQ(b->elector->refusal(), "") << "it has the right by now";
  b->transport.always = refused;
  b->step();
  EXPECT_EQ(b->elector->refusal(), "") << "a server that is down refuses no right";
}

TEST_F(LeaderElectionTest, ADeletedLeaseIsMadeAnew) {
  a->step();
  ASSERT_TRUE(client->remove<core::Lease>({"default", "lock"}).ok());
  EXPECT_EQ(a->step(), Role::leader);
  EXPECT_EQ(lease().holderIdentity, "a");
  ASSERT_TRUE(client->remove<core::Lease>({"default", "lock"}).ok());
  EXPECT_EQ(b->step(), Role::leader);
  EXPECT_EQ(a->step(), Role::lost);
}

TEST_F(LeaderElectionTest, ReleaseEmptiesTheHolderSoThatTheNextOneNeedNotWait) {
  a->step();
  b->step();
  a->elector->release();
  EXPECT_EQ(a->elector->role(), Role::released);
  EXPECT_EQ(a->metrics.leader, 0);
  EXPECT_EQ(lease().holderIdentity, "");
  EXPECT_EQ(lease().leaseDurationSeconds, 1);
  EXPECT_EQ(b->step(), Role::leader);
  EXPECT_EQ(lease().leaseTransitions, 1);
  a->elector->release();  // released once only
  EXPECT_EQ(lease().holderIdentity, "b");
}

TEST_F(LeaderElectionTest, ReleaseAfterALostAnswerReadsFirst) {
  a->step();
  a->transport.next = {answerLost};
  EXPECT_EQ(a->step(), Role::leader);
  a->elector->release();
  EXPECT_EQ(lease().holderIdentity, "");
}

TEST_F(LeaderElectionTest, ReleaseLeavesAnothersLeaseAlone) {
  a->step();
  patch(R"({"spec":{"holderIdentity":"thief"}})");
  a->elector->release();
  EXPECT_EQ(lease().holderIdentity, "thief");
}

TEST_F(LeaderElectionTest, ReleaseGivesUpOnAServerThatIsGone) {
  a->step();
  a->transport.requests.clear();
  a->transport.always = refused;
  a->elector->release();
  EXPECT_EQ(a->elector->role(), Role::released);
  EXPECT_EQ(a->transport.requests.size(), 1U);
}

TEST_F(LeaderElectionTest, OnItsOwnThreadItReportsWhenItLeadsAndWhenNot) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> reports;
  const auto report = [&](const std::string& what) {
    std::lock_guard lock(mutex);
    reports.push_back(what);
    changed.notify_all();
  };
  const auto wait = [&](std::size_t n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reports.size() >= n; });
  };
  a->elector->start([&] { report("leading"); }, [&](const base::Status& why) { report(why.message()); });
  wait(1);
  patch(R"({"spec":{"holderIdentity":"thief"}})");
  a->clock.advance(seconds(2));
  wait(2);
  EXPECT_EQ(reports, (std::vector<std::string>{"leading", "the lease is held by thief"}));
  a->elector->release();
  EXPECT_EQ(lease().holderIdentity, "thief");
}

}  // namespace
}  // namespace egpu::kube

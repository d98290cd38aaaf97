// The API server accepts the writes of the client's own writers: leases of an election, events.
#include "controller/kube/events.h"
#include "controller/kube/leader_election.h"
#include "tests/kube/contract/contract_fixture.h"

namespace egpu::kube {
namespace {

using Role = LeaderElector::Role;

class ContractElection : public ContractTest {
 protected:
  struct Replica {
    Replica(ContractElection& test, const std::string& name) : transport(connect(test.server.endpoint(), clock)) {
      LeaderElectionOptions options;
      options.namespace_ = test.ns;
      options.identity = name;
      elector = std::make_unique<LeaderElector>(*transport, clock, test.random, test.metrics, options);
    }
    Role step() {
      elector->step({});
      return elector->role();
    }
    base::ManualClock clock;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LeaderElector> elector;
  };
  Replica a{*this, "a"}, b{*this, "b"};
};

TEST_F(ContractElection, LeadsRenewsReleasesAndIsFollowed) {
  EXPECT_EQ(a.step(), Role::leader);
  EXPECT_EQ(b.step(), Role::standby);
  const auto first = get<core::Lease>("elastic-gpu-controller");
  a.clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(a.step(), Role::leader);
  const auto renewed = get<core::Lease>("elastic-gpu-controller");
  EXPECT_EQ(renewed.holderIdentity, "a");
  EXPECT_EQ(renewed.acquireTime, first.acquireTime);
  EXPECT_NE(renewed.renewTime, first.renewTime);
  a.elector->release();
  EXPECT_EQ(get<core::Lease>("elastic-gpu-controller").holderIdentity, "");
  EXPECT_EQ(b.step(), Role::leader);
  EXPECT_EQ(get<core::Lease>("elastic-gpu-controller").leaseTransitions, 1);
  EXPECT_EQ(a.step(), Role::released);
}

TEST_F(ContractElection, TakesOverFromTheDeadAndTheDeadLearnsIt) {
  EXPECT_EQ(a.step(), Role::leader);
  EXPECT_EQ(b.step(), Role::standby);
  b.clock.advance(std::chrono::seconds(15));
  EXPECT_EQ(b.step(), Role::leader);
  EXPECT_EQ(a.step(), Role::lost);
  EXPECT_EQ(get<core::Lease>("elastic-gpu-controller").holderIdentity, "b");
}

TEST_F(ContractTest, EventsAreMadeCountedAndCombined) {
  EventRecorder recorder(client, "contract");
  core::ObjectReference about{"v1", "Pod", ns, "p", "u", "1"};
  for (int i = 0; i < 3; ++i) recorder.event(about, "Warning", "NoFit", "nothing fits");
  for (int i = 0; i < 10; ++i) recorder.event(about, "Normal", "Many", "message " + std::to_string(i));
  recorder.stop();
  ListOptions all;
  all.namespace_ = ns;
  const auto events = client.listAll<core::Event>(all);
  ASSERT_TRUE(events.ok()) << events.status().str();
  int combined = 0;
  for (const auto& e : *events) {
    if (e.reason == "NoFit") {
      EXPECT_EQ(e.count, 3);
    }
    if (e.message.rfind("(combined from similar events): ", 0) == 0) ++combined;
  }
  EXPECT_EQ(events->size(), 11U);  // one with a count, nine similar, and one combined from the rest
  EXPECT_EQ(combined, 1);
}

}  // namespace
}  // namespace egpu::kube

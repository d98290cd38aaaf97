// Lists: pages, expired pages, the meaning of a version, selectors.
#include "tests/kube/contract/contract_fixture.h"

namespace egpu::kube {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ContractRead : public ContractTest {
 protected:
  template <class T>
  std::vector<std::string> names(ListOptions options) {
    options.namespace_ = ns;
    std::vector<std::string> out;
    auto meta = client.list<T>(
        options, [&](T&& o) { out.push_back(o.metadata.name); },
        [&] {
          ++restarts;
          out.clear();
        });
    status = meta.status();
    if (meta) version = meta->resourceVersion;
    return out;
  }
  int restarts = 0;
  base::Status status;
  std::string version;
};

TEST_F(ContractRead, PagesShowOneSnapshotInTheOrderOfNames) {
  for (const char* name : {"d", "a", "c", "b", "e"}) make(lease(name));
  ListOptions options;
  options.limit = 2;
  transport.before = [this, done = false](const HttpRequest& r) mutable {
    if (done || r.target.find("continue=") == std::string::npos) return;
    done = true;  // between the first page and the second
    Client other(*direct, clock, random, metrics);
    EXPECT_TRUE(other.create(lease("bb")).ok());
    EXPECT_TRUE(other.remove<core::Lease>({ns, "d"}).ok());
  };
  EXPECT_THAT(names<core::Lease>(options), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(transport.answered(200), 3);
  transport.before = {};
  EXPECT_THAT(names<core::Lease>({}), ElementsAre("a", "b", "bb", "c", "e"));
}

TEST_F(ContractRead, APageWhoseSnapshotIsForgottenHasTheListStartOverInOnePiece) {
  for (const char* name : {"a", "b", "c", "d"}) make(event(name));
  ListOptions options;
  options.limit = 2;
  transport.before = [this, done = false](const HttpRequest& r) mutable {
    if (done || r.target.find("continue=") == std::string::npos) return;
    done = true;
    Client other(*direct, clock, random, metrics);
    EXPECT_TRUE(other.create(event("e")).ok());
    server.compact();
  };
  EXPECT_THAT(names<core::Event>(options), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(transport.answered(410), 1);
  EXPECT_EQ(restarts, 1);
  EXPECT_EQ(transport.targets().back().find("limit="), std::string::npos);
}

TEST_F(ContractRead, AListNotOlderThanAVersionAndOneFromAnyCache) {
  const auto made = make(lease("a"));
  ListOptions options;
  options.resourceVersion = made.metadata.resourceVersion;
  EXPECT_THAT(names<core::Lease>(options), ElementsAre("a"));
  options.resourceVersion = "0";
  (void)names<core::Lease>(options);  // possibly stale, but an answer
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_NE(version, "");
}

TEST_F(ContractRead, AVersionThatTheServerHasNotSeenIsAskedForWithoutOne) {
  make(lease("a"));
  ListOptions options;
  options.resourceVersion = "99999999";
  EXPECT_THAT(names<core::Lease>(options), ElementsAre("a"));
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(transport.answered(504), 1);
  EXPECT_THAT(transport.headersOf(504), ::testing::Contains(::testing::Pair("retry-after", "1")));
}

TEST_F(ContractRead, Selectors) {
  auto labelled = lease("a");
  labelled.metadata.labels = {{"team", "x"}};
  make(labelled);
  make(lease("b"));
  ListOptions options;
  options.labelSelector = "team in (x,y)";
  EXPECT_THAT(names<core::Lease>(options), ElementsAre("a"));
  options.labelSelector = "!team";
  EXPECT_THAT(names<core::Lease>(options), ElementsAre("b"));
  options.labelSelector = "team=x=y";
  (void)names<core::Lease>(options);
  EXPECT_EQ(status.http, 400);
  options.labelSelector.clear();
  options.fieldSelector = "metadata.name=b";
  EXPECT_THAT(names<core::Lease>(options), ElementsAre("b"));
  options.fieldSelector = "spec.nonsense=b";
  (void)names<core::Lease>(options);
  EXPECT_EQ(status.http, 400);
}

TEST_F(ContractRead, WhatIsNotThere) {
  const auto missing = client.get<core::Lease>({ns, "nothing"});
  EXPECT_EQ(missing.status().code(), Code::notFound);
  EXPECT_EQ(missing.status().reason, "NotFound");
  EXPECT_THAT(missing.status().message(), HasSubstr("leases.coordination.k8s.io \"nothing\" not found"));
  ListOptions elsewhere;
  elsewhere.namespace_ = "no-such-namespace";
  const auto none = client.listAll<core::Lease>(elsewhere);
  ASSERT_TRUE(none.ok()) << none.status().str();
  EXPECT_TRUE(none->empty());
  HttpRequest unknown;
  unknown.target = "/apis/no.such.group/v1/things";
  EXPECT_EQ(client.call(unknown).status().code(), Code::notFound);
}

}  // namespace
}  // namespace egpu::kube

#include "controller/standalone/sim/cluster.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "controller/standalone/apiserver/server.h"
#include "controller/standalone/sim/claim_stamping.h"
#include "tests/support/fake_plugins.h"
#include "tests/support/handler_transport.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/write_observer.h"

namespace egpu::sim {
namespace {

using base::Code;

struct NoEvents final : kube::EventSink {
  void event(const core::ObjectReference&, std::string_view, std::string_view, std::string_view) override {}
};

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() {
    EXPECT_TRUE(cluster.publish({}).ok());
    cluster.start();
  }
  ~ClusterTest() override {
    cluster.stop();
    EXPECT_EQ(writes.oscillations(), "");
  }

  void addPod(const std::string& name) {
    core::Pod pod;
    pod.metadata.name = name;
    pod.metadata.namespace_ = "default";
    core::Container container;
    container.name = "main";
    container.image = "x";
    pod.containers.push_back(container);
    ASSERT_TRUE(client.create(pod));
  }
  base::Result<core::Pod> pod(const std::string& name) { return client.get<core::Pod>({"default", name}); }
  bool until(const std::function<bool()>& holds) {
    for (int i = 0; i < 3000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool runs(const std::string& name) {
    return until([&] {
      const auto have = pod(name);
      return have && have->phase == "Running";
    });
  }
  bool gone(const std::string& name) {
    return until([&] { return pod(name).status().code() == Code::notFound; });
  }

  base::SystemClock clock;
  base::Random random{1};
  base::NoMetrics metrics;
  std::unique_ptr<apiserver::Server> server = std::move(*apiserver::Server::create({}, clock, random));
  support::HandlerTransport transport{*server};
  support::WriteObserver writes{transport, [this] { return server->resourceVersion(); }};
  kube::Client client{transport, clock, random, metrics}, observed{writes, clock, random, metrics};
  support::FakeRegistry plugins;
  NoEvents events;
  support::ScratchFolder folder;
  Cluster cluster{*parseNodes("nodes: [{name: a}, {name: b}]"),      observed, plugins, events, clock,
                  {folder.path() + "/cdi", folder.path() + "/state"}};
};

TEST_F(ClusterTest, PodsOfADeletedNodeEnd) {
  addPod("one");
  addPod("two");
  ASSERT_TRUE(runs("one") && runs("two"));
  // Least pods first: one on each.
  const std::string lost = pod("one")->nodeName == "a" ? "one" : "two", kept = lost == "one" ? "two" : "one";
  ASSERT_TRUE(client.remove<core::Node>({"", "a"}).ok());
  EXPECT_TRUE(gone(lost));
  EXPECT_EQ(pod(kept)->phase, "Running");
  addPod("three");
  ASSERT_TRUE(runs("three"));
  EXPECT_EQ(pod("three")->nodeName, "b");
}

TEST_F(ClusterTest, AFinishedPodOfADeletedNodeGoesToo) {
  addPod("one");
  ASSERT_TRUE(runs("one"));
  ASSERT_TRUE(client.patch<core::Pod>({"default", "one"}, kube::PatchType::merge, R"({"status":{"phase":"Succeeded"}})",
                                      "status"));
  ASSERT_TRUE(client.remove<core::Node>({"", pod("one")->nodeName}).ok());
  EXPECT_TRUE(gone("one"));
}

TEST_F(ClusterTest, AResourceClaimIsStampedForEachTemplateOfAPod) {
  core::Pod made;
  made.metadata.name = "one";
  made.metadata.namespace_ = "default";
  made.resourceClaims = {{"gpu", "", "tenth"}};
  made.schedulingGates = {"example.com/wait"};  // a gate keeps no claim from being stamped
  core::Container container;
  container.name = "main";
  container.image = "x";
  container.resourceClaims = {"gpu"};
  made.containers.push_back(container);
  ASSERT_TRUE(client.create(made));
  core::ResourceClaimTemplate tenth;  // it may come later
  tenth.metadata.name = "tenth";
  tenth.metadata.namespace_ = "default";
  tenth.labels = {{"team", "blue"}};
  tenth.claim.deviceClassName = "elasticgpu.io";
  tenth.claim.requestName = "gpu";
  tenth.claim.config.push_back({{}, "elasticgpu.io", R"({"egpuClassName":"share"})"});
  ASSERT_TRUE(client.create(tenth));
  ASSERT_TRUE(until([&] { return pod("one")->unstamped() == nullptr; }));
  const auto name = stampedName(*pod("one"), "gpu");
  EXPECT_EQ(pod("one")->resourceClaims.back(), (core::PodResourceClaim{"gpu", name}));
  EXPECT_EQ(name.rfind("one-gpu-", 0), 0u);
  const auto claim = client.get<core::ResourceClaim>({"default", name});
  ASSERT_TRUE(claim) << claim.status().str();
  EXPECT_EQ(claim->metadata.ownerReferences.at(0).uid, pod("one")->metadata.uid);
  EXPECT_EQ(claim->metadata.labels, (core::StringMap{{"team", "blue"}}));
  EXPECT_EQ(claim->metadata.annotation("resource.kubernetes.io/pod-claim-name"), "gpu");
  EXPECT_EQ(claim->config, tenth.claim.config);
  const auto stands = [&] {
    const auto now = client.get<core::ResourceClaim>({"default", name});
    return now ? now->metadata.uid : std::string();
  };
  ASSERT_TRUE(client.remove<core::ResourceClaim>({"default", name}).ok());
  EXPECT_TRUE(until([&] { return !stands().empty() && stands() != claim->metadata.uid; })) << "stamped anew";
  ASSERT_TRUE(client.patch<core::Pod>({"default", "one"}, kube::PatchType::merge, R"({"status":{"phase":"Succeeded"}})",
                                      "status"));
  EXPECT_TRUE(until([&] { return stands().empty(); })) << "a finished pod needs none";
}

TEST_F(ClusterTest, WhatAnEarlierProcessPreparedIsGivenBackThoughItsPodGoesBeforeThisOneRanIt) {
  support::FakeProvisioner plugin("x.example.com");
  plugins.add(plugin);
  core::Pod made;
  made.metadata.name = "one";
  made.metadata.namespace_ = "default";
  made.nodeName = "a";
  made.phase = "Running";
  made.resourceClaims = {{"gpu", "c", ""}};
  made.containers.emplace_back();
  made.containers.back().name = "main";
  made.containers.back().image = "x";
  ASSERT_TRUE(client.create(made));
  agent::cdi::Folder files(folder.path() + "/earlier/a");
  ASSERT_TRUE(files.open().ok());
  agent::cdi::Spec spec;
  spec.device = "egpu-1";
  spec.deviceUid = "a1b2";
  spec.claimNamespace = "default";
  spec.claimName = "c";
  spec.claimUid = "u-1";
  spec.provisioner = "x.example.com";
  spec.cards = {{"gpu-1", "GPU-1", 100, 4096, 50, 2048}};
  ASSERT_TRUE(files.write(spec).ok());
  ASSERT_TRUE(files.publish("a1b2").ok());
  Kubelet kubelet(client, plugins, events, clock, {}, {folder.path() + "/earlier", folder.path() + "/state"});
  kubelet.clean({});
  EXPECT_EQ(files.list()->size(), 1u) << "its pod is there";
  ASSERT_TRUE(client.remove<core::Pod>({"default", "one"}).ok());
  EXPECT_TRUE(kubelet.unreserved({"default", "c"}, {}).ok());
  EXPECT_TRUE(files.list()->empty());
}

TEST(StampedName, IsShortenedOnBothSides) {
  core::Pod pod;
  pod.metadata.uid = "u";
  pod.metadata.name = std::string(100, 'p');
  const auto name = stampedName(pod, std::string(60, 'n'));
  EXPECT_LE(name.size(), 63u);
  EXPECT_NE(name.find("pp-nn"), std::string::npos) << name;
  pod.metadata.uid = "another";
  EXPECT_NE(stampedName(pod, std::string(60, 'n')), name);
}

}  // namespace
}  // namespace egpu::sim

#include "controller/standalone/sim/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/v1alpha/pod_claims.h"
#include "controller/codec/codec.h"
#include "controller/codec/patch.h"
#include "controller/standalone/apiserver/server.h"
#include "controller/standalone/sim/claim_stamping.h"
#include "tests/support/fake_plugins.h"
#include "tests/support/handler_transport.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/write_observer.h"

namespace egpu::sim {
namespace {

using base::Code;

/// Records "reason: message" of each event.
struct Events final : kube::EventSink {
  void event(const core::ObjectReference&, std::string_view, std::string_view reason,
             std::string_view message) override {
    std::lock_guard lock(mutex);
    all.push_back(std::string(reason) + ": " + std::string(message));
  }
  bool has(const std::string& words) const {
    std::lock_guard lock(mutex);
    return std::any_of(all.begin(), all.end(), [&](const auto& e) { return e.find(words) != std::string::npos; });
  }
  mutable std::mutex mutex;
  std::vector<std::string> all;
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

  static core::Pod podOf(const std::string& name) {
    core::Pod pod;
    pod.metadata.name = name;
    pod.metadata.namespace_ = "default";
    core::Container container;
    container.name = "main";
    container.image = "x";
    pod.containers.push_back(container);
    return pod;
  }
  void addPod(const std::string& name) { ASSERT_TRUE(client.create(podOf(name))); }
  /// Waits until the pod's condition PodScheduled is False and returns its "reason: message".
  std::string unscheduled(const std::string& name) {
    std::string message;
    (void)until([&] {
      const auto have = pod(name);
      for (const auto& c : have ? have->conditions : std::vector<core::Condition>())
        if (c.type == "PodScheduled" && c.status == "False") message = c.reason + ": " + c.message;
      return !message.empty();
    });
    return message;
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
  Events events;
  support::ScratchFolder folder;
  Cluster cluster{*parseNodes("nodes: [{name: a}, {name: b}]"),       observed,         plugins, events, clock,
                  {folder.path() + "/cdi", folder.path() + "/state"}, {"own-scheduler"}};
};

TEST_F(ClusterTest, PodsOfADeletedNodeEnd) {
  addPod("one");
  addPod("two");
  ASSERT_TRUE(runs("one") && runs("two"));
  // Least pods first: one pod on each node.
  const std::string lost = pod("one")->nodeName == "a" ? "one" : "two", other = lost == "one" ? "two" : "one";
  ASSERT_TRUE(client.remove<core::Node>({"", "a"}).ok());
  EXPECT_TRUE(gone(lost));
  EXPECT_EQ(pod(other)->phase, "Running");
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

TEST_F(ClusterTest, APodWaitsForAResourceThatNoNodeHas) {
  auto made = podOf("gpu");
  made.containers[0].requests = {{"cpu", "1"}};
  auto json = codec::encode(made);
  const std::string limits = R"("resources":{"limits":{"nvidia.com/gpu":1},)";
  json.replace(json.find(R"("resources":{)"), std::string(R"("resources":{)").size(), limits);
  kube::HttpRequest post;
  post.method = kube::Method::post;
  post.target = kube::Client::path(core::kindOf<core::Pod>, "default");
  post.headers = {{"Content-Type", "application/json"}};
  post.body = json;
  ASSERT_TRUE(client.call(std::move(post)));
  const auto why = unscheduled("gpu");
  EXPECT_EQ(why.rfind("Unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", 0), 0u) << why;
  EXPECT_NE(why.find("manifests/migrate"), std::string::npos) << why;
  EXPECT_TRUE(events.has("FailedScheduling: 0/2 nodes"));
  EXPECT_NE(pod("gpu")->phase, "Running");
  // Advertises a resource as an administrator does.
  ASSERT_TRUE(client.patch<core::Node>({"", "b"}, kube::PatchType::merge,
                                       R"({"status":{"allocatable":{"nvidia.com/gpu":"1"}}})", "status"));
  ASSERT_TRUE(runs("gpu"));
  EXPECT_EQ(pod("gpu")->nodeName, "b");
}

TEST_F(ClusterTest, APodOfASchedulerThatDoesNotRunHereWaitsAndReportsIt) {
  auto made = podOf("kai");
  made.schedulerName = "kai-scheduler";
  ASSERT_TRUE(client.create(made));
  const auto why = unscheduled("kai");
  EXPECT_EQ(why.rfind("SchedulerNotFound: spec.schedulerName: no scheduler \"kai-scheduler\" runs here", 0), 0u) << why;
  EXPECT_NE(why.find("manifests/migrate"), std::string::npos) << why;
  auto elsewhere = podOf("elsewhere");
  elsewhere.schedulerName = "own-scheduler";
  ASSERT_TRUE(client.create(elsewhere));
  addPod("other");
  ASSERT_TRUE(runs("other"));
  EXPECT_TRUE(pod("kai")->nodeName.empty());
  EXPECT_TRUE(pod("elsewhere")->nodeName.empty() && pod("elsewhere")->conditions.empty()) << "its scheduler runs";
}

TEST_F(ClusterTest, ClaimsAreReservedForAPodThatHasItsNodeFromItsManifestWhateverTheClaimsNode) {
  core::ResourceClaim claim;
  claim.metadata.name = "c";
  claim.metadata.namespace_ = "default";
  claim.deviceClassName = "elasticgpu.io";
  claim.requestName = "gpu";
  ASSERT_TRUE(client.create(claim));
  for (const auto* name : {"plain", "other"}) {
    auto made = podOf(name);
    made.nodeName = "a";
    made.resourceClaims = {{"gpu", "c", ""}};
    made.containers[0].resourceClaims = {"gpu"};
    ASSERT_TRUE(client.create(made));
  }
  const auto reserved = [&] { return client.get<core::ResourceClaim>({"default", "c"})->reservedFor; };
  EXPECT_TRUE(reserved().empty()) << "it is not allocated";
  const auto made = client.get<core::ResourceClaim>({"default", "c"})->metadata;
  ASSERT_TRUE(client.patch<core::ResourceClaim>(
      {"default", "c"}, kube::PatchType::merge,
      codec::patch::allocation(
          made.uid, made.resourceVersion,
          core::ResourceClaimAllocation{"gpu", "elasticgpu.io", "b", "egpu-1", "b", "2026-01-01T00:00:00Z"}),
      "status"));
  EXPECT_TRUE(until([&] { return reserved().size() == 2; }));
  // The agent refuses to prepare a claim of a different node.
  EXPECT_NE(pod("plain")->phase, "Running");
}

TEST_F(ClusterTest, APodThatHasItsNodeFromItsManifestWaitsForTheClaimsOfItsTemplates) {
  core::ResourceClaimTemplate tenth;
  tenth.metadata.name = "tenth";
  tenth.metadata.namespace_ = "default";
  tenth.claim.deviceClassName = "elasticgpu.io";
  tenth.claim.requestName = "gpu";
  ASSERT_TRUE(client.create(tenth));
  auto made = podOf("placed");
  made.nodeName = "a";
  made.resourceClaims = {{"gpu", "", "tenth"}};
  made.containers[0].resourceClaims = {"gpu"};
  ASSERT_TRUE(client.create(made));
  ASSERT_TRUE(until([&] { return !v1alpha::pendingClaim(*pod("placed")); }));
  const auto waits = [&] {
    const auto now = *pod("placed");
    return std::any_of(now.conditions.begin(), now.conditions.end(),
                       [](const auto& condition) { return condition.type == "Ready" && condition.status == "False"; });
  };
  EXPECT_TRUE(until([&] { return waits() || pod("placed")->phase == "Running"; }));
  EXPECT_NE(pod("placed")->phase, "Running") << "its claim is not allocated";
}

TEST_F(ClusterTest, AKubeletFailsAPodThatItsNodeCantRunAndRunsTheOthers) {
  auto first = podOf("first"), second = podOf("second"), mirror = podOf("mirror");
  for (auto* each : {&first, &second, &mirror}) {
    each->nodeName = "a";
    each->containers[0].requests = {{"cpu", "40"}};  // of 64
  }
  ASSERT_TRUE(client.create(first));
  ASSERT_TRUE(runs("first"));
  ASSERT_TRUE(client.create(second));
  EXPECT_TRUE(until([&] { return pod("second")->phase == "Failed"; }));
  EXPECT_TRUE(events.has("OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"));
  mirror.metadata.annotations["kubernetes.io/config.mirror"] = "x";
  ASSERT_TRUE(client.create(mirror));
  EXPECT_TRUE(runs("mirror"));
  EXPECT_EQ(pod("first")->phase, "Running");
}

TEST_F(ClusterTest, AResourceClaimIsStampedForEachTemplateOfAPod) {
  core::Pod made;
  made.metadata.name = "one";
  made.metadata.namespace_ = "default";
  made.resourceClaims = {{"gpu", "", "tenth"}};
  made.schedulingGates = {"example.com/wait"};  // claims are stamped despite gates
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
  ASSERT_TRUE(until([&] { return !v1alpha::pendingClaim(*pod("one")); }));
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

#include "controller/standalone/sim/cluster.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "controller/standalone/apiserver/server.h"
#include "tests/support/fake_plugins.h"
#include "tests/support/handler_transport.h"
#include "tests/support/scratch_folder.h"

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
  ~ClusterTest() override { cluster.stop(); }

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
  kube::Client client{transport, clock, random, metrics};
  support::FakeRegistry plugins;
  NoEvents events;
  support::ScratchFolder folder;
  Cluster cluster{*parseNodes("nodes: [{name: a}, {name: b}]"),      client, plugins, events, clock,
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

}  // namespace
}  // namespace egpu::sim

// The extender with a controller that acts only when the test lets it. Nodes n1 and n2 have two cards each. Class
// "late" has the mode WaitForFirstConsumer. The scheduler "own-scheduler" uses the extender.
#pragma once

#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "controller/codec/codec.h"
#include "controller/server/extender/extender.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::server {

using Json = nlohmann::json;
using support::World;
using Names = std::vector<std::string>;

class ExtenderTest : public reconcile::ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addNode("n2");
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    begin();
  }
  void TearDown() override {
    extender.reset();
    if (line) line->refuses = nullptr;
    ReconcileTest::TearDown();
    driver.reset();
  }
  /// Starts a new process.
  void begin() {
    extender.reset();
    line = std::make_unique<support::RefusingTransport>(*world.transport);
    line->code = 500;
    startOver(*line);
    extender = std::make_unique<Extender>(driver->stores, driver->cluster, driver->reconciler, world.metrics,
                                          [this] { return unavailable; });
  }

  core::Pod addPod(const std::string& name, const Names& claims, const std::string& scheduler = "own-scheduler",
                   bool gate = false) {
    auto pod = World::podOf(name, claims, gate);
    pod.schedulerName = scheduler;
    auto made = World::must(world.client.create(pod));
    settle();
    return made;
  }
  /// Returns a pod as a scheduler sends it, whether or not it exists.
  static Json asSent(const core::Pod& pod) { return Json::parse(codec::encode(pod)); }
  static std::string args(const core::Pod& pod, const Names& nodes = {"n1", "n2"}) {
    return Json{{"Pod", asSent(pod)}, {"Nodes", nullptr}, {"NodeNames", nodes}}.dump();
  }
  static std::string wholeArgs(const core::Pod& pod, const Names& nodes = {"n1", "n2"}) {
    Json items = Json::array();
    for (const auto& node : nodes) items.push_back({{"metadata", {{"name", node}, {"labels", {{"a", "b"}}}}}});
    return Json{{"Pod", asSent(pod)}, {"Nodes", {{"items", items}}}, {"NodeNames", nullptr}}.dump();
  }
  http::Response ask(const std::string& verb, const std::string& body, const std::string& method = "POST") {
    return extender->handle({method, "/extender/" + verb, "", {}, body}, {});
  }
  Json answer(const std::string& verb, const std::string& body) {
    const auto response = ask(verb, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  Names passing(const core::Pod& pod) { return answer("filter", args(pod))["NodeNames"].get<Names>(); }
  std::string error(const core::Pod& pod) { return answer("filter", args(pod))["Error"].get<std::string>(); }
  /// Returns why filter rejects the node; empty if it passes.
  std::string why(const core::Pod& pod, const std::string& node) {
    const auto got = answer("filter", args(pod));
    const auto& failed = got["FailedAndUnresolvableNodes"];
    return failed.contains(node) ? failed[node].get<std::string>() : std::string();
  }
  int score(const core::Pod& pod, const std::string& node) {
    for (const auto& each : answer("prioritize", args(pod)))
      if (each["Host"] == node) return each["Score"].get<int>();
    return -1;
  }

  /// Binds while the controller works. Returns the error; empty if the pod is bound.
  std::string bind(const core::Pod& pod, const std::string& node, const std::string& uid = {}) {
    const Json body = {{"PodName", pod.metadata.name},
                       {"PodNamespace", pod.metadata.namespace_},
                       {"PodUID", uid.empty() ? pod.metadata.uid : uid},
                       {"Node", node}};
    auto future = std::async(std::launch::async, [&] { return extender->bind(body.dump(), {}).body; });
    while (future.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      settle();
      if (meanwhile) meanwhile();
    }
    settle();
    return Json::parse(future.get())["Error"].get<std::string>();
  }
  std::string nodeOf(const std::string& claim) {
    const auto name = deviceOf(claim);
    return world.exists(name) ? world.gpu(name).spec.nodeName : std::string();
  }
  std::string phaseOf(const std::string& claim) { return world.claim(claim).status.phase; }
  void fill(const std::string& node, int card) {
    world.addClaim("full-" + node + "-" + std::to_string(card), "share", {{"gpu", "1"}},
                   "gpu-" + node + "-" + std::to_string(card));
    settle();
  }

  std::string unavailable;
  std::function<void()> meanwhile;
  std::unique_ptr<support::RefusingTransport> line;
  std::unique_ptr<Extender> extender;
};

}  // namespace egpu::server

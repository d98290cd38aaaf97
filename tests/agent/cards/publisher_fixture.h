// A publisher whose store is read when the test calls watch().
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "controller/agent/cards/publisher.h"
#include "tests/agent/cards/fixture.h"

namespace egpu::agent::cards {

class PublisherTest : public ApiTest {
 protected:
  /// Publishes after the watch has caught up.
  base::Status publish(const Answers& answers) {
    watch();
    return publishBlind(answers);
  }
  void watch() {
    kube::ListOptions ofNode;
    ofNode.fieldSelector = "spec.card.nodeName=n1";
    const auto all = admin->listAll<Gpu>(ofNode);
    ASSERT_TRUE(all.ok()) << all.status().str();
    store.listBegins();
    for (const auto& each : *all) store.listed(each);
    store.listEnds(std::to_string(server->resourceVersion()));
  }
  base::Status publishBlind(const Answers& answers) { return publisher.publish(answers, {}); }
  void must(const Answers& answers) {
    const auto status = publish(answers);
    EXPECT_TRUE(status.ok()) << status.str();
  }
  /// Number of changes that the server accepted for these answers.
  uint64_t writes(const Answers& answers) {
    const auto before = server->resourceVersion();
    must(answers);
    return server->resourceVersion() - before;
  }
  static Answers one(const plugin::Gpu& g = gpu("GPU-A")) { return {{"physical", answer({g})}}; }

  cache::Store<Gpu> store;
  PublisherOptions options{"n1", {}, {}, std::chrono::minutes(5), std::chrono::minutes(10), std::chrono::minutes(3)};
  Publisher publisher{*client, store, events, clock, options};
};

}  // namespace egpu::agent::cards

// A view over stores with one node and one card, and helpers that change them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "controller/allocator/allocator.h"
#include "tests/support/stored_objects.h"

namespace egpu::allocator {

class AllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    view.onCapacity([this] { ++grown; });
    node("n1");
    card("c0", "n1");
    grown = 0;
  }
  std::string next() { return std::to_string(++version); }
  void node(const std::string& name) { stores.nodes.informed(support::readyNode(name, next())); }
  cache::Gpu makeCard(const std::string& name, const std::string& on) { return support::cardOn(on, name, next()); }
  void card(const std::string& name, const std::string& on, core::SortedMap<v1alpha::LedgerEntry> entries = {}) {
    auto gpu = makeCard(name, on);
    gpu.spec.allocations = std::move(entries);
    stores.cards.informed(gpu);
  }
  void device(const std::string& name, const std::string& on, const std::string& phase,
              const std::string& claimUid = "k") {
    cache::Gpu gpu;
    gpu.metadata.name = name;
    gpu.metadata.uid = "uid-" + name;
    gpu.metadata.resourceVersion = next();
    gpu.spec.nodeName = on;
    gpu.spec.cards = {{"c0", "c0", 600, 100, 600, 100}};
    gpu.spec.claimRef = v1alpha::ClaimRef{"ns", "c", claimUid};
    gpu.status.phase = phase;
    stores.devices.informed(gpu);
  }
  /// A thread that decides for claim "k", forgets the decision and counts it, until it is destroyed.
  std::jthread decideUntilDestroyed(std::atomic<int>& decided) {
    return std::jthread([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        view.decideAndAssume(ask("k", 600));
        view.forget("k");
        ++decided;
      }
    });
  }
  static Allocator::SchedulingRequest ask(const std::string& uid, int64_t core) {
    Allocator::SchedulingRequest a;
    a.claimUid = uid;
    a.claim = "ns/" + uid;
    a.request.perCard = {core, 10};
    return a;
  }
  int version = 0, grown = 0;
  cache::Stores stores;
  Allocator view{stores};
};

}  // namespace egpu::allocator

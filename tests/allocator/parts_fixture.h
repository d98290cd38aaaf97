// The parts of the allocator without the allocator: stores with two nodes of one card each, 1000 milli-cards and 1000
// bytes. Tests of one part change the others through their public functions.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/allocator/nominator.h"
#include "controller/allocator/quota/quota_accounting.h"
#include "controller/allocator/reservations.h"
#include "controller/allocator/state/cluster_state.h"
#include "tests/support/stored_objects.h"

namespace egpu::allocator {

class PartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string name : {"1", "2"}) {
      stores.nodes.informed(support::readyNode("n" + name, next()));
      state.refreshNode("n" + name);
      card("c" + name, "n" + name);
    }
    state.takeFreed();
  }
  std::string next() { return std::to_string(++version); }
  void card(const std::string& name, const std::string& node, core::SortedMap<v1alpha::LedgerEntry> entries = {},
            const std::string& mode = {}) {
    auto gpu = support::cardOn(node, name, next());
    gpu.spec.allocations = std::move(entries);
    gpu.spec.mode = mode;
    stores.cards.informed(gpu);
    state.refreshCard(name, nullptr);
  }
  /// A device with 600 milli-cards and 100 bytes of c1.
  void device(const std::string& name, const std::string& claimUid, const std::string& isolation = {}) {
    cache::Gpu gpu;
    gpu.metadata.name = name;
    gpu.metadata.uid = "uid-" + name;
    gpu.metadata.resourceVersion = next();
    gpu.spec.nodeName = "n1";
    gpu.spec.cards = {{"c1", "c1", 600, 100, 600, 100}};
    gpu.spec.claimRef = v1alpha::ClaimRef{"ns", claimUid, claimUid};
    if (!isolation.empty()) gpu.spec.parameters["isolation"] = isolation;
    stores.devices.informed(gpu);
    state.refreshDevice(name);
  }
  /// Adds the claim "ns/<uid>", which was created at second `since`, and returns its request.
  SchedulingRequest pending(const std::string& uid, int64_t core, int64_t since = 0) {
    cache::Claim claim;
    claim.metadata.name = claim.metadata.uid = uid;
    claim.metadata.namespace_ = "ns";
    claim.metadata.resourceVersion = next();
    stores.claims.informed(claim);
    SchedulingRequest ask;
    ask.claimUid = uid;
    ask.claim = "ns/" + uid;
    ask.request.perCard = {core, 10};
    ask.order.since = since;
    return ask;
  }
  /// Nominates cards of n1 to the claim, all of c1 by default.
  void nominate(const SchedulingRequest& ask, int64_t priority,
                std::vector<v1alpha::NominatedCard> cards = {{"c1", 1000, 1000}}, const std::string& className = {}) {
    auto claim = *stores.claims.get(core::ObjectKey::of(ask.claim));
    claim.metadata.resourceVersion = next();
    claim.status.priority = priority;
    claim.status.className = className;
    claim.status.nominated = v1alpha::Nomination{"n1", std::move(cards), {}};
    stores.claims.informed(claim);
    nominator.refresh(claim, false);
  }
  static scheduler::Decision on(const std::string& card, int64_t core) {
    return {true, card == "c1" ? "n1" : "n2", {{card, card, {core, 10}, {core, 10}}}};
  }
  int64_t usedOf(const std::string& card) const { return state.cluster().findCard(card).used.core; }
  /// Limits the namespace to that many milli-cards.
  void limitCore(int64_t core) {
    scheduler::Quota quota;
    quota.name = "q";
    quota.hard[static_cast<std::size_t>(scheduler::QuotaKey::core)] = core;
    quotas.setQuotas("ns", {quota});
  }
  int64_t countedCore() {
    state.countForQuotas();
    return quotas.book().used("ns", "q").value()[static_cast<std::size_t>(scheduler::QuotaKey::core)];
  }

  int version = 0;
  cache::Stores stores;
  HolderAges ages;
  PendingWrites writes;
  QuotaAccounting quotas;
  ClusterState state{stores, quotas, ages, writes};
  Nominator nominator{stores, state, quotas};
  Reservations reservations{stores, state};
};

}  // namespace egpu::allocator

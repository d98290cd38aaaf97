// A cluster with a journal, as the controller sees it: the test delivers objects to the stores, claims are decided
// immediately.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/journal/journal.h"
#include "controller/journal/reading.h"
#include "controller/journal/replay.h"
#include "tests/support/scratch_folder.h"

namespace egpu::journal {

/// Records the journal's counters.
class CountingMetrics final : public base::Metrics {
 public:
  void add(std::string_view counter, double by, const base::MetricLabels&) override {
    const std::lock_guard lock(mutex_);
    counts_[std::string(counter)] += by;
  }
  void set(std::string_view, double, const base::MetricLabels&) override {}
  void observe(std::string_view, double, const base::MetricLabels&) override {}
  void forget(std::string_view, const base::MetricLabels&) override {}
  double count(const std::string& counter) const {
    const std::lock_guard lock(mutex_);
    const auto it = counts_.find(counter);
    return it == counts_.end() ? 0 : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> counts_;
};

class WatchedCluster {
 public:
  using SchedulingRequest = allocator::Allocator::SchedulingRequest;

  explicit WatchedCluster(int64_t bytes = int64_t{64} << 20) : bytes_(bytes) { open(); }

  void open() {
    auto opened = Journal::open(folder(), bytes_, "test", clock, metrics);
    if (!opened) throw std::runtime_error(opened.status().str());
    journal = std::move(*opened);
    view.listen(*journal);
  }
  std::string folder() const { return scratch_.path() + "/journal"; }
  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    const auto there = journalFiles(folder());
    if (!there) return paths;
    for (const auto& [number, path] : *there) paths.push_back(path);
    return paths;
  }

  std::string next() { return std::to_string(++version_); }
  void node(const std::string& name, bool ready = true) {
    core::Node n;
    n.metadata = meta(name, "node-" + name);
    n.ready = ready;
    stores.nodes.informed(n);
  }
  void nodeGone(const std::string& name) { stores.nodes.observedGone({"", name}, "node-" + name); }
  /// limiter: attribute of the card; empty = none.
  void card(const std::string& name, const std::string& on, int64_t index = 0, const std::string& model = "A",
            const std::string& limiter = {}) {
    cache::Gpu gpu;
    gpu.metadata = meta(name, "card-" + name);
    auto& card = gpu.spec.card.emplace();
    card.uuid = "uuid-" + name;
    card.nodeName = on;
    card.index = index;
    card.model = model;
    card.memory = model == "A" ? 1000 : 2000;
    if (!limiter.empty()) card.attributes["limiter"] = limiter;
    stores.cards.informed(gpu);
  }
  void ill(const std::string& name, bool ill) {
    changeCard(name, [ill](cache::Gpu& gpu) { gpu.status.phase = ill ? "Failed" : "Available"; });
  }
  void cardGone(const std::string& name) {
    if (const auto gpu = stores.cards.get({"", name})) stores.cards.observedGone({"", name}, gpu->metadata.uid);
  }

  static SchedulingRequest ask(const std::string& uid, int64_t core, const std::string& policy = "binpack") {
    SchedulingRequest a;
    a.claimUid = uid;
    a.claim = "ns/" + uid;
    a.request.perCard = {core, 10};
    a.request.nodePolicy = policy;
    return a;
  }
  /// Acts as the binder after a decision: writes the device, then its ledger entries.
  void bind(const SchedulingRequest& ask, const scheduler::Decision& decision) {
    cache::Gpu device;
    device.metadata = meta("d-" + ask.claimUid, "uid-" + ask.claimUid);
    device.spec.nodeName = decision.node;
    device.spec.claimRef = v1alpha::ClaimRef{"ns", ask.claimUid, ask.claimUid};
    device.status.phase = "Bound";
    for (const auto& p : decision.placements) {
      device.spec.cards.push_back({p.card, p.uuid, p.granted.core, p.granted.memory, p.charged.core, p.charged.memory});
      device.spec.parameters["isolation"] = p.isolation.empty() ? "none" : p.isolation;
    }
    stores.devices.informed(device);
    for (const auto& p : decision.placements)
      changeCard(p.card, [&](cache::Gpu& gpu) {
        gpu.spec.allocations["uid-" + ask.claimUid] = {"d-" + ask.claimUid, ask.claim, p.charged.core,
                                                       p.charged.memory};
        if (gpu.spec.mode.empty() && !ask.request.wholeCards)
          gpu.spec.mode = p.isolation.empty() ? "none" : p.isolation;
      });
  }
  void claim(const std::string& uid) {
    cache::Claim claim;
    claim.metadata = meta(uid, uid);
    claim.metadata.namespace_ = "ns";
    stores.claims.informed(claim);
  }
  /// Removes the ledger entries, then the device, then the claim.
  void release(const std::string& uid) {
    if (const auto device = stores.devices.get({"", "d-" + uid})) {
      for (const auto& part : device->spec.cards)
        changeCard(part.name, [&](cache::Gpu& gpu) {
          gpu.spec.allocations.erase("uid-" + uid);
          if (gpu.spec.allocations.empty()) gpu.spec.mode.clear();
        });
      stores.devices.observedGone({"", "d-" + uid}, "uid-" + uid);
    }
    stores.claims.observedGone({"ns", uid}, uid);
  }

  /// Replays the journal written so far.
  ReplaySummary replayed(std::optional<scheduler::Policies> policies = {}) {
    journal->flush();
    Replay replay(std::move(policies));
    leftOut.clear();
    Reading reading;
    reading.each = [&](const codec::JournalRecord& record, bool joined) { replay.add(record, joined); };
    reading.leftOut = [this](const std::string& what) { leftOut.push_back(what); };
    if (const auto s = read(folder(), reading); !s.ok()) throw std::runtime_error(s.str());
    return replay.summary();
  }

  base::ManualClock clock;
  CountingMetrics metrics;
  std::unique_ptr<Journal> journal;  // outlives the view
  cache::Stores stores;
  allocator::Allocator view{stores};
  std::vector<std::string> leftOut;

 private:
  core::ObjectMeta meta(const std::string& name, const std::string& uid) {
    core::ObjectMeta m;
    m.name = name;
    m.uid = uid;
    m.resourceVersion = next();
    return m;
  }
  template <class F>
  void changeCard(const std::string& name, F f) {
    const auto known = stores.cards.get({"", name});
    if (!known) return;
    auto gpu = *known;
    gpu.metadata.resourceVersion = next();
    f(gpu);
    stores.cards.informed(gpu);
  }

  support::ScratchFolder scratch_;
  int64_t bytes_;
  int version_ = 0;
};

/// Adds two nodes with a card each.
inline void addTwoNodes(WatchedCluster& cluster) {
  for (const std::string name : {"n1", "n2"}) {
    cluster.node(name);
    cluster.card("card-" + name, name);
  }
}

}  // namespace egpu::journal

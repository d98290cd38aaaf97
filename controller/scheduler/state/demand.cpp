#include "controller/scheduler/state/demand.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <tuple>

namespace egpu::scheduler {
namespace {

// 0.9^(-1/200). Multiplied once per request, so that the result does not depend on the rounding of library functions.
constexpr double kGrowth = 1.000526941363137;

/// Returns all fields that define the demand as a comparable value, without fields that have no effect.
auto demandOf(const Request& r) {
  const bool ownCore = !r.wholeCards && r.milliTflopsPerCard == 0;
  const bool ownMemory = !r.wholeCards && !r.memoryFromCore;
  return std::tuple(r.cards, r.wholeCards, ownCore ? r.perCard.core : 0, ownMemory ? r.perCard.memory : 0,
                    r.memoryFromCore, r.milliTflopsPerCard, r.coreOvercommit, r.memoryOvercommit, r.minMemory,
                    r.cpuMilli, r.podMemory, static_cast<int>(r.split));
}

}  // namespace

bool sameDemand(const Request& a, const Request& b) { return demandOf(a) == demandOf(b) && a.models == b.models; }

std::size_t demandHash(const Request& request) {
  std::size_t hash = 0;
  const auto mix = [&hash](std::size_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  std::apply([&](auto... field) { (mix(static_cast<std::size_t>(field)), ...); }, demandOf(request));
  for (const std::string& model : request.models) mix(std::hash<std::string_view>()(model));
  return hash;
}

void Demand::observe(const Request& request) {
  const std::size_t hash = demandHash(request);
  WeightedRequest* entry = nullptr;
  const auto [from, to] = places_.equal_range(hash);
  for (auto it = from; it != to && entry == nullptr; ++it)
    if (sameDemand(entries_[it->second].request, request)) entry = &entries_[it->second];
  if (entry == nullptr) {
    places_.emplace(hash, entries_.size());
    entry = &entries_.emplace_back(WeightedRequest{request, hash});
    Request& rest = entry->request;
    rest.nodePolicy.clear();
    rest.cardPolicy.clear();
    rest.pinnedNode.clear();
    rest.pinnedCards.clear();
    rest.quota.clear();
    rest.maxClaimsPerCard = rest.maxClaimsPerNode = 0;
  }
  entry->weight += unit_;
  unit_ *= kGrowth;
  if (++seen_ % kWindow == 0) tidy();
}

void Demand::tidy() {
  for (WeightedRequest& entry : entries_) entry.weight /= unit_;
  unit_ = 1;
  std::erase_if(entries_, [](const WeightedRequest& entry) { return entry.weight < kForgotten; });
  if (entries_.size() > kMax) {
    const std::vector<const WeightedRequest*> order = heaviestFirst();
    std::set<const WeightedRequest*> gone(order.begin() + static_cast<std::ptrdiff_t>(kMax), order.end());
    std::vector<WeightedRequest> rest;
    for (WeightedRequest& entry : entries_)
      if (gone.count(&entry) == 0) rest.push_back(std::move(entry));
    entries_ = std::move(rest);
  }
  findAgain();
}

void Demand::findAgain() {
  places_.clear();
  for (std::size_t at = 0; at < entries_.size(); ++at) places_.emplace(entries_[at].hash, at);
}

Learned Demand::learned() const {
  Learned learned;
  learned.seen = seen_;
  learned.unit = unit_;
  for (const WeightedRequest& entry : entries_) learned.classes.push_back({entry.request, entry.weight});
  return learned;
}

void Demand::learn(const Learned& learned) {
  seen_ = learned.seen;
  unit_ = learned.unit;
  entries_.clear();
  for (const auto& each : learned.classes)
    entries_.push_back(WeightedRequest{each.request, demandHash(each.request), each.weight});
  findAgain();
}

std::vector<const Demand::WeightedRequest*> Demand::heaviestFirst() const {
  std::vector<const WeightedRequest*> order;
  order.reserve(entries_.size());
  for (const WeightedRequest& entry : entries_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const WeightedRequest* a, const WeightedRequest* b) { return a->weight > b->weight; });
  return order;
}

double Demand::total() const {
  double sum = 0;
  for (const WeightedRequest& entry : entries_) sum += entry.weight;
  return sum / unit_;
}

std::vector<Demand::Class> Demand::classes() const {
  std::vector<Class> classes;
  if (!known()) return classes;
  classes.reserve(entries_.size());
  for (const WeightedRequest* entry : heaviestFirst())
    classes.push_back({entry->request, entry->hash, entry->weight / unit_});
  return classes;
}

}  // namespace egpu::scheduler

// Measures what quotas add to a decision. 1,000 nodes of 8 cards; 50 namespaces with two quotas each, filled to the
// quotas; 10,000 claims wait, 200 in each namespace. Each round releases one claim of a namespace and tries that
// namespace's waiting claims in order, as the controller does. A claim within the quotas is decided, counted and taken;
// otherwise the quota that it exceeds is reported. Every decision is timed. For comparison the same request is decided
// on the same cluster without quotas, and not taken.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "controller/scheduler/quota/on_a_copy.h"

namespace egpu::scheduler {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kGi = int64_t{1} << 30;
constexpr int kNodes = 1000, kCards = 8, kSpaces = 50, kWaiting = 10'000, kRounds = 2000;

struct QuotaBenchClaim {
  QuotaClaim owner;
  Request request;
  Decision decision;
};

struct Times {
  std::vector<double> micros;
  void add(Clock::time_point from) {
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - from).count());
  }
  void print(const char* what) {
    std::sort(micros.begin(), micros.end());
    const auto at = [&](double part) { return micros[static_cast<std::size_t>(part * double(micros.size() - 1))]; };
    std::printf("%-28s %7zu decisions   p50 %8.2f us   p99 %8.2f us   max %8.2f us\n", what, micros.size(), at(0.5),
                at(0.99), at(1.0));
  }
};

class Crowd {
 public:
  Crowd() {
    for (int i = 0; i < kNodes; ++i) {
      const auto node = "node-" + std::to_string(i);
      cluster_.upsertNode({node, true});
      for (int c = 0; c < kCards; ++c) {
        CardInfo info;
        info.name = info.card.uuid = "gpu-" + std::to_string(i) + "-" + std::to_string(c);
        info.card.nodeName = node;
        info.card.index = c;
        info.card.model = i % 4 == 0 ? "H100" : "A100";
        info.card.memory = 80 * kGi;
        cluster_.upsertCard(info);
      }
    }
    for (int s = 0; s < kSpaces; ++s) {
      Quota team, h100;
      team.name = "team";
      team.hard[std::size_t(QuotaKey::core)] = 100'000;  // 100 cards of 160
      team.hard[std::size_t(QuotaKey::memory)] = 9000 * kGi;
      team.hard[std::size_t(QuotaKey::claims)] = 2000;
      team.perClaim[std::size_t(QuotaKey::gpu)] = 4;
      h100.name = "h100";
      h100.hard[std::size_t(QuotaKey::gpu)] = 40;
      h100.models = {"H100"};
      book_.setQuotas(nameOf(s), {team, h100});
    }
    held_.resize(kSpaces);
    waiting_.resize(kSpaces);
    for (int s = 0; s < kSpaces; ++s) {
      for (;;) {  // until the quotas are full
        auto claim = next(s);
        claim.decision = decideWithin(cluster_, book_, claim.owner, claim.request);
        if (!claim.decision.fits) break;
        take(s, std::move(claim));
      }
      while (int(waiting_[std::size_t(s)].size()) < kWaiting / kSpaces) waiting_[std::size_t(s)].push_back(next(s));
    }
  }

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      const int s = int(random_() % kSpaces);
      giveBack(s);
      auto& queue = waiting_[std::size_t(s)];
      for (std::size_t i = 0; i < queue.size();) {
        if (!tryOne(s, queue[i])) {
          ++i;
          continue;
        }
        queue.erase(queue.begin() + std::ptrdiff_t(i));
        queue.push_back(next(s));
        break;  // the released capacity is taken
      }
    }
    without_.print("without quotas");
    granted_.print("within quotas, decided");
    refused_.print("within quotas, QuotaExceeded");
    auto all = granted_;
    all.micros.insert(all.micros.end(), refused_.micros.begin(), refused_.micros.end());
    all.print("within quotas, all");
    std::size_t held = 0;
    for (const auto& each : held_) held += each.size();
    std::printf("%d nodes, %zu claims have cards, %d wait in %d namespaces\n", kNodes, held, kWaiting, kSpaces);
  }

 private:
  static std::string nameOf(int space) { return "team-" + std::to_string(space); }

  QuotaBenchClaim next(int space) {
    QuotaBenchClaim claim;
    claim.owner = quotaClaim(nameOf(space) + "/claim-" + std::to_string(++made_), "share");
    claim.request.perCard = {int64_t(100 + 50 * (random_() % 10)), int64_t(4 + 4 * (random_() % 9)) * kGi};
    return claim;
  }

  void take(int space, QuotaBenchClaim claim) {
    count(book_, cluster_, claim.owner.id, claim.owner, claim.decision);
    hold(cluster_, claim.owner.id, claim.decision);
    held_[std::size_t(space)].push_back(std::move(claim));
  }

  void giveBack(int space) {
    auto& held = held_[std::size_t(space)];
    std::swap(held[random_() % held.size()], held.back());
    for (const auto& placement : held.back().decision.placements)
      cluster_.giveBack(placement.card, held.back().owner.id);
    book_.drop(held.back().owner.id);
    held.pop_back();
  }

  bool tryOne(int space, const QuotaBenchClaim& waits) {
    auto from = Clock::now();
    const auto plain = decideTogether(cluster_, {waits.request});
    without_.add(from);
    from = Clock::now();
    auto decision = decideWithin(cluster_, book_, waits.owner, waits.request);
    (decision.fits ? granted_ : refused_).add(from);
    if (!decision.fits) return false;
    auto claim = waits;
    claim.decision = std::move(decision);
    take(space, std::move(claim));
    return true;
  }

  Cluster cluster_;
  QuotaBook book_;
  std::vector<std::vector<QuotaBenchClaim>> held_;
  std::vector<std::deque<QuotaBenchClaim>> waiting_;
  std::mt19937_64 random_{20240501};
  int64_t made_ = 0;
  Times without_, granted_, refused_;
};

}  // namespace
}  // namespace egpu::scheduler

int main() {
  egpu::scheduler::Crowd().run();
  return 0;
}

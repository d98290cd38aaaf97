#include "controller/scheduler/topology/pair_scores.h"

#include <algorithm>
#include <utility>

namespace egpu::scheduler::topology {
namespace {

constexpr int64_t kPerLink = 100;
constexpr int64_t kSameCpu = 20;
constexpr int64_t kAcrossCpus = 10;
/// More than any card has. Keeps every sum over 64 cards within 32 bits.
constexpr int64_t kMaxLinks = 1024;

constexpr std::pair<std::string_view, int64_t> kPaths[] = {
    {"system", kAcrossCpus}, {"cpu", kSameCpu}, {"hostbridge", 30}, {"multiple", 40}, {"single", 50}, {"board", 60}};

/// Links to another card as reported by one card.
struct LinkSummary {
  int64_t path = 0, nvlinks = 0, switchLinks = 0;
};

LinkSummary linksTo(const Site& card, const Site& of) {
  LinkSummary summary;
  for (const v1alpha::CardLink& link : card.topology->links) {
    if (link.peer != of.uuid) continue;
    const int64_t count = std::clamp<int64_t>(link.count, 0, kMaxLinks);
    if (link.type == "nvlink") summary.nvlinks = std::min(summary.nvlinks + count, kMaxLinks);
    if (link.type == "nvswitch") summary.switchLinks = std::min(summary.switchLinks + count, kMaxLinks);
    for (const auto& [type, score] : kPaths)
      if (link.type == type) summary.path = std::max(summary.path, score);
  }
  return summary;
}

LinkSummary agreed(const Site& a, const Site& b) {
  const LinkSummary x = linksTo(a, b), y = linksTo(b, a);
  return {std::min(x.path, y.path), std::min(x.nvlinks, y.nvlinks), std::min(x.switchLinks, y.switchLinks)};
}

int32_t scoreOf(const Site& a, const Site& b) {
  const LinkSummary links = agreed(a, b);
  int64_t path = links.path;
  if (path == 0 && a.topology->numa >= 0 && b.topology->numa >= 0)
    path = a.topology->numa == b.topology->numa ? kSameCpu : kAcrossCpus;
  return static_cast<int32_t>(path + kPerLink * (links.nvlinks + links.switchLinks));
}

}  // namespace

bool PairScores::flat() const {
  for (std::size_t a = 0; a < cards_; ++a)
    for (std::size_t b = a + 1; b < cards_; ++b)
      if (at(a, b) != at(0, 1)) return false;
  return true;
}

PairScores pairScores(std::span<const Site> cards) {
  PairScores scores(cards.size());
  for (std::size_t a = 0; a < cards.size(); ++a)
    for (std::size_t b = a + 1; b < cards.size(); ++b) scores.set(a, b, scoreOf(cards[a], cards[b]));
  return scores;
}

int64_t nvlinks(const Site& a, const Site& b) { return agreed(a, b).nvlinks; }
int64_t switchLinks(const Site& a, const Site& b) { return agreed(a, b).switchLinks; }

}  // namespace egpu::scheduler::topology

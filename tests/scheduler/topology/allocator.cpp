#include "tests/scheduler/topology/allocator.h"

#include <algorithm>
#include <optional>

namespace egpu::scheduler::topology {
namespace {

std::vector<Site> sitesOf(const std::vector<v1alpha::Card>& cards) {
  std::vector<Site> sites;
  for (std::size_t i = 0; i < std::min(cards.size(), kMaxCards); ++i) sites.push_back(Site::of(cards[i]));
  return sites;
}

/// Returns nullopt if a card is not below `cards` or occurs twice.
std::optional<Set> setOf(const Allocator::Cards& numbers, std::size_t cards) {
  Set set = 0;
  for (const uint32_t number : numbers) {
    if (number >= cards || (set & only(number)) != 0) return std::nullopt;
    set |= only(number);
  }
  return set;
}

Allocator::Cards cardsOf(Set set) {
  Allocator::Cards cards;
  for (; set != 0; set &= set - 1) cards.push_back(static_cast<uint32_t>(lowestCard(set)));
  return cards;
}

}  // namespace

Allocator::Allocator(const std::vector<v1alpha::Card>& cards, Method method)
    : method_(method),
      cards_(std::min(cards.size(), kMaxCards)),
      wiring_(pairScores(sitesOf(cards))),
      machine_(recogniseMachine(sitesOf(cards))),
      free_(firstOf(cards_)) {}

Set Allocator::choose(const CardSetRequest& wish) const {
  switch (method_) {
    case Method::simple:
      return lowestCards(wish);
    case Method::bestEffort:
      return wiring_.choose(wish).cards;
    case Method::fixedSets:
      return firstFixedSet(machine_, wish);
  }
  return 0;
}

Allocator::Cards Allocator::choose(const Cards& available, const Cards& required, uint32_t size) const {
  const std::optional<Set> from = setOf(available, cards_), with = setOf(required, cards_);
  if (!from || !with) return {};
  return cardsOf(choose({*from, size, *with, 0}));
}

Allocator::Cards Allocator::allocate(uint32_t size) {
  const Set set = choose({free_, size, 0, 0});
  free_ &= ~set;
  return cardsOf(set);
}

bool Allocator::allocateSpecific(const Cards& cards) {
  const std::optional<Set> set = setOf(cards, cards_);
  if (!set || (*set & ~free_) != 0) return false;
  free_ &= ~*set;
  return true;
}

bool Allocator::free(const Cards& cards) {
  const std::optional<Set> set = setOf(cards, cards_);
  if (!set || (*set & free_) != 0) return false;
  free_ |= *set;
  return true;
}

Allocator::Cards Allocator::freeCards() const { return cardsOf(free_); }

}  // namespace egpu::scheduler::topology

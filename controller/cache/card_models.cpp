#include "controller/cache/card_models.h"

#include <algorithm>
#include <utility>

namespace egpu::cache {
namespace {

constexpr std::size_t kMaxNamed = 8;

/// "A100, H100 and T4"; names after kMaxNamed are only counted.
std::string listText(const std::vector<std::string>& names, const std::string& last) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    const bool ends = i + 1 == std::min(names.size(), kMaxNamed);
    text += (i == 0 ? "" : ends && names.size() <= kMaxNamed ? " " + last + " " : ", ") + names[i];
  }
  return names.size() <= kMaxNamed ? text : text + " and " + std::to_string(names.size() - kMaxNamed) + " others";
}

}  // namespace

CardModels::CardModels(Store<v1alpha::ElasticGPU>& cards) {
  cards.listen([this](const v1alpha::ElasticGPU* before, const v1alpha::ElasticGPU* after) {
    if (before && after && before->spec.card->model == after->spec.card->model) return;
    bool changed = false;
    {
      // Events of several threads may arrive in any order; the sum does not depend on it.
      const base::MutexLock lock(mutex_);
      for (const auto& [card, sign] : {std::pair(before, -1), std::pair(after, 1)}) {
        if (card == nullptr) continue;
        const auto known = cardsOf_.try_emplace(card->spec.card->model, 0).first;
        const bool was = known->second > 0;
        known->second += sign;
        changed = changed || was != (known->second > 0);
        if (known->second == 0) cardsOf_.erase(known);
      }
    }
    if (!changed) return;
    for (const auto& listener : listeners_) listener();
  });
}

bool CardModels::anyOf(const std::vector<std::string>& models) const {
  const base::MutexLock lock(mutex_);
  return models.empty() || std::any_of(models.begin(), models.end(), [this](const auto& model) EGPU_REQUIRES(mutex_) {
           const auto known = cardsOf_.find(model);
           return known != cardsOf_.end() && known->second > 0;
         });
}

std::string CardModels::missingText(const std::vector<std::string>& models) const {
  if (anyOf(models)) return {};
  std::vector<std::string> present;
  {
    const base::MutexLock lock(mutex_);
    for (const auto& [model, cards] : cardsOf_)
      if (cards > 0) present.push_back(model.empty() ? "cards without a model" : model);
  }
  return "no card is of model " + listText(models, "or") + "; the cluster has " +
         (present.empty() ? std::string("no cards") : listText(present, "and"));
}

}  // namespace egpu::cache

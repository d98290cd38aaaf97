// Models of the cards that exist, so that a class or quota for another model can name them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/cache/store.h"

namespace egpu::cache {

/// Thread-safe.
class CardModels {
 public:
  explicit CardModels(Store<v1alpha::ElasticGPU>& cards);  ///< listens to it
  CardModels(const CardModels&) = delete;
  CardModels& operator=(const CardModels&) = delete;

  /// Called when a model gets its first card or loses its last one, on the thread that changes the card. Register it
  /// before the reflectors start.
  void listen(std::function<void()> changed) { listeners_.push_back(std::move(changed)); }
  /// Whether some card is of one of the models; of none named, true.
  bool anyOf(const std::vector<std::string>& models) const;
  /// For people: "no card is of model H100 or H200; the cluster has A100 and T4"; empty if some card is.
  std::string missingText(const std::vector<std::string>& models) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> cardsOf_;  ///< by model, not 0; guarded by mutex_
  std::vector<std::function<void()>> listeners_;
};

}  // namespace egpu::cache

// Models of the existing cards, so that a class or quota for a model that does not exist can list those that do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/mutex.h"
#include "controller/cache/store.h"

namespace egpu::cache {

/// Thread-safe.
class CardModels {
 public:
  explicit CardModels(Store<v1alpha::ElasticGPU>& cards);  ///< registers itself with the store
  CardModels(const CardModels&) = delete;
  CardModels& operator=(const CardModels&) = delete;

  /// Registers a listener that is called when a model gets its first card or loses its last one, on the thread that
  /// changes the card. Register it before the reflectors start.
  void listen(std::function<void()> changed) { listeners_.push_back(std::move(changed)); }
  /// True if a card of one of the models exists, or if `models` is empty.
  bool anyOf(const std::vector<std::string>& models) const;
  /// Message: "no card is of model H100 or H200; the cluster has A100 and T4"; empty if a card of the models exists.
  std::string missingText(const std::vector<std::string>& models) const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, int64_t> cardsOf_ EGPU_GUARDED_BY(mutex_);  ///< by model, never 0
  std::vector<std::function<void()>> listeners_;
};

}  // namespace egpu::cache

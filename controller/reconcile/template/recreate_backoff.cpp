#include "controller/reconcile/template/recreate_backoff.h"

#include <algorithm>

namespace egpu::reconcile {

using std::chrono::milliseconds;

milliseconds TemplateRecreateBackoff::wait(const core::ObjectKey& key) {
  const std::lock_guard lock(mutex_);
  const auto now = clock_.now();
  auto& times = known_[key];
  if (now < times.next) return std::chrono::ceil<milliseconds>(times.next - now);
  times.pause = std::clamp(times.pause * 2, kFirst, kMaxBackoff);
  times.next = now + times.pause;
  return milliseconds(0);
}

void TemplateRecreateBackoff::over(const core::ObjectKey& key) {
  const std::lock_guard lock(mutex_);
  known_.erase(key);
}

std::size_t TemplateRecreateBackoff::remembered() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

}  // namespace egpu::reconcile

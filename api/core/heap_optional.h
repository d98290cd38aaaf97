// An optional part that most objects of a kind do not have. Standard library only.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace egpu::core {

/// Like std::optional, but an absent part takes the space of one pointer instead of a T. Copies and comparisons include
/// the part. Access to an absent part is undefined, as with std::optional. Not thread-safe.
template <class T>
class HeapOptional {
 public:
  HeapOptional() = default;
  HeapOptional(std::nullopt_t) {}
  HeapOptional(T value) : part_(std::make_unique<T>(std::move(value))) {}
  HeapOptional(std::optional<T> value) {
    if (value) emplace(*std::move(value));
  }
  HeapOptional(const HeapOptional& other) : part_(other ? std::make_unique<T>(*other) : nullptr) {}
  HeapOptional(HeapOptional&&) noexcept = default;
  HeapOptional& operator=(HeapOptional other) noexcept {
    part_ = std::move(other.part_);
    return *this;
  }
  ~HeapOptional() = default;

  bool has_value() const { return part_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  T& operator*() { return *part_; }
  const T& operator*() const { return *part_; }
  T* operator->() { return part_.get(); }
  const T* operator->() const { return part_.get(); }

  template <class... Of>
  T& emplace(Of&&... of) {
    part_ = std::make_unique<T>(std::forward<Of>(of)...);
    return *part_;
  }
  void reset() { part_.reset(); }

  friend bool operator==(const HeapOptional& a, const HeapOptional& b) { return a && b ? *a == *b : !a && !b; }

 private:
  std::unique_ptr<T> part_;
};

}  // namespace egpu::core

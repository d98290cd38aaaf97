// A map for few entries, sorted by name. Standard library only.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace egpu::core {

/// Like std::map, but stored in one contiguous array, for labels, amounts and ledgers with few entries. Insertion and
/// removal take linear time and invalidate all iterators and references. Keys must not be changed through an iterator.
/// Not thread-safe.
template <class T>
class SortedMap {
 public:
  using key_type = std::string;
  using mapped_type = T;
  using value_type = std::pair<std::string, T>;
  using iterator = typename std::vector<value_type>::iterator;
  using const_iterator = typename std::vector<value_type>::const_iterator;

  SortedMap() = default;
  SortedMap(std::initializer_list<value_type> entries) : SortedMap(entries.begin(), entries.end()) {}
  /// If a key occurs more than once, the first entry is kept.
  template <class Of>
  SortedMap(Of first, Of last) {
    insert(first, last);
  }

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }

  iterator lower_bound(std::string_view key) { return lowerBound(entries_, key); }
  const_iterator lower_bound(std::string_view key) const { return lowerBound(entries_, key); }
  iterator find(std::string_view key) { return find(entries_, key); }
  const_iterator find(std::string_view key) const { return find(entries_, key); }
  bool contains(std::string_view key) const { return find(key) != end(); }
  std::size_t count(std::string_view key) const { return contains(key) ? 1 : 0; }
  /// Throws std::out_of_range if the key is absent.
  const T& at(std::string_view key) const { return at(*this, key); }
  T& at(std::string_view key) { return at(*this, key); }

  /// Inserts a default value if the key is absent.
  T& operator[](std::string_view key) { return try_emplace(key).first->second; }
  /// Does nothing if the key exists.
  template <class... Of>
  std::pair<iterator, bool> try_emplace(std::string_view key, Of&&... of) {
    const auto place = lower_bound(key);
    if (place != end() && place->first == key) return {place, false};
    return {entries_.emplace(place, std::string(key), T{std::forward<Of>(of)...}), true};
  }
  template <class Value>
  std::pair<iterator, bool> emplace(std::string_view key, Value&& value) {
    return try_emplace(key, std::forward<Value>(value));
  }
  std::pair<iterator, bool> insert(value_type entry) { return try_emplace(entry.first, std::move(entry.second)); }
  template <class Of>
  void insert(Of first, Of last) {
    for (; first != last; ++first) try_emplace(first->first, first->second);
  }
  template <class Value>
  void insert_or_assign(std::string_view key, Value&& value) {
    (*this)[key] = std::forward<Value>(value);
  }

  iterator erase(const_iterator entry) { return entries_.erase(entry); }
  /// Returns the number of erased entries: 0 or 1.
  std::size_t erase(std::string_view key) {
    const auto place = find(key);
    if (place == end()) return 0;
    entries_.erase(place);
    return 1;
  }
  template <class Which>
  friend std::size_t erase_if(SortedMap& map, Which which) {
    return std::erase_if(map.entries_, which);
  }

  bool operator==(const SortedMap&) const = default;
  auto operator<=>(const SortedMap&) const = default;

 private:
  static auto lowerBound(auto& entries, std::string_view key) {
    return std::lower_bound(entries.begin(), entries.end(), key,
                            [](const value_type& entry, std::string_view wanted) { return entry.first < wanted; });
  }
  static auto find(auto& entries, std::string_view key) {
    const auto place = lowerBound(entries, key);
    return place != entries.end() && place->first == key ? place : entries.end();
  }
  static auto& at(auto& map, std::string_view key) {
    const auto place = map.find(key);
    if (place == map.end()) throw std::out_of_range("no entry " + std::string(key));
    return place->second;
  }

  std::vector<value_type> entries_;
};

}  // namespace egpu::core

// The packed objects of one store, by number and by key.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "controller/cache/postings.h"
#include "controller/cache/vocabulary.h"

namespace egpu::cache {

/// Not thread-safe: its store's lock protects it.
class Records {
 public:
  /// Of the object of that key; a number is used again once its object is gone.
  std::optional<uint32_t> find(std::string_view namespace_, std::string_view name) const;
  /// The packed object of a number below end(); empty if there is none.
  std::string_view at(uint32_t number) const;
  uint32_t end() const { return static_cast<uint32_t>(blocks_.size()); }
  std::size_t size() const { return blocks_.size() - free_.size(); }

  /// An object whose key isn't there yet.
  uint32_t add(std::string_view namespace_, std::string_view name, std::string_view packed);
  /// Another state of the object, with the same key.
  void replace(uint32_t number, std::string_view packed);
  void remove(uint32_t number, std::string_view namespace_, std::string_view name);

  /// What all of them are packed with.
  Vocabulary& words() { return words_; }
  const Vocabulary& words() const { return words_; }

 private:
  Vocabulary words_;
  std::deque<std::unique_ptr<char[]>> blocks_;  ///< by number: four bytes of size, then the packed object
  std::vector<uint32_t> free_;                  ///< numbers without an object
  Postings keys_;
};

}  // namespace egpu::cache

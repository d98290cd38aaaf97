// Objects as they rest in a store: one text per object instead of dozens, so that 100,000 claims fit. Exact both ways
// for every field of the structs but kubectl's copy of what was applied, which nothing here reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/cache/vocabulary.h"

namespace egpu::cache {

/// Puts the packed object into `out`. Defined for every kind that a Store holds. The text means something only to who
/// has the vocabulary, and outlives neither it nor this process.
template <class T>
void pack(const T& object, Vocabulary& words, std::string& out);
/// The inverse of pack(). Every field of `out` is set, whatever was in it before, and its memory is used again.
template <class T>
void unpack(std::string_view packed, const Vocabulary& words, T& out);

// Of a packed object without unpacking it.
bool packedNamed(std::string_view packed, const Vocabulary& words, std::string_view namespace_, std::string_view name);
bool packedHasUid(std::string_view packed, const Vocabulary& words, std::string_view uid);
/// Its resourceVersion as a number; 0 if it isn't one.
uint64_t packedVersion(std::string_view packed, const Vocabulary& words);

/// A resourceVersion as a number; 0 for what isn't one.
uint64_t versionOf(std::string_view resourceVersion);

}  // namespace egpu::cache

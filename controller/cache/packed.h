// Objects as they rest in a store: one string per object instead of dozens, so that 100,000 claims fit. Exact both ways
// for every field of the structs but kubectl's copy of what was applied, which nothing here reads.
#pragma once

#include <string>
#include <string_view>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"

namespace egpu::cache {

/// Defined for every kind that a Store holds. The text is private to this process.
template <class T>
std::string pack(const T& object);
/// The inverse of pack(); the text must come from it.
template <class T>
T unpack(std::string_view packed);

/// The uid of a packed object without unpacking it.
std::string_view packedUid(std::string_view packed);

}  // namespace egpu::cache

#include "api/v1alpha/quantity.h"

#include "tests/fuzz/targets.h"

namespace egpu::testing {

using v1alpha::parseQuantity;

void fuzzQuantity(std::string_view bytes) {
  std::string error;
  const auto quantity = parseQuantity(bytes, &error);
  promise(quantity.has_value() == error.empty(), "a refusal says why, an acceptance nothing");
  if (!quantity) return;
  constexpr __int128 max = static_cast<__int128>(INT64_MAX) * 1'000'000'000;
  promise(quantity->nano <= max && quantity->nano >= -max, "values are capped");
  if (const auto whole = quantity->asInteger())
    promise(quantity->ceil() == *whole, "a whole number is its own ceiling");
  promise(static_cast<__int128>(quantity->ceil()) * 1'000'000'000 >= quantity->nano, "a ceiling is not below");

  // The sign negates the value; leading zeros and a plus have no effect.
  const bool isSigned = bytes[0] == '-' || bytes[0] == '+';
  const std::string magnitude(bytes.substr(isSigned ? 1 : 0));
  const auto positive = parseQuantity("+" + magnitude);
  const auto negative = parseQuantity("-" + magnitude);
  const auto padded = parseQuantity("000" + magnitude);
  promise(positive && negative && positive->nano == -negative->nano, "minus mirrors plus");
  promise(padded && padded->nano == positive->nano, "leading zeros count for nothing");
  promise(quantity->nano == (bytes[0] == '-' ? *negative : *positive).nano, "the sign is the first byte's");
  if (const auto whole = quantity->asInteger()) {
    const auto back = parseQuantity(v1alpha::formatBytes(*whole));
    promise(back && back->nano == quantity->nano, "formatBytes is exact");
  }
}

}  // namespace egpu::testing

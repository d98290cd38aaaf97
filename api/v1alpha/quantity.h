// Kubernetes quantities ("4", "1.5Gi", "100m", "1e3"), parsed exactly as by apimachinery's resource.Quantity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace egpu::v1alpha {

/// 1 in the unit of Quantity.
inline constexpr __int128 kNano = 1'000'000'000;

/// Spelling of a quantity; decides the unit of a number without suffix for gpu-memory.
enum class QuantityForm { bareInteger, bareDecimal, suffixed };

/// An exact value in units of 10⁻⁹. Finer quantities are rounded up, as in Kubernetes.
struct Quantity {
  __int128 nano = 0;
  QuantityForm form = QuantityForm::bareInteger;
  /// True if Kubernetes regards the text as a whole number (CEL's isInteger): 10, 1.5k and 1Ki are, 10.0 and 1000m are
  /// not.
  bool writtenWhole = true;

  /// Returns the value if it is a whole number that fits int64, otherwise nullopt.
  std::optional<int64_t> asInteger() const;
  /// Returns the value in thousandths if that is a whole number that fits int64, otherwise nullopt.
  std::optional<int64_t> asMilli() const;
  /// Returns ⌈value⌉, saturated to int64.
  int64_t ceil() const;
  bool exceeds(int64_t max) const { return nano > max * kNano; }
  bool negative() const { return nano < 0; }
};

/// Grammar: <sign>? <digits>[.<digits>] (Ki|Mi|Gi|Ti|Pi|Ei | n|u|m|k|M|G|T|P|E | (e|E)<sign>?<digits>)?. Returns
/// nullopt on a syntax error, and describes it in `error` if given. Values beyond ±(2⁶³−1) are capped: Kubernetes caps
/// binary suffixes in the same way, and lets larger decimals overflow when they are read as integers.
std::optional<Quantity> parseQuantity(std::string_view text, std::string* error = nullptr);

/// Returns the shortest exact form with a binary suffix: "4Gi", "1536Mi", "1000".
std::string formatBytes(int64_t bytes);
/// Returns text for people: formatBytes() if its number has at most four digits, else rounded to one decimal: "15.6Gi".
std::string readableBytes(int64_t bytes);
/// 100 → "10%", 1000 → "100%", 5 → "0.5%".
std::string formatMilliCards(int64_t milli);

/// 20000 → "20", 1500 → "1.5", 125 → "0.125". Parses back to the same value.
std::string formatThousandths(int64_t milli);

}  // namespace egpu::v1alpha

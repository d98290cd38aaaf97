// Kubernetes quantities ("4", "1.5Gi", "100m", "1e3"), parsed exactly as apimachinery's resource.Quantity does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace egpu::v1alpha {

/// 1 in the unit of Quantity.
inline constexpr __int128 kNano = 1'000'000'000;

/// How a quantity was written: decides what a bare number means for gpu-memory.
enum class QuantityForm { bareInteger, bareDecimal, suffixed };

/// value = units · 10⁻⁹, exact; quantities finer than nano are rounded up, as Kubernetes does.
struct Quantity {
  __int128 nano = 0;
  QuantityForm form = QuantityForm::bareInteger;
  /// Written as a whole number in Kubernetes' sense (CEL's isInteger): 10, 1.5k and 1Ki are, 10.0 and 1000m are not.
  bool writtenWhole = true;

  /// The value if it is a whole number that fits int64, else nothing.
  std::optional<int64_t> asInteger() const;
  /// The value in thousandths if that is a whole number that fits int64, else nothing.
  std::optional<int64_t> asMilli() const;
  /// ⌈value⌉ saturated to int64.
  int64_t ceil() const;
  bool exceeds(int64_t most) const { return nano > most * kNano; }
  bool negative() const { return nano < 0; }
};

/// Grammar: <sign>? <digits>[.<digits>] (Ki|Mi|Gi|Ti|Pi|Ei | n|u|m|k|M|G|T|P|E | (e|E)<sign>?<digits>)?.
/// Nothing on a syntax error (error, if given, says which part). Values beyond ±(2⁶³−1) are capped there: Kubernetes
/// caps binary suffixes so and leaves larger decimals to overflow when they are read as integers.
std::optional<Quantity> parseQuantity(std::string_view text, std::string* error = nullptr);

/// "4Gi", "1536Mi", "1000": the shortest binary-suffix form that is exact.
std::string formatBytes(int64_t bytes);
/// For people: as formatBytes while that has at most four digits, else rounded to one place: "15.6Gi".
std::string readableBytes(int64_t bytes);
/// 100 → "10%", 1000 → "100%", 5 → "0.5%".
std::string formatMilliCards(int64_t milli);

/// 20000 → "20", 1500 → "1.5", 125 → "0.125". Parses back exactly.
std::string formatThousandths(int64_t milli);

}  // namespace egpu::v1alpha

// Bills of card time. The rows of a bill add up to the time of its cards exactly: all sums are integers.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::billing {

/// Card time in parts of a card-millisecond. 128 bits hold more than a million cards for a million years.
using CardParts = __int128;
inline constexpr int64_t kParts = 1'000'000'000;  ///< parts of a card-millisecond

enum class CardTimeKind {
  claim,      ///< a claim has it
  unnamed,    ///< the journal does not name the claim
  retained,   ///< a device without a claim has it
  idle,       ///< free, and offered to claims
  unhealthy,  ///< free, but the card or its node is not offered: unhealthy, tainted, cordoned or not ready
  unknown,    ///< records are missing
};
/// "claim", "idle", … as in output.
std::string_view nameOf(CardTimeKind kind);
/// Reads such a name; nullopt if it is unknown.
std::optional<CardTimeKind> kindOf(std::string_view name);

/// Identifies a part of the cards' time. Fields that do not apply are empty.
struct CardTimeKey {
  CardTimeKind kind = CardTimeKind::idle;
  std::string space, className, claim;  ///< kind claim only; retained has the class
  std::string pod;                      ///< name of a pod in the namespace of the claim; empty: no pod had a node
  std::string node, model;
  auto operator<=>(const CardTimeKey&) const = default;
  /// Returns the member of a field. name: one of BillFields::names().
  static std::string CardTimeKey::*fieldOf(std::string_view name);
};

struct CardTime {
  CardParts granted = 0;
  CardParts used = 0;          ///< compute time of the claim, while its usage was known
  bool measured = false;       ///< the usage was known for a part of the time
  int64_t begin = 0, end = 0;  ///< first and last moment, milliseconds since 1970
  void add(const CardTime& other);
};
using CardTimes = std::map<CardTimeKey, CardTime>;

/// All card time of a window.
struct CardTimeTotal {
  int64_t from = 0, to = 0;      ///< milliseconds since 1970: the part of the window that the journal describes
  int64_t cardMilliseconds = 0;  ///< sum over all cards of the time that they existed; equals the sum of `times`
  int64_t gaps = 0;              ///< number of times that records are missing
  CardTimes times;
};

/// Fields that rows are distinguished by, besides the kind. A claim and a pod imply their namespace.
struct BillFields {
  bool space = false, className = false, claim = false, pod = false, node = false, model = false;
  /// Names of all fields: namespace, class, claim, pod, node, model.
  static const std::vector<std::string>& names();
  /// Reads names; nullopt if one of them is unknown.
  static std::optional<BillFields> of(const std::vector<std::string>& names);
};

/// Prices of a card for an hour, in any currency.
struct CardPrices {
  std::optional<double> usual;
  std::map<std::string, double> byModel;
  /// Reads PRICE or MODEL=PRICE. False if a price is not a number from 0 on.
  bool add(const std::string& text);
  bool empty() const { return !usual && byModel.empty(); }
  /// Price of a card of this model; nullopt if there is none.
  std::optional<double> of(const std::string& model) const;
};

struct BillRow {
  CardTimeKey key;
  int64_t cardMilliseconds = 0;
  std::optional<int64_t> usedMilliseconds;  ///< nullopt: the usage was never known
  double cost = 0;                          ///< by the prices; 0 without prices
  int64_t begin = 0, end = 0;               ///< first and last moment, milliseconds since 1970
};

/// Returns a row for each combination of the fields, sorted. Each row is rounded up or down to a card-millisecond so
/// that the sum is that of `times` (largest remainder). Times of models without a price cost nothing.
std::vector<BillRow> billRows(const CardTimes& times, const BillFields& fields, const CardPrices& prices);

/// Answer to a question for a bill: everything that is printed.
struct Bill {
  int64_t from = 0, to = 0;                 ///< as in CardTimeTotal
  std::optional<int64_t> cardMilliseconds;  ///< sum over all cards; nullopt: hidden from a tenant
  int64_t gaps = 0;                         ///< number of times that records are missing
  std::vector<std::string> columns;         ///< names of the fields of the rows, in the order of BillFields::names()
  std::vector<BillRow> rows;
  bool hasCost = false;
  std::vector<std::string> warnings;  ///< missing parts of the journal, for people
};

/// "12.345": card-seconds, exactly.
std::string secondsText(int64_t milliseconds);

}  // namespace egpu::billing

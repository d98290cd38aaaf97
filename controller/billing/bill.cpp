#include "controller/billing/bill.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace egpu::billing {

namespace {

constexpr double kMillisecondsPerHour = 3'600'000;
constexpr std::array<std::string_view, 6> kKindNames = {"claim", "unnamed", "retained", "idle", "unhealthy", "unknown"};

CardTimeKey reduced(const CardTimeKey& key, const BillFields& fields) {
  CardTimeKey out;
  out.kind = key.kind;
  if (fields.space || fields.claim || fields.pod) out.space = key.space;
  if (fields.className) out.className = key.className;
  if (fields.claim) out.claim = key.claim;
  if (fields.pod) out.pod = key.pod;
  if (fields.node) out.node = key.node;
  if (fields.model) out.model = key.model;
  return out;
}

/// Gives each row its whole card-milliseconds, and the rest of the sum to those that lost most by rounding down.
void roundExactly(std::vector<BillRow>& rows, const std::vector<CardParts>& parts) {
  CardParts sum = 0;
  int64_t given = 0;
  std::vector<std::pair<CardParts, std::size_t>> lost;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sum += parts[i];
    rows[i].cardMilliseconds = static_cast<int64_t>(parts[i] / kParts);
    given += rows[i].cardMilliseconds;
    lost.emplace_back(-(parts[i] % kParts), i);
  }
  std::sort(lost.begin(), lost.end());
  const auto missing = static_cast<std::size_t>(static_cast<int64_t>(sum / kParts) - given);
  for (std::size_t i = 0; i < missing; ++i) ++rows[lost[i].second].cardMilliseconds;
}

}  // namespace

std::string_view nameOf(CardTimeKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::optional<CardTimeKind> kindOf(std::string_view name) {
  const auto* const found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<CardTimeKind>(found - kKindNames.begin());
}

std::string CardTimeKey::*CardTimeKey::fieldOf(std::string_view name) {
  static const std::array<std::string CardTimeKey::*, 6> kFields = {&CardTimeKey::space, &CardTimeKey::className,
                                                                    &CardTimeKey::claim, &CardTimeKey::pod,
                                                                    &CardTimeKey::node,  &CardTimeKey::model};
  const auto& names = BillFields::names();
  return kFields[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
}

void CardTime::add(const CardTime& other) {
  begin = granted == 0 ? other.begin : std::min(begin, other.begin);
  end = std::max(end, other.end);
  granted += other.granted;
  used += other.used;
  measured = measured || other.measured;
}

const std::vector<std::string>& BillFields::names() {
  static const std::vector<std::string> kNames = {"namespace", "class", "claim", "pod", "node", "model"};
  return kNames;
}

std::optional<BillFields> BillFields::of(const std::vector<std::string>& names) {
  BillFields out;
  const std::array<bool*, 6> fields = {&out.space, &out.className, &out.claim, &out.pod, &out.node, &out.model};
  for (const auto& name : names) {
    const auto known = std::find(BillFields::names().begin(), BillFields::names().end(), name);
    if (known == BillFields::names().end()) return std::nullopt;
    *fields[static_cast<std::size_t>(known - BillFields::names().begin())] = true;
  }
  out.space = out.space || out.claim || out.pod;
  return out;
}

bool CardPrices::add(const std::string& text) {
  const auto equals = text.rfind('=');
  const auto number = equals == std::string::npos ? text : text.substr(equals + 1);
  double price = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), price);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(price) || price < 0) return false;
  if (equals == std::string::npos)
    usual = price;
  else
    byModel[text.substr(0, equals)] = price;
  return equals != 0;
}

std::optional<double> CardPrices::of(const std::string& model) const {
  const auto known = byModel.find(model);
  return known == byModel.end() ? usual : known->second;
}

std::vector<BillRow> billRows(const CardTimes& times, const BillFields& fields, const CardPrices& prices) {
  struct PricedTime {
    CardTime time;
    double cost = 0;
  };
  std::map<CardTimeKey, PricedTime> sums;
  for (const auto& [key, time] : times) {
    auto& sum = sums[reduced(key, fields)];
    sum.time.add(time);
    sum.cost += prices.of(key.model).value_or(0) * (static_cast<double>(time.granted) / kParts) / kMillisecondsPerHour;
  }
  std::vector<BillRow> rows;
  std::vector<CardParts> parts;
  for (const auto& [key, sum] : sums) {
    auto& row = rows.emplace_back();
    row.key = key;
    if (sum.time.measured) row.usedMilliseconds = static_cast<int64_t>(sum.time.used / kParts);
    row.cost = sum.cost;
    row.begin = sum.time.begin;
    row.end = sum.time.end;
    parts.push_back(sum.time.granted);
  }
  roundExactly(rows, parts);
  return rows;
}

std::string secondsText(int64_t milliseconds) {
  constexpr int64_t kPerSecond = 1000;
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(milliseconds / kPerSecond),
                static_cast<long long>(milliseconds % kPerSecond));
  return text;
}

}  // namespace egpu::billing

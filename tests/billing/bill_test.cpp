#include "controller/billing/bill.h"

#include <gtest/gtest.h>

namespace egpu::billing {
namespace {

CardTimeKey keyOf(const std::string& claim, const std::string& pod, const std::string& model = "A") {
  CardTimeKey key;
  key.kind = CardTimeKind::claim;
  key.space = "ns";
  key.claim = claim;
  key.pod = pod;
  key.model = model;
  return key;
}

CardTime timeOf(CardParts parts) { return {parts, 0, false, 0, 10}; }

TEST(Bill, RowsAreRoundedSoThatTheirSumIsExact) {
  CardTimes times;
  const auto third = CardParts{1000} * kParts / 3;
  times[keyOf("a", "p")] = timeOf(third);
  times[keyOf("b", "p")] = timeOf(third);
  times[keyOf("c", "p")] = timeOf(CardParts{1000} * kParts - 2 * third);
  const auto rows = billRows(times, *BillFields::of({"claim"}), {});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].cardMilliseconds + rows[1].cardMilliseconds + rows[2].cardMilliseconds, 1000);
  for (const auto& row : rows) EXPECT_NEAR(static_cast<double>(row.cardMilliseconds), 333.5, 0.5);
  const auto together = billRows(times, *BillFields::of({"namespace"}), {});
  ASSERT_EQ(together.size(), 1u);
  EXPECT_EQ(together[0].cardMilliseconds, 1000);
  EXPECT_EQ(together[0].key.claim, "");
}

TEST(Bill, AFieldThatIsNotAskedForMergesRows) {
  CardTimes times;
  times[keyOf("a", "p")] = timeOf(kParts);
  times[keyOf("a", "q")] = timeOf(kParts);
  EXPECT_EQ(billRows(times, *BillFields::of({"claim"}), {}).size(), 1u);
  const auto rows = billRows(times, *BillFields::of({"pod"}), {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].key.space, "ns") << "a pod has a namespace";
  EXPECT_EQ(rows[0].key.claim, "");
  EXPECT_FALSE(BillFields::of({"pods"}));
}

TEST(Bill, PricesAreOfACardForAnHour) {
  CardPrices prices;
  EXPECT_TRUE(prices.add("2"));
  EXPECT_TRUE(prices.add("A=B=3.5"));
  for (const auto* bad : {"", "x", "-1", "1x", "nan", "inf", "=1", "A=", "1e999"}) EXPECT_FALSE(prices.add(bad)) << bad;
  CardTimes times;
  const auto hour = CardParts{3'600'000} * kParts;
  times[keyOf("a", "p")] = timeOf(hour / 2);
  times[keyOf("a", "p", "A=B")] = timeOf(hour);
  const auto rows = billRows(times, *BillFields::of({"claim"}), prices);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].cost, 1 + 3.5);
}

TEST(Bill, SecondsHaveThreeDigits) {
  EXPECT_EQ(secondsText(0), "0.000");
  EXPECT_EQ(secondsText(12'345), "12.345");
  EXPECT_EQ(secondsText(1'000'000'000'007), "1000000000.007");
}

}  // namespace
}  // namespace egpu::billing

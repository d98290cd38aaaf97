#include "controller/billing/bill_question.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/billing/bill_text.h"

namespace egpu::billing {
namespace {

TEST(BillQuestion, FieldsAreReadByTheirNames) {
  BillQuestion question;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"from", "2026-01-01"},
                                                                                    {"to", "2026-01-01T00:00:01.5Z"},
                                                                                    {"by", "claim,node"},
                                                                                    {"by", "model"},
                                                                                    {"price", "2"},
                                                                                    {"price", "T4=1"},
                                                                                    {"namespace", "team"},
                                                                                    {"cluster", "east"},
                                                                                    {"format", "csv"},
                                                                                    {"headers", "false"}})
    EXPECT_TRUE(setField(question, name, value).ok()) << name;
  EXPECT_EQ(question.window.to - question.window.from, 1500);
  EXPECT_EQ(question.by, (std::vector<std::string>{"claim", "node", "model"}));
  EXPECT_EQ(question.prices.of("T4"), 1);
  EXPECT_EQ(question.space + question.cluster + question.format, "teameastcsv");
  EXPECT_FALSE(question.headers);
  EXPECT_TRUE(check(question).ok());
}

TEST(BillQuestion, MessagesHaveThePrefixOfTheField) {
  BillQuestion question;
  EXPECT_EQ(setField(question, "price", "x", "--").message(),
            "--price: \"x\" is not a price; valid are a number from 0 on, and MODEL=NUMBER");
  EXPECT_EQ(setField(question, "by", "claim,", "--").code(), base::Code::invalid);
  question.window = {5, 5};
  EXPECT_EQ(check(question, "--").message(), "--to: must be after --from");
}

TEST(BillText, NamesAndStatesAreQuotedAndReadBack) {
  Bill bill;
  bill.columns = {"claim"};
  auto& row = bill.rows.emplace_back();
  row.key.kind = CardTimeKind::unhealthy;
  row.key.claim = "a,\"b\"";
  row.cardMilliseconds = 1500;
  EXPECT_EQ(csvText(bill, false),
            "1970-01-01T00:00:00.000000Z,1970-01-01T00:00:00.000000Z,unhealthy,\"a,\"\"b\"\"\",1.500,\n");
  EXPECT_EQ(kindOf("unhealthy"), CardTimeKind::unhealthy);
  EXPECT_FALSE(kindOf("free"));
  for (const auto& name : BillFields::names()) {
    CardTimeKey key;
    key.*CardTimeKey::fieldOf(name) = "x";
    EXPECT_NE(key, CardTimeKey()) << name;
  }
}

}  // namespace
}  // namespace egpu::billing

// Tests the reader of the table: if it merged or typed wrongly, the tests that use it would prove nothing.
#include "tests/crd/case_table.h"

#include <gtest/gtest.h>

#include <map>

namespace egpu::testing {
namespace {

std::map<std::string, Case> byName() {
  std::map<std::string, Case> cases;
  for (auto& each : readCases()) cases.emplace(each.name, each);
  return cases;
}

TEST(CaseTable, ReadsEveryCase) {
  const auto cases = readCases();
  EXPECT_GE(cases.size(), 200u);
  EXPECT_EQ(byName().size(), cases.size());
  for (const auto& each : cases) {
    EXPECT_EQ(each.before.empty(), each.operation == "create") << each.name;
    EXPECT_TRUE(each.accept || each.before != each.after) << each.name;
    EXPECT_EQ(each.accept, each.field.empty()) << each.name;
    EXPECT_NE(each.after.find("\"kind\":\"" + each.kind + "\""), std::string::npos) << each.name;
  }
}

TEST(CaseTable, MergesAndRemoves) {
  const auto cases = byName();
  const auto& goes = cases.at("claim class goes");
  EXPECT_NE(goes.before.find("egpuClassName"), std::string::npos);
  EXPECT_EQ(goes.after.find("egpuClassName"), std::string::npos);
  EXPECT_NE(goes.after.find("gpu-core"), std::string::npos);

  const auto& grown = cases.at("over-full card grows an entry");
  EXPECT_NE(grown.before.find("\"core\":500"), std::string::npos);
  EXPECT_NE(grown.before.find("\"uid-1\":{\"device\":\"egpu-1\",\"claim\":\"default/one\",\"core\":400"),
            std::string::npos);
  EXPECT_NE(grown.after.find("\"core\":401"), std::string::npos);
  EXPECT_NE(grown.after.find("uid-2"), std::string::npos);
}

TEST(CaseTable, DistinguishesTextAndNumbers) {
  const auto cases = byName();
  EXPECT_NE(cases.at("memory as text of an integer").after.find("gpu-memory\":\"4\""), std::string::npos);
  EXPECT_NE(cases.at("core 200").after.find("gpu-core\":200"), std::string::npos);
  EXPECT_NE(cases.at("core is a boolean").after.find("gpu-core\":true"), std::string::npos);
  EXPECT_NE(cases.at("memory is a JSON decimal").after.find("gpu-memory\":1.5"), std::string::npos);
  EXPECT_NE(cases.at("memory with a plus sign").after.find("gpu-memory\":\"+4Gi\""), std::string::npos);
  EXPECT_NE(cases.at("memory is empty").after.find("gpu-memory\":\"\""), std::string::npos);
}

TEST(CaseTable, FieldsBelow) {
  EXPECT_TRUE(isAtOrBelow("spec.resources.requests[a.io/gpu]", "spec.resources.requests"));
  EXPECT_TRUE(isAtOrBelow("spec.resources.requests.a.io/gpu", "spec.resources.requests[a.io/gpu]"));
  EXPECT_TRUE(isAtOrBelow("spec.cards[0].core", "spec.cards"));
  EXPECT_FALSE(isAtOrBelow("spec.cards", "spec.card"));
  EXPECT_FALSE(isAtOrBelow("spec", "spec.card"));
}

}  // namespace
}  // namespace egpu::testing

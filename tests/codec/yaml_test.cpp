#include <gtest/gtest.h>

#include "controller/codec/codec.h"

namespace egpu::codec {
namespace {

std::string jsonOf(std::string_view yaml) {
  const auto out = yamlToJson(yaml);
  if (out) return *out;
  EXPECT_EQ(out.status().code(), base::Code::invalid);
  return out.status().message();
}

// Every row matches sigs.k8s.io/yaml, which kubectl uses.
TEST(Yaml, scalars) {
  const std::pair<const char*, const char*> rows[] = {{"1", "1"},
                                                      {"-1", "-1"},
                                                      {"+1", "1"},
                                                      {"0", "0"},
                                                      {"-0", "0"},
                                                      {"0x10", "16"},
                                                      {"0X1F", "31"},
                                                      {"-0x10", "-16"},
                                                      {"0o17", "15"},
                                                      {"010", "8"},
                                                      {"08", "8"},
                                                      {"09.5", "9.5"},
                                                      {"0b11", "3"},
                                                      {"-0b11", "-3"},
                                                      {"1_000", "1000"},
                                                      {"1_", "1"},
                                                      {"_1", "\"_1\""},
                                                      {"1e3", "1000"},
                                                      {"1E+3", "1000"},
                                                      {"1.5e3", "1500"},
                                                      {".5", "0.5"},
                                                      {"5.", "5"},
                                                      {"-.5", "-0.5"},
                                                      {"+.5", "0.5"},
                                                      {".", "\".\""},
                                                      {"+", "\"+\""},
                                                      {"1.0", "1"},
                                                      {"1.10", "1.1"},
                                                      {"-0.0", "-0"},
                                                      {"1e20", "100000000000000000000"},
                                                      {"1e21", "1e+21"},
                                                      {"1e-6", "0.000001"},
                                                      {"1e-7", "1e-7"},
                                                      {"9223372036854775808", "9223372036854775808"},
                                                      {"18446744073709551615", "18446744073709551615"},
                                                      {"18446744073709551616", "18446744073709552000"},
                                                      {"-9223372036854775808", "-9223372036854775808"},
                                                      {"3.14159265358979", "3.14159265358979"},
                                                      {"1e400", "\"1e400\""},
                                                      {"1e", "\"1e\""},
                                                      {"1e3.5", "\"1e3.5\""},
                                                      {"4Gi", "\"4Gi\""},
                                                      {"0x", "\"0x\""},
                                                      {"0b", "\"0b\""},
                                                      {"1,000", "\"1,000\""},
                                                      {"12:30:45", "\"12:30:45\""},
                                                      {"y", "true"},
                                                      {"yes", "true"},
                                                      {"On", "true"},
                                                      {"TRUE", "true"},
                                                      {"tRUE", "\"tRUE\""},
                                                      {"n", "false"},
                                                      {"No", "false"},
                                                      {"off", "false"},
                                                      {"null", "null"},
                                                      {"~", "null"},
                                                      {"", "null"},
                                                      {"Null", "null"},
                                                      {"nULL", "\"nULL\""},
                                                      {"2026-01-01", "\"2026-01-01\""},
                                                      {"2026-01-01T00:00:00Z", "\"2026-01-01T00:00:00Z\""},
                                                      {"\"1\"", "\"1\""},
                                                      {"'yes'", "\"yes\""},
                                                      {"''", "\"\""},
                                                      {"!!str 1", "\"1\""},
                                                      {"!!int \"1\"", "1"},
                                                      {"!!float 1", "1"},
                                                      {"!foo 5", "\"5\""},
                                                      {"=", "\"=\""},
                                                      {"\"\\u00e9\\n\"", "\"é\\n\""}};
  for (const auto& [yaml, want] : rows)
    EXPECT_EQ(jsonOf(std::string("a: ") + yaml + "\n"), std::string("{\"a\":") + want + "}") << yaml;
}

TEST(Yaml, scalarsWithoutAFormInJson) {
  for (const char* bad : {".inf", "-.INF", "+.Inf", ".nan", "!!binary aGk=", "!!int x", "!!bool 1"})
    EXPECT_EQ(jsonOf(std::string("a: ") + bad).substr(0, 22), "YAML: line 1, column 4") << bad;
}

TEST(Yaml, structures) {
  EXPECT_EQ(jsonOf("a:\n- 1\n- b: 2\n  c: [x, {k: z}]\n- - 3\nd: {}\ne: []\n"),
            R"({"a":[1,{"b":2,"c":["x",{"k":"z"}]},[3]],"d":{},"e":[]})");
  EXPECT_EQ(jsonOf("a: |\n  one\n  two\nb: >-\n  one\n  two\nc: plain\n  goes on\n"),
            R"({"a":"one\ntwo\n","b":"one two","c":"plain goes on"})");
  EXPECT_EQ(jsonOf("# only a comment\n"), "null");
  EXPECT_EQ(jsonOf(""), "null");
  EXPECT_EQ(jsonOf("7"), "7");
  EXPECT_EQ(jsonOf(R"({"a": {"b": [1, true, null, "x"]}})"), R"({"a":{"b":[1,true,null,"x"]}})");
  EXPECT_EQ(jsonOf("---\na: 1\n...\n"), R"({"a":1})");
}

TEST(Yaml, keysBecomeTexts) {
  EXPECT_EQ(jsonOf("1: a\ntrue: b\n0x10: c\n1.50: d\n\"x\": e\n? f\n: g\n"),
            R"({"1":"a","true":"b","16":"c","1.5":"d","x":"e","f":"g"})");
  EXPECT_NE(jsonOf("~: a").find("a key must not be null"), std::string::npos);
  EXPECT_NE(jsonOf("? [a]\n: b").find("a key must be a scalar"), std::string::npos);
  EXPECT_NE(jsonOf("? {a: b}\n: b").find("a key must be a scalar"), std::string::npos);
}

TEST(Yaml, duplicateKeysAreRefusedWithTheirLine) {
  EXPECT_EQ(jsonOf("a:\n  b: 1\n  c: 2\n  b: 3\n"), "YAML: line 4, column 3: key \"b\" is duplicated in one mapping");
  EXPECT_NE(jsonOf("1: a\n0x1: b\n").find("is duplicated"), std::string::npos);
  EXPECT_EQ(jsonOf("a: {b: 1}\nc: {b: 1}\n"), R"({"a":{"b":1},"c":{"b":1}})");
}

TEST(Yaml, aliasesAndMergeKeys) {
  EXPECT_EQ(jsonOf("a: &x [1, 2]\nb: *x\n"), R"({"a":[1,2],"b":[1,2]})");
  EXPECT_EQ(jsonOf("a: &k name\n*k : 1\n"), R"({"a":"name","name":1})");
  EXPECT_EQ(jsonOf("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n"), R"({"a":{"p":1,"q":2},"b":{"q":3,"p":1}})");
  EXPECT_EQ(jsonOf("b: {<<: [{p: 1}, {p: 2, r: 4}], q: 3}\n"), R"({"b":{"q":3,"p":1,"r":4}})");
  EXPECT_NE(jsonOf("b: {<<: 7}\n").find("<< takes a mapping"), std::string::npos);
  EXPECT_EQ(jsonOf("\"<<\": 7\n"), R"({"<<":7})");
  EXPECT_NE(jsonOf("a: &x [*x]\n").find("an alias must not be inside"), std::string::npos);
  EXPECT_NE(jsonOf("a: *nowhere\n").find("line 1"), std::string::npos);
}

TEST(Yaml, aBombIsRefused) {
  std::string bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 8; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_EQ(jsonOf(bomb), "YAML: expands to more than 32 MiB");
  std::string merges = "x: &x {";
  for (int i = 0; i < 1000; ++i) merges += "k" + std::to_string(i) + ": 1, ";
  merges += "}\ny: {<<: [*x";
  for (int i = 0; i < 1000; ++i) merges += ", *x";
  EXPECT_NE(jsonOf(merges + "]}\n").find("merge keys take over more than"), std::string::npos);
}

TEST(Yaml, depthIsBounded) {
  EXPECT_EQ(jsonOf(std::string(100, '[') + std::string(100, ']')).size(), 200u);
  EXPECT_NE(jsonOf(std::string(101, '[') + std::string(101, ']')).find("nested deeper than 100"), std::string::npos);
  EXPECT_FALSE(yamlToJson(std::string(100'000, '[')));
  EXPECT_FALSE(yamlToJson(std::string(100'000, '[') + std::string(100'000, ']')));
  std::string chain = "- &a0 [x]\n";
  for (int i = 1; i < 5000; ++i) chain += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  EXPECT_NE(jsonOf(chain).find("nested deeper than 100"), std::string::npos);
}

TEST(Yaml, malformedReportsWhere) {
  EXPECT_EQ(jsonOf("a: 1\nb: [1\n").substr(0, 17), "YAML: line 3, col");
  EXPECT_NE(jsonOf("a: 1\n b: 2\n").find("line 2"), std::string::npos);
  EXPECT_NE(jsonOf("\t- a\n").find("line 1"), std::string::npos);
  EXPECT_EQ(jsonOf("a: \"\xff\""), "YAML: is not UTF-8");
  EXPECT_EQ(jsonOf("a: 1\n---\nb: 2\n"), "YAML: holds more than one document");
}

TEST(YamlDocuments, emptyOnesAreLeftOut) {
  const auto all = yamlDocuments("# seed\n---\na: 1\n---\n---\nnull\n---\n- b\n---\n");
  ASSERT_TRUE(all) << all.status().str();
  EXPECT_EQ(*all, (std::vector<std::string>{R"({"a":1})", R"(["b"])"}));
  EXPECT_EQ(yamlDocuments("")->size(), 0u);
  EXPECT_FALSE(yamlDocuments("a: 1\n---\nb: {\n"));
}

TEST(YamlDocuments, strayTextEnds) {
  for (const char* bad : {"]", "}", "a: 1\n]\n", "--- x\n---\n}", "a: b: c", ": : :\n]"})
    EXPECT_FALSE(yamlDocuments(bad)) << bad;
}

TEST(YamlDocuments, anchorsEndWithTheirDocument) { EXPECT_FALSE(yamlDocuments("a: &x 1\n---\nb: *x\n")); }

}  // namespace
}  // namespace egpu::codec

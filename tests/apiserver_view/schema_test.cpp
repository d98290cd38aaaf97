#include "controller/standalone/apiserver/schema/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<const Schema> compiled(const char* text) {
  auto schema = Schema::compile(Json::parse(text));
  EXPECT_TRUE(schema.ok()) << schema.status().message();
  return schema.ok() ? *schema : nullptr;
}
// Returns "reason field: message" of each error of `value` under spec: {schema}.
std::vector<std::string> errorsOf(const std::string& schema, const std::string& value) {
  auto s = compiled((R"({"type":"object","properties":{"spec":)" + schema + "}}").c_str());
  std::vector<std::string> out;
  for (const auto& e : s->validate(Json::parse(R"({"spec":)" + value + "}")))
    out.push_back(e.reason + " " + e.field + ": " + e.message);
  return out;
}

TEST(Schema, WordsTypeErrorsAsARealServerDoes) {
  EXPECT_THAT(
      errorsOf(R"({"type":"integer"})", R"("x")"),
      ElementsAre(
          R"(FieldValueTypeInvalid spec: Invalid value: "string": spec in body must be of type integer: "string")"));
  EXPECT_THAT(errorsOf(R"({"type":"object","properties":{"a":{"type":"string"}}})", R"({"a":5})"),
              ElementsAre(R"(FieldValueTypeInvalid spec.a: Invalid value: "integer": )"
                          R"(spec.a in body must be of type string: "integer")"));
  EXPECT_THAT(
      errorsOf(R"({"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]})", "true"),
      ElementsAre(R"(FieldValueTypeInvalid spec: Invalid value: "boolean": spec in body must be of type integer,)"
                  R"(string: "boolean")"));
  for (const char* good : {R"("1")", "1", "-1"})
    EXPECT_THAT(errorsOf(R"({"x-kubernetes-int-or-string":true})", good), IsEmpty());
  EXPECT_THAT(errorsOf(R"({"type":"string"})", "null").size(), 1u);
  EXPECT_THAT(errorsOf(R"({"type":"string","nullable":true})", "null"), IsEmpty());
}

TEST(Schema, TakesNumbersAtTheEdges) {
  const char* integer = R"({"type":"integer","minimum":0})";
  EXPECT_THAT(errorsOf(integer, "9223372036854775807"), IsEmpty());
  EXPECT_EQ(errorsOf(integer, "9223372036854775808").size(), 1u);
  EXPECT_EQ(errorsOf(integer, "18446744073709551615").size(), 1u);
  EXPECT_EQ(errorsOf(integer, "1e300").size(), 1u);
  EXPECT_EQ(errorsOf(integer, "1.5").size(), 1u);
  EXPECT_THAT(errorsOf(integer, "1e3"), IsEmpty());
  EXPECT_THAT(
      errorsOf(integer, "-1"),
      ElementsAre("FieldValueInvalid spec: Invalid value: -1: spec in body should be greater than or equal to 0"));
  EXPECT_EQ(errorsOf(R"({"type":"integer","maximum":9007199254740993})", "9007199254740994").size(),
            1u);  // distinct only as integers
  EXPECT_THAT(errorsOf(R"({"type":"integer","maximum":9007199254740993})", "9007199254740993"), IsEmpty());
  EXPECT_EQ(errorsOf(R"({"type":"integer","format":"int32"})", "2147483648").size(), 1u);
  EXPECT_EQ(errorsOf(R"({"type":"number","maximum":1,"exclusiveMaximum":true})", "1").size(), 1u);
}

TEST(Schema, ChecksStrings) {
  EXPECT_THAT(
      errorsOf(R"({"type":"string","enum":["Retain","Delete"]})", R"("Keep")"),
      ElementsAre(R"(FieldValueNotSupported spec: Unsupported value: "Keep": supported values: "Retain", "Delete")"));
  EXPECT_THAT(errorsOf(R"({"type":"string","maxLength":2})", R"("abc")"),
              ElementsAre("FieldValueTooLong spec: Too long: may not be more than 2 bytes"));
  EXPECT_THAT(errorsOf(R"({"type":"string","maxLength":2})", "\"\u00e4\u00e4\""), IsEmpty());  // length in characters
  EXPECT_THAT(
      errorsOf(R"({"type":"string","minLength":1})", R"("")"),
      ElementsAre(R"(FieldValueInvalid spec: Invalid value: "": spec in body should be at least 1 chars long)"));
  EXPECT_THAT(errorsOf(R"({"type":"string","pattern":"^[a-z]+$"})", R"("A")"),
              ElementsAre(R"(FieldValueInvalid spec: Invalid value: "A": spec in body should match '^[a-z]+$')"));
  EXPECT_THAT(errorsOf(R"({"type":"string","pattern":"b"})", R"("abc")"), IsEmpty());  // not anchored
  EXPECT_THAT(errorsOf(R"({"type":"string","format":"date-time"})", R"("2026-02-29T00:00:00Z")").size(), 1u);
  EXPECT_THAT(errorsOf(R"({"type":"string","format":"date-time"})", R"("2024-02-29T00:00:00.123456Z")"), IsEmpty());
}

TEST(Schema, MatchesHostilePatternsInLinearTime) {
  // A backtracking matcher would need 2^30 steps, a recursive one a deep stack.
  const std::string text(100'000, 'a');
  EXPECT_EQ(errorsOf(R"({"type":"string","pattern":"^(a+)+$"})", "\"" + text + "!\"").size(), 1u);
}

TEST(Schema, ChecksSizesAndUniqueness) {
  EXPECT_THAT(errorsOf(R"({"type":"array","maxItems":1,"items":{"type":"integer"}})", "[1,2]"),
              ElementsAre("FieldValueTooMany spec: Too many: 2: must have at most 1 items"));
  EXPECT_EQ(errorsOf(R"({"type":"array","minItems":1})", "[]").size(), 1u);
  EXPECT_EQ(
      errorsOf(R"({"type":"object","maxProperties":1,"additionalProperties":{"type":"string"}})", R"({"a":"","b":""})")
          .size(),
      1u);
  EXPECT_EQ(errorsOf(R"({"type":"object","minProperties":1})", "{}").size(), 1u);
  const char* set = R"({"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}})";
  EXPECT_THAT(errorsOf(set, R"(["a","b","a"])"), ElementsAre(R"(FieldValueDuplicate spec[2]: Duplicate value: "a")"));
  const char* map = R"({"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{)"
                    R"("type":"object","properties":{"type":{"type":"string"},"v":{"type":"string"}}}})";
  EXPECT_THAT(errorsOf(map, R"([{"type":"A","v":"1"},{"type":"A","v":"2"}])"),
              ElementsAre(R"(FieldValueDuplicate spec[1]: Duplicate value: {"type":"A"})"));
  EXPECT_THAT(errorsOf(R"({"type":"object","required":["x"]})", "{}"),
              ElementsAre("FieldValueRequired spec.x: Required value"));
}

TEST(Schema, PrunesUnknownFieldsAndReportsWhich) {
  auto s = compiled(R"({"type":"object","properties":{
      "spec":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"},
        "list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}},
        "open":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
        "map":{"type":"object","additionalProperties":{"type":"object","properties":{"y":{"type":"string"}}}}}}}})");
  Json value = Json::parse(
      R"({"spec":{"a":"1","b":2,"n":null,"list":[{"x":"1"},{"z":1}],"open":{"any":{"thing":1}},"map":{"k":{"y":"1",)"
      R"("w":2}}},"junk":1})");
  EXPECT_THAT(s->prune(value), ElementsAre("junk", "spec.b", "spec.list[1].z", "spec.map.k.w"));
  EXPECT_EQ(value, Json::parse(
                       R"({"spec":{"a":"1","list":[{"x":"1"},{}],"open":{"any":{"thing":1}},"map":{"k":{"y":"1"}}}})"));
}

TEST(Schema, FillsInDefaults) {
  auto s = compiled(R"({"type":"object","properties":{"p":{"type":"string","default":"Delete"},
      "o":{"type":"object","default":{},"properties":{"q":{"type":"integer","default":3}}},
      "l":{"type":"array","items":{"type":"object","properties":{"r":{"type":"boolean","default":true}}}}}})");
  Json value = Json::parse(R"({"l":[{},{"r":false}]})");
  s->applyDefaults(value);
  EXPECT_EQ(value, Json::parse(R"({"p":"Delete","o":{"q":3},"l":[{"r":true},{"r":false}]})"));
}

TEST(Schema, ReplacesEmptyStringsOnlyWhereAsked) {
  auto s =
      compiled(R"({"type":"object","properties":{"p":{"type":"string","default":"Delete"},"q":{"type":"string"}}})");
  Json value = Json::parse(R"({"p":"","q":""})");
  s->applyDefaults(value);
  EXPECT_EQ(value, Json::parse(R"({"p":"","q":""})"));
  s->applyDefaults(value, true);
  EXPECT_EQ(value, Json::parse(R"({"p":"Delete","q":""})"));
}

TEST(Schema, ADecimalGetsTheFormsThatItsFieldTakes) {
  const auto hint = [](const std::string& key) {
    const auto schema = R"({"type":"object","properties":{")" + key + R"(":{"x-kubernetes-int-or-string":true}}})";
    auto s = compiled(schema.c_str());
    const auto errors = s->validate(Json{{key, 12.5}});
    return errors.empty() ? std::string() : errors[0].message.substr(errors[0].message.find("; ") + 2);
  };
  EXPECT_EQ(hint("tflops"), R"(a decimal is written in quotes: "12.5")");
  EXPECT_EQ(hint("gpu-memory"), R"(a decimal needs a unit, in quotes: "12.5Gi")");
  EXPECT_EQ(hint("gpu-core"), "write a whole number");
}

TEST(Schema, RefusesKeywordsItDoesNotEnforce) {
  for (const char* text :
       {R"({"type":"object","oneOf":[{}]})", R"({"type":"string","patern":"a"})", R"({"type":"text"})",
        R"({"type":"string","pattern":"("})", R"({"type":"string","anyOf":[{"type":"string"}]})",
        R"({"type":"array","x-kubernetes-list-type":"map"})", R"([])"}) {
    auto s = Schema::compile(Json::parse(text));
    EXPECT_FALSE(s.ok()) << text;
  }
}

TEST(Schema, CutsLongValuesInMessages) {
  auto errors = errorsOf(R"({"type":"string","pattern":"^b"})", "\"" + std::string(100'000, 'a') + "\"");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_LT(errors[0].size(), 500u);
}

TEST(Schema, JoinsErrors) {
  EXPECT_EQ(joinErrors({requiredField("spec.a")}), "spec.a: Required value");
  EXPECT_EQ(joinErrors({requiredField("spec.a"), requiredField("spec.b", "say it")}),
            "[spec.a: Required value, spec.b: Required value: say it]");
}

TEST(Schema, MeasuresDepthWithoutRecursing) {
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json::array({std::move(deep)});
  EXPECT_TRUE(nestsWithin(deep, 200));
  EXPECT_FALSE(nestsWithin(deep, 199));
  const std::string text = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_FALSE(nestsWithin(Json::parse(text)));
}

}  // namespace
}  // namespace egpu::apiserver

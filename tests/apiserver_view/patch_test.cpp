#include "controller/standalone/apiserver/verbs/patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json parse(const char* text) { return Json::parse(text); }

// Columns: document, patch, and the outcome or, after "!", a part of the error message.
TEST(JsonPatch, FollowsTheRfc) {
  const char* cases[][3] = {
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])", R"({"baz":"qux","foo":"bar"})"},
      {R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])", R"({"foo":["bar","qux","baz"]})"},
      {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/-","value":["abc"]}])", R"({"foo":["bar",["abc"]]})"},
      {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/2","value":1}])", "!add operation does not apply"},
      {R"({"baz":"qux","foo":"bar"})", R"([{"op":"remove","path":"/baz"}])", R"({"foo":"bar"})"},
      {R"({"foo":["a","b","c"]})", R"([{"op":"remove","path":"/foo/1"}])", R"({"foo":["a","c"]})"},
      {R"({"foo":1})", R"([{"op":"remove","path":"/bar"}])",
       "!remove operation does not apply: doc is missing path: \"/bar\""},
      {R"({"baz":"qux"})", R"([{"op":"replace","path":"/baz","value":"boo"}])", R"({"baz":"boo"})"},
      {R"({"baz":"qux"})", R"([{"op":"replace","path":"/x","value":"boo"}])", "!replace operation does not apply"},
      {R"({"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}})",
       R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
       R"({"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}})"},
      {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a","path":"/a/b"}])", "!inside"},
      {R"({"a":[1,2]})", R"([{"op":"copy","from":"/a/0","path":"/b"}])", R"({"a":[1,2],"b":1})"},
      {R"({"a":1})", R"([{"op":"copy","from":"/x","path":"/b"}])", "!copy operation does not apply"},
      {R"({"baz":"qux","foo":["a",2,"c"]})",
       R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}])",
       R"({"baz":"qux","foo":["a",2,"c"]})"},
      {R"({"baz":"qux"})", R"([{"op":"test","path":"/baz","value":"bar"}])", "!testing value /baz failed"},
      {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":10},{"op":"test","path":"/~1","value":9}])",
       R"({"/":9,"~1":10})"},
      {R"({"a":1})", R"([{"op":"add","path":"","value":{"b":2}}])", R"({"b":2})"},
      {R"({"a":[1]})", R"([{"op":"replace","path":"/a/00","value":2}])", "!replace operation does not apply"},
      {R"({"a":1})", R"([{"op":"merge","path":"/a"}])", "!Unexpected kind: merge"},
      // A plain value or null has no children.
      {R"({"a":1})", R"([{"op":"add","path":"/a/b","value":1}])", "!add operation does not apply"},
      {R"({"a":null})", R"([{"op":"add","path":"/a/b","value":1}])", "!add operation does not apply"},
      {R"({"a":1})", R"([{"op":"remove","path":"/a/b"}])", "!doc is missing path: \"/a/b\""},
      {R"({"a":[{"b":1},2]})", R"([{"op":"move","from":"/a/0","path":"/a/0/c"}])", "!inside"},
      {R"({"a":[{"b":1},{},2]})", R"([{"op":"move","from":"/a/0","path":"/a/1/c"}])", "!move operation does not apply"},
      {R"({"a":[1,2]})", R"([{"op":"move","from":"/a/1","path":"/a/1"}])", R"({"a":[1,2]})"},
      {R"({"a":1})", R"([{"op":"move","from":"","path":""}])", R"({"a":1})"},
      {R"({"a":1})", R"([{"op":"remove","path":""}])", "!doc is missing path: \"\""},
      {R"({"a":[1]})", R"([{"op":"remove","path":"/a/-"}])", "!remove operation does not apply"},
      {R"({"a":[1]})", R"([{"op":"add","path":"/a/99999999999999999999","value":1}])", "!add operation does not apply"},
      {R"({"a":null})", R"([{"op":"add","path":"/b","value":null}])", R"({"a":null,"b":null})"},
      {R"({"a":1})", R"([{"op":"test","path":"/b","value":null},{"op":"test","path":"/b"}])", R"({"a":1})"},
      {R"({"a":[1]})", R"([{"op":"test","path":"/a/x","value":1}])", "!testing value /a/x failed"},
      {R"({"a":1})", R"([{"op":"add","path":"/~2","value":1}])", "!malformed path"},
      {R"({"a":1})", R"([{"op":"copy","path":"/b"}])", "!missing or malformed from field"},
      {R"({"a":1})", R"([{"op":"add","path":"/a","value":2,"value":3}])", R"({"a":3})"},
      {R"({"a":1})", R"([{"op":"add","path":"a","value":1}])", "!malformed path"},
      {R"({"a":1})", R"([{"op":"add","path":"/a"}])", "!missing value"},
      {R"({"a":1})", R"([5])", "!not an object"},
      {R"({"a":1})", R"({"op":"add"})", "!array of operations"},
  };
  for (const auto& [document, patch, want] : cases) {
    auto result = jsonPatch(parse(document), parse(patch));
    if (*want == '!') {
      ASSERT_FALSE(result.ok()) << patch;
      EXPECT_THAT(result.status().message(), HasSubstr(want + 1)) << patch;
    } else {
      ASSERT_TRUE(result.ok()) << patch << result.status().message();
      EXPECT_EQ(*result, parse(want)) << patch;
    }
  }
}

TEST(JsonPatch, IsAllOrNothing) {
  const Json before = parse(R"({"a":1})");
  auto result =
      jsonPatch(before, parse(R"([{"op":"replace","path":"/a","value":2},{"op":"test","path":"/a","value":1}])"));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().http, 422);
  EXPECT_EQ(result.status().reason, "Invalid");
  EXPECT_EQ(before, parse(R"({"a":1})"));
}

TEST(JsonPatch, IsBounded) {
  Json many = Json::array();
  for (size_t i = 0; i <= kMaxPatchOperations; ++i)
    many.push_back({{"op", "test"}, {"path", ""}, {"value", Json::object()}});
  auto result = jsonPatch(Json::object(), many);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().http, 413);
  // Each copy doubles the document: 40 of them would need a terabyte.
  Json doubling = Json::array();
  for (int i = 0; i < 40; ++i) doubling.push_back({{"op", "copy"}, {"from", ""}, {"path", "/k" + std::to_string(i)}});
  result = jsonPatch(parse(R"({"seed":"xxxxxxxxxxxxxxxx"})"), doubling);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().http, 422);
}

Resource kind(bool custom) {
  Resource r;
  r.kind = "Thing";
  r.plural = "things";
  r.custom = custom;
  r.schema = Json::object();
  return r;
}

TEST(ApplyPatch, ChoosesByContentType) {
  const Json current = parse(R"({"a":1})");
  auto merged = applyPatch(kind(true), "application/merge-patch+json; charset=utf-8", current, R"({"b":2})");
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(*merged, parse(R"({"a":1,"b":2})"));
  EXPECT_TRUE(applyPatch(kind(false), kStrategicMergePatch, current, R"({"b":2})").ok());
  for (auto [custom, type] : {std::pair(true, kStrategicMergePatch), std::pair(false, kApplyPatch),
                              std::pair(true, kApplyPatch), std::pair(false, std::string_view("text/plain"))}) {
    auto refused = applyPatch(kind(custom), type, current, "{}");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().http, 415);
    EXPECT_EQ(refused.status().reason, "UnsupportedMediaType");
  }
}

// The examples of RFC 7386, appendix A, in which document and patch are objects.
TEST(ApplyPatch, MergesByTheRfc) {
  const char* cases[][3] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
      {"{}", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
      {R"({"a":1})", R"({"a":2,"a":3})", R"({"a":3})"},
  };
  for (const auto& [target, patch, want] : cases) {
    const auto merged = applyPatch(kind(true), kMergePatch, parse(target), patch);
    ASSERT_TRUE(merged.ok()) << target << " + " << patch;
    EXPECT_EQ(*merged, parse(want)) << target << " + " << patch;
  }
}

TEST(ApplyPatch, RefusesWhatIsNoPatch) {
  const Json current = parse(R"({"a":1})");
  for (const char* body : {"", "{", "[]", "5", "null", "\"x\"", "\xff"}) {
    auto refused = applyPatch(kind(true), kMergePatch, current, body);
    ASSERT_FALSE(refused.ok()) << body;
    EXPECT_EQ(refused.status().http, 400);
  }
  const std::string deep = R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') + "}";
  EXPECT_EQ(applyPatch(kind(true), kMergePatch, current, deep).status().http, 400);
  EXPECT_EQ(applyPatch(kind(true), kMergePatch, current, std::string(kMaxPatchBytes + 1, ' ')).status().http, 413);
  EXPECT_EQ(applyPatch(kind(true), kJsonPatch, current, R"([{"op":"replace","path":"","value":[]}])").status().http,
            422);
}

}  // namespace
}  // namespace egpu::apiserver

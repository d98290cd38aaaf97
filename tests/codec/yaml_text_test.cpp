#include "controller/codec/yaml_text.h"

#include <gtest/gtest.h>

#include "controller/codec/codec.h"
#include "controller/codec/json/text.h"

namespace egpu::codec {
namespace {

TEST(YamlText, BlocksAsKubectlWritesThem) {
  EXPECT_EQ(jsonToYaml(R"({"b":[{"x":1,"z":[1,[2,3]]},"s",{}],"a":{"c":{"d":null}},"e":[],"f":true})"),
            "b:\n- x: 1\n  z:\n  - 1\n  - - 2\n    - 3\n- s\n- {}\na:\n  c:\n    d: null\ne: []\nf: true\n");
  EXPECT_EQ(jsonToYaml("[]"), "[]\n");
  EXPECT_EQ(jsonToYaml("\"x\""), "x\n");
  EXPECT_EQ(jsonToYaml("no json"), "no json");
}

TEST(YamlText, ControlCharactersAreEscapedAndOtherSignsAreNot) {
  JsonText j;
  const auto object = j.beginObject().key("\xc2\x9b").value("\x1b\x7f\xc2\x80\xc2\x9f ü").endObject().take();
  EXPECT_EQ(jsonToYaml(object), "\"\\u009b\": \"\\u001b\\u007f\\u0080\\u009f ü\"\n");
}

TEST(YamlText, ATextIsReadBackAsThatText) {
  for (const std::string text : {"",
                                 " ",
                                 "a b",
                                 "a: b",
                                 "a #b",
                                 "a:",
                                 "#",
                                 "- a",
                                 "-",
                                 "?",
                                 "*a",
                                 "&a",
                                 "!a",
                                 "%a",
                                 "@a",
                                 "`a",
                                 "'a'",
                                 "\"a\"",
                                 "[a]",
                                 "{a}",
                                 "a,b",
                                 "|",
                                 ">",
                                 "null",
                                 "~",
                                 "Null",
                                 "yes",
                                 "No",
                                 "on",
                                 "y",
                                 "true",
                                 "1",
                                 "1.5",
                                 "1e3",
                                 "0x10",
                                 "1_000",
                                 "12:30:45",
                                 "2026-11-22",
                                 "2026-11-22T10:00:00Z",
                                 "=",
                                 "<<",
                                 "...",
                                 "---",
                                 "4Gi",
                                 "100%",
                                 "ns/name",
                                 "/path",
                                 "it's 5 of 6 (need 90%, best has 70%)",
                                 "two\nlines\n",
                                 "\ttab",
                                 "trailing ",
                                 "ü",
                                 "\x01\x1b[31m",
                                 "\x7f\xc2\x80\xc2\x9f",
                                 "\xe2\x80\xa8",
                                 "MIIB+/==",
                                 "https://[::1]:7443"}) {
    JsonText j;
    const auto object = j.beginObject().key("k").value(text).key(text).value("v").endObject().take();
    const auto yaml = jsonToYaml(object);
    const auto back = yamlToJson(yaml);
    ASSERT_TRUE(back) << back.status().message() << "\n" << yaml;
    EXPECT_EQ(*back, object) << yaml;
  }
}

}  // namespace
}  // namespace egpu::codec

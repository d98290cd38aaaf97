#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "controller/codec/json/text.h"

namespace egpu::codec {
namespace {

using nlohmann::json;

TEST(JsonText, everyKindOfValue) {
  JsonText j;
  j.beginObject();
  j.key("text").value("a");
  j.key("int").value(int64_t{-9223372036854775807});
  j.key("small").value(7);
  j.key("real").value(0.1);
  j.key("flag").value(true);
  j.key("none").null();
  j.key("list").beginArray().value(1).value(false).beginObject().endObject().beginArray().endArray().endArray();
  j.key("raw").raw("[1,2]");
  j.key("object").beginObject().key("x").value(std::string("y")).endObject();
  j.endObject();
  EXPECT_EQ(j.take(), R"({"text":"a","int":-9223372036854775807,"small":7,"real":0.1,"flag":true,"none":null,)"
                      R"("list":[1,false,{},[]],"raw":[1,2],"object":{"x":"y"}})");
}

TEST(JsonText, escapes) {
  JsonText j;
  j.value("\"\\/\b\f\n\r\t\x01\x1f\x7f é漢\U0001F600");
  EXPECT_EQ(j.take(), "\"\\\"\\\\/\\u0008\\u000c\\n\\r\\t\\u0001\\u001f\\u007f é漢\U0001F600\"");
}

TEST(JsonText, whatIsNoUtf8IsReplaced) {
  for (const char* bad :
       {"\xff", "\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf0\x80\x80\x80", "\xc3"}) {
    JsonText j;
    j.value(std::string("a") + bad + "b");
    const json parsed = json::parse(j.take());
    EXPECT_EQ(parsed.get<std::string>().substr(0, 4), "a\xEF\xBF\xBD") << bad;
    EXPECT_EQ(parsed.get<std::string>().back(), 'b');
  }
}

TEST(JsonText, anyBytesMakeJson) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (std::size_t n = random() % 20; n > 0; --n) bytes += static_cast<char>(random() % (i % 2 == 0 ? 256 : 128));
    JsonText j;
    j.beginObject().key(bytes).value(bytes).endObject();
    const std::string text = j.take();
    ASSERT_TRUE(json::accept(text)) << text;
    if (i % 2 == 1) {
      ASSERT_EQ(json::parse(text), json::object({{bytes, bytes}}));
    }
  }
}

TEST(JsonText, realsComeBackExactly) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = random();
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    JsonText j;
    j.value(number);
    if (std::isfinite(number)) {
      ASSERT_EQ(json::parse(j.take()).get<double>(), number);
    } else {
      ASSERT_EQ(j.take(), "null");
    }
  }
}

}  // namespace
}  // namespace egpu::codec

#include "controller/standalone/apiserver/verbs/protobuf_body.h"

#include <gtest/gtest.h>

#include <string>

namespace egpu::apiserver {
namespace {

std::string field(int number, const std::string& text) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(text.size()) + text;
}
std::string body(const std::string& kind, const std::string& object) {
  return std::string("k8s\0", 4) + field(1, field(1, "v1") + field(2, kind)) + field(2, object) + field(3, "") +
         field(4, "");
}

TEST(ProtobufBody, ReadsANamespace) {
  const std::string meta =
      field(1, "team") + field(2, "") + field(11, field(1, "a") + field(2, "b")) + std::string("\x38\x00", 2);
  auto ns = decodeProtobufBody(body("Namespace", field(1, meta) + field(2, "") + field(3, "")));
  ASSERT_TRUE(ns);
  EXPECT_EQ(*ns, nlohmann::json::parse(
                     R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team","labels":{"a":"b"}}})"));
}

TEST(ProtobufBody, ReadsDeleteOptions) {
  const std::string preconditions = field(1, "u-1") + field(2, "7");
  auto options = decodeProtobufBody(body("DeleteOptions", std::string("\x08\x1e", 2) + field(2, preconditions) +
                                                              field(4, "Foreground") + field(5, "All")));
  ASSERT_TRUE(options);
  EXPECT_EQ(*options,
            nlohmann::json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":30,"dryRun":["All"],
      "preconditions":{"uid":"u-1","resourceVersion":"7"},"propagationPolicy":"Foreground"})"));
}

TEST(ProtobufBody, RefusesAllElse) {
  const std::string good = body("Namespace", field(1, field(1, "team")));
  EXPECT_FALSE(decodeProtobufBody(body("Pod", field(1, field(1, "team")))));
  EXPECT_FALSE(decodeProtobufBody(""));
  EXPECT_FALSE(decodeProtobufBody("{}"));
  EXPECT_FALSE(decodeProtobufBody(body("Namespace", "\x0a\x7f")));
  EXPECT_FALSE(decodeProtobufBody(std::string("k8s\0", 4) + std::string(20, '\xff')));
  for (size_t cut = 0; cut < good.size(); ++cut)
    decodeProtobufBody(good.substr(0, cut));  // must not read beyond the end
}

}  // namespace
}  // namespace egpu::apiserver

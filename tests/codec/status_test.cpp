#include <gtest/gtest.h>

#include "controller/codec/codec.h"

namespace egpu::codec {
namespace {

using base::Code;

std::string body(std::string_view reason, std::string_view message, std::string_view details = "{}") {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" + std::string(message) +
         R"(","reason":")" + std::string(reason) + R"(","details":)" + std::string(details) + R"(,"code":1})";
}

TEST(ServerStatus, codes) {
  struct StatusRow {
    int http;
    const char* reason;
    Code code;
  };
  const StatusRow rows[] = {{400, "BadRequest", Code::invalid},
                            {401, "Unauthorized", Code::unauthorized},
                            {403, "Forbidden", Code::forbidden},
                            {404, "NotFound", Code::notFound},
                            {405, "MethodNotAllowed", Code::invalid},
                            {406, "NotAcceptable", Code::invalid},
                            {409, "AlreadyExists", Code::alreadyExists},
                            {409, "Conflict", Code::conflict},
                            {410, "Expired", Code::expired},
                            {410, "Gone", Code::expired},
                            {413, "RequestEntityTooLarge", Code::invalid},
                            {415, "UnsupportedMediaType", Code::invalid},
                            {418, "", Code::invalid},
                            {422, "Invalid", Code::invalid},
                            {429, "TooManyRequests", Code::throttled},
                            {500, "InternalError", Code::unavailable},
                            {503, "ServiceUnavailable", Code::unavailable},
                            {504, "Timeout", Code::unavailable},
                            {302, "", Code::malformed},
                            {0, "", Code::malformed}};
  for (const StatusRow& row : rows) {
    const auto status = decodeStatus(row.http, body(row.reason, "why"));
    EXPECT_EQ(status.code(), row.code) << row.http << " " << row.reason;
    EXPECT_EQ(status.http, row.http);
    EXPECT_EQ(status.reason, row.reason);
    EXPECT_EQ(status.message(), "why");
    EXPECT_FALSE(status.retryAfter);
  }
}

TEST(ServerStatus, versionNotSeenYet) {
  const auto status = decodeStatus(
      504, body("Timeout", "Too large resource version: 9, current: 5",
                R"({"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],)"
                R"("retryAfterSeconds":1})"));
  EXPECT_EQ(status.code(), Code::tooLarge);
  EXPECT_EQ(status.retryAfter, std::chrono::seconds(1));
}

TEST(ServerStatus, causesAreInTheMessage) {
  const auto status =
      decodeStatus(422, body("Invalid", "claim is invalid: spec.a: must be b",
                             R"({"causes":[{"reason":"FieldValueInvalid","message":"must be b","field":"spec.a"},)"
                             R"({"reason":"FieldValueRequired","message":"is required","field":"spec.c"}]})"));
  EXPECT_EQ(status.code(), Code::invalid);
  EXPECT_EQ(status.message(), "claim is invalid: spec.a: must be b; spec.c: is required");
}

TEST(ServerStatus, plainText) {
  const auto busy = decodeStatus(429, "Too many requests, please try again later.\n");
  EXPECT_EQ(busy.code(), Code::throttled);
  EXPECT_EQ(busy.message(), "Too many requests, please try again later.");
  EXPECT_EQ(decodeStatus(404, "404 page not found\n").code(), Code::notFound);
  EXPECT_EQ(decodeStatus(503, "").message(), "the server answered 503");
  EXPECT_EQ(decodeStatus(502, "<html>" + std::string(5000, 'x')).message().size(), 500u);
}

TEST(ServerStatus, whatIsNoStatusIsItsText) {
  for (const char* text :
       {"{", R"({"kind":"Pod","status":{"phase":"Running"}})", R"({"message":7})", R"({"kind":"Status","code":"x"})"}) {
    const auto status = decodeStatus(500, text);
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_EQ(status.message(), text);
  }
}

TEST(ServerStatus, fieldsInAnyOrder) {
  const auto status = decodeStatus(
      409,
      R"({"status":"Failure","details":{"name":"a","retryAfterSeconds":2},"reason":"AlreadyExists","kind":"Status"})");
  EXPECT_EQ(status.code(), Code::alreadyExists);
  EXPECT_EQ(status.retryAfter, std::chrono::seconds(2));
  EXPECT_EQ(status.message(), "the server answered 409");
}

TEST(ServerStatus, absurdRetryAfterIsBounded) {
  EXPECT_EQ(decodeStatus(429, body("TooManyRequests", "x", R"({"retryAfterSeconds":9223372036854775807})")).retryAfter,
            std::chrono::hours(24));
  EXPECT_FALSE(decodeStatus(429, body("TooManyRequests", "x", R"({"retryAfterSeconds":-5})")).retryAfter);
}

}  // namespace
}  // namespace egpu::codec

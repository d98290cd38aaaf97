// Requests that a web page can make a browser send to a server on loopback, and requests of other programs.
#include "controller/standalone/apiserver/loopback_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace egpu::apiserver {
namespace {

using ::testing::HasSubstr;

class Passed final : public http::Handler {
 public:
  http::Response handle(const http::Request&, std::stop_token) override {
    http::Response r;
    r.status = 299;
    return r;
  }
};

class LoopbackGuardTest : public ::testing::Test {
 protected:
  struct Sent {
    std::string method = "GET", host = "127.0.0.1:7443", origin = {}, site = {}, type = {}, body = {};
  };
  int send(const Sent& sent) {
    http::Request request;
    request.method = sent.method;
    request.path = "/api/v1/namespaces/default/pods";
    if (!sent.host.empty()) request.headers.emplace_back("host", sent.host);
    if (!sent.origin.empty()) request.headers.emplace_back("origin", sent.origin);
    if (!sent.type.empty()) request.headers.emplace_back("content-type", sent.type);
    if (!sent.site.empty()) request.headers.emplace_back("sec-fetch-site", sent.site);
    request.body = sent.body;
    const auto response = guard.handle(request, {});
    message.clear();
    if (response.status == 299) return 299;
    const auto status = nlohmann::json::parse(response.body);
    EXPECT_EQ(status["kind"], "Status");
    EXPECT_EQ(status["code"], response.status);
    message = status["message"];
    return response.status;
  }
  Passed passed;
  LoopbackGuard guard{passed};
  std::string message;
};

TEST_F(LoopbackGuardTest, NamesOfThisMachinePass) {
  for (const char* host : {"localhost", "localhost:7443", "LocalHost:7443", "127.0.0.1", "127.0.0.1:7443",
                           "127.1.2.3:80", "[::1]", "[::1]:7443"})
    EXPECT_EQ(send({.host = host}), 299) << host;
}

TEST_F(LoopbackGuardTest, NamesThatWereMadeToPointHereAreRefused) {
  for (const char* host : {"evil.example",
                           "evil.example:7443",
                           "localhost.evil.example:7443",
                           "127.0.0.1.evil.example",
                           "127.0.0.1.nip.io:7443",
                           "127.0.0.1:7443.evil.example",
                           "0.0.0.0:7443",
                           "128.0.0.1",
                           "10.0.0.1:7443",
                           "127.0.0",
                           "127.0.0.256",
                           "127.0.0.1.",
                           "[::]:7443",
                           "[::2]",
                           "[::1",
                           "[::1]x",
                           "::1",
                           "localhost:",
                           "localhost:x",
                           "user@localhost",
                           ""}) {
    EXPECT_EQ(send({.host = host}), 403) << host;
    EXPECT_THAT(message, HasSubstr("Host"));
  }
}

TEST_F(LoopbackGuardTest, PagesOfOtherOriginsAreRefused) {
  EXPECT_EQ(send({.origin = "http://127.0.0.1:7443"}), 299);
  EXPECT_EQ(send({.host = "localhost:7443", .origin = "http://localhost:7443"}), 299);
  for (const char* origin : {"http://evil.example", "null", "http://localhost:7443", "http://127.0.0.1:3000",
                             "https://127.0.0.1:7443", "http://127.0.0.1:7443.evil.example", "file://"}) {
    EXPECT_EQ(send({.origin = origin}), 403) << origin;
    EXPECT_THAT(message, HasSubstr("Origin"));
  }
}

TEST_F(LoopbackGuardTest, SimpleRequestsOfABrowserCanNotWrite) {
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"})
    for (const char* type : {"text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
                             "multipart/form-data; boundary=x", "*/*", "application/jsonx"}) {
      EXPECT_EQ(send({.method = method, .type = type, .body = "{}"}), 415) << method << " " << type;
      EXPECT_THAT(message, HasSubstr("application/json"));
    }
  EXPECT_EQ(send({.method = "POST", .origin = "http://127.0.0.1:7443", .body = "{}"}), 415);
  EXPECT_EQ(send({.method = "POST", .site = "same-origin", .body = "{}"}), 415);
}

TEST_F(LoopbackGuardTest, AnOldKubectlCreatesWithoutAContentType) {
  EXPECT_EQ(send({.method = "POST", .body = "{}"}), 299);
}

TEST_F(LoopbackGuardTest, WhatKubectlSendsPasses) {
  for (const char* type : {"application/json", "application/json; charset=utf-8", "application/yaml", "text/yaml",
                           "application/vnd.kubernetes.protobuf"})
    EXPECT_EQ(send({.method = "POST", .type = type, .body = "{}"}), 299) << type;
  for (const char* type : {"application/merge-patch+json", "application/json-patch+json",
                           "application/strategic-merge-patch+json", "application/apply-patch+yaml"})
    EXPECT_EQ(send({.method = "PATCH", .type = type, .body = "{}"}), 299) << type;
  EXPECT_EQ(send({.method = "DELETE"}), 299);
  EXPECT_EQ(send({.method = "DELETE", .type = "application/json", .body = "{}"}), 299);
}

TEST_F(LoopbackGuardTest, WhatIsShownOfAHeaderIsPlainAndShort) {
  EXPECT_EQ(send({.host = "a\x1b[2J\"" + std::string(5000, 'x')}), 403);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 400U);
}

}  // namespace
}  // namespace egpu::apiserver

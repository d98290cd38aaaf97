// A folder, a clock and a certificate authority per test of the transport.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "controller/kube/transport/curl_transport.h"
#include "tests/kube/transport/local_server.h"

namespace egpu::kube {

class TransportFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(::testing::TempDir()) /
             (std::string("transport-") + info->test_suite_name() + "-" + info->name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::unique_ptr<Transport> connect(const Endpoint& endpoint, CurlOptions options = {}) {
    auto made = curlTransport(endpoint, clock, options);
    EXPECT_TRUE(made.ok()) << made.status().str();
    return std::move(*made);
  }
  static base::Result<HttpResponse> get(Transport& t, const std::string& target = "/x") {
    return send(t, Method::get, target);
  }
  static base::Result<HttpResponse> send(Transport& t, Method method, const std::string& target,
                                         std::string body = {}) {
    HttpRequest r;
    r.method = method;
    r.target = target;
    r.body = std::move(body);
    r.headers = {{"Accept", "application/json"}};
    return t.perform(r, {});
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / (name + ".new"), std::ios::binary) << text;
    std::filesystem::rename(folder / (name + ".new"), folder / name);
    return (folder / name).string();
  }

  std::filesystem::path folder;
  base::ManualClock clock;
  Authority authority;
  const Certificate forLoopback = authority.issue("server", "IP:127.0.0.1,DNS:api.example");
};

}  // namespace egpu::kube

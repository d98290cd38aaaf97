// Who may ask the operations port, as an API server behind a transport tells it.
#include "controller/server/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/server/operations.h"

namespace egpu::server {
namespace {

using ::testing::HasSubstr;

/// Knows tokens "reader" and "nobody".
class Reviews final : public kube::Transport {
 public:
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token) override {
    if (down) return base::Status(base::Code::unavailable, "connection refused");
    asked.push_back(request.target);
    bodies.push_back(request.body);
    if (forbidden)
      return kube::HttpResponse{403, {}, R"({"kind":"Status","code":403,"reason":"Forbidden","message":"no"})"};
    if (garbage) return kube::HttpResponse{201, {}, "{}"};
    if (request.target == "/apis/authentication.k8s.io/v1/tokenreviews") {
      for (const std::string name : {"reader", "nobody"})
        if (request.body.find("\"token\":\"" + name + "\"") != std::string::npos)
          return kube::HttpResponse{201,
                                    {},
                                    R"({"status":{"authenticated":true,"user":{"username":")" + name +
                                        R"(","uid":"u1","groups":["a","b"],"extra":{"k":["v"]}}}})"};
      return kube::HttpResponse{201, {}, R"({"status":{"authenticated":false,"error":"token \"expired\""}})"};
    }
    const bool may = request.body.find(R"("user":"reader")") != std::string::npos;
    return kube::HttpResponse{201, {}, may ? R"({"status":{"allowed":true}})" : R"({"status":{"allowed":false}})"};
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest&, const std::function<bool(std::string_view)>&,
                                          std::stop_token) override {
    return base::Status(base::Code::internal, "not asked for");
  }
  bool down = false, forbidden = false, garbage = false;
  std::vector<std::string> asked, bodies;
};

class CallersTest : public ::testing::Test {
 protected:
  static kube::ClientOptions once() {
    kube::ClientOptions options;
    options.maxAttempts = 1;
    return options;
  }
  int status(const std::string& authorization) { return callers.check(authorization, {}).status; }
  Reviews api;
  base::ManualClock clock;
  base::Random random;
  base::NoMetrics metrics;
  kube::Client client{api, clock, random, metrics, once()};
  Callers callers{client, clock};
};

TEST_F(CallersTest, WhoMayGetElasticGpusMayAsk) {
  EXPECT_EQ(status("Bearer reader"), 200);
  ASSERT_EQ(api.asked.size(), 2U);
  EXPECT_EQ(api.asked[1], "/apis/authorization.k8s.io/v1/subjectaccessreviews");
  EXPECT_EQ(
      api.bodies[1],
      R"({"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"reader","uid":"u1",)"
      R"("groups":["a","b"],"extra":{"k":["v"]},"resourceAttributes":{"verb":"get","group":"elasticgpu.io",)"
      R"("resource":"elasticgpus"}}})");
}

TEST_F(CallersTest, OthersAreToldWhatTheyNeed) {
  for (const char* none : {"", "Basic dTpw", "Bearer", "Bearer  "}) EXPECT_EQ(status(none), 401) << none;
  EXPECT_TRUE(api.asked.empty());
  const auto unknown = callers.check("Bearer forged", {});
  EXPECT_EQ(unknown.status, 401);
  EXPECT_THAT(unknown.message, HasSubstr("token \"expired\""));
  const auto may = callers.check("bearer nobody", {});
  EXPECT_EQ(may.status, 403);
  EXPECT_THAT(may.message, HasSubstr("user \"nobody\" cannot get resource \"elasticgpus\""));
}

TEST_F(CallersTest, AnAnswerIsRememberedForAWhile) {
  EXPECT_EQ(status("Bearer reader"), 200);
  clock.advance(std::chrono::seconds(59));
  EXPECT_EQ(status("Bearer reader"), 200);
  EXPECT_EQ(api.asked.size(), 2U);
  clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(status("Bearer reader"), 200);
  EXPECT_EQ(api.asked.size(), 4U);
  EXPECT_EQ(status("Bearer nobody"), 403);
  EXPECT_EQ(status("Bearer nobody"), 403);
  EXPECT_EQ(api.asked.size(), 6U);
  clock.advance(std::chrono::seconds(11));  // a right that was given since
  EXPECT_EQ(status("Bearer nobody"), 403);
  EXPECT_EQ(api.asked.size(), 8U);
}

TEST_F(CallersTest, WithoutTheApiServerNobodyIsLetInAndNothingIsRemembered) {
  api.down = true;
  EXPECT_EQ(status("Bearer reader"), 503);
  api.down = false;
  api.forbidden = true;
  const auto refused = callers.check("Bearer reader", {});
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.message, HasSubstr("the controller may not create tokenreviews"));
  api.forbidden = false;
  api.garbage = true;
  EXPECT_EQ(status("Bearer reader"), 503);
  api.garbage = false;
  EXPECT_EQ(status("Bearer reader"), 200);
}

TEST_F(CallersTest, ForgedTokensAreNotTurnedAgainstTheApiServer) {
  EXPECT_EQ(status("Bearer reader"), 200);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) refused += status("Bearer forged" + std::to_string(i)) == 503;
  EXPECT_EQ(api.asked.size(), 2U + 49U);
  EXPECT_EQ(refused, 951);
  EXPECT_EQ(status("Bearer reader"), 200);  // who is known is not concerned
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(status("Bearer another"), 401);
}

class GuardedTest : public CallersTest {
 protected:
  http::Response get(const std::string& path, const std::string& authorization = {}) {
    http::Request r;
    r.method = "GET";
    r.path = path;
    if (!authorization.empty()) r.headers.emplace_back("authorization", authorization);
    return operations.handle(r, {});
  }
  Operations operations{{[] { return AllocationMap{}; },
                         [] { return std::string("metrics"); },
                         [] { return std::string(); },
                         [] { return std::string(); },
                         {},
                         [](const http::Request&, std::stop_token) { return http::Response{}; },
                         [this](std::string_view authorization, std::stop_token stop) {
                           return callers.check(authorization, std::move(stop));
                         }}};
};

TEST_F(GuardedTest, ProbesAndMetricsAskNobody) {
  api.down = true;
  for (const char* path : {"/healthz", "/livez", "/readyz", "/metrics"}) EXPECT_EQ(get(path).status, 200) << path;
  for (const char* path : {"/allocation-map", "/explain", "/simulate", "/forecast", "/nothing"})
    EXPECT_EQ(get(path, "Bearer reader").status, 503) << path;
}

TEST_F(GuardedTest, EverythingElseAsksTheApiServer) {
  for (const char* path : {"/allocation-map", "/explain", "/simulate", "/forecast"}) {
    const auto refused = get(path);
    EXPECT_EQ(refused.status, 401) << path;
    EXPECT_THAT(refused.body, HasSubstr(R"("kind":"Status")"));
    EXPECT_THAT(refused.body, HasSubstr(R"("reason":"Unauthorized")"));
    EXPECT_EQ(get(path, "Bearer nobody").status, 403) << path;
    EXPECT_EQ(get(path, "Bearer reader").status, 200) << path;
  }
}

}  // namespace
}  // namespace egpu::server

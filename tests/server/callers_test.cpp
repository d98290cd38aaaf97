// Authentication and authorization of the operations port's callers, with an API server behind a transport.
#include "controller/server/operations/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "controller/server/operations/operations.h"

namespace egpu::server {
namespace {

using ::testing::HasSubstr;

/// An API server that knows two tokens, "reader" and "nobody".
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
    const bool asksForSpace = request.body.find("\"namespace\":") != std::string::npos;
    const bool may = asksForSpace ? request.body.find("\"namespace\":\"" + tenantOf + "\"") != std::string::npos
                                  : request.body.find("\"user\":\"" + readers + "\"") != std::string::npos;
    return kube::HttpResponse{201, {}, may ? R"({"status":{"allowed":true}})" : R"({"status":{"allowed":false}})"};
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest&, const std::function<bool(std::string_view)>&,
                                          std::stop_token) override {
    return base::Status(base::Code::internal, "not asked for");
  }
  bool down = false, forbidden = false, garbage = false;
  std::string readers = "reader";  ///< users that are permitted
  std::string tenantOf;            ///< namespace whose claims every known user may list
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

TEST_F(CallersTest, OthersGetWhatTheyNeed) {
  for (const char* none : {"", "Basic dTpw", "Bearer", "Bearer  "}) EXPECT_EQ(status(none), 401) << none;
  EXPECT_TRUE(api.asked.empty());
  const auto unknown = callers.check("Bearer forged", {});
  EXPECT_EQ(unknown.status, 401);
  EXPECT_THAT(unknown.message, HasSubstr("token \"expired\""));
  const auto may = callers.check("bearer nobody", {});
  EXPECT_EQ(may.status, 403);
  EXPECT_THAT(may.message, HasSubstr("user \"nobody\" cannot get resource \"elasticgpus\""));
}

TEST_F(CallersTest, ATenantIsAskedAboutTheClaimsOfItsNamespace) {
  api.tenantOf = "team";
  EXPECT_EQ(callers.checkTenant("Bearer nobody", "team", {}).status, 200);
  EXPECT_THAT(api.bodies[1],
              HasSubstr(R"("resourceAttributes":{"namespace":"team","verb":"list","group":"elasticgpu.io",)"
                        R"("resource":"elasticgpuclaims"})"));
  const auto other = callers.checkTenant("Bearer nobody", "other", {});
  EXPECT_EQ(other.status, 403);
  EXPECT_THAT(other.message, HasSubstr("cannot list resource \"elasticgpuclaims\""));
  EXPECT_THAT(other.message, HasSubstr("in the namespace \"other\""));
  EXPECT_EQ(status("Bearer nobody"), 403) << "the right in a namespace is none in the cluster";
}

TEST_F(CallersTest, NoTokenCountsAsAnotherOneWithANamespace) {
  api.tenantOf = "team";
  EXPECT_EQ(callers.checkTenant("Bearer nobody", "team", {}).status, 200);
  for (const char* forged : {"teamnobody", "4:teamnobody", "team\nnobody", "nobody\nteam"})
    EXPECT_EQ(status(std::string("Bearer ") + forged), 401) << forged;
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
  clock.advance(std::chrono::seconds(11));  // the right was granted meanwhile
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
  EXPECT_EQ(status("Bearer reader"), 200);  // known callers are not affected
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(status("Bearer another"), 401);
}

TEST_F(CallersTest, WhoWasLetInLatelyIsAskedAboutHoweverManyForge) {
  EXPECT_EQ(status("Bearer reader"), 200);
  for (int minute = 1; minute <= 3; ++minute) {
    clock.advance(std::chrono::seconds(61));
    for (int i = 0; i < 1000; ++i) status("Bearer forged" + std::to_string(1000 * minute + i));
    api.asked.clear();
    EXPECT_EQ(status("Bearer reader"), 200) << minute;
    EXPECT_EQ(api.asked.size(), 2U);  // authenticated and authorized again
    EXPECT_EQ(status("Bearer another"), 503);
  }
}

TEST_F(CallersTest, TokensForgedForAMinuteDoNotPushOutWhoWasLetIn) {
  EXPECT_EQ(status("Bearer reader"), 200);
  for (int second = 0; second < 61; ++second) {
    clock.advance(std::chrono::seconds(1));
    for (int i = 0; i < 50; ++i) EXPECT_EQ(status("Bearer f" + std::to_string(50 * second + i)), 401);
  }
  EXPECT_EQ(status("Bearer late"), 503);
  EXPECT_EQ(status("Bearer reader"), 200);
}

TEST_F(CallersTest, ARightThatWasTakenSinceCountsNoMore) {
  EXPECT_EQ(status("Bearer reader"), 200);
  clock.advance(std::chrono::seconds(61));
  api.readers = "nobody";
  EXPECT_EQ(status("Bearer reader"), 403);
  clock.advance(std::chrono::seconds(11));
  for (int i = 0; i < 50; ++i) status("Bearer forged" + std::to_string(i));
  EXPECT_EQ(status("Bearer reader"), 503);  // like any unknown caller
}

TEST_F(CallersTest, WhileTheApiServerIsDownALapsedYesLetsNobodyIn) {
  EXPECT_EQ(status("Bearer reader"), 200);
  clock.advance(std::chrono::seconds(61));
  api.down = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(status("Bearer reader"), 503);
  api.down = false;
  for (int i = 0; i < 50; ++i) status("Bearer forged" + std::to_string(i));
  EXPECT_EQ(status("Bearer reader"), 200);
}

TEST_F(CallersTest, SomebodyNotSeenForLongWaitsAsAnyoneDoes) {
  EXPECT_EQ(status("Bearer reader"), 200);
  clock.advance(Callers::kLately + std::chrono::seconds(1));
  for (int i = 0; i < 50; ++i) status("Bearer forged" + std::to_string(i));
  EXPECT_EQ(status("Bearer reader"), 503);
}

/// Answers only when the test releases it.
class HeldReviews final : public kube::Transport {
 public:
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    const bool mine = request.body.find("reader") != std::string::npos;
    changed.wait(lock, stop, [&] { return !held || (mine && readerPasses); });
    --inside;
    return reviews.perform(request, stop);
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest&, const std::function<bool(std::string_view)>&,
                                          std::stop_token) override {
    return base::Status(base::Code::internal, "not asked for");
  }
  void set(bool& what, bool to) {
    {
      const std::lock_guard lock(mutex);
      what = to;
    }
    changed.notify_all();
  }
  void awaitInside(int n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside == n; });
  }
  std::mutex mutex;
  std::condition_variable_any changed;
  bool held = false, readerPasses = true;
  int inside = 0;
  Reviews reviews;
};

class HeldCallersTest : public ::testing::Test {
 protected:
  static kube::ClientOptions once() {
    kube::ClientOptions options;
    options.maxAttempts = 1;
    return options;
  }
  HeldReviews api;
  base::ManualClock clock;
  base::Random random;
  base::NoMetrics metrics;
  kube::Client client{api, clock, random, metrics, once()};
  Callers callers{client, clock};
};

TEST_F(HeldCallersTest, WhoWasLetInLatelyDoesNotWaitForOthers) {
  EXPECT_EQ(callers.check("Bearer reader", {}).status, 200);
  clock.advance(std::chrono::seconds(61));
  api.set(api.held, true);
  std::vector<std::jthread> others;
  for (int i = 0; i < Callers::kAtOnce; ++i)
    others.emplace_back([this, i] { callers.check("Bearer forged" + std::to_string(i), {}); });
  api.awaitInside(Callers::kAtOnce);
  EXPECT_EQ(callers.check("Bearer reader", {}).status, 200);
  api.set(api.held, false);
}

TEST_F(HeldCallersTest, SomebodyLetInLatelyIsAskedAboutOnceAtATime) {
  EXPECT_EQ(callers.check("Bearer reader", {}).status, 200);
  clock.advance(std::chrono::seconds(61));
  api.set(api.readerPasses, false);
  api.set(api.held, true);
  std::atomic<int> letIn = 0;
  std::vector<std::jthread> same;
  for (int i = 0; i < 8; ++i) same.emplace_back([&] { letIn += callers.check("Bearer reader", {}).status == 200; });
  api.awaitInside(1);
  std::stop_source gone;
  gone.request_stop();
  EXPECT_EQ(callers.check("Bearer reader", gone.get_token()).status, 503);
  api.set(api.held, false);
  same.clear();
  EXPECT_EQ(letIn, 8);
  EXPECT_EQ(api.reviews.asked.size(), 4U);
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
  /// The answer's body, or its status if it is refused.
  std::string bill(const std::string& query, const std::string& authorization, const std::string& method = "GET",
                   const std::string& path = "/bill") {
    http::Request r;
    r.method = method;
    r.path = path;
    r.query = query;
    r.headers.emplace_back("authorization", authorization);
    const auto answer = operations.handle(r, {});
    return answer.status == 200 ? answer.body : std::to_string(answer.status);
  }
  Operations operations{{[](const allocator::MapPage&) { return AllocationMap{}; },
                         [] { return std::string("metrics"); },
                         [] { return std::string(); },
                         [] { return std::string(); },
                         {},
                         [](const http::Request&, std::stop_token) { return http::Response{}; },
                         [this](std::string_view authorization, std::stop_token stop) {
                           return callers.check(authorization, std::move(stop));
                         },
                         {},
                         {},
                         {},
                         [](const http::Request& request, bool whole, std::stop_token) {
                           http::Response response;
                           response.body = (whole ? "all " : "part ") + request.query;
                           return response;
                         },
                         [this](std::string_view authorization, std::string_view space, std::stop_token stop) {
                           return callers.checkTenant(authorization, space, std::move(stop));
                         }}};
};

TEST_F(GuardedTest, ATenantGetsTheBillOfItsNamespaceOnly) {
  api.tenantOf = "team";
  EXPECT_EQ(get("/bill").status, 401);
  EXPECT_EQ(get("/bill", "Bearer nobody").status, 403);
  EXPECT_EQ(bill("namespace=team", "Bearer nobody"), "part namespace=team");
  EXPECT_EQ(bill("namespace=other", "Bearer nobody"), "403");
  EXPECT_EQ(bill("namespace=team&namespace=other", "Bearer nobody"), "403") << "the last one counts for the bill";
  EXPECT_EQ(bill("namespace=team", "Bearer forged"), "401");
  EXPECT_EQ(bill("namespace=team", "Bearer reader"), "all namespace=team");
  EXPECT_EQ(bill("", "Bearer reader"), "all ");
  EXPECT_EQ(bill("namespace=team", "Bearer nobody", "HEAD"), "part namespace=team");
  EXPECT_EQ(bill("namespace=team", "Bearer nobody", "POST"), "405");
  EXPECT_EQ(bill("namespace=team", "Bearer nobody", "GET", "/allocation-map"), "403");
}

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

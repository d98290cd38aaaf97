#include "controller/server/page/page.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "controller/server/operations/operations.h"

namespace egpu::server {
namespace {

http::Response get(const std::string& path, const std::string& method = "GET") {
  http::Request r;
  r.method = method;
  r.path = path;
  return pageFile(r);
}

std::string headerOf(const http::Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}

TEST(Page, TheFilesHaveTheirTypes) {
  EXPECT_EQ(get("/").contentType, "text/html; charset=utf-8");
  EXPECT_TRUE(get("/").body.starts_with("<!doctype html>"));
  EXPECT_EQ(get("/page/page.css").contentType, "text/css; charset=utf-8");
  EXPECT_EQ(get("/page/main.js").contentType, "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/page/icon.svg").contentType, "image/svg+xml");
  for (const char* none : {"/page/", "/page/none.js", "/page/../main.js", "/page//main.js"})
    EXPECT_EQ(get(none).status, 404) << none;
  EXPECT_EQ(get("/", "HEAD").status, 200);
  EXPECT_EQ(get("/", "POST").status, 405);
}

TEST(Page, EveryAnswerForbidsInlineCodeAndFrames) {
  for (const char* path : {"/", "/page/main.js", "/page/none.js"}) {
    const auto answer = get(path);
    const auto policy = headerOf(answer, "Content-Security-Policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none';")) << path << ": " << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
    for (const char* rule : {"script-src 'self';", "style-src 'self';", "base-uri 'none'", "frame-ancestors 'none'",
                             "require-trusted-types-for 'script'", "trusted-types 'none'"})
      EXPECT_NE(policy.find(rule), std::string::npos) << rule;
    EXPECT_EQ(headerOf(answer, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(headerOf(answer, "Referrer-Policy"), "no-referrer");
  }
}

/// Names that stand in `text` after one of the marks, up to the next quote.
std::set<std::string, std::less<>> namesIn(std::string_view text) {
  std::set<std::string, std::less<>> names;
  for (const std::string_view mark : {"from './", "href=\"page/", "src=\"page/"})
    for (auto at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at)) {
      at += mark.size();
      names.emplace(text.substr(at, text.find_first_of("'\"", at) - at));
    }
  return names;
}

TEST(Page, TheFilesNeedNothingElse) {
  std::set<std::string, std::less<>> names, reached = {"index.html"};
  for (const auto& file : pageFiles()) names.emplace(file.name);
  for (const auto& file : pageFiles()) {
    for (const auto& name : namesIn(file.text)) {
      EXPECT_TRUE(names.count(name) != 0) << file.name << " uses " << name;
      reached.insert(name);
    }
    for (const char* unsafe :
         {"https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "<style",
          "onload=", "onclick=", "onerror=", "localStorage", "sessionStorage", "document.cookie"})
      EXPECT_EQ(file.text.find(unsafe), std::string_view::npos) << file.name << " has " << unsafe;
  }
  EXPECT_EQ(reached, names) << "a file that no file uses";
}

/// Operations whose callers need the token "good".
class PageAccessTest : public testing::Test {
 protected:
  http::Response ask(const std::string& path, const std::string& token = {}, const std::string& method = "GET") {
    http::Request r;
    r.method = method;
    r.path = path;
    if (!token.empty()) r.headers.emplace_back("authorization", "Bearer " + token);
    return operations_.handle(r, {});
  }
  std::string missing_;
  int opened_ = 0;
  std::function<bool(std::stop_token)> stillAllowed_;
  std::string good_ = "Bearer good";
  Operations operations_{[this] {
    OperationsSources s{[](const allocator::MapPage&) { return AllocationMap{}; }, [] { return std::string(); },
                        [] { return std::string(); }, [this] { return missing_; }};
    s.callers = [this](std::string_view authorization, std::stop_token) {
      return authorization == good_ ? Callers::CallerVerdict{} : Callers::CallerVerdict{401, "a token is needed"};
    };
    s.events = [this](std::function<bool(std::stop_token)> stillAllowed) {
      ++opened_;
      stillAllowed_ = std::move(stillAllowed);
      return http::Response{};
    };
    return s;
  }()};
};

TEST_F(PageAccessTest, TheFilesAreForEveryoneAndTheDataAreNot) {
  EXPECT_EQ(ask("/").status, 200);
  EXPECT_EQ(ask("/page/main.js").status, 200);
  for (const char* path : {"/events", "/allocation-map", "/simulate", "/pages", "/page"})
    EXPECT_EQ(ask(path).status, 401) << path;
  EXPECT_EQ(opened_, 0);
  EXPECT_EQ(ask("/events", "good").status, 200);
  EXPECT_EQ(opened_, 1);
  EXPECT_EQ(ask("/events", "good", "POST").status, 405);
  EXPECT_EQ(ask("/events", "good", "HEAD").status, 404);
  EXPECT_EQ(opened_, 1);
}

TEST_F(PageAccessTest, AStreamAsksAgainWhetherItsCallerIsAllowed) {
  ask("/events", "good");
  ASSERT_TRUE(stillAllowed_);
  EXPECT_TRUE(stillAllowed_({}));
  good_ = "Bearer other";
  EXPECT_FALSE(stillAllowed_({}));
}

TEST_F(PageAccessTest, NoStreamOpensBeforeAllIsListedOrAfterTheEnd) {
  missing_ = "the claims are not listed yet";
  EXPECT_EQ(ask("/events", "good").status, 503);
  missing_.clear();
  operations_.stopQuestions();
  EXPECT_EQ(ask("/events", "good").status, 503);
  EXPECT_EQ(opened_, 0);
}

TEST(PageWithoutCallers, OnlyThisMachineOpensAStream) {
  OperationsSources s{[](const allocator::MapPage&) { return AllocationMap{}; }, [] { return std::string(); },
                      [] { return std::string(); }, [] { return std::string(); }};
  s.events = [](std::function<bool(std::stop_token)> stillAllowed) {
    EXPECT_FALSE(stillAllowed);
    return http::Response{};
  };
  Operations operations{std::move(s)};
  http::Request request;
  request.method = "GET";
  request.path = "/events";
  request.headers = {{"host", "localhost:9440"}, {"sec-fetch-site", "same-origin"}};
  EXPECT_EQ(operations.handle(request, {}).status, 200);
  request.headers = {{"host", "localhost:9440"}, {"sec-fetch-site", "cross-site"}};
  EXPECT_EQ(operations.handle(request, {}).status, 403);
  request.headers = {{"host", "rebound.example:9440"}};
  EXPECT_EQ(operations.handle(request, {}).status, 403);
}

}  // namespace
}  // namespace egpu::server

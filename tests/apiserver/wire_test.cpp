// The API server behind its listener, as remote clients use it.
#include <httplib.h>

#include <atomic>

#include "controller/http/http.h"
#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

class WireTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    auto made = http::listen("127.0.0.1:0", *server);
    ASSERT_TRUE(made.ok()) << made.status().str();
    listener = std::move(*made);
  }
  std::unique_ptr<httplib::Client> client() {
    auto c = std::make_unique<httplib::Client>("http://" + listener->address());
    c->set_read_timeout(30);
    c->set_tcp_nodelay(true);
    c->set_keep_alive(true);
    return c;
  }
  std::unique_ptr<http::Listener> listener;
};

TEST_F(WireTest, AnswersWhatItAnswersInProcess) {
  auto c = client();
  auto made = c->Post(kClaims.c_str(), claim("a").dump(), "application/json");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->status, 201);
  auto got = c->Get((kClaims + "/a").c_str());
  ASSERT_TRUE(got);
  EXPECT_EQ(Json::parse(got->body), get(kClaims + "/a").body);
  auto gone = c->Delete((kClaims + "/a").c_str());
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 200);
  auto unknownField = c->Post((kClaims + "?fieldValidation=Warn").c_str(),
                              [] {
                                Json j = claim("b");
                                j["spec"]["foo"] = 1;
                                return j.dump();
                              }(),
                              "application/json");
  ASSERT_TRUE(unknownField);
  EXPECT_EQ(unknownField->get_header_value("Warning"), "299 - \"unknown field \\\"spec.foo\\\"\"");
}

TEST_F(WireTest, JunkGetsAStatus) {
  auto c = client();
  for (const std::string& junk : {std::string(1 << 20, 'x'), std::string(4 << 20, 'x'), std::string(100, '\0')}) {
    auto r = c->Post(kClaims.c_str(), junk, "application/json");
    ASSERT_TRUE(r);
    EXPECT_EQ(r->status, junk.size() > (3 << 20) ? 413 : 400);
    EXPECT_EQ(Json::parse(r->body)["kind"], "Status");
  }
  auto fine = client()->Get("/readyz");
  ASSERT_TRUE(fine);
  EXPECT_EQ(fine->status, 200);
}

TEST_F(WireTest, AWatchSeesEveryWriteOnceAndEndsWithTheListener) {
  constexpr int kWriters = 8, kEach = 25;
  std::atomic<int> lines{0}, listening{0};
  std::set<std::string> seen;
  std::jthread watcher([&] {
    auto c = client();
    std::string buffer;
    c->Get((kClaims + "?watch=true&resourceVersion=" + get(kClaims).version()).c_str(),
           [&](const httplib::Response& r) {
             EXPECT_EQ(r.status, 200);
             EXPECT_EQ(r.get_header_value("Content-Type"), "application/json;stream=watch");
             listening = 1;
             return true;
           },
           [&](const char* data, size_t n) {
             buffer.append(data, n);
             for (size_t end; (end = buffer.find('\n')) != std::string::npos; buffer.erase(0, end + 1)) {
               seen.insert(Json::parse(buffer.substr(0, end))["object"]["metadata"]["name"]);
               ++lines;
             }
             return true;
           });
    listening = 2;
  });
  while (listening == 0) std::this_thread::yield();
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < kWriters; ++t)
      writers.emplace_back([&, t] {
        auto c = client();
        for (int i = 0; i < kEach; ++i) {
          auto r = c->Post(kClaims.c_str(), claim("w" + std::to_string(t) + "-" + std::to_string(i)).dump(),
                           "application/json");
          ASSERT_TRUE(r);
          EXPECT_EQ(r->status, 201);
        }
      });
  }
  while (lines < kWriters * kEach && listening == 1) std::this_thread::yield();
  EXPECT_EQ(listening, 1) << "the watch ended early";
  listener->stop();
  watcher.join();
  EXPECT_EQ(lines, kWriters * kEach);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kWriters * kEach));
}

}  // namespace
}  // namespace egpu::apiserver

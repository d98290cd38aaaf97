#include "controller/server/operations/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "controller/base/printable.h"
#include "controller/server/operations/process_metrics.h"
#include "controller/server/operations/prometheus_metrics.h"

namespace egpu::server {
namespace {

class OperationsTest : public testing::Test {
 protected:
  http::Response get(const std::string& path, const std::string& query = "", const std::string& method = "GET") {
    http::Request r;
    r.method = method;
    r.path = path;
    r.query = query;
    return operations_.handle(r, {});
  }
  std::string missing_ = "the claims are not listed yet";
  PrometheusMetrics metrics_;
  Operations operations_{{[](const allocator::MapPage&) { return AllocationMap{}; }, [this] { return metrics_.text(); },
                          [] { return std::string(); }, [this] { return missing_; }}};
};

TEST_F(OperationsTest, ReadyzReportsWhatIsMissing) {
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(get("/readyz").body, "the claims are not listed yet\n");
  missing_.clear();
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/healthz").body, "ok\n");
}

TEST_F(OperationsTest, MetricsAreText) {
  metrics_.add("elasticgpu_decisions_total", 2, {{"result", "fits"}});
  metrics_.set("elasticgpu_workqueue_depth", 7, {{"queue", "claims"}});
  metrics_.observe("elasticgpu_reconcile_seconds", 0.002, {{"kind", "claim"}});
  const auto text = get("/metrics").body;
  EXPECT_NE(text.find("elasticgpu_decisions_total{result=\"fits\"} 2"), std::string::npos) << text;
  EXPECT_NE(text.find("elasticgpu_workqueue_depth{queue=\"claims\"} 7"), std::string::npos) << text;
  EXPECT_NE(text.find("elasticgpu_reconcile_seconds_bucket{kind=\"claim\",le=\"0.003\"} 1"), std::string::npos) << text;
  metrics_.forget("elasticgpu_workqueue_depth", {{"queue", "claims"}});
  EXPECT_EQ(get("/metrics").body.find("elasticgpu_workqueue_depth{"), std::string::npos);
}

TEST_F(OperationsTest, WrongFormatsPathsAndMethodsReportWhatThereIs) {
  EXPECT_EQ(get("/allocation-map", "format=xml").status, 400);
  EXPECT_NE(get("/allocation-map", "format=xml").body.find("backendai"), std::string::npos);
  EXPECT_EQ(get("/allocation-map", "fromat=json").status, 400);
  EXPECT_EQ(get("/allocation-map", "format=text&width=wide").status, 400);
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/metrics", "", "POST").status, 405);
  EXPECT_EQ(get("/allocation-map", "format=backendai").body, "{}");
  EXPECT_EQ(get("/allocation-map", "idle=nodes").status, 200);
  EXPECT_NE(get("/allocation-map", "idle=cards").body.find("known is nodes"), std::string::npos);
  EXPECT_EQ(get("/allocation-map", "format=text&columns=x").status, 400);
  EXPECT_TRUE(get("/allocation-map", "format=yaml").body.starts_with("nodes: []\ntotals:\n  nodes: 0\n"));
}

TEST_F(OperationsTest, MovesAreMadeOnlyWhereTheyCanBe) {
  missing_.clear();
  const auto none = get("/defrag", "execute=true", "POST");
  EXPECT_EQ(none.status, 404);
  EXPECT_NE(none.body.find("defrag --execute"), std::string::npos) << none.body;
  OperationsSources sources{[](const allocator::MapPage&) { return AllocationMap{}; }, [] { return std::string(); },
                            [] { return std::string(); }, [] { return std::string(); }};
  sources.moves = [](const http::Request& request, std::stop_token) {
    http::Response r;
    r.body = "moved by " + request.query;
    return r;
  };
  Operations operations{std::move(sources)};
  http::Request request;
  request.method = "POST";
  request.path = "/defrag";
  request.query = "execute=true";
  EXPECT_EQ(operations.handle(request, {}).body, "moved by execute=true");
  request.headers = {{"host", "evil.example"}};
  EXPECT_EQ(operations.handle(request, {}).status, 403) << "a page of somebody else's";
}

TEST_F(OperationsTest, HistogramsReachFiveMinutes) {
  metrics_.observe("elasticgpu_api_request_duration_seconds", 200, {});
  const auto text = get("/metrics").body;
  EXPECT_NE(text.find("_bucket{le=\"100\"} 0"), std::string::npos) << text;
  EXPECT_NE(text.find("_bucket{le=\"300\"} 1"), std::string::npos) << text;
}

TEST_F(OperationsTest, TheProcessReportsItsOwnFigures) {
  ProcessMetrics process;
  process.update(metrics_);
  process.update(metrics_);
  const auto text = get("/metrics").body;
  for (const char* name : {"process_cpu_seconds_total ", "process_resident_memory_bytes ", "process_open_fds ",
                           "process_max_fds ", "process_start_time_seconds ", "process_virtual_memory_bytes "}) {
    const auto at = text.find(std::string("\n") + name);
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_GE(std::stod(text.substr(at + 1 + std::string_view(name).size())), 0) << name;
  }
  EXPECT_NE(text.find("# TYPE process_cpu_seconds_total counter"), std::string::npos);
}

/// Operations with a map of five nodes. The handlers record how they were called and stopped.
class PagedMapTest : public testing::Test {
 protected:
  PagedMapTest() {
    for (int i = 0; i < 5; ++i) map_.nodes.push_back({"n" + std::to_string(i), true, {}});
  }
  http::Response get(const std::string& path, const std::string& query = {}, const std::string& host = {},
                     const std::string& origin = {}, const std::string& site = {}) {
    http::Request r;
    r.method = "GET";
    r.path = path;
    r.query = query;
    if (!host.empty()) r.headers.emplace_back("host", host);
    if (!origin.empty()) r.headers.emplace_back("origin", origin);
    if (!site.empty()) r.headers.emplace_back("sec-fetch-site", site);
    return operations_.handle(r, {});
  }
  AllocationMap map_;
  allocator::MapPage asked_;
  Operations operations_{
      {[this](const allocator::MapPage& page) {
         asked_ = page;
         auto map = map_;
         std::erase_if(map.nodes, [&page](const auto& node) { return !page.node.empty() && node.name != page.node; });
         if (page.limit > 0 && map.nodes.size() > page.limit) map.nodes.resize(page.limit);
         return map;
       },
       [] { return std::string(); },
       [] { return std::string(); },
       [] { return std::string(); },
       {},
       [](const http::Request&, std::stop_token stop) {
         http::Response r;
         r.body = stop.stop_requested() ? "stopped" : "asked";
         return r;
       }}};
};

TEST_F(PagedMapTest, TheMapComesInPages) {
  map_.next = "n4";
  const auto first = get("/allocation-map", "limit=5&idle=nodes").body;
  EXPECT_EQ(asked_.limit, 5U);
  EXPECT_TRUE(asked_.idle);
  EXPECT_NE(first.find(R"(,"continue":"n4"})"), std::string::npos) << first;
  map_.next.clear();
  const auto last = get("/allocation-map", "limit=3&continue=n1").body;
  EXPECT_EQ(asked_.after, "n1");
  EXPECT_EQ(last.find("continue"), std::string::npos) << last;
  EXPECT_EQ(get("/allocation-map", "limit=some").status, 400);
  EXPECT_EQ(get("/allocation-map", "node=n9").status, 404);
  EXPECT_EQ(asked_.node, "n9");
}

TEST_F(PagedMapTest, ControlCharactersAreShownInsteadOfObeyed) {
  for (const char* query : {"node=%1b[31m", "format=%1b[31m", "%c2%9b31m=1", "idle=%7f", "limit=%1b"}) {
    const auto body = get("/allocation-map", query).body;
    EXPECT_FALSE(base::hasControls(std::string_view(body).substr(0, body.size() - 1))) << query << ": " << body;
    EXPECT_NE(body.find("\\x"), std::string::npos) << body;
  }
  allocator::MapCard card;
  card.offered = false;
  card.why = "odd \xc2\x9b\x7f\033[31m";
  map_.nodes = {{"n", true, {card}}};
  for (const char* format : {"json", "yaml"}) {
    const auto body = get("/allocation-map", std::string("format=") + format).body;
    EXPECT_NE(body.find("odd \\u009b\\u007f\\u001b[31m"), std::string::npos) << body;
  }
}

TEST_F(PagedMapTest, AnAnswerThatIsTooLargeIsRefusedWithWhatToDo) {
  map_.nodes.clear();
  allocator::MapCard card;
  card.model = std::string(1 << 20, 'm');
  for (int i = 0; i < 70; ++i) map_.nodes.push_back({"n" + std::to_string(100 + i), true, {card}});
  const auto refused = get("/allocation-map");
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("limit="), std::string::npos) << refused.body;
  EXPECT_EQ(get("/allocation-map", "limit=10").status, 200);
}

TEST(ConcurrentCallers, TwoMapsAtOnceAndTheOthersWait) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, max = 0, answered = 0;
  bool open = false;
  Operations operations{{[&](const allocator::MapPage&) {
                           std::unique_lock lock(mutex);
                           max = std::max(max, ++inside);
                           changed.notify_all();
                           changed.wait(lock, [&] { return open; });
                           --inside;
                           return AllocationMap{};
                         },
                         [] { return std::string("metrics"); }, [] { return std::string(); },
                         [] { return std::string(); }}};
  const auto ask = [&](const std::string& path, std::stop_token stop) {
    http::Request r;
    r.method = "GET";
    r.path = path;
    return operations.handle(r, std::move(stop)).status;
  };
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      const bool good = ask("/allocation-map", {}) == 200;
      const std::lock_guard lock(mutex);
      answered += good;
    });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside == 2; });
  }
  EXPECT_EQ(ask("/metrics", {}), 200);
  EXPECT_EQ(ask("/healthz", {}), 200);
  std::stop_source gone;
  gone.request_stop();
  EXPECT_EQ(ask("/allocation-map", gone.get_token()), 503);  // does not wait any longer
  {
    const std::lock_guard lock(mutex);
    open = true;
  }
  changed.notify_all();
  callers.clear();
  EXPECT_EQ(max, 2);
  EXPECT_EQ(answered, 8);
}

TEST(ConcurrentCallers, OneCollectsMetricsAndWhoseCallerIsGoneDoesNotWait) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, max = 0, begun = 0, fresh = 0;
  bool open = false;
  Operations operations{{[](const allocator::MapPage&) { return AllocationMap{}; },
                         [&] {
                           std::unique_lock lock(mutex);
                           max = std::max(max, ++inside);
                           const int number = ++begun;
                           changed.notify_all();
                           changed.wait(lock, [&] { return open; });
                           --inside;
                           return std::to_string(number);
                         },
                         [] { return std::string(); }, [] { return std::string(); }}};
  const auto ask = [&](std::stop_token stop) {
    http::Request r;
    r.method = "GET";
    r.path = "/metrics";
    return operations.handle(r, std::move(stop));
  };
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      int before = 0;
      {
        const std::lock_guard lock(mutex);
        before = begun;
      }
      const auto answer = ask({});
      const std::lock_guard lock(mutex);
      fresh += answer.status == 200 && std::stoi(answer.body) > before;
    });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside == 1; });
  }
  std::stop_source gone, going;
  gone.request_stop();
  EXPECT_EQ(ask(gone.get_token()).status, 503);
  int status = 0;
  std::jthread waiting([&] { status = ask(going.get_token()).status; });
  going.request_stop();
  waiting.join();
  EXPECT_EQ(status, 503);
  {
    const std::lock_guard lock(mutex);
    open = true;
  }
  changed.notify_all();
  callers.clear();
  EXPECT_EQ(max, 1);
  EXPECT_EQ(fresh, 8);  // each caller gets metrics collected after its request
  const int collected = begun;
  EXPECT_EQ(ask(gone.get_token()).status, 503);  // nothing is collected for it either
  EXPECT_EQ(begun, collected);
  EXPECT_EQ(ask({}).body, std::to_string(collected + 1));
}

TEST(ConcurrentCallers, MetricsThatCouldNotBeCollectedAreCollectedForTheNext) {
  bool fails = true;
  Operations operations{{[](const allocator::MapPage&) { return AllocationMap{}; },
                         [&] {
                           if (fails) throw std::runtime_error("no");
                           return std::string("metrics");
                         },
                         [] { return std::string(); }, [] { return std::string(); }}};
  http::Request r;
  r.method = "GET";
  r.path = "/metrics";
  EXPECT_THROW(operations.handle(r, {}), std::runtime_error);
  fails = false;
  EXPECT_EQ(operations.handle(r, {}).body, "metrics");
}

TEST_F(PagedMapTest, AfterStopQuestionsAreRefused) {
  EXPECT_EQ(get("/explain").body, "asked");
  operations_.stopQuestions();
  EXPECT_EQ(get("/explain").status, 503);
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/metrics").status, 200);
}

TEST_F(PagedMapTest, WithoutCallersAPageOfSomebodyElseIsRefused) {
  EXPECT_EQ(get("/allocation-map", {}, "127.0.0.1:9440").status, 200);
  EXPECT_EQ(get("/allocation-map", {}, "localhost").status, 200);
  EXPECT_EQ(get("/allocation-map", {}, "[::1]:9440", "http://localhost:3000").status, 200);
  EXPECT_EQ(get("/allocation-map", {}, "evil.example:9440").status, 403);
  EXPECT_EQ(get("/explain", {}, "127.0.0.1:9440", "https://evil.example").status, 403);
  EXPECT_EQ(get("/explain", {}, "127.0.0.1:9440", "null").status, 403);
}

TEST_F(PagedMapTest, WithoutCallersAnImageInAPageOfSomebodyElseAsksNothing) {
  // Requests for images, frames and links have no Origin; the browser names the site in Sec-Fetch-Site.
  for (const char* path : {"/explain", "/simulate", "/forecast", "/defrag", "/allocation-map", "/nothing"})
    for (const char* site : {"cross-site", "Cross-Site", "elsewhere"})
      EXPECT_EQ(get(path, {}, "127.0.0.1:9440", {}, site).status, 403) << path << " " << site;
  for (const char* site : {"none", "same-origin", "same-site"})  // a typed address, or a page of this machine
    EXPECT_EQ(get("/explain", {}, "127.0.0.1:9440", {}, site).status, 200) << site;
  EXPECT_EQ(get("/explain", {}, "127.0.0.1:9440", "http://localhost:3000", "cross-site").status, 200);
  EXPECT_EQ(get("/explain", {}, "127.0.0.1:9440", "https://evil.example", "same-site").status, 403);
  EXPECT_EQ(get("/metrics", {}, "127.0.0.1:9440", {}, "cross-site").status, 200);
  EXPECT_EQ(get("/healthz", {}, "127.0.0.1:9440", {}, "cross-site").status, 200);
}

}  // namespace
}  // namespace egpu::server

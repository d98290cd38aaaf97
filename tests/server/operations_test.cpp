#include "controller/server/operations.h"

#include <gtest/gtest.h>

#include "controller/server/prometheus_metrics.h"

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
  Operations operations_{{[] { return AllocationMap{}; }, [this] { return metrics_.text(); },
                          [] { return std::string(); }, [this] { return missing_; }}};
};

TEST_F(OperationsTest, ReadyzSaysWhatIsMissing) {
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

TEST_F(OperationsTest, WrongFormatsPathsAndMethodsSayWhatThereIs) {
  EXPECT_EQ(get("/allocation-map", "format=xml").status, 400);
  EXPECT_NE(get("/allocation-map", "format=xml").body.find("backendai"), std::string::npos);
  EXPECT_EQ(get("/allocation-map", "fromat=json").status, 400);
  EXPECT_EQ(get("/allocation-map", "format=text&width=wide").status, 400);
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/metrics", "", "POST").status, 405);
  EXPECT_EQ(get("/allocation-map", "format=backendai").body, "{}");
}

}  // namespace
}  // namespace egpu::server

// A server in process, and helpers for its tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "controller/standalone/apiserver/server.h"

namespace egpu::apiserver {

using Json = nlohmann::json;

struct Reply {
  int status = 0;
  Json body;
  http::Response raw;
  std::string reason() const { return body.is_object() ? body.value("reason", "") : std::string(); }
  std::string message() const { return body.is_object() ? body.value("message", "") : std::string(); }
  std::string version() const { return body.at("metadata").at("resourceVersion").get<std::string>(); }
  std::string uid() const { return body.at("metadata").at("uid").get<std::string>(); }
};

/// Reads the lines of a watch in the test's own thread.
class WatchClient {
 public:
  explicit WatchClient(std::unique_ptr<http::BodyStream> stream) : stream_(std::move(stream)) {}
  /// Waits for the next event and returns it. Null when the watch has ended.
  Json next() {
    for (;;) {
      if (auto end = buffer_.find('\n'); end != std::string::npos) {
        Json event = Json::parse(buffer_.substr(0, end));
        buffer_.erase(0, end + 1);
        return event;
      }
      if (ended_ || !stream_) return nullptr;
      if (!stream_->next(buffer_, stop_.get_token())) ended_ = true;
    }
  }
  /// Returns the next event as "ADDED name", "BOOKMARK", …
  std::string word() {
    Json e = next();
    if (e.is_null()) return "END";
    const std::string type = e["type"];
    return type == "BOOKMARK" || type == "ERROR" ? type
                                                 : type + " " + e["object"]["metadata"]["name"].get<std::string>();
  }

 private:
  std::unique_ptr<http::BodyStream> stream_;
  std::stop_source stop_;
  std::string buffer_;
  bool ended_ = false;
};

inline constexpr const char* kMerge = "application/merge-patch+json";
inline constexpr const char* kJsonPatchType = "application/json-patch+json";
inline constexpr const char* kStrategic = "application/strategic-merge-patch+json";
inline const std::string kClaims = "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims";
inline const std::string kGpus = "/apis/elasticgpu.io/v1alpha/elasticgpus";
inline const std::string kClasses = "/apis/elasticgpu.io/v1alpha/elasticgpuclasses";
inline const std::string kPods = "/api/v1/namespaces/default/pods";
inline const std::string kResourceClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

/// target: path with an optional "?query".
inline Reply ask(http::Handler& server, const std::string& method, const std::string& target,
                 const std::string& body = {}, const std::string& contentType = "application/json",
                 const std::string& accept = {}) {
  http::Request request;
  request.method = method;
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  if (!body.empty()) request.headers.emplace_back("content-type", contentType);
  if (!accept.empty()) request.headers.emplace_back("accept", accept);
  request.body = body;
  Reply reply;
  reply.raw = server.handle(request, {});
  reply.status = reply.raw.status;
  reply.body = Json::parse(reply.raw.body, nullptr, false);
  return reply;
}

inline Json meta(const std::string& name, const Json& more = Json::object()) {
  Json m = {{"name", name}};
  m.update(more);
  return m;
}
inline Json claim(const std::string& name, const Json& metaMore = Json::object()) {
  return {{"apiVersion", "elasticgpu.io/v1alpha"},
          {"kind", "ElasticGPUClaim"},
          {"metadata", meta(name, metaMore)},
          {"spec", {{"egpuClassName", "share"}, {"resources", {{"requests", {{"elasticgpu.io/gpu-core", 10}}}}}}}};
}
inline Json gpuClass(const std::string& name, const Json& metaMore = Json::object()) {
  return {{"apiVersion", "elasticgpu.io/v1alpha"},
          {"kind", "ElasticGPUClass"},
          {"metadata", meta(name, metaMore)},
          {"provisioner", "mock.provisioner.elasticgpu.io"}};
}
/// A card with 1000 milli-cards and 8 GiB.
inline Json card(const std::string& name, const Json& metaMore = Json::object()) {
  return {{"apiVersion", "elasticgpu.io/v1alpha"},
          {"kind", "ElasticGPU"},
          {"metadata", meta(name, metaMore)},
          {"spec",
           {{"capacity", {{"elasticgpu.io/gpu-core", "100"}}},
            {"physicalGPU", {{"gpuNames", {name}}}},
            {"card",
             {{"uuid", name},
              {"nodeName", "n1"},
              {"index", 0},
              {"model", "V100"},
              {"smCount", 80},
              {"tflops", 15},
              {"core", 1000},
              {"memory", int64_t{8} << 30},
              {"topology", {{"numa", 0}}}}}}}};
}
inline Json pod(const std::string& name, const Json& metaMore = Json::object()) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", meta(name, metaMore)},
          {"spec", {{"containers", {{{"name", "c"}, {"image", "i"}}}}}}};
}
inline Json nsObject(const std::string& name) {
  return {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", meta(name)}};
}

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }
  void start(Options options) {
    server.reset();
    auto made = Server::create(options, clock, random);
    ASSERT_TRUE(made.ok()) << made.status().str();
    server = std::move(*made);
  }
  Reply call(const std::string& method, const std::string& target, const Json& body,
             const std::string& contentType = "application/json") {
    return ask(*server, method, target, body.dump(), contentType);
  }
  Reply call(const std::string& method, const std::string& target) { return ask(*server, method, target); }
  Reply get(const std::string& target) { return call("GET", target); }
  /// Sends a POST that must succeed.
  Reply make(const std::string& collection, const Json& object) {
    Reply r = call("POST", collection, object);
    EXPECT_EQ(r.status, 201) << r.raw.body;
    return r;
  }
  Reply merge(const std::string& target, const Json& patch) { return call("PATCH", target, patch, kMerge); }
  WatchClient watch(const std::string& target) {
    Reply r = call("GET", target);
    EXPECT_EQ(r.status, 200) << r.raw.body;
    EXPECT_TRUE(r.raw.stream != nullptr) << r.raw.body;
    return WatchClient(std::move(r.raw.stream));
  }

  base::ManualClock clock;
  base::Random random{7};
  std::unique_ptr<Server> server;
};

}  // namespace egpu::apiserver

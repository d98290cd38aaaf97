// A client, a namespace per test and the objects that the contract tests use.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "controller/kube/client.h"
#include "controller/kube/transport/curl_transport.h"
#include "tests/kube/contract/server.h"
#include "tests/kube/contract/watched_transport.h"

namespace egpu::kube {

class ContractTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Transport> connect(const Endpoint& endpoint, base::Clock& clock) {
    auto made = curlTransport(endpoint, clock);
    if (!made) throw std::runtime_error(made.status().str());
    return std::move(*made);
  }

  core::Lease lease(const std::string& name) const {
    core::Lease l;
    l.metadata.namespace_ = ns;
    l.metadata.name = name;
    l.holderIdentity = "somebody";
    l.leaseDurationSeconds = 15;
    return l;
  }
  /// A real API server has no watch cache for Events: after etcd compacts, their history is gone.
  core::Event event(const std::string& name) const {
    core::Event e;
    e.metadata.namespace_ = e.involvedObject.namespace_ = ns;
    e.metadata.name = name;
    e.involvedObject.kind = "Pod";
    e.involvedObject.name = "p";
    e.reason = "Tested";
    e.message = "m";
    e.type = "Normal";
    e.firstTimestamp = e.lastTimestamp = "2026-01-02T03:04:05Z";
    return e;
  }
  v1alpha::ElasticGPUClaim claim(const std::string& name) const {
    v1alpha::ElasticGPUClaim c;
    c.metadata.namespace_ = ns;
    c.metadata.name = name;
    c.spec.className = "share";
    c.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
    return c;
  }
  template <class T>
  T make(const T& object) {
    auto made = client.create(object);
    EXPECT_TRUE(made.ok()) << made.status().str();
    return made ? *made : T{};
  }
  template <class T>
  T get(const std::string& name) {
    auto got = client.get<T>({ns, name});
    EXPECT_TRUE(got.ok()) << got.status().str();
    return got ? *got : T{};
  }
  template <class T>
  base::Result<T> merge(const std::string& name, const std::string& body, const std::string& subresource = {}) {
    return client.patch<T>({ns, name}, PatchType::merge, body, subresource);
  }

  ContractServer& server = ContractServer::get();
  base::SystemClock clock;
  base::Random random;
  base::NoMetrics metrics;
  std::unique_ptr<Transport> direct = connect(server.endpoint(), clock);
  WatchedTransport transport{*direct};
  Client client{transport, clock, random, metrics};
  const std::string ns = server.makeNamespace();
};

}  // namespace egpu::kube

// The kubelet's PodResources service, with answers that the test sets.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/agent/dra/proto/pod_resources_v1.grpc.pb.h"

namespace egpu::agent::dra {

class FakePodResources final : public ::v1::PodResourcesLister::Service {
 public:
  ~FakePodResources() override { close(); }
  void listen(const std::string& socket) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_TRUE(server_) << socket;
  }
  void close() {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  /// Adds a pod with one container.
  ::v1::ContainerResources& container(const std::string& space, const std::string& pod, const std::string& name) {
    auto& added = *answer.add_pod_resources();
    added.set_namespace_(space);
    added.set_name(pod);
    auto& out = *added.add_containers();
    out.set_name(name);
    return out;
  }
  grpc::Status List(grpc::ServerContext*, const ::v1::ListPodResourcesRequest*,
                    ::v1::ListPodResourcesResponse* response) override {
    before();
    *response = answer;
    return status;
  }

  // Changed only between calls.
  ::v1::ListPodResourcesResponse answer;
  grpc::Status status;
  std::function<void()> before = [] {};

 private:
  std::unique_ptr<grpc::Server> server_;
};

inline void addDevices(::v1::ContainerResources& container, const std::string& resource,
                       const std::vector<std::string>& ids) {
  auto& devices = *container.add_devices();
  devices.set_resource_name(resource);
  for (const auto& id : ids) devices.add_device_ids(id);
}

inline void addClaimed(::v1::ContainerResources& container, const std::string& space, const std::string& claim,
                       const std::string& driver, const std::string& device, const std::vector<std::string>& cdi) {
  auto& added = *container.add_dynamic_resources();
  added.set_claim_namespace(space);
  added.set_claim_name(claim);
  auto& resource = *added.add_claim_resources();
  resource.set_driver_name(driver);
  resource.set_device_name(device);
  for (const auto& name : cdi) resource.add_cdi_devices()->set_name(name);
}

}  // namespace egpu::agent::dra

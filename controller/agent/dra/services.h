// gRPC services that the kubelet calls, implemented by Driver and HealthSource. Internal to dra/.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "controller/agent/dra/claim_queue.h"
#include "controller/agent/dra/driver.h"
#include "controller/agent/dra/proto/dra_v1.grpc.pb.h"
#include "controller/agent/dra/proto/health_v1.grpc.pb.h"
#include "controller/agent/dra/proto/health_v1alpha1.grpc.pb.h"
#include "controller/agent/dra/proto/registration.grpc.pb.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"

namespace egpu::agent::dra {

namespace kubelet = ::k8s::io::kubelet::pkg::apis::dra::v1;

/// Announces the driver and its endpoint to the kubelet, and receives the result of the registration. Thread-safe.
class RegistrationService final : public ::pluginregistration::Registration::CallbackService {
 public:
  RegistrationService(std::string driver, std::string endpoint)
      : driver_(std::move(driver)), endpoint_(std::move(endpoint)) {}
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const ::pluginregistration::InfoRequest*,
                                    ::pluginregistration::PluginInfo* info) override;
  grpc::ServerUnaryReactor* NotifyRegistrationStatus(grpc::CallbackServerContext* context,
                                                     const ::pluginregistration::RegistrationStatus* status,
                                                     ::pluginregistration::RegistrationStatusResponse*) override;
  /// Returns an empty string if the kubelet has registered the driver, otherwise its error, or that it has not asked
  /// yet.
  std::string missing() const;
  /// Resets the state after the socket was created: the kubelet will ask again.
  void begin();

 private:
  const std::string driver_, endpoint_;
  mutable base::Mutex mutex_;
  std::string missing_ EGPU_GUARDED_BY(mutex_) = kNotAsked;
  static constexpr const char* kNotAsked = "the kubelet has not registered the driver yet";
};

/// Thread-safe. The claims of a call are processed in parallel, and each has its own result. If the deadline of a call
/// passes or the caller closes the connection, the claims of that call are stopped.
class PluginService final : public kubelet::DRAPlugin::CallbackService {
 public:
  PluginService(Driver& driver, base::Metrics& metrics, std::size_t atOnce)
      : driver_(driver), metrics_(metrics), queue_(atOnce) {}
  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const kubelet::NodePrepareResourcesRequest* request,
                                                 kubelet::NodePrepareResourcesResponse* response) override;
  grpc::ServerUnaryReactor* NodeUnprepareResources(grpc::CallbackServerContext* context,
                                                   const kubelet::NodeUnprepareResourcesRequest* request,
                                                   kubelet::NodeUnprepareResourcesResponse* response) override;

  static constexpr int kMaxClaims = 1024;  ///< maximum in one call, which is for one pod

 private:
  Driver& driver_;
  base::Metrics& metrics_;
  ClaimQueue queue_;
};

/// Wakes the health streams when health has changed, when it must be repeated, and at the end. Thread-safe.
class HealthFeed {
 public:
  explicit HealthFeed(HealthSource& source) : source_(source) {}
  /// Blocks until there is something to send, then fills `devices`. `seen` belongs to the caller and starts at 0.
  /// Returns false after end(), or once `gone`, which is polled every second, reports that the client has disconnected.
  bool next(uint64_t& seen, std::vector<DeviceHealth>& devices, const std::function<bool()>& gone);
  void changed();
  void end();

 private:
  HealthSource& source_;
  base::Mutex mutex_;
  std::condition_variable_any wake_;
  uint64_t changes_ EGPU_GUARDED_BY(mutex_) = 1;
  bool ended_ EGPU_GUARDED_BY(mutex_) = false;
};

/// Implements one version of the kubelet's health service; the versions differ only in their protobuf package. Each
/// stream uses a thread.
template <class Service, class Request, class Response>
class HealthService final : public Service {
 public:
  explicit HealthService(HealthFeed& feed) : feed_(feed) {}
  grpc::Status NodeWatchResources(grpc::ServerContext* context, const Request*,
                                  grpc::ServerWriter<Response>* writer) override;

 private:
  HealthFeed& feed_;
};
using HealthServiceV1 =
    HealthService<::v1::DRAResourceHealth::Service, ::v1::NodeWatchResourcesRequest, ::v1::NodeWatchResourcesResponse>;
using HealthServiceV1alpha1 =
    HealthService<::v1alpha1::DRAResourceHealth::Service, ::v1alpha1::NodeWatchResourcesRequest,
                  ::v1alpha1::NodeWatchResourcesResponse>;

}  // namespace egpu::agent::dra

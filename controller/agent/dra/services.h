// The kubelet's gRPC services, on this driver's answers. Internal to dra/.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "controller/agent/dra/claim_queue.h"
#include "controller/agent/dra/driver.h"
#include "controller/agent/dra/proto/dra_v1.grpc.pb.h"
#include "controller/agent/dra/proto/health_v1.grpc.pb.h"
#include "controller/agent/dra/proto/health_v1alpha1.grpc.pb.h"
#include "controller/agent/dra/proto/registration.grpc.pb.h"
#include "controller/base/metrics.h"

namespace egpu::agent::dra {

namespace kubelet = ::k8s::io::kubelet::pkg::apis::dra::v1;

/// Tells the kubelet which driver listens where, and hears whether it was taken. Thread-safe.
class RegistrationService final : public ::pluginregistration::Registration::CallbackService {
 public:
  RegistrationService(std::string driver, std::string endpoint)
      : driver_(std::move(driver)), endpoint_(std::move(endpoint)) {}
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const ::pluginregistration::InfoRequest*,
                                    ::pluginregistration::PluginInfo* info) override;
  grpc::ServerUnaryReactor* NotifyRegistrationStatus(grpc::CallbackServerContext* context,
                                                     const ::pluginregistration::RegistrationStatus* status,
                                                     ::pluginregistration::RegistrationStatusResponse*) override;
  /// Empty: the kubelet has taken the driver. Else what it said, or that it has not asked yet.
  std::string missing() const;
  /// The socket is made anew: the kubelet will ask again.
  void begin();

 private:
  const std::string driver_, endpoint_;
  mutable std::mutex mutex_;
  std::string missing_ = kNotAsked;  ///< protected by mutex_
  static constexpr const char* kNotAsked = "the kubelet has not registered the driver yet";
};

/// Thread-safe. Claims of a call are worked on side by side; each has its own result. A call whose deadline passes or
/// whose caller hangs up stops its claims.
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

  static constexpr int kMostClaims = 1024;  ///< in one call, which is one pod's

 private:
  Driver& driver_;
  base::Metrics& metrics_;
  ClaimQueue queue_;
};

/// What the health streams wait for: that health changed, that it is time to repeat it, or the end. Thread-safe.
class HealthFeed {
 public:
  explicit HealthFeed(HealthSource& source) : source_(source) {}
  /// Blocks until there is something to send; `seen` is the caller's, 0 at first. False: no more, or `gone`, which is
  /// asked every second, says that nobody listens.
  bool next(uint64_t& seen, std::vector<DeviceHealth>& devices, const std::function<bool()>& gone);
  void changed();
  void end();

 private:
  HealthSource& source_;
  std::mutex mutex_;
  std::condition_variable wake_;
  uint64_t changes_ = 1;  ///< protected by mutex_, as is
  bool ended_ = false;
};

/// A version of the kubelet's health service: they differ in their package alone. A thread per stream.
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

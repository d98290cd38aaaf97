#include "controller/agent/dra/services.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <stop_token>
#include <string_view>
#include <utility>

#include "api/v1alpha/validation.h"
#include "controller/base/log.h"
#include "controller/base/mutex.h"
#include "controller/base/text.h"

namespace egpu::agent::dra {
namespace {

using base::Code;
using base::Status;

constexpr std::size_t kMaxMessage = 1024;                 // bytes; events and statuses of the kubelet truncate there
constexpr auto kRepeatHealth = std::chrono::seconds(10);  // the kubelet treats health older than 30 s as unknown

/// Returns `text` as UTF-8 of at most kMaxMessage bytes. Invalid UTF-8 would cost all claims of the call their
/// results.
std::string asText(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = base::utf8SequenceLength(text, i);
    out += length == 0 ? std::string_view("?") : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return base::shortened(std::move(out), kMaxMessage);
}

Status check(const ClaimRef& claim) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  };
  if (claim.uid.empty() || claim.uid.size() > 64 || !std::all_of(claim.uid.begin(), claim.uid.end(), allowed))
    return {Code::invalid, "the claim's uid is not valid"};
  if (!v1alpha::isDnsLabel(claim.namespace_)) return {Code::invalid, "the claim's namespace is no DNS label"};
  if (!v1alpha::isDnsSubdomain(claim.name)) return {Code::invalid, "the claim's name is no DNS name"};
  return Status::okay();
}

/// One call whose claims are in progress. The last claim to finish completes the call and deletes this object.
class ClaimsCall final : public grpc::ServerUnaryReactor {
 public:
  explicit ClaimsCall(int claims) : left_(claims) {}
  std::stop_token stop() const { return stop_.get_token(); }
  /// Calls `write` to put the result of a claim into the response. After the last claim this object no longer exists.
  template <class Write>
  void done(Write write) {
    {
      base::MutexLock lock(mutex_);
      write();
      if (--left_ > 0) return;
    }
    Finish(grpc::Status::OK);
  }
  void OnCancel() override { stop_.request_stop(); }
  void OnDone() override { delete this; }

 private:
  std::stop_source stop_;
  base::Mutex mutex_;
  int left_ EGPU_GUARDED_BY(mutex_);  ///< claims in progress
};

grpc::ServerUnaryReactor* refuse(grpc::CallbackServerContext* context, const std::string& why) {
  auto* reactor = context->DefaultReactor();
  reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, why});
  return reactor;
}

/// Returns why the response can't hold one result per claim, or an empty string.
template <class Claims>
std::string wrongWith(const Claims& claims) {
  if (claims.size() > PluginService::kMaxClaims)
    return "a call has at most " + std::to_string(PluginService::kMaxClaims) + " claims";
  std::set<std::string_view> uids;
  for (const auto& claim : claims)
    if (!uids.insert(claim.uid()).second) return "a call names each claim once";
  return {};
}

struct CallMetrics {
  base::Metrics& metrics;
  const char* name;  ///< "prepare" | "unprepare"
  const char* histogram;
};

void report(const CallMetrics& what, const ClaimRef& claim, const Status& status, const std::string& error,
            std::chrono::duration<double> took) {
  const char* result = status.ok() ? "ok" : status.code() == Code::cancelled ? "cancelled" : "failed";
  what.metrics.observe(what.histogram, took.count(), {{"result", result}});
  const auto name = asText(claim.namespace_ + "/" + claim.name), uid = asText(claim.uid);
  // Logged at debug level, because the driver logs details at higher levels.
  base::log::debug(what.name, {{"claim", name}, {"uid", uid}, {"result", result}, {"error", error}});
}

/// Starts a call. `work` produces the result of one claim, or returns the reason why there is none.
template <class Request, class Response, class Work>
grpc::ServerUnaryReactor* start(grpc::CallbackServerContext* context, const Request& request, Response* response,
                                ClaimQueue& queue, const CallMetrics& counted, Work work) {
  if (const auto wrong = wrongWith(request.claims()); !wrong.empty()) return refuse(context, wrong);
  if (request.claims().empty()) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  auto* call = new ClaimsCall(request.claims_size());
  for (const auto& claim : request.claims()) {
    ClaimRef ref{claim.namespace_(), claim.name(), claim.uid()};
    queue.add(claim.uid(), [=, ref = std::move(ref)] {
      const auto begun = std::chrono::steady_clock::now();
      typename std::decay_t<decltype(*response->mutable_claims())>::mapped_type result;
      auto status = check(ref);
      if (status.ok() && call->stop().stop_requested()) status = {Code::cancelled, "the kubelet cancelled the call"};
      if (status.ok()) status = work(ref, call->stop(), result);
      // The kubelet treats an empty error as success.
      if (!status.ok()) result.set_error(asText(status.message().empty() ? status.str() : status.message()));
      report(counted, ref, status, result.error(), std::chrono::steady_clock::now() - begun);
      call->done([&] { (*response->mutable_claims())[ref.uid] = std::move(result); });
    });
  }
  return call;
}

}  // namespace

grpc::ServerUnaryReactor* RegistrationService::GetInfo(grpc::CallbackServerContext* context,
                                                       const ::pluginregistration::InfoRequest*,
                                                       ::pluginregistration::PluginInfo* info) {
  info->set_type("DRAPlugin");
  info->set_name(driver_);
  info->set_endpoint(endpoint_);
  // The kubelet uses the first supported version of DRAPlugin, and the newest of DRAResourceHealth.
  for (const char* service : {"v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"})
    info->add_supported_versions(service);
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* RegistrationService::NotifyRegistrationStatus(
    grpc::CallbackServerContext* context, const ::pluginregistration::RegistrationStatus* status,
    ::pluginregistration::RegistrationStatusResponse*) {
  const bool taken = status->plugin_registered();
  {
    base::MutexLock lock(mutex_);
    missing_ = taken ? std::string() : "the kubelet refuses the driver: " + asText(status->error());
  }
  if (taken)
    base::log::info("the kubelet has registered the driver", {{"driver", driver_}});
  else
    base::log::error("the kubelet refuses the driver", {{"driver", driver_}, {"error", asText(status->error())}});
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

std::string RegistrationService::missing() const {
  base::MutexLock lock(mutex_);
  return missing_;
}

void RegistrationService::begin() {
  base::MutexLock lock(mutex_);
  missing_ = kNotAsked;
}

grpc::ServerUnaryReactor* PluginService::NodePrepareResources(grpc::CallbackServerContext* context,
                                                              const kubelet::NodePrepareResourcesRequest* request,
                                                              kubelet::NodePrepareResourcesResponse* response) {
  const CallMetrics counted{metrics_, "prepare", "elasticgpu_agent_prepare_seconds"};
  return start(context, *request, response, queue_, counted,
               [this](const ClaimRef& claim, std::stop_token stop, kubelet::NodePrepareResourceResponse& result) {
                 const auto devices = driver_.prepare(claim, std::move(stop));
                 if (!devices) return devices.status();
                 for (const auto& from : *devices) {
                   auto& device = *result.add_devices();
                   device.set_pool_name(from.pool);
                   device.set_device_name(from.device);
                   for (const auto& name : from.requests) device.add_request_names(name);
                   for (const auto& id : from.cdiDevices) device.add_cdi_device_ids(id);
                 }
                 return Status::okay();
               });
}

grpc::ServerUnaryReactor* PluginService::NodeUnprepareResources(grpc::CallbackServerContext* context,
                                                                const kubelet::NodeUnprepareResourcesRequest* request,
                                                                kubelet::NodeUnprepareResourcesResponse* response) {
  const CallMetrics counted{metrics_, "unprepare", "elasticgpu_agent_unprepare_seconds"};
  return start(context, *request, response, queue_, counted,
               [this](const ClaimRef& claim, std::stop_token stop, kubelet::NodeUnprepareResourceResponse&) {
                 return driver_.unprepare(claim, std::move(stop));
               });
}

bool HealthFeed::next(uint64_t& seen, std::vector<DeviceHealth>& devices, const std::function<bool()>& gone) {
  const auto repeat = std::chrono::steady_clock::now() + kRepeatHealth;
  {
    base::MutexLock lock(mutex_);
    while (!ended_ && changes_ == seen && std::chrono::steady_clock::now() < repeat) {
      if (gone()) return false;
      wake_.wait_for(lock, std::chrono::seconds(1));
    }
    if (ended_) return false;
    seen = changes_;
  }
  devices = source_.devices();
  return true;
}

void HealthFeed::changed() {
  {
    base::MutexLock lock(mutex_);
    ++changes_;
  }
  wake_.notify_all();
}

void HealthFeed::end() {
  {
    base::MutexLock lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
}

template <class Service, class Request, class Response>
grpc::Status HealthService<Service, Request, Response>::NodeWatchResources(grpc::ServerContext* context, const Request*,
                                                                           grpc::ServerWriter<Response>* writer) {
  uint64_t seen = 0;
  std::vector<DeviceHealth> devices;
  while (feed_.next(seen, devices, [&] { return context->IsCancelled(); })) {
    Response response;
    for (const auto& from : devices) {
      auto& to = *response.add_devices();
      to.mutable_device()->set_pool_name(from.pool);
      to.mutable_device()->set_device_name(from.device);
      to.set_health(static_cast<decltype(to.health())>(from.state));  // both enums have the same order
      to.set_last_updated_time(std::chrono::system_clock::to_time_t(from.checked));
      to.set_message(asText(from.message));
    }
    if (!writer->Write(response)) break;
  }
  return {grpc::StatusCode::UNAVAILABLE, "the agent is stopping"};
}

template class HealthService<::v1::DRAResourceHealth::Service, ::v1::NodeWatchResourcesRequest,
                             ::v1::NodeWatchResourcesResponse>;
template class HealthService<::v1alpha1::DRAResourceHealth::Service, ::v1alpha1::NodeWatchResourcesRequest,
                             ::v1alpha1::NodeWatchResourcesResponse>;

}  // namespace egpu::agent::dra

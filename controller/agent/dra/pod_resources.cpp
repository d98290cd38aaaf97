#include "controller/agent/dra/pod_resources.h"

#include <grpcpp/grpcpp.h>

#include "api/v1alpha/keys.h"
#include "controller/agent/dra/proto/pod_resources_v1.grpc.pb.h"
#include "controller/base/log.h"

namespace egpu::agent::dra {
namespace {

using health::Given;

/// Opens a new connection for each call, because a restarted kubelet creates a new socket.
grpc::Status ask(const std::string& socket, const std::stop_token& stop, ::v1::ListPodResourcesResponse& answer) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetMaxReceiveMessageSize(PodResources::kMaxBytes);
  const auto stub = ::v1::PodResourcesLister::NewStub(
      grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), args));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + PodResources::kPatience);
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  return stub->List(&context, {}, &answer);
}

void add(const Given& of, const ::v1::ContainerDevices& devices, std::vector<Given>& out) {
  Given given = of;
  given.by = devices.resource_name();
  given.ids.assign(devices.device_ids().begin(), devices.device_ids().end());
  out.push_back(std::move(given));
}

void add(const Given& of, const ::v1::DynamicResource& claim, std::vector<Given>& out) {
  for (const auto& resource : claim.claim_resources()) {
    if (resource.driver_name() == v1alpha::keys::kDriver) continue;
    Given given = of;
    given.driver = resource.driver_name();
    given.by = "ResourceClaim " + claim.claim_namespace() + "/" + claim.claim_name() + " of " + given.driver;
    given.ids.push_back(resource.device_name());
    for (const auto& device : resource.cdi_devices()) given.ids.push_back(device.name());
    out.push_back(std::move(given));
  }
}

}  // namespace

std::optional<std::vector<Given>> PodResources::list(const std::stop_token& stop) {
  ::v1::ListPodResourcesResponse answer;
  const auto status = ask(socket_, stop, answer);
  if (stop.stop_requested()) return std::nullopt;
  if (!status.ok() && !silent_)
    base::log::warn("the kubelet does not list its pods' resources; its last answer is used",
                    {{"socket", socket_}, {"error", status.error_message()}});
  silent_ = !status.ok();
  if (silent_) return std::nullopt;
  std::vector<Given> out;
  for (const auto& pod : answer.pod_resources())
    for (const auto& container : pod.containers()) {
      const Given of{pod.namespace_() + "/" + pod.name(), container.name(), {}, {}, {}};
      for (const auto& devices : container.devices()) add(of, devices, out);
      for (const auto& claim : container.dynamic_resources()) add(of, claim, out);
    }
  return out;
}

}  // namespace egpu::agent::dra

#include "controller/kubectl/cluster_mirror.h"

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1alpha/remote.h"
#include "controller/cache/sinks.h"
#include "controller/whatif/service.h"

namespace egpu::kubectl {

namespace {

/// Lists one kind into its sink.
template <class T>
base::Status fill(const Connection& connection, kube::Sink<T>& sink, std::string_view version = {}) {
  sink.beginList();
  kube::ListOptions options;
  options.version = version;
  auto meta = connection.client().list<T>(
      options, [&](T&& object) { sink.listed(object); }, [&] { sink.beginList(); });
  if (!meta) return meta.status();
  sink.endList(meta->resourceVersion);
  return base::Status::okay();
}

template <class T>
base::Status fill(const Connection& connection, cache::Store<T>& store, std::string_view version = {}) {
  cache::StoreSink<T> sink(store);
  return fill<T>(connection, sink, version);
}

/// Lists a kind that the cluster may not serve, or not to this user, in the first version that it serves. Returns
/// whether it is served, as the controller's mirror does.
template <class T>
base::Result<bool> fillIfServed(const Connection& connection, cache::Store<T>& store,
                                std::initializer_list<std::string_view> versions) {
  for (const auto version : versions) {
    const auto status = fill(connection, store, version);
    if (status.ok()) return true;
    if (status.code() != base::Code::notFound && status.code() != base::Code::forbidden) return status;
  }
  cache::StoreSink<T> sink(store);
  sink.beginList();
  sink.endList("");
  return false;
}

/// Plugins do not run here, so that their descriptions are unknown. Provisioners of remote GPUs are the one of this
/// project and those of the remote devices in the cluster.
void findRemoteProvisioners(cache::Stores& stores) {
  stores.remoteProvisioners.set(std::string(v1alpha::kRemoteProvisioner), true);
  stores.devices.forEach([&](const auto& device) {
    if (v1alpha::isRemote(*device) && !device->spec.provisioner.empty())
      stores.remoteProvisioners.set(device->spec.provisioner, true);
  });
}

base::Status advised(const base::Status& status) {
  if (status.code() != base::Code::forbidden && status.code() != base::Code::unauthorized) return status;
  return {status.code(),
          status.message() +
              "\nThis verb reads the whole cluster. An administrator permits it with\n"
              "  kubectl create clusterrolebinding NAME --clusterrole=elastic-gpu-cluster-reader --user=USER\n"
              "kubectl egpu why and top need rights in the namespace only."};
}

}  // namespace

base::Result<std::unique_ptr<ClusterMirror>> ClusterMirror::read(const Connection& connection) {
  std::unique_ptr<ClusterMirror> mirror(new ClusterMirror(connection.clock()));
  auto& s = mirror->stores_;
  cache::GpuSink gpus(s);
  cache::PodSink pods(s);
  const std::vector<std::function<base::Status()>> lists = {
      [&] { return fill<cache::Gpu>(connection, gpus); },
      [&] { return fill<core::Pod>(connection, pods); },
      [&] { return fill(connection, s.claims); },
      [&] { return fill(connection, s.classes); },
      [&] { return fill(connection, s.quotas); },
      [&] { return fill(connection, s.nodes); },
      [&] { return fill(connection, s.resourceClaims); },
      [&] { return fill(connection, s.namespaces); },
      [&] { return fill(connection, s.templates); },
      [&] { return fill(connection, s.resourceClaimTemplates); },
      [&] { return fill(connection, s.priorityClasses); },
      [&] {
        return fillIfServed(connection, s.taintRules, {"v1", "v1beta2"}).status();
      },
      [&] {
        const auto served = fillIfServed(connection, s.podGroups, {"v1beta1", "v1alpha3", "v1alpha2"});
        s.podGroupsServed = served.ok() && *served;
        return served.status();
      },
  };
  std::vector<base::Status> results(lists.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < lists.size(); ++i) threads.emplace_back([&, i] { results[i] = lists[i](); });
  }
  for (const auto& status : results)
    if (!status.ok()) return advised(status);
  findRemoteProvisioners(s);
  return mirror;
}

http::Response ClusterMirror::ask(const std::string& target, const std::string& body) {
  http::Request request;
  request.method = body.empty() ? "GET" : "POST";
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  request.body = body;
  if (!body.empty()) request.headers.emplace_back("content-type", "application/yaml");
  whatif::QuestionService questions(stores_, allocator_, clock_);
  return questions.answer(request);
}

}  // namespace egpu::kubectl

#include "controller/kubectl/check/inventory.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "controller/base/files.h"
#include "controller/base/mutex.h"

namespace egpu::kubectl {

namespace {

struct KindToRead {
  const char* kind;
  const char* groupVersion;
  const char* plural;
  const char* query = "";
  const char* space = "";
};

constexpr const char* kAdmission = "admissionregistration.k8s.io/v1";
constexpr const char* kRbac = "rbac.authorization.k8s.io/v1";

const std::vector<KindToRead>& kindsToRead() {
  static const std::vector<KindToRead> kinds = {
      {"Node", "v1", "nodes"},
      {"Pod", "v1", "pods"},
      {"Event", "v1", "events", "fieldSelector=type%3DWarning"},
      {"CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions"},
      {"ValidatingAdmissionPolicy", kAdmission, "validatingadmissionpolicies"},
      {"ValidatingAdmissionPolicyBinding", kAdmission, "validatingadmissionpolicybindings"},
      {"MutatingAdmissionPolicy", kAdmission, "mutatingadmissionpolicies"},
      {"MutatingAdmissionPolicyBinding", kAdmission, "mutatingadmissionpolicybindings"},
      {"ClusterRole", kRbac, "clusterroles"},
      {"ClusterRoleBinding", kRbac, "clusterrolebindings"},
      {"Role", kRbac, "roles", "", kSystemNamespace},
      {"RoleBinding", kRbac, "rolebindings", "", kSystemNamespace},
      {"Deployment", "apps/v1", "deployments", "", kSystemNamespace},
      {"DaemonSet", "apps/v1", "daemonsets", "", kSystemNamespace},
      {"DeviceClass", "resource.k8s.io/v1", "deviceclasses"},
      {"ResourceSlice", "resource.k8s.io/v1", "resourceslices"},
      {"ResourceClaim", "resource.k8s.io/v1", "resourceclaims"},
      {"DeviceTaintRule", "resource.k8s.io/v1", "devicetaintrules"},
      {"Lease", "coordination.k8s.io/v1", "leases", "", kSystemNamespace},
      {"NodeLease", "coordination.k8s.io/v1", "leases", "", "kube-node-lease"},
      {"CertificateSigningRequest", "certificates.k8s.io/v1", "certificatesigningrequests"},
      {"ElasticGPU", "elasticgpu.io/v1alpha", "elasticgpus"},
      {"ElasticGPUClaim", "elasticgpu.io/v1alpha", "elasticgpuclaims"},
      {"ElasticGPUClass", "elasticgpu.io/v1alpha", "elasticgpuclasses"},
      {"ElasticGPUQuota", "elasticgpu.io/v1alpha", "elasticgpuquotas"},
      {"ElasticGPUClaimTemplate", "elasticgpu.io/v1alpha", "elasticgpuclaimtemplates"},
  };
  return kinds;
}

const char* const kGroups[] = {"resource.k8s.io/v1", "admissionregistration.k8s.io/v1", "elasticgpu.io/v1alpha"};

std::string contents(const std::string& data, const std::string& file) {
  if (!data.empty() || file.empty()) return data;
  const auto text = base::readFile(file);
  return text ? *text : std::string();
}

}  // namespace

const std::vector<Json>& Inventory::of(const std::string& kind) const {
  static const std::vector<Json> none;
  const auto it = lists.find(kind);
  return it == lists.end() ? none : it->second;
}

const Json& Inventory::find(const std::string& kind, const std::string& name, const std::string& space) const {
  static const Json none;
  for (const auto& each : of(kind))
    if (textAt(each, {"metadata", "name"}) == name &&
        (space.empty() || textAt(each, {"metadata", "namespace"}) == space))
      return each;
  return none;
}

bool Inventory::serves(const std::string& resource) const {
  return std::find(served.begin(), served.end(), resource) != served.end();
}

bool Inventory::isStandalone() const {
  return textAt(version, {"gitVersion"}).find("elasticgpu-standalone") != std::string::npos;
}

int Inventory::minorVersion() const { return minorOf(textAt(version, {"gitVersion"})); }

int minorOf(const std::string& version) {
  const std::string prefix = "v1.";
  if (!version.starts_with(prefix)) return 0;
  int minor = 0;
  for (std::size_t i = prefix.size(); i < version.size() && version[i] >= '0' && version[i] <= '9'; ++i)
    minor = minor * 10 + (version[i] - '0');
  return minor;
}

base::Result<Inventory> takeInventory(const Connection& connection) {
  Inventory out;
  auto version = connection.get("/version");
  if (!version) return version.status();
  out.version = std::move(*version);
  base::Mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (const auto& kind : kindsToRead())
      threads.emplace_back([&] {
        auto items = connection.list(pathOf(kind.groupVersion, kind.space, kind.plural), kind.query);
        const base::MutexLock lock(mutex);
        if (items)
          out.lists[kind.kind] = std::move(*items);
        else if (items.status().code() != base::Code::notFound)
          out.unreadable[kind.kind] = items.status().message();
      });
  }
  for (const char* group : kGroups)
    if (const auto kinds = connection.get(std::string("/apis/") + group))
      for (const auto& kind : at(*kinds, {"resources"}))
        out.served.push_back(std::string(group) + "/" + textAt(kind, {"name"}));
  out.serverTime = connection.serverTime();
  out.localTime =
      std::chrono::duration_cast<std::chrono::seconds>(connection.clock().wall().time_since_epoch()).count();
  const auto& endpoint = connection.endpoint();
  out.certificates["certificate-authority"] = contents(endpoint.caData, endpoint.caFile);
  out.certificates["client-certificate"] = contents(endpoint.clientCertificateData, endpoint.clientCertificateFile);
  return out;
}

}  // namespace egpu::kubectl

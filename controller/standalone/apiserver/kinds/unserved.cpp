#include "controller/standalone/apiserver/kinds/unserved.h"

#include <algorithm>
#include <array>

namespace egpu::apiserver {
namespace {

constexpr std::array<UnservedKind, 60> kUnserved = {{
    {"", "v1", "componentstatuses", "ComponentStatus", false, "cs"},
    {"", "v1", "configmaps", "ConfigMap", true, "cm"},
    {"", "v1", "endpoints", "Endpoints", true, "ep"},
    {"", "v1", "limitranges", "LimitRange", true, "limits"},
    {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, "pvc"},
    {"", "v1", "persistentvolumes", "PersistentVolume", false, "pv"},
    {"", "v1", "podtemplates", "PodTemplate"},
    {"", "v1", "replicationcontrollers", "ReplicationController", true, "rc"},
    {"", "v1", "resourcequotas", "ResourceQuota", true, "quota"},
    {"", "v1", "secrets", "Secret"},
    {"", "v1", "serviceaccounts", "ServiceAccount", true, "sa"},
    {"", "v1", "services", "Service", true, "svc"},
    {"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", false},
    {"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", false},
    {"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false},
    {"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false},
    {"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
     false},
    {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false},
    {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false, "crd"},
    {"apiregistration.k8s.io", "v1", "apiservices", "APIService", false},
    {"apps", "v1", "controllerrevisions", "ControllerRevision"},
    {"apps", "v1", "daemonsets", "DaemonSet", true, "ds"},
    {"apps", "v1", "deployments", "Deployment", true, "deploy"},
    {"apps", "v1", "replicasets", "ReplicaSet", true, "rs"},
    {"apps", "v1", "statefulsets", "StatefulSet", true, "sts"},
    {"authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", false},
    {"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false},
    {"authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"},
    {"authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false},
    {"authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false},
    {"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false},
    {"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true, "hpa"},
    {"autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true, "hpa"},
    {"batch", "v1", "cronjobs", "CronJob", true, "cj"},
    {"batch", "v1", "jobs", "Job"},
    {"certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", false, "csr"},
    {"certificates.k8s.io", "v1beta1", "clustertrustbundles", "ClusterTrustBundle", false},
    {"coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate"},
    {"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"},
    {"flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", false},
    {"flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", false},
    {"networking.k8s.io", "v1", "ingressclasses", "IngressClass", false},
    {"networking.k8s.io", "v1", "ingresses", "Ingress", true, "ing"},
    {"networking.k8s.io", "v1", "ipaddresses", "IPAddress", false, "ip"},
    {"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true, "netpol"},
    {"networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", false},
    {"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false},
    {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true, "pdb"},
    {"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false},
    {"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false},
    {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"},
    {"rbac.authorization.k8s.io", "v1", "roles", "Role"},
    {"resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false},
    {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false, "pc"},
    {"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false},
    {"storage.k8s.io", "v1", "csinodes", "CSINode", false},
    {"storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"},
    {"storage.k8s.io", "v1", "storageclasses", "StorageClass", false, "sc"},
    {"storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false},
    {"storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", false, "vac"},
}};

/// Returns the resource if it is served in any version, otherwise null.
const Resource* served(const ResourceTable& table, std::string_view group, std::string_view plural) {
  const auto& all = table.all();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& r) { return r->group == group && r->plural == plural; });
  return found == all.end() ? nullptr : found->get();
}

void append(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

}  // namespace

std::vector<UnservedKind> unservedKinds(const ResourceTable& table) {
  std::vector<UnservedKind> out;
  for (const auto& kind : kUnserved)
    if (!served(table, kind.group, kind.plural)) out.push_back(kind);
  return out;
}

std::string whyNotServed(const ResourceTable& table, std::string_view group, std::string_view version,
                         std::string_view plural) {
  std::string name(plural);
  if (!group.empty()) name.append(".").append(group);
  std::string list;
  if (const auto* other = served(table, group, plural)) {
    for (const auto& v : other->versions) append(list, v);
    return name + " is served in " + list + ", not in " + std::string(version);
  }
  for (const auto& r : table.all()) append(list, r->plural);
  return "this embedded API server is for trying out and does not serve " + name + "; it serves " + list +
         ". For everything else use a cluster";
}

}  // namespace egpu::apiserver

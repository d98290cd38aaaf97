#include <algorithm>
#include <set>

#include "controller/kubectl/check/expected.h"
#include "controller/kubectl/check/finding.h"

namespace egpu::kubectl {

namespace {

using Level = Finding::Level;

constexpr int kOldestMinor = 34;          // Dynamic Resource Allocation v1
constexpr int kMutatingPolicyMinor = 36;  // MutatingAdmissionPolicy v1

std::string refOf(const Json& object) { return textAt(object, {"kind"}) + "/" + nameOf(object); }

/// Folder of the manifests that contains a kind.
std::string folderOf(const std::string& kind) {
  return kind.starts_with("Mutating") ? "manifests/admission/mutating" : "manifests/admission";
}

/// Expressions of a policy, in their order.
std::vector<std::string> expressionsOf(const Json& policy) {
  std::vector<std::string> out;
  for (const char* list : {"variables", "matchConditions", "validations", "mutations"})
    for (const auto& each : at(policy, {"spec", list})) {
      out.push_back(textAt(each, {"expression"}));
      for (const char* patch : {"applyConfiguration", "jsonPatch"}) out.push_back(textAt(each, {patch, "expression"}));
    }
  return out;
}

void checkPolicyKind(const Inventory& inventory, const std::string& kind, Findings& found) {
  const std::string bindings = kind + "Binding";
  for (const auto& wanted : expectedObjects(kind)) {
    const auto& policy = inventory.find(kind, nameOf(wanted));
    const auto fix = "kubectl apply -k " + folderOf(kind);
    if (inventory.isRead(kind) && policy.is_null())
      found.push_back({Level::error, "policy", refOf(wanted), "it is missing", fix});
    else if (!policy.is_null() && expressionsOf(policy) != expressionsOf(wanted))
      found.push_back({Level::error, "policy", refOf(wanted), "its expressions are not those of this version", fix});
  }
  if (!inventory.isRead(bindings)) return;
  for (const auto& wanted : expectedObjects(bindings)) {
    const auto& binding = inventory.find(bindings, nameOf(wanted));
    const auto fix = "kubectl apply -k " + folderOf(kind);
    if (binding.is_null()) {
      found.push_back({Level::error, "policy-binding", refOf(wanted), "it is missing: the policy has no effect", fix});
    } else if (kind.starts_with("Validating")) {
      const auto& actions = at(binding, {"spec", "validationActions"});
      if (std::find(actions.begin(), actions.end(), "Deny") == actions.end())
        found.push_back({Level::error, "policy-binding", refOf(wanted),
                         "validationActions lacks Deny: the policy rejects nothing", fix});
    }
  }
}

/// True if some rule of the role permits the verb on the resource.
bool permits(const Json& role, const std::string& group, const std::string& resource, const std::string& verb) {
  const auto has = [](const Json& list, const std::string& value) {
    return std::any_of(list.begin(), list.end(), [&](const Json& each) { return each == value || each == "*"; });
  };
  const auto& rules = at(role, {"rules"});
  return std::any_of(rules.begin(), rules.end(), [&](const Json& rule) {
    return has(at(rule, {"apiGroups"}), group) && has(at(rule, {"resources"}), resource) &&
           has(at(rule, {"verbs"}), verb);
  });
}

/// Rights of the wanted role that the role of the cluster lacks: "patch pods, list nodes".
std::string lackingRights(const Json& role, const Json& wanted) {
  std::string out;
  for (const auto& rule : at(wanted, {"rules"}))
    for (const auto& group : at(rule, {"apiGroups"}))
      for (const auto& resource : at(rule, {"resources"}))
        for (const auto& verb : at(rule, {"verbs"}))
          if (!permits(role, group.get<std::string>(), resource.get<std::string>(), verb.get<std::string>()))
            out += (out.empty() ? "" : ", ") + verb.get<std::string>() + " " + resource.get<std::string>();
  return out;
}

}  // namespace

Findings checkVersion(const Inventory& inventory) {
  Findings found;
  const auto version = textAt(inventory.version, {"gitVersion"});
  const int minor = inventory.minorVersion();
  if (minor > 0 && minor < kOldestMinor)
    found.push_back({Level::error, "kubernetes-version", "APIServer/" + version,
                     "Elastic GPU needs Kubernetes 1.34 or later", "upgrade the control plane to 1.34 or later"});
  else if (!inventory.serves("resource.k8s.io/v1/resourceclaims"))
    found.push_back({Level::error, "feature-gate", "APIServer/" + version, "resource.k8s.io/v1 is not served",
                     "start kube-apiserver without --feature-gates=DynamicResourceAllocation=false and "
                     "--runtime-config=resource.k8s.io/v1=false"});
  if (!inventory.isStandalone() && minor >= kMutatingPolicyMinor &&
      !inventory.serves("admissionregistration.k8s.io/v1/mutatingadmissionpolicies"))
    found.push_back({Level::error, "feature-gate", "APIServer/" + version,
                     "MutatingAdmissionPolicy v1 is not served: annotations on pods have no effect",
                     "start kube-apiserver without --feature-gates=MutatingAdmissionPolicy=false"});
  for (const auto& name : gpuNodes(inventory)) {
    const auto kubelet = textAt(inventory.find("Node", name), {"status", "nodeInfo", "kubeletVersion"});
    if (const int node = minorOf(kubelet); node > 0 && node < kOldestMinor && !inventory.isStandalone())
      found.push_back({Level::error, "kubelet-version", "Node/" + name,
                       "its kubelet is " + kubelet + ", 1.34 is the oldest",
                       "upgrade the kubelet of node " + name + " to 1.34 or later"});
  }
  return found;
}

Findings checkDefinitions(const Inventory& inventory) {
  Findings found;
  const std::string kind = "CustomResourceDefinition";
  if (inventory.isStandalone()) return found;
  for (const auto& wanted : expectedObjects(kind)) {
    if (!inventory.isRead(kind)) break;
    const auto& crd = inventory.find(kind, nameOf(wanted));
    const char* fix = "kubectl apply -k manifests/crd";
    if (crd.is_null()) {
      found.push_back({Level::error, "crd", refOf(wanted), "it is missing", fix});
      continue;
    }
    const auto& conditions = at(crd, {"status", "conditions"});
    const bool established = std::any_of(conditions.begin(), conditions.end(), [](const Json& each) {
      return textAt(each, {"type"}) == "Established" && textAt(each, {"status"}) == "True";
    });
    const auto now = celRules(crd), then = celRules(wanted);
    std::vector<std::string> lacking;
    std::set_difference(then.begin(), then.end(), now.begin(), now.end(), std::back_inserter(lacking));
    if (!established)
      found.push_back({Level::error, "crd", refOf(wanted), "it is not established: another kind has its names",
                       "kubectl describe crd " + nameOf(wanted) + "  # then rename or delete the other kind"});
    else if (!lacking.empty())
      found.push_back({Level::error, "crd-rules", refOf(wanted),
                       "it lacks " + std::to_string(lacking.size()) + " validation rules of this version", fix});
  }
  if (!inventory.isRead("DeviceClass") || !inventory.serves("resource.k8s.io/v1/deviceclasses")) return found;
  const auto& device = inventory.find("DeviceClass", "elasticgpu.io");
  const char* fix = "kubectl apply -f manifests/admission/deviceclass.yaml";
  if (device.is_null()) {
    found.push_back(
        {Level::error, "device-class", "DeviceClass/elasticgpu.io", "it is missing: no ResourceClaim is valid", fix});
  } else {
    const auto& selectors = at(device, {"spec", "selectors"});
    if (selectors.empty() || textAt(selectors[0], {"cel", "expression"}) != "false")
      found.push_back({Level::error, "device-class", "DeviceClass/elasticgpu.io",
                       "its selector is not \"false\": kube-scheduler may allocate cards by itself", fix});
  }
  return found;
}

Findings checkPolicies(const Inventory& inventory) {
  Findings found;
  if (inventory.isStandalone()) return found;
  checkPolicyKind(inventory, "ValidatingAdmissionPolicy", found);
  if (inventory.serves("admissionregistration.k8s.io/v1/mutatingadmissionpolicies"))
    checkPolicyKind(inventory, "MutatingAdmissionPolicy", found);
  return found;
}

Findings checkRights(const Inventory& inventory) {
  Findings found;
  if (inventory.isStandalone()) return found;
  const char* fix = "kubectl apply -k manifests/rbac";
  for (const char* kind : {"ClusterRole", "Role"})
    for (const auto& wanted : expectedObjects(kind)) {
      if (!inventory.isRead(kind)) continue;
      const auto& role = inventory.find(kind, nameOf(wanted), textAt(wanted, {"metadata", "namespace"}));
      if (role.is_null()) {
        found.push_back({Level::error, "rights", refOf(wanted), "it is missing", fix});
      } else if (const auto lacking = lackingRights(role, wanted); !lacking.empty()) {
        found.push_back({Level::error, "rights", refOf(wanted), "it lacks: " + lacking, fix});
      } else if (at(role, {"metadata", "labels"}) != at(wanted, {"metadata", "labels"}) &&
                 !at(wanted, {"metadata", "labels"}).is_null()) {
        for (const auto& [key, value] : at(wanted, {"metadata", "labels"}).items())
          if (at(role, {"metadata", "labels", key}) != value)
            found.push_back({Level::error, "rights", refOf(wanted), "it lacks the label " + key, fix});
      }
    }
  for (const char* kind : {"ClusterRoleBinding", "RoleBinding"})
    for (const auto& wanted : expectedObjects(kind)) {
      if (!inventory.isRead(kind)) continue;
      const auto& binding = inventory.find(kind, nameOf(wanted), textAt(wanted, {"metadata", "namespace"}));
      if (binding.is_null()) {
        found.push_back({Level::error, "rights", refOf(wanted), "it is missing", fix});
        continue;
      }
      const auto& subjects = at(binding, {"subjects"});
      for (const auto& subject : at(wanted, {"subjects"}))
        if (std::none_of(subjects.begin(), subjects.end(), [&](const Json& each) {
              return textAt(each, {"kind"}) == textAt(subject, {"kind"}) &&
                     textAt(each, {"name"}) == textAt(subject, {"name"}) &&
                     textAt(each, {"namespace"}) == textAt(subject, {"namespace"});
            }))
          found.push_back(
              {Level::error, "rights", refOf(wanted), "its subjects lack " + textAt(subject, {"name"}), fix});
    }
  return found;
}

Findings checkController(const Inventory& inventory) {
  Findings found;
  if (inventory.isStandalone() || !inventory.isRead("Deployment")) return found;
  const std::string name = "elastic-gpu-controller";
  const auto& deployment = inventory.find("Deployment", name);
  if (deployment.is_null()) {
    found.push_back({Level::error, "controller", "Deployment/" + name, "it is missing in namespace elastic-gpu-system",
                     "kubectl apply -k manifests"});
    return found;
  }
  if (numberAt(deployment, {"status", "availableReplicas"}) == 0) {
    found.push_back({Level::error, "controller", "Deployment/" + name, "no replica is available",
                     "kubectl -n elastic-gpu-system logs deploy/" + name + " --tail=50"});
    return found;
  }
  const auto& lease = inventory.find("Lease", name);
  if (inventory.isRead("Lease") && textAt(lease, {"spec", "holderIdentity"}).empty())
    found.push_back({Level::error, "controller", "Lease/" + name, "no replica leads",
                     "kubectl -n elastic-gpu-system logs deploy/" + name + " --tail=50"});
  return found;
}

}  // namespace egpu::kubectl

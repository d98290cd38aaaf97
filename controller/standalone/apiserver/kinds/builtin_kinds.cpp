#include "controller/standalone/apiserver/kinds/builtin_kinds.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "api/v1alpha/quantity.h"
#include "controller/standalone/apiserver/schema/crd.h"
#include "controller/standalone/apiserver/schema/crd_texts.h"
#include "controller/standalone/apiserver/show/table_builtin.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using Errors = std::vector<FieldError>;

constexpr size_t kMaxAnnotationBytes = size_t{256} * 1024;

// Messages of the API machinery, unchanged so that users can search for them.
constexpr std::string_view kSubdomainText =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabelText =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kQualifiedText =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kLabelValueText =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

bool lowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool alnum(char c) { return lowerAlnum(c) || (c >= 'A' && c <= 'Z'); }

// True if the text begins and ends with a `plain` character and has only `plain` and `inner` characters.
bool wellFormed(std::string_view text, bool (*plain)(char), std::string_view inner) {
  if (text.empty() || !plain(text.front()) || !plain(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return plain(c) || inner.find(c) != std::string_view::npos; });
}

std::string tooLongText(size_t max) { return "must be no more than " + std::to_string(max) + " bytes"; }

void checkDnsLabel(const std::string& field, const std::string& value, Errors& errors) {
  if (value.size() > 63)
    errors.push_back(invalidField(field, value, tooLongText(63)));
  else if (!isDnsLabel(value))
    errors.push_back(invalidField(field, value, kLabelText));
}
void checkSubdomain(const std::string& field, const std::string& value, Errors& errors) {
  if (value.size() > 253)
    errors.push_back(invalidField(field, value, tooLongText(253)));
  else if (!isDnsSubdomain(value))
    errors.push_back(invalidField(field, value, kSubdomainText));
}

void checkLabels(const Json& labels, Errors& errors) {
  if (!labels.is_object()) return;
  for (const auto& [key, value] : labels.items()) {
    if (!isQualifiedName(key)) errors.push_back(invalidField("metadata.labels", key, kQualifiedText));
    if (!value.is_string()) continue;
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > 63)
      errors.push_back(invalidField("metadata.labels", value, tooLongText(63)));
    else if (!isLabelValue(text))
      errors.push_back(invalidField("metadata.labels", value, kLabelValueText));
  }
}

void checkAnnotations(const Json& annotations, Errors& errors) {
  if (!annotations.is_object()) return;
  size_t bytes = 0;
  for (const auto& [key, value] : annotations.items()) {
    std::string lower = key;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    if (!isQualifiedName(lower)) errors.push_back(invalidField("metadata.annotations", key, kQualifiedText));
    bytes += key.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  }
  if (bytes > kMaxAnnotationBytes) errors.push_back(tooLongField("metadata.annotations", kMaxAnnotationBytes));
}

void checkOwners(const Json& owners, Errors& errors) {
  if (!owners.is_array()) return;
  bool controlled = false;
  for (size_t i = 0; i < owners.size(); ++i) {
    const std::string field = "metadata.ownerReferences[" + std::to_string(i) + "]";
    for (const char* key : {"apiVersion", "kind", "name", "uid"})
      if (at(owners[i], {key}).is_string() && textAt(owners[i], {key}).empty())
        errors.push_back(invalidField(field + "." + key, "", "must not be empty"));
    if (at(owners[i], {"controller"}) == true) {
      if (controlled)
        errors.push_back(
            invalidField("metadata.ownerReferences", owners, "Only one reference can have Controller set to true"));
      controlled = true;
    }
  }
}

// ---- Pods

const Json& list(const Json& object, std::initializer_list<const char*> path) {
  static const Json none = Json::array();
  const Json& v = at(object, path);
  return v.is_array() ? v : none;
}

constexpr int64_t kNanoPerUnit = 1'000'000'000;

// Annotation of a mirror pod, by which a kubelet shows a static pod.
constexpr const char* kMirrorAnnotation = "kubernetes.io/config.mirror";
constexpr const char* kMirrorField = "metadata.annotations[kubernetes.io/config.mirror]";

struct PodNames {
  std::set<std::string> containers, volumes, claims;
};

/// Returns nullopt if the value is not a quantity; the schema reports that error.
std::optional<v1alpha::Quantity> quantityOf(const Json& value) {
  if (value.is_string()) return v1alpha::parseQuantity(value.get_ref<const std::string&>());
  return value.is_number() ? v1alpha::parseQuantity(value.dump()) : std::nullopt;
}

/// True for resources such as nvidia.com/gpu: whole numbers, which can't be over-committed.
bool isExtended(const std::string& resource) { return resource.find('/') != std::string::npos; }

void checkQuantities(const std::string& field, const Json& resources, Errors& errors) {
  for (const char* kind : {"requests", "limits"})
    for (const auto& [key, value] : at(resources, {kind}).items()) {
      const auto q = quantityOf(value);
      const auto here = field + "." + kind + "[" + key + "]";
      if (q && q->negative()) errors.push_back(invalidField(here, value, "must be greater than or equal to 0"));
      if (q && isExtended(key) && q->nano % kNanoPerUnit != 0)
        errors.push_back(invalidField(here, value, "must be an integer"));
    }
  const Json& limits = at(resources, {"limits"});
  for (const auto& [key, value] : at(resources, {"requests"}).items()) {
    const bool extended = isExtended(key);
    if (!limits.is_object() || !limits.contains(key)) {
      if (extended)
        errors.push_back(requiredField(field + ".limits", "Limit must be set for non overcommitable resources"));
      continue;
    }
    const auto request = quantityOf(value), limit = quantityOf(limits[key]);
    if (!request || !limit) continue;
    if (extended && request->nano != limit->nano)
      errors.push_back(invalidField(field + ".requests", value, "must be equal to " + key + " limit"));
    else if (request->nano > limit->nano)
      errors.push_back(invalidField(field + ".requests", value, "must be less than or equal to " + key + " limit"));
  }
}

void checkContainers(const Json& containers, const std::string& field, PodNames& names, Errors& errors) {
  for (size_t i = 0; i < containers.size(); ++i) {
    const Json& c = containers[i];
    const std::string here = field + "[" + std::to_string(i) + "]";
    const std::string name = textAt(c, {"name"});
    if (name.empty())
      errors.push_back(requiredField(here + ".name"));
    else
      checkDnsLabel(here + ".name", name, errors);
    if (!name.empty() && !names.containers.insert(name).second) errors.push_back(duplicateField(here + ".name", name));
    const std::string image = textAt(c, {"image"});
    if (image.empty()) {
      errors.push_back(requiredField(here + ".image"));
    } else if (image.front() == ' ' || image.back() == ' ') {
      errors.push_back(invalidField(here + ".image", image, "must not have leading or trailing whitespace"));
    }
    const Json& mounts = list(c, {"volumeMounts"});
    for (size_t m = 0; m < mounts.size(); ++m)
      if (!names.volumes.count(textAt(mounts[m], {"name"})))
        errors.push_back(
            {"FieldValueNotFound", here + ".volumeMounts[" + std::to_string(m) + "].name",
             "Not found: " + at(mounts[m], {"name"}).dump(-1, ' ', false, Json::error_handler_t::replace)});
    const Json& claims = list(c, {"resources", "claims"});
    for (size_t k = 0; k < claims.size(); ++k)
      if (!names.claims.count(textAt(claims[k], {"name"})))
        errors.push_back(
            {"FieldValueNotFound", here + ".resources.claims[" + std::to_string(k) + "]",
             "Not found: " + at(claims[k], {"name"}).dump(-1, ' ', false, Json::error_handler_t::replace)});
    checkQuantities(here + ".resources", at(c, {"resources"}), errors);
  }
}

void checkPod(const Json& pod, Errors& errors) {
  PodNames names;
  const Json& volumes = list(pod, {"spec", "volumes"});
  for (size_t i = 0; i < volumes.size(); ++i) {
    const std::string name = textAt(volumes[i], {"name"});
    checkDnsLabel("spec.volumes[" + std::to_string(i) + "].name", name, errors);
    names.volumes.insert(name);
  }
  const Json& claims = list(pod, {"spec", "resourceClaims"});
  for (size_t i = 0; i < claims.size(); ++i) {
    const std::string here = "spec.resourceClaims[" + std::to_string(i) + "]";
    const std::string name = textAt(claims[i], {"name"});
    checkDnsLabel(here + ".name", name, errors);
    names.claims.insert(name);
    const std::string claim = textAt(claims[i], {"resourceClaimName"});
    const std::string source = textAt(claims[i], {"resourceClaimTemplateName"});
    const bool templated = !source.empty();
    if (claim.empty() && !templated)
      errors.push_back(requiredField(here, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"));
    if (!claim.empty() && templated)
      errors.push_back(invalidField(
          here, claims[i], "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"));
    if (!claim.empty()) checkSubdomain(here + ".resourceClaimName", claim, errors);
    if (templated) checkSubdomain(here + ".resourceClaimTemplateName", source, errors);
  }
  const Json& gates = list(pod, {"spec", "schedulingGates"});
  for (size_t i = 0; i < gates.size(); ++i)
    if (const std::string name = textAt(gates[i], {"name"}); !isQualifiedName(name))
      errors.push_back(invalidField("spec.schedulingGates[" + std::to_string(i) + "].name", name, kQualifiedText));
  const std::string node = textAt(pod, {"spec", "nodeName"});
  if (const Json& mirror = at(pod, {"metadata", "annotations", kMirrorAnnotation}); !mirror.is_null() && node.empty())
    errors.push_back(invalidField(kMirrorField, mirror, "must set spec.nodeName if mirror pod annotation is set"));
  if (!at(pod, {"metadata", "annotations", kMirrorAnnotation}).is_null() &&
      !list(pod, {"spec", "resourceClaims"}).empty())
    errors.push_back(forbiddenField("[]", "static pods do not support resource claims"));  // same path as Kubernetes
  if (!node.empty()) {
    checkSubdomain("spec.nodeName", node, errors);
    if (!gates.empty())
      errors.push_back(forbiddenField("spec.nodeName", "cannot be set until all schedulingGates have been cleared"));
  }
  checkContainers(list(pod, {"spec", "initContainers"}), "spec.initContainers", names, errors);
  const Json& containers = list(pod, {"spec", "containers"});
  if (containers.empty()) errors.push_back(requiredField("spec.containers"));
  checkContainers(containers, "spec.containers", names, errors);
}

// Returns the spec without the fields that may change after creation.
Json frozenPart(const Json& pod, bool gated, bool bound) {
  Json spec = at(pod, {"spec"});
  if (!spec.is_object()) return spec;
  for (const char* key : {"activeDeadlineSeconds", "schedulingGates", "tolerations"}) spec.erase(key);
  if (gated)
    for (const char* key : {"nodeSelector", "affinity"}) spec.erase(key);
  if (bound) spec.erase("nodeName");
  for (const char* key : {"containers", "initContainers"})
    if (auto it = spec.find(key); it != spec.end() && it->is_array())
      for (auto& c : *it)
        if (c.is_object()) c.erase("image");
  return spec;
}

bool scheduled(const Json& pod) {
  for (const auto& c : list(pod, {"status", "conditions"}))
    if (textAt(c, {"type"}) == "PodScheduled" && textAt(c, {"status"}) == "True") return true;
  return false;
}

void checkPodUpdate(const Json& pod, const Json& old, Errors& errors) {
  const Json& oldGates = list(old, {"spec", "schedulingGates"});
  const bool gated = !oldGates.empty();
  for (const auto& gate : list(pod, {"spec", "schedulingGates"}))
    if (std::find(oldGates.begin(), oldGates.end(), gate) == oldGates.end())
      errors.push_back(
          forbiddenField("spec.schedulingGates",
                         "only deletion is allowed, but found new scheduling gate '" + textAt(gate, {"name"}) + "'"));
  const Json& mirror = at(pod, {"metadata", "annotations", kMirrorAnnotation});
  const Json& mirrored = at(old, {"metadata", "annotations", kMirrorAnnotation});
  if (mirror != mirrored)
    errors.push_back(forbiddenField(kMirrorField, mirrored.is_null()
                                                      ? "may not add mirror pod annotation"
                                                      : "may not remove or update mirror pod annotation"));
  const Json& tolerations = list(pod, {"spec", "tolerations"});
  for (const auto& t : list(old, {"spec", "tolerations"}))
    if (std::find(tolerations.begin(), tolerations.end(), t) == tolerations.end()) {
      errors.push_back(
          forbiddenField("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"));
      break;
    }
  // A binding sets nodeName together with the condition. Other writes of clients to the pod can't change the status.
  const bool bound = textAt(old, {"spec", "nodeName"}).empty() && scheduled(pod) && !scheduled(old);
  if (frozenPart(pod, gated, bound) != frozenPart(old, gated, bound))
    errors.push_back(forbiddenField(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"));
}

// ---- ResourceClaims

/// Returns the names of a claim's requests, and "<request>/<subrequest>" for each entry of firstAvailable.
std::set<std::string> checkRequests(const Json& spec, const std::string& field, Errors& errors) {
  std::set<std::string> requests;
  const Json& all = list(spec, {"devices", "requests"});
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string here = field + ".devices.requests[" + std::to_string(i) + "]";
    const std::string name = textAt(all[i], {"name"});
    checkDnsLabel(here + ".name", name, errors);
    requests.insert(name);
    const bool exactly = all[i].contains("exactly"), first = !list(all[i], {"firstAvailable"}).empty();
    if (!exactly && !first)
      errors.push_back(requiredField(here, "exactly one of `exactly` or `firstAvailable` is required"));
    if (exactly && first)
      errors.push_back(invalidField(
          here, nullptr, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"));
    for (const auto& sub : list(all[i], {"firstAvailable"})) requests.insert(name + "/" + textAt(sub, {"name"}));
  }
  return requests;
}

void checkClaimTemplate(const Json& claims, const Json* old, Errors& errors) {
  checkRequests(at(claims, {"spec", "spec"}), "spec.spec", errors);
  if (old && at(claims, {"spec"}) != at(*old, {"spec"}))
    errors.push_back(invalidField("spec", at(claims, {"spec"}), "field is immutable"));
}

void checkClaim(const Json& claim, const Json* old, Errors& errors) {
  const auto requests = checkRequests(at(claim, {"spec"}), "spec", errors);
  const Json& allocation = at(claim, {"status", "allocation"});
  const Json& users = list(claim, {"status", "reservedFor"});
  const Json& results = list(allocation, {"devices", "results"});
  for (size_t i = 0; i < results.size(); ++i)
    if (const std::string request = textAt(results[i], {"request"}); !requests.count(request))
      errors.push_back(invalidField(
          "status.allocation.devices.results[" + std::to_string(i) + "].request", request,
          "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"));
  if (!allocation.is_object() && !users.empty())
    errors.push_back(forbiddenField("status.reservedFor", "may not be specified when `allocated` is not set"));
  if (!old) return;
  if (at(claim, {"spec"}) != at(*old, {"spec"}))
    errors.push_back(invalidField("spec", at(claim, {"spec"}), "field is immutable"));
  const Json& before = at(*old, {"status", "allocation"});
  if (allocation.is_object() && before.is_object() && allocation != before)
    errors.push_back(invalidField("status.allocation", allocation, "field is immutable"));
  if (!textAt(*old, {"metadata", "deletionTimestamp"}).empty()) {
    const Json& known = list(*old, {"status", "reservedFor"});
    for (const auto& user : users)
      if (std::find(known.begin(), known.end(), user) == known.end()) {
        errors.push_back(forbiddenField(
            "status.reservedFor",
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"));
        break;
      }
    if (allocation.is_object() && !before.is_object())
      errors.push_back(
          forbiddenField("status.allocation", "new claims may not be allocated while `deletionTimestamp` is set"));
  }
}

void checkLease(const Json& lease, Errors& errors) {
  const Json& seconds = at(lease, {"spec", "leaseDurationSeconds"});
  if (seconds.is_number_integer() && seconds.get<int64_t>() <= 0)
    errors.push_back(invalidField("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
  const Json& transitions = at(lease, {"spec", "leaseTransitions"});
  if (transitions.is_number_integer() && transitions.get<int64_t>() < 0)
    errors.push_back(invalidField("spec.leaseTransitions", transitions, "must be greater than or equal to 0"));
}

void checkPriorityClass(const Json& given, const Json* old, Errors& errors) {
  constexpr int64_t kMaxUserPriority = 1'000'000'000;
  const std::string name = textAt(given, {"metadata", "name"});
  const Json& value = at(given, {"value"});
  if (name.rfind("system-", 0) == 0) {
    const auto known = std::find_if(kSystemPriorityClasses.begin(), kSystemPriorityClasses.end(),
                                    [&](const auto& each) { return each.first == name; });
    std::string error;
    if (known == kSystemPriorityClasses.end())
      error = name + " is not a known system priority class";
    else if (value != known->second)
      error = "value of " + name + " PriorityClass must be " + std::to_string(known->second);
    else if (at(given, {"globalDefault"}) == true)
      error = "globalDefault of " + name + " PriorityClass must be false";
    if (!error.empty())
      errors.push_back(forbiddenField("metadata.name",
                                      "priority class names with 'system-' prefix are reserved for system use only. "
                                      "error: " +
                                          error));
  } else if (value.is_number_integer() && value.get<int64_t>() > kMaxUserPriority) {
    errors.push_back(forbiddenField(
        "value", "maximum allowed value of a user defined priority is " + std::to_string(kMaxUserPriority)));
  }
  if (!old) return;
  if (value != at(*old, {"value"})) errors.push_back(forbiddenField("value", "may not be changed in an update."));
  if (const Json& policy = at(given, {"preemptionPolicy"}); policy != at(*old, {"preemptionPolicy"}))
    errors.push_back(invalidField("preemptionPolicy", policy, "field is immutable"));
}

void checkEvent(const Json& event, Errors& errors) {
  const std::string about = textAt(event, {"involvedObject", "namespace"});
  const std::string ns = textAt(event, {"metadata", "namespace"});
  if (about.empty() ? ns != "default" && ns != "kube-system" : about != ns)
    errors.push_back(invalidField("involvedObject.namespace", about, "does not match event.namespace"));
}

// ---- Fields that a real server sets

std::string qosClass(const Json& pod) {
  bool any = false, guaranteed = true;
  for (const char* kind : {"initContainers", "containers"})
    for (const auto& c : list(pod, {"spec", kind})) {
      const Json& requests = at(c, {"resources", "requests"});
      const Json& limits = at(c, {"resources", "limits"});
      for (const char* resource : {"cpu", "memory"}) {
        const Json& limit = at(limits, {resource});
        const Json& request = at(requests, {resource});
        any = any || !limit.is_null() || !request.is_null();
        if (limit.is_null() || (!request.is_null() && request != limit)) guaranteed = false;
      }
    }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

/// Sets the request of each resource that has only a limit to this limit.
void requestLimits(Json& resources) {
  if (!at(resources, {"limits"}).is_object() || resources["limits"].empty()) return;
  Json& requests = resources["requests"];
  if (requests.is_null()) requests = Json::object();
  if (!requests.is_object()) return;
  for (const auto& [key, value] : resources["limits"].items())
    if (!requests.contains(key)) requests[key] = value;
}

void fillPod(Json& pod) {
  for (const char* kind : {"initContainers", "containers"}) {
    if (!list(pod, {"spec", kind}).is_array() || list(pod, {"spec", kind}).empty()) continue;
    for (auto& c : pod["spec"][kind]) {
      if (!c.is_object()) continue;
      if (!c.contains("resources")) c["resources"] = Json::object();
      requestLimits(c["resources"]);
      const std::string image = textAt(c, {"image"});
      const size_t colon = image.rfind(':'), slash = image.rfind('/');
      const bool tagged = image.find('@') != std::string::npos ||
                          (colon != std::string::npos && (slash == std::string::npos || colon > slash) &&
                           image.substr(colon) != ":latest");
      if (!image.empty() && !c.contains("imagePullPolicy")) c["imagePullPolicy"] = tagged ? "IfNotPresent" : "Always";
    }
  }
  if (at(pod, {"spec"}).is_object()) {
    if (!pod["spec"].contains("securityContext")) pod["spec"]["securityContext"] = Json::object();
  }
  Json& status = pod["status"];
  if (!status.is_object()) status = Json::object();
  if (!status.contains("phase")) status["phase"] = "Pending";
  if (!status.contains("qosClass")) status["qosClass"] = qosClass(pod);
  if (!list(pod, {"spec", "schedulingGates"}).empty() && list(status, {"conditions"}).empty())
    status["conditions"] = Json::array({{{"type", "PodScheduled"},
                                         {"status", "False"},
                                         {"reason", "SchedulingGated"},
                                         {"message", "Scheduling is blocked due to non-empty scheduling gates"},
                                         {"lastProbeTime", nullptr},
                                         {"lastTransitionTime", nullptr}}});
}

}  // namespace

bool isDnsLabel(std::string_view name) { return name.size() <= 63 && wellFormed(name, lowerAlnum, "-"); }

bool isDnsSubdomain(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  while (true) {
    const size_t dot = name.find('.');
    if (!wellFormed(name.substr(0, dot), lowerAlnum, "-")) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

bool isQualifiedName(std::string_view key) {
  if (const size_t slash = key.find('/'); slash != std::string_view::npos) {
    if (!isDnsSubdomain(key.substr(0, slash))) return false;
    key.remove_prefix(slash + 1);
  }
  return key.size() <= 63 && wellFormed(key, alnum, "-_.");
}

bool isLabelValue(std::string_view value) {
  return value.empty() || (value.size() <= 63 && wellFormed(value, alnum, "-_."));
}

base::Status addBuiltinKinds(ResourceTable& table) {
  for (std::string_view text : builtinKindTexts()) {
    auto resource = loadCrd(text);
    if (!resource.ok()) return resource.status();
    resource->custom = false;
    resource->columns.clear();
    if (auto status = table.add(std::move(*resource)); !status.ok()) return status;
  }
  return {};
}

Errors validateMeta(const Resource& resource, const Json& object) {
  Errors errors;
  const Json& meta = at(object, {"metadata"});
  const std::string name = textAt(meta, {"name"});
  const bool label = resource.group.empty() && resource.plural == "namespaces";
  if (name.empty())
    errors.push_back(requiredField("metadata.name", "name or generateName is required"));
  else if (label)
    checkDnsLabel("metadata.name", name, errors);
  else
    checkSubdomain("metadata.name", name, errors);
  if (std::string prefix = textAt(meta, {"generateName"}); !prefix.empty()) {
    if (prefix.back() == '-' || prefix.back() == '.') prefix.back() = 'a';  // valid, because a random suffix follows
    if (label)
      checkDnsLabel("metadata.generateName", prefix, errors);
    else
      checkSubdomain("metadata.generateName", prefix, errors);
  }
  const std::string ns = textAt(meta, {"namespace"});
  if (resource.namespaced) {
    if (ns.empty())
      errors.push_back(requiredField("metadata.namespace"));
    else
      checkDnsLabel("metadata.namespace", ns, errors);
  } else if (!ns.empty()) {
    errors.push_back(forbiddenField("metadata.namespace", "not allowed on this type"));
  }
  checkLabels(at(meta, {"labels"}), errors);
  checkAnnotations(at(meta, {"annotations"}), errors);
  checkOwners(at(meta, {"ownerReferences"}), errors);
  const Json& finalizers = list(meta, {"finalizers"});
  for (size_t i = 0; i < finalizers.size(); ++i)
    if (finalizers[i].is_string() && !isQualifiedName(finalizers[i].get_ref<const std::string&>()))
      errors.push_back(invalidField("metadata.finalizers[" + std::to_string(i) + "]", finalizers[i], kQualifiedText));
  return errors;
}

Errors validateBuiltin(const Resource& resource, const Json& object, const Json* old) {
  Errors errors;
  if (resource.custom) return errors;
  if (resource.plural == "pods") {
    checkPod(object, errors);
    if (old && errors.empty()) checkPodUpdate(object, *old, errors);
  } else if (resource.plural == "resourceclaims") {
    checkClaim(object, old, errors);
  } else if (resource.plural == "resourceclaimtemplates") {
    checkClaimTemplate(object, old, errors);
  } else if (resource.plural == "leases") {
    checkLease(object, errors);
  } else if (resource.plural == "priorityclasses") {
    checkPriorityClass(object, old, errors);
  } else if (resource.plural == "events" && !old) {
    checkEvent(object, errors);
  }
  return errors;
}

void fillBuiltin(const Resource& resource, Json& object) {
  if (resource.custom || !at(object, {"metadata"}).is_object()) return;
  if (resource.plural == "pods") {
    fillPod(object);
  } else if (resource.plural == "namespaces") {
    Json& labels = object["metadata"]["labels"];
    if (labels.is_null() || labels.is_object())
      labels["kubernetes.io/metadata.name"] = textAt(object, {"metadata", "name"});
    Json& status = object["status"];
    if (!status.is_object()) status = Json::object();
    status["phase"] = "Active";
  } else if (resource.plural == "resourceclaims") {
    if (!list(object, {"spec", "devices", "requests"}).empty())
      for (auto& request : object["spec"]["devices"]["requests"])
        if (request.is_object() && request.contains("exactly") && request["exactly"].is_object()) {
          Json& exactly = request["exactly"];
          if (!exactly.contains("allocationMode")) exactly["allocationMode"] = "ExactCount";
          if (exactly["allocationMode"] == "ExactCount" && !exactly.contains("count")) exactly["count"] = 1;
        }
  }
}

}  // namespace egpu::apiserver

#include "controller/kubectl/workload.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/clock.h"
#include "controller/codec/codec.h"
#include "controller/kube/query.h"
#include "controller/kubectl/pod_sources.h"

namespace egpu::kubectl {

namespace {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;

Status inDocument(std::size_t number, const std::string& what) {
  return {Code::invalid, "document " + std::to_string(number) + ": " + what};
}

class WorkloadReader {
 public:
  explicit WorkloadReader(std::string space) : space_(std::move(space)) {}

  Status add(Json object, std::size_t number) {
    if (!object.is_object()) return inDocument(number, "is not a mapping");
    const auto kind = textAt(object, {"kind"});
    if (kind.empty()) {
      out_.hasQuestions = true;
      return Status::okay();
    }
    if (kind.ends_with("List") && at(object, {"items"}).is_array()) {
      for (auto& item : object["items"])
        if (auto status = add(std::move(item), number); !status.ok()) return status;
      return Status::okay();
    }
    const auto space = textAt(object, {"metadata", "namespace"});
    if (kind != "ElasticGPUClass" && space.empty()) object["metadata"]["namespace"] = space_;
    return addKind(kind, std::move(object), number);
  }

  Workload take() { return std::move(out_); }

 private:
  Status addKind(const std::string& kind, Json object, std::size_t number) {
    if (kind == "ElasticGPUClaim") {
      out_.claims.push_back(std::move(object));
    } else if (kind == "Pod") {
      out_.pods.push_back(std::move(object));
    } else if (kind == "ElasticGPUClaimTemplate") {
      out_.templates.push_back(std::move(object));
    } else if (kind == "ElasticGPUClass") {
      out_.classes.push_back(std::move(object));
    } else if (const auto sources = podSourcesOf(kind, object)) {
      out_.hasController = true;
      for (const auto& source : *sources)
        if (auto status = expand(kind, object, source, number); !status.ok()) return status;
    } else {
      out_.ignored.push_back(kind + " " + textAt(object, {"metadata", "name"}) +
                             " is not placed: it has no pods that are known here");
    }
    return Status::okay();
  }

  Status expand(const std::string& kind, const Json& object, const PodSource& source, std::size_t number) {
    const auto name = textAt(object, {"metadata", "name"});
    const auto group = source.group.empty() ? std::string() : ", group " + source.group;
    if (source.pod == nullptr) return inDocument(number, kind + " " + name + group + ": its pod template is missing");
    if (source.count < 0 || source.count > kMaxPods)
      return inDocument(number, kind + " " + name + group + ": " + std::to_string(source.count) +
                                    " pods; valid are 0 to " + std::to_string(kMaxPods));
    const auto prefix = (name.empty() ? "pod" : name) + (source.group.empty() ? "" : "-" + source.group) + "-";
    for (int64_t i = 0; i < source.count; ++i) {
      Json pod = *source.pod;
      pod["apiVersion"] = "v1";
      pod["kind"] = "Pod";
      pod["metadata"]["name"] = prefix + std::to_string(i);
      pod["metadata"]["namespace"] = textAt(object, {"metadata", "namespace"});
      out_.pods.push_back(std::move(pod));
    }
    return Status::okay();
  }

  std::string space_;
  Workload out_;
};

/// Prepends the subject ("pod default/a: ") to the error of an answer, which may name it already.
std::string withSubject(const std::string& subject, std::string_view error) {
  constexpr std::string_view kBody = "body: ";
  if (error.starts_with(kBody)) error.remove_prefix(kBody.size());
  return (error.starts_with(subject) ? "" : subject) + std::string(error);
}

/// Places the objects of a workload in a copy of the cluster.
class Placing {
 public:
  explicit Placing(ClusterMirror& mirror) : mirror_(mirror) {}

  base::Result<std::vector<WorkloadPlace>> run(const Workload& workload) {
    if (auto status = addTemplates(workload); !status.ok()) return status;
    for (const auto& claim : workload.claims)
      claims_[textAt(claim, {"metadata", "namespace"}) + "/" + textAt(claim, {"metadata", "name"})] = claim;
    std::set<std::string> used;
    for (const auto& pod : workload.pods)
      if (auto status = placePod(pod, used); !status.ok()) return status;
    for (const auto& claim : workload.claims) {
      const auto key = textAt(claim, {"metadata", "namespace"}) + "/" + textAt(claim, {"metadata", "name"});
      if (used.count(key) != 0) continue;
      if (auto status = placeClaim(claim, key); !status.ok()) return status;
    }
    return std::move(places_);
  }

 private:
  Status addTemplates(const Workload& workload) {
    for (const auto& each : workload.classes) {
      auto decoded = codec::decode<cache::Class>(each.dump());
      if (!decoded) return decoded.status();
      decoded->metadata.uid = "class-" + decoded->metadata.name;
      mirror_.stores().observed(*decoded);
    }
    for (const auto& each : workload.templates) {
      auto decoded = codec::decode<cache::ClaimTemplate>(each.dump());
      if (!decoded) return decoded.status();
      decoded->metadata.uid = "template-" + decoded->metadata.name;
      mirror_.stores().observed(*decoded);
    }
    return Status::okay();
  }

  base::Result<Json> ask(const Json& list, const std::string& space) {
    std::string target = "/simulate?format=json&top=0&names=0";
    kube::addQuery(target, "namespace", space);
    auto answer = mirror_.ask(target, list.dump());
    while (answer.body.ends_with('\n')) answer.body.pop_back();
    if (answer.status != 200) return Status(Code::invalid, answer.body);
    return Json::parse(answer.body);
  }

  Status placePod(const Json& pod, std::set<std::string>& used) {
    const auto decoded = codec::decode<core::Pod>(pod.dump());
    if (!decoded) return decoded.status();
    const auto space = decoded->metadata.namespace_;
    std::set<std::string> names = v1alpha::annotatedClaims(*decoded);
    for (const auto& name : v1alpha::claimNames(*decoded)) names.insert(name);
    Json list = {{"kind", "List"}, {"apiVersion", "v1"}, {"items", Json::array()}};
    for (const auto& name : names) {
      const auto it = claims_.find(space + "/" + name);
      if (it == claims_.end()) continue;
      used.insert(it->first);
      if (placed_.count(it->first) == 0) list["items"].push_back(it->second);
    }
    list["items"].push_back(pod);
    WorkloadPlace place{.kind = "Pod", .name = core::keyOf(decoded->metadata).str()};
    if (names.empty() && v1alpha::annotatedTemplates(*decoded).empty() && !v1alpha::hasPodClaims(*decoded)) {
      place.fits = true;
      place.message = "it uses no claim: not placed";
      places_.push_back(std::move(place));
      return Status::okay();
    }
    auto answer = ask(list, space);
    if (!answer) return {answer.status().code(), withSubject("pod " + place.name + ": ", answer.status().message())};
    place.fits = at(*answer, {"fits"}) == true;
    place.node = textAt(*answer, {"node"});
    place.message = textAt(*answer, {place.fits ? "note" : "why"});
    for (const auto& claim : at(*answer, {"claims"})) {
      if (at(claim, {"bound"}) == true) continue;
      for (const auto& card : at(claim, {"decision", "cards"})) place.cards.push_back(textAt(card, {"name"}));
      if (place.fits) take(claim, space, place.node);
    }
    if (place.fits) addPod(*decoded, place.node);
    places_.push_back(std::move(place));
    return Status::okay();
  }

  Status placeClaim(const Json& claim, const std::string& key) {
    const auto space = key.substr(0, key.find('/'));
    auto answer = ask(claim, space);
    if (!answer) return {answer.status().code(), withSubject("claim " + key + ": ", answer.status().message())};
    WorkloadPlace place{.kind = "ElasticGPUClaim", .name = key};
    place.fits = at(*answer, {"decision", "fits"}) == true || textAt(*answer, {"subject", "phase"}) == "Bound";
    place.node = textAt(*answer, {"decision", "node"});
    for (const auto& card : at(*answer, {"decision", "cards"})) place.cards.push_back(textAt(card, {"name"}));
    if (!place.fits) place.message = textAt(*answer, {"text"});
    if (place.fits) take(*answer, space, place.node);
    places_.push_back(std::move(place));
    return Status::okay();
  }

  /// Puts a device into the copy of the cluster, so that its capacity counts as used, and its claim as bound.
  void take(const Json& answer, const std::string& space, const std::string& node) {
    if (at(answer, {"decision", "fits"}) != true) return;
    const auto claimName = textAt(answer, {"subject", "claim"});
    const auto number = std::to_string(++devices_);
    const auto key = claimName.empty() ? space + "/tried-" + number : claimName;
    cache::Gpu device;
    device.metadata.name = std::string(keys::kDevicePrefix) + "tried-" + number;
    device.metadata.uid = "tried-" + number;
    device.metadata.resourceVersion = number;
    device.spec.nodeName = node;
    device.spec.className = textAt(answer, {"subject", "class"});
    device.spec.reclaimPolicy = "Delete";
    device.status.phase = keys::phase::kBound;
    for (const auto& card : at(answer, {"decision", "cards"})) {
      v1alpha::DeviceCard one;
      one.name = textAt(card, {"name"});
      one.uuid = textAt(card, {"uuid"});
      one.core = numberAt(card, {"granted", "core"});
      one.memory = numberAt(card, {"granted", "memory"});
      one.chargedCore = numberAt(card, {"charged", "core"});
      one.chargedMemory = numberAt(card, {"charged", "memory"});
      device.spec.cards.push_back(std::move(one));
    }
    const auto written = claims_.find(key);
    const std::string uid = "tried-claim-" + number;
    device.spec.claimRef = v1alpha::ClaimRef{space, key.substr(key.find('/') + 1), uid};
    mirror_.stores().observed(device);
    if (written == claims_.end()) return;
    placed_.insert(key);
    auto claim = codec::decode<cache::Claim>(written->second.dump());
    if (!claim) return;
    claim->metadata.uid = uid;
    claim->status.phase = keys::phase::kBound;
    claim->status.elasticGPUName = device.metadata.name;
    claim->status.nodeName = node;
    mirror_.stores().observed(*claim);
  }

  void addPod(core::Pod pod, const std::string& node) {
    pod.nodeName = node;
    pod.metadata.uid = "tried-pod-" + std::to_string(places_.size());
    mirror_.stores().observed(pod);
  }

  ClusterMirror& mirror_;
  std::map<std::string, Json> claims_;  ///< claims of the file, by "namespace/name"
  std::set<std::string> placed_;        ///< names of the claims in claims_ that the copy contains
  std::vector<WorkloadPlace> places_;
  int64_t devices_ = 0;
};

}  // namespace

base::Result<Workload> readWorkload(const std::string& body, const std::string& space) {
  auto documents = codec::yamlDocuments(body);
  if (!documents) return documents.status();
  WorkloadReader reader(space);
  for (std::size_t i = 0; i < documents->size(); ++i)
    if (auto status = reader.add(Json::parse((*documents)[i], nullptr, false), i + 1); !status.ok()) return status;
  return reader.take();
}

base::Result<std::vector<WorkloadPlace>> placeWorkload(ClusterMirror& mirror, const Workload& workload) {
  return Placing(mirror).run(workload);
}

}  // namespace egpu::kubectl

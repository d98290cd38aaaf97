#include "controller/kubectl/why/evidence.h"

#include <array>
#include <future>
#include <set>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/codec/codec.h"
#include "controller/kube/query.h"

namespace egpu::kubectl {

namespace {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;

constexpr std::string_view kResources = "resource.k8s.io/v1";
constexpr const char* kPendingPods = "limit=500&fieldSelector=status.phase%3DPending";

class Gathering {
 public:
  explicit Gathering(const Connection& connection) : connection_(connection) {}

  base::Result<Evidence> run(const std::string& subject) {
    out_.space = connection_.space();
    const auto slash = subject.find('/');
    std::string kind;
    out_.name = subject;
    if (slash != std::string::npos) {
      kind = subjectKindOf(subject.substr(0, slash));
      out_.name = subject.substr(slash + 1);
      if (kind.empty())
        return Status(Code::invalid,
                      "\"" + subject.substr(0, slash) + "\" is not known; valid are pod/NAME, claim/NAME");
    }
    if (out_.name.empty()) return Status(Code::invalid, "the name is empty; valid are NAME, pod/NAME, claim/NAME");
    if (out_.name.find('/') != std::string::npos)
      return Status(Code::invalid, "\"" + out_.name + "\" is no name; valid are NAME, pod/NAME, claim/NAME");
    if (auto status = find(kind); !status.ok()) return status;
    if (out_.kind == "pod")
      ofPod();
    else
      ofClaim();
    readPodEvent();
    return std::move(out_);
  }

 private:
  base::Result<Json> claimOf(const std::string& name) const {
    return connection_.get(pathOf(kOurs, out_.space, "elasticgpuclaims", name));
  }
  base::Result<Json> podOf(const std::string& name) const {
    return connection_.get(pathOf("v1", out_.space, "pods", name));
  }

  /// Reads the subject: both kinds at once if none is named.
  Status find(const std::string& kind) {
    auto claim = std::async(std::launch::async, [&] {
      return kind == "pod" ? base::Result<Json>(Status(Code::notFound, "")) : claimOf(out_.name);
    });
    auto pod = kind == "claim" ? base::Result<Json>(Status(Code::notFound, "")) : podOf(out_.name);
    claim_ = claim.get();
    if (pod) {
      out_.kind = "pod";
      out_.pod = std::move(*pod);
      return Status::okay();
    }
    if (claim_) {
      out_.kind = "claim";
      return Status::okay();
    }
    if (!kind.empty()) return kind == "pod" ? pod.status() : claim_.status();
    if (pod.status().code() != Code::notFound) return pod.status();
    if (claim_.status().code() != Code::notFound) return claim_.status();
    return {Code::notFound, "there is no pod and no ElasticGPUClaim \"" + out_.name + "\" in namespace \"" +
                                out_.space + "\"; -n NAMESPACE names another one"};
  }

  void ofPod() {
    const auto pod = codec::decode<core::Pod>(out_.pod.dump());
    std::set<std::string> names;
    if (pod) {
      for (const auto& each : v1alpha::podClaimsOnceAdmitted(*pod))
        if (each.state == v1alpha::PodClaimState::pending)
          out_.pendingPart = each.templateName;
        else
          names.insert(each.claim);
      for (const auto& each : v1alpha::annotatedClaims(*pod)) names.insert(each);
    }
    const bool sameName = claim_.ok();
    std::vector<std::future<std::optional<ClaimEvidence>>> all;
    all.reserve(names.size());
    for (const auto& name : names)
      all.push_back(std::async(std::launch::async, [this, name] { return chainOf(name, {}); }));
    for (auto& each : all)
      if (auto found = each.get()) {
        found->usedByPod = true;
        out_.claims.push_back(std::move(*found));
      }
    if (sameName && names.count(out_.name) == 0)
      out_.note = "a claim has the name, too: kubectl egpu why claim/" + out_.name;
  }

  void ofClaim() {
    auto chain = chainOf(out_.name, std::move(*claim_));
    if (!chain) return;
    findPod(*chain);
    chain->usedByPod = !out_.pod.is_null();
    out_.claims.push_back(std::move(*chain));
  }

  /// Finds a pod of the claim: one that the ResourceClaim is reserved for, or a pending one that names the claim.
  void findPod(const ClaimEvidence& chain) {
    for (const auto& user : at(chain.resourceClaim, {"status", "reservedFor"}))
      if (auto pod = podOf(textAt(user, {"name"}))) {
        out_.pod = std::move(*pod);
        return;
      }
    for (const auto& owner : at(chain.resourceClaim, {"metadata", "ownerReferences"}))
      if (textAt(owner, {"kind"}) == "Pod")
        if (auto pod = podOf(textAt(owner, {"name"}))) {
          out_.pod = std::move(*pod);
          return;
        }
    const auto pending = connection_.get(pathOf("v1", out_.space, "pods") + "?" + kPendingPods);
    if (!pending) return;
    for (const auto& item : at(*pending, {"items"})) {
      const auto pod = codec::decode<core::Pod>(item.dump());
      if (!pod || (!v1alpha::usesClaim(*pod, out_.name) && v1alpha::annotatedClaims(*pod).count(out_.name) == 0))
        continue;
      out_.pod = item;
      return;
    }
  }

  /// Returns the objects of a claim; none: the name is that of another driver's ResourceClaim.
  std::optional<ClaimEvidence> chainOf(const std::string& name, Json claim) const {
    ClaimEvidence chain;
    chain.space = out_.space;
    chain.name = name;
    auto resource = std::async(std::launch::async,
                               [&] { return connection_.get(pathOf(kResources, out_.space, "resourceclaims", name)); });
    if (claim.is_null()) {
      auto read = claimOf(name);
      if (!read && read.status().code() != Code::notFound) chain.unreadable["claim"] = read.status().message();
      if (read) claim = std::move(*read);
    }
    auto resourceClaim = resource.get();
    note(chain, "ResourceClaim", resourceClaim);
    if (resourceClaim) chain.resourceClaim = std::move(*resourceClaim);
    if (claim.is_null() && chain.unreadable.empty() && !chain.resourceClaim.is_null() && !isOurs(chain.resourceClaim))
      return std::nullopt;
    chain.claim = std::move(claim);
    if (!chain.claim.is_null()) readDevice(chain);
    return chain;
  }

  static bool isOurs(const Json& resourceClaim) {
    for (const auto& request : at(resourceClaim, {"spec", "devices", "requests"}))
      if (textAt(request, {"exactly", "deviceClassName"}) == keys::kDeviceClass) return true;
    return false;
  }

  static void note(ClaimEvidence& chain, const std::string& part, const base::Result<Json>& read) {
    if (!read && read.status().code() != Code::notFound) chain.unreadable[part] = read.status().message();
  }

  void readDevice(ClaimEvidence& chain) const {
    auto name = textAt(chain.claim, {"status", "elasticGPUName"});
    if (name.empty()) name = std::string(keys::kDevicePrefix) + textAt(chain.claim, {"metadata", "uid"});
    auto device = connection_.get(pathOf(kOurs, {}, "elasticgpus", name));
    note(chain, "device", device);
    if (device) chain.device = std::move(*device);
    auto node = textAt(chain.claim, {"status", "nodeName"});
    if (node.empty()) node = textAt(chain.device, {"spec", "nodeName"});
    std::vector<std::future<base::Result<Json>>> cards;
    for (const auto& card : at(chain.device, {"spec", "cards"}))
      cards.push_back(std::async(std::launch::async, [this, name = textAt(card, {"name"})] {
        return connection_.get(pathOf(kOurs, {}, "elasticgpus", name));
      }));
    if (!node.empty()) {
      auto read = connection_.get(pathOf("v1", {}, "nodes", node));
      note(chain, "node", read);
      if (read) chain.node = std::move(*read);
    }
    for (auto& each : cards) {
      auto card = each.get();
      note(chain, "card", card);
      if (card) chain.cards.push_back(std::move(*card));
    }
  }

  void readPodEvent() {
    if (out_.pod.is_null() || textAt(out_.pod, {"status", "phase"}) != "Pending") return;
    const auto selector = "involvedObject.kind=Pod,involvedObject.name=" + textAt(out_.pod, {"metadata", "name"});
    const auto events =
        connection_.list(pathOf("v1", out_.space, "events"), "fieldSelector=" + kube::percentEncode(selector));
    if (!events) return;
    std::string last;
    for (const auto& event : *events) {
      const auto time = textAt(event, {"lastTimestamp"});
      if (textAt(event, {"type"}) != "Warning" || time < last) continue;
      last = time;
      out_.podEvent = textAt(event, {"reason"}) + ": " + textAt(event, {"message"});
    }
  }

  const Connection& connection_;
  Evidence out_;
  base::Result<Json> claim_{Status(Code::notFound, "")};
};

}  // namespace

std::string subjectKindOf(std::string_view word) {
  static const std::set<std::string, std::less<>> pods = {"pod", "pods", "po"};
  static const std::set<std::string, std::less<>> claims = {"claim", "claims", "egpuc"};
  if (withoutKind(std::string(word) + "/-", "elasticgpuclaim") == "-") return "claim";
  return pods.count(word) != 0 ? "pod" : claims.count(word) != 0 ? "claim" : "";
}

base::Result<Evidence> gather(const Connection& connection, const std::string& subject) {
  return Gathering(connection).run(subject);
}

}  // namespace egpu::kubectl

#include "controller/reconcile/class/class_access.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/pod/node_fit/taints.h"

namespace egpu::reconcile {
namespace {

constexpr std::size_t kMaxTaintsReported = 5;  ///< classes or taints in one message

bool holds(const core::NodeSelectorRequirement& requirement, const core::StringMap& labels) {
  const auto it = labels.find(requirement.key);
  const bool there = it != labels.end();
  const auto listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), it->second) != requirement.values.end();
  };
  if (requirement.op == "In") return there && listed();
  if (requirement.op == "NotIn") return !there || !listed();
  if (requirement.op == "Exists") return there;
  return requirement.op == "DoesNotExist" && !there;
}

std::string textOf(const core::NodeSelectorRequirement& requirement) {
  if (requirement.op == "Exists") return requirement.key;
  if (requirement.op == "DoesNotExist") return "!" + requirement.key;
  std::string values;
  for (const auto& value : requirement.values) values += (values.empty() ? "" : ", ") + value;
  return requirement.key + (requirement.op == "NotIn" ? " notin (" : " in (") + values + ")";
}

std::string textOf(const core::Taint& taint) {
  return taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect;
}

const core::Taint* untolerated(const cache::Class& cls, const cache::NodeTaints::Taints& taints) {
  for (const auto& taint : taints)
    if (std::none_of(cls.tolerations.begin(), cls.tolerations.end(),
                     [&](const auto& toleration) { return tolerates(toleration, taint); }))
      return &taint;
  return nullptr;
}

/// Returns the names of classes that are open to these labels and pass `suits`: "gold, share"; empty if there are none.
std::string openClasses(const cache::Stores& stores, const core::StringMap& labels,
                        const std::function<bool(const cache::Class&)>& suits) {
  std::vector<std::string> names;
  stores.classes.forEach([&](const auto& cls) {
    const bool open = !cls->allowedNamespaces || selects(*cls->allowedNamespaces, labels);
    if (open && suits(*cls)) names.push_back(cls->metadata.name);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxTaintsReported); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMaxTaintsReported ? text + ", …" : text;
}

std::string othersFor(const cache::Stores& stores, const core::StringMap& labels) {
  const auto text = openClasses(stores, labels, [](const auto&) { return true; });
  return text.empty() ? "no class allows it" : "classes that allow it: " + text;
}

}  // namespace

bool selects(const core::LabelSelector& selector, const core::StringMap& labels) {
  for (const auto& [key, value] : selector.matchLabels)
    if (const auto it = labels.find(key); it == labels.end() || it->second != value) return false;
  return std::all_of(selector.matchExpressions.begin(), selector.matchExpressions.end(),
                     [&](const auto& requirement) { return holds(requirement, labels); });
}

std::string textOf(const core::LabelSelector& selector) {
  std::string text;
  for (const auto& [key, value] : selector.matchLabels) text += (text.empty() ? "" : ",") + (key + "=" + value);
  for (const auto& requirement : selector.matchExpressions) text += (text.empty() ? "" : ",") + textOf(requirement);
  return text.empty() ? "any" : text;
}

std::optional<scheduler::Refusal> accessRefusal(const cache::Stores& stores, const cache::Class& cls,
                                                const std::string& namespace_) {
  if (!cls.allowedNamespaces || namespace_.empty()) return std::nullopt;
  const auto object = stores.namespaces.get({"", namespace_});
  if (!object)  // its labels may exclude it; the question is repeated once it is seen
    return scheduler::Refusal{std::string(v1alpha::keys::reason::kInvalidParameter), "spec.egpuClassName",
                              "class " + cls.metadata.name +
                                  " is for some namespaces only (its allowedNamespaces), and namespace " + namespace_ +
                                  " has not been seen yet"};
  const auto& labels = object->metadata.labels;
  if (selects(*cls.allowedNamespaces, labels)) return std::nullopt;
  return scheduler::Refusal{std::string(v1alpha::keys::reason::kInvalidParameter), "spec.egpuClassName",
                            "class " + cls.metadata.name + " is for namespaces with labels " +
                                textOf(*cls.allowedNamespaces) + " (its allowedNamespaces), and namespace " +
                                namespace_ + " does not have them; " + othersFor(stores, labels)};
}

scheduler::Refusal withOtherClasses(scheduler::Refusal refusal, const cache::Stores& stores,
                                    const cache::Claim& claim) {
  if (refusal.field != "spec.isolation") return refusal;
  const auto space = stores.namespaces.get({"", claim.metadata.namespace_});
  const auto text = openClasses(stores, space ? space->metadata.labels : core::StringMap{},
                                [&](const auto& cls) { return scheduler::isolationOf(cls) == claim.spec.isolation; });
  refusal.message += text.empty() ? "; no class provides it" : "; classes that provide it: " + text;
  return refusal;
}

bool hasAdminAccess(const core::ObjectMeta& namespace_) {
  return namespace_.label(v1alpha::keys::kAdminAccessLabel) == "true";
}

std::optional<scheduler::Refusal> adminAccessRefusal(const cache::Stores& stores, const cache::Claim& claim) {
  const auto& name = claim.metadata.namespace_;
  if (!claim.spec.adminAccess || name.empty()) return std::nullopt;
  const auto object = stores.namespaces.get({"", name});
  if (object && hasAdminAccess(object->metadata)) return std::nullopt;
  return scheduler::Refusal{std::string(v1alpha::keys::reason::kInvalidParameter), "spec.adminAccess",
                            "only in namespaces that an administrator labelled " +
                                std::string(v1alpha::keys::kAdminAccessLabel) + "=true, and namespace " + name +
                                (object ? " is not" : " has not been seen yet")};
}

scheduler::NodePredicate toleratedNodes(const cache::Stores& stores, const cache::Class& cls) {
  if (!stores.taints.any()) return {};
  cache::Class tolerating;  // the class may be deleted before the predicate is called
  tolerating.tolerations = cls.tolerations;
  return [&stores, tolerating](std::string_view node) {
    const auto taints = stores.taints.of(node);
    return !taints || untolerated(tolerating, *taints) == nullptr;
  };
}

std::string toleratedNodesText(const cache::Stores& stores, const cache::Class& cls) {
  if (!stores.taints.any()) return {};
  auto text = std::to_string(stores.taints.version());
  for (const auto& each : cls.tolerations)
    for (const auto* part : {&each.key, &each.op, &each.value, &each.effect}) text += "\n" + *part;
  return text;
}

std::string untoleratedTaint(const cache::Stores& stores, const cache::Class& cls, std::string_view node) {
  const auto taints = stores.taints.of(node);
  const auto* taint = taints ? untolerated(cls, *taints) : nullptr;
  return taint == nullptr ? std::string() : textOf(*taint);
}

std::string untoleratedText(const cache::Stores& stores, const cache::Class& cls) {
  std::string text;
  std::size_t named = 0;
  for (const auto& group : stores.taints.groups()) {
    const auto* taint = untolerated(cls, group.taints);
    if (taint == nullptr) continue;
    if (++named > kMaxTaintsReported) return text + ", …";
    text += (text.empty() ? "" : ", ") + std::to_string(group.nodes) + " with taint " + textOf(*taint) + " (" +
            group.example + (group.nodes > 1 ? ", …)" : ")");
  }
  return text;
}

}  // namespace egpu::reconcile

// Access to classes: which namespaces may use one (allowedNamespaces), and on which nodes (tolerations). Pure, except
// for the stores.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/cache/stores.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

/// True if the selector matches, with Kubernetes' semantics; an unknown operator matches nothing.
bool selects(const core::LabelSelector& selector, const core::StringMap& labels);
/// Returns the selector in the syntax of kubectl's -l: "team=a,tier in (gold, silver),!retired"; "any" for the empty
/// one.
std::string textOf(const core::LabelSelector& selector);

/// Returns nullopt if claims of this namespace may use the class, else InvalidParameter with the valid classes. A
/// namespace that has not been seen may use no restricted class. An empty name belongs to no claim and may use all.
std::optional<scheduler::Refusal> accessRefusal(const cache::Stores& stores, const cache::Class& cls,
                                                const std::string& namespace_);

/// Returns nullopt if the claim has no admin access (spec.adminAccess) or its namespace is labelled for it, else a
/// refusal as accessRefusal(). A claim keeps its device if the label is removed.
std::optional<scheduler::Refusal> adminAccessRefusal(const cache::Stores& stores, const cache::Claim& claim);
/// Adds to a refusal of spec.isolation the names of the classes that provide it to this namespace. Leaves other
/// refusals as they are.
scheduler::Refusal withOtherClasses(scheduler::Refusal refusal, const cache::Stores& stores, const cache::Claim& claim);
/// True if the namespace is labelled for admin access.
bool hasAdminAccess(const core::ObjectMeta& namespace_);

/// Returns the nodes that a claim may be bound on before one of its pods is known: those without taints that keep pods
/// off, except for taints that the class tolerates. Null if no node has such taints. The stores must outlive it.
scheduler::NodePredicate toleratedNodes(const cache::Stores& stores, const cache::Class& cls);
/// Returns a text that is equal for equal sets of nodes. Empty if toleratedNodes() is null.
std::string toleratedNodesText(const cache::Stores& stores, const cache::Class& cls);
/// Reason of nodes that toleratedNodes() excludes.
inline constexpr std::string_view kUntolerated = "with a taint that the claim's class does not tolerate";
/// Returns the first taint of that node that the class doesn't tolerate, "key=value:effect"; empty if there is none.
std::string untoleratedTaint(const cache::Stores& stores, const cache::Class& cls, std::string_view node);
/// Lists the untolerated taints, for people: "3 with taint a=b:NoSchedule (n1, …)"; empty if the class tolerates all.
std::string untoleratedText(const cache::Stores& stores, const cache::Class& cls);

}  // namespace egpu::reconcile

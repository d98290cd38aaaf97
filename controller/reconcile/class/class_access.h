// Who may use a class, and on which nodes: allowedNamespaces and tolerations. Pure but for what the stores hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/cache/stores.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/request.h"

namespace egpu::reconcile {

/// As Kubernetes' label selectors: an operator that isn't known selects nothing.
bool selects(const core::LabelSelector& selector, const core::StringMap& labels);
/// As kubectl's -l takes it: "team=a,tier in (gold, silver),!retired"; "any" for the empty one.
std::string textOf(const core::LabelSelector& selector);

/// Nothing if claims of this namespace may use the class, else InvalidParameter with what would be valid. Nothing is
/// allowed to a namespace that has not been seen; one without a name is asked about by nobody's claim and may use all.
std::optional<scheduler::Refusal> accessRefusal(const cache::Stores& stores, const cache::Class& cls,
                                                const std::string& namespace_);

/// Nothing if the claim does not observe (spec.adminAccess), or its namespace is labelled for it, as accessRefusal() else. What has its
/// device keeps it when the label goes.
std::optional<scheduler::Refusal> observingRefusal(const cache::Stores& stores, const cache::Claim& claim);
/// Completes a refusal for spec.isolation by the names of classes that provide it to this namespace; leaves others as they
/// are.
scheduler::Refusal withOtherClasses(scheduler::Refusal refusal, const cache::Stores& stores, const cache::Claim& claim);
/// The namespace has that label.
bool mayObserve(const core::ObjectMeta& namespace_);

/// Nodes that a claim may be bound on before a pod of its is known: those without taints that keep pods off, but for
/// those that the class tolerates. Null if that is all of them. The stores must outlive it.
scheduler::NodePredicate toleratedNodes(const cache::Stores& stores, const cache::Class& cls);
/// Those nodes as a text: the same for the same ones. Empty if toleratedNodes() is null.
std::string toleratedNodesText(const cache::Stores& stores, const cache::Class& cls);
/// Reason of nodes that toleratedNodes() leaves out.
inline constexpr std::string_view kUntolerated = "with a taint that the claim's class does not tolerate";
/// The taint of that node that the class doesn't tolerate, "key=value:effect"; empty if there is none.
std::string untoleratedTaint(const cache::Stores& stores, const cache::Class& cls, std::string_view node);
/// For people: "3 with taint a=b:NoSchedule (n1, …)"; empty if the class tolerates all.
std::string untoleratedText(const cache::Stores& stores, const cache::Class& cls);

}  // namespace egpu::reconcile

#include <string>
#include <string_view>
#include <vector>

#include "controller/kubectl/why/chain.h"

namespace egpu::kubectl {

namespace {

/// Remedy for the reason of a step. A reason with several lines has the best one first. {NS} and {CLAIM} are
/// replaced. tests/kubectl compares the reasons with those of api/v1alpha/keys.h.
struct HelpText {
  std::string_view reason, text;
};
constexpr HelpText kHelpTexts[] = {
    {"ClassNotFound", "name an existing class: kubectl get egpuclass"},
    {"ClassNotFound", "or make one the default: kubectl annotate egpuclass CLASS elasticgpu.io/is-default-class=true"},
    {"PriorityClassNotFound", "create the PriorityClass, or name an existing one: kubectl get priorityclass"},
    {"InvalidParameter",
     "correct the field that the message names; the class is shown by kubectl get egpuclass -o yaml"},
    {"NotRepresentable", "use an amount that the message names"},
    {"ProvisionerUnavailable", "kubectl describe egpuclass: the condition Ready has the plugin's error"},
    {"ProvisionerUnavailable", "kubectl egpu check"},
    {"NoFit", "the message names the smallest change that would fit"},
    {"NoFit", "kubectl egpu fit: number of claims that fit now"},
    {"NoFit",
     "kubectl egpu try -n {NS} {CLAIM}: which claims of lower priority would be evicted, and where it would be placed"},
    {"QuotaExceeded", "kubectl -n {NS} get egpuquota: usage; an administrator can raise spec.hard"},
    {"QuotaExceeded", "or delete claims of the namespace: kubectl -n {NS} get egpuc"},
    {"ScalingQuotaExceeded", "kubectl -n {NS} get egpuquota: an administrator can raise spec.hard"},
    {"WaitingForConsumer", "create a pod that uses the claim; if there is one, its other claims are not bound yet"},
    {"WaitingForGates",
     "the pod has scheduling gates of other controllers: kubectl -n {NS} get pods -o yaml shows them"},
    {"SchedulerNotServed", "use a scheduler of the controller's flag --schedulers in the pod's schedulerName"},
    {"WaitingForGang", "create the missing members of the gang; the message names their number"},
    {"Preempting", "wait until the victims have ended; disruption budgets can delay it: kubectl get pdb -A"},
    {"Preempted", "wait: the claim is decided again when there is capacity"},
    {"NodeUnsuitable", "wait: another node is tried; the message says why this one is not suitable"},
    {"Provisioning", "wait: the plugin of the class is working"},
    {"ProvisionFailed", "the message is the plugin's; the controller tries again by itself"},
    {"StaticNotAvailable", "name another device in spec.elasticGPUName: kubectl get egpu"},
    {"Refused", "the message is the API server's: grant the right, or change the policy, that it names"},
    {"ResourceClaimConflict",
     "delete the foreign ResourceClaim of this name, or rename the claim: kubectl -n {NS} get resourceclaim "
     "{CLAIM}"},
    {"ResourceClaimDeleted", "wait: the controller creates the ResourceClaim again"},
    {"CardGone", "delete the pods of the claim: it is then bound to another card"},
    {"InUse", "delete the pods that use the claim"},
    {"ClaimGone", "the device is kept until the pods that use it have ended"},
    {"IsolationBypassed", "the message names the process; start its program without a libcuda of its own"},
    {"MpsDaemonRestarted", "restart the claim's pods: kubectl -n {NS} delete pod POD, or rollout restart of its owner"},
    {"MpsDaemonFailed", "the message is the node's: an administrator has to solve it; then restart the claim's pods"},
    {"MpsServerFault",
     "restart the claim's pods, and those of other claims with this condition: kubectl -n {NS} delete pod POD, or "
     "rollout restart of its owner"},
    {"LeaseNotRenewed", "the message is the pool's; the lease is renewed as soon as the pool answers"},
    {"LeaseLost", "delete the claim's pods and the claim, then create them again: the GPU of the lease is gone"},
    {"MemoryLimitFailed",
     "the message is the node's; until it is solved, containers of the claim may exceed its memory"},
    {"Unhealthy", "kubectl get egpu -o wide: the card's condition has the reason; delete the pod to get another card"},
    {"Tainted", "an administrator took the card out of use: kubectl egpu drain-card CARD --undo offers it again"},
    {"CardTooSmall", "shrink or delete claims of the card: it has less memory than its shares hold"},
    {"CardMemoryChanged", "nothing is to be done: the claim follows its whole cards"},
    {"Moved", "wait: the claim left its device, as its annotation elasticgpu.io/move asked"},
    {"NotMoved", "remove the annotation elasticgpu.io/move: the move is not allowed"},
    {"Resizing", "wait: the new amounts are being put in force"},
    {"ResizeInfeasible", "set spec.resources.requests back, or delete claims that share its cards"},
    {"ResizeFailed", "the message is the plugin's; set spec.resources.requests back"},
    {"NotResizable", "set spec.resources.requests back: the class or its plugin does not resize"},
    {"TemplateTaken", "delete or rename the other ResourceClaimTemplate of this name"},
    {"TemplateChanged", "exempt ResourceClaimTemplates from the policy or webhook that changes them"},
    {"ClaimNotFound", "create the claim {CLAIM} in namespace {NS}, or correct the pod's annotation"},
    {"NoStatus", "the controller has not seen the claim: kubectl egpu check"},
    {"Undecided", "the controller has not decided yet; if that lasts: kubectl egpu check"},
    {"NoEntry", "wait: the controller writes the entries, or rolls the device back; if that lasts: kubectl egpu check"},
    {"NoResourceClaim", "wait: the controller creates it; if that lasts: kubectl egpu check"},
    {"NotAllocated", "wait: the controller writes the allocation; if that lasts: kubectl egpu check"},
    {"NodeGone", "delete the pods of the claim: it is then bound on another node"},
    {"NodeNotReady", "the node's kubelet does not answer; an administrator has to repair or remove the node"},
    {"SchedulingGated", "the gates other than elasticgpu.io/claims belong to other controllers, such as Kueue"},
    {"Unschedulable", "the message is the scheduler's: CPU, memory, taints or affinity keep the pod off the node"},
    {"ContainerCreating",
     "if that lasts: kubectl -n {NS} describe pod; the agent of the node prepares the claim: kubectl egpu check"},
    {"Pending", "if that lasts: kubectl -n {NS} describe pod"},
    {"Terminating", "wait until it is gone; kubectl -n {NS} describe shows finalizers and the grace period"},
};

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

std::vector<std::string> helpFor(const std::string& reason, const std::string& space, const std::string& claim) {
  std::vector<std::string> help;
  for (const auto& each : kHelpTexts)
    if (each.reason == reason) help.emplace_back(each.text);
  if (help.empty()) return {"the message describes the problem; kubectl -n " + space + " describe shows more"};
  for (auto& text : help) {
    replace(text, "{NS}", space);
    replace(text, "{CLAIM}", claim);
  }
  return help;
}

}  // namespace egpu::kubectl

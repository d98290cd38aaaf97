// Prepares and unprepares claims on a node (claim → device → CDI file), for the kubelet and for simulated nodes.
// clang-format off
//
// STATES of a device on this node. Its files are the only record of its state.
//   none    no file
//   part    elasticgpu.io-device_<uid>.json.part: names the claim, the cards and the plugin. Runtimes don't read it.
//           It counts in the capacity check (capacity_guard.h)
//   ready   elasticgpu.io-device_<uid>.json: contains the edits, too. Runtimes read it
//
//   PREPARE holds the claim's lock and follows the checks of authorize.h.    after a crash: state, and recovery
//   (P1) write the part if the card has capacity: synced to disk before     part, not staged: from (P1), or from (U2)
//        the folder is locked, renamed under the lock
//   (P2) PreparerOptions::beforeStage, such as an MPS daemon (../sharing/);  part, staged: from (P1), stage is a no-op;
//        plugin stage(device uid)                                            or from (U2). A daemon without a file is
//                                                                           ended by ../sharing/
//   (P3) plugin mount(device uid); check the edits; merge their variables   part with edits: from (P1), mount is pure;
//        with those of the preceding claims of the containers (co_claims.h);  or from (U2)
//        write them to the part; make the links in /dev/char (dev_links.h)
//   (P4) rename the part to ready                                           ready, no answer: (P5), or from (U1)
//   (P5) answer with the CDI ids in the file                                ready: the kubelet asks again, (P5)
//   A ready file is used for the answer only if it is for the same claim, grant, boot, driver and minor numbers, and if
//   mount returns the same edits. Otherwise it is made again from (P1), or the prepare fails with the reason. refresh()
//   does the same for containers that restart.
//
//   UNPREPARE holds the claim's lock; no pod of this node may run with it.  after a crash: state, and recovery
//   (U1) rename ready to part: no container gets the device any more        part, staged: from (U2); or from (P1) if a
//                                                                           pod needs the device again
//   (U2) plugin unmount(device uid)                                         part: repeating it is a no-op
//   (U3) plugin unstage(device uid); remove what it set aside (staged.h)    part, not staged: repeating it is a no-op
//        (U2) and (U3) are skipped if the plugin is uninstalled: otherwise
//        pods would stay Terminating for ever. (L4) unstages the device
//        once the plugin is installed again
//   (U4) remove the part                                                    none: unprepare without a file returns OK
//
// RECOVERY. The kubelet keeps its own list: it repeats prepare and unprepare until they return OK, also after its own
// restart. garbageCollect() runs at the start and handles state that the kubelet has lost (its folder was deleted, the
// claim is gone, or a pod was deleted by force while kubelet and agent were down):
//   (L1) A file, ready or part, whose claim no pod of this node names; or whose ResourceClaim was created again, if the
//        pods that name it have no running container: from (U1). If the API is unavailable, nothing changes, and the
//        caller tries again.
//   (L2) A file that can't be read; its name contains the uid. If a device of this node has the uid and its
//        ResourceClaim is reserved, the claim is prepared again, from (P1). Otherwise, and if the kubelet unprepares
//        the claim, every plugin unstages the uid, and the file is removed. refresh() handles such files, too.
//   (L3) A temporary file of an interrupted write: removed by Folder::open.
//   (L4) A plugin's state on disk (staged.h) without a file: a reboot removed the file, and no pod of this node is left
//        for which the kubelet would prepare the claim, or the kubelet unprepares it. Every plugin unstages the uid.
//   (L5) Files that a plugin set aside because it lacked permission to delete them (staged.h): removed. If that takes
//        longer than PreparerOptions::removing, the agent's next start continues; (U4) does not wait for it.
// After a reboot there are no files (/run): the kubelet repeats prepare for each pod that it restarts.
// A prepare that fails with an error that usually passes within seconds (the device is not Bound yet, a plugin is
// starting) is repeated from the checks on while the kubelet waits, and holds the claim's lock meanwhile:
// PreparerOptions::patience. Only maxWaiting prepares wait at a time; others fail, and the kubelet repeats them.
// A failed step leaves the state of a crash at that step. A full disk fails (P1) before anything is staged, or (P3)
// with the part still present. A refusal at (P2) removes the part, as the plugin guarantees that it left nothing.
// If the API is unavailable, prepare fails, as nothing can be checked; unprepare relies on the file, and on the
// kubelet, which calls it only after the pods' containers have stopped.
// A part beside a ready file belongs to a second run of (P1) to (P4) for the same device, because the file is stale or
// the ResourceClaim was created again. Until (P4) runtimes read the ready file, and the capacity check uses the larger
// amounts.
// clang-format on
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/prepare/authorize.h"
#include "controller/agent/prepare/call_limiter.h"
#include "controller/agent/prepare/capacity_guard.h"
#include "controller/agent/prepare/claim_locks.h"
#include "controller/agent/prepare/edits.h"
#include "controller/agent/prepare/users.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent {

struct PreparerOptions {
  std::string node;  ///< name of this node
  Permitted permitted;
  /// How long a prepare that fails with Code::unavailable is repeated before it returns. The kubelet waits 45 s, and
  /// repeats a failed prepare only after more than a minute. 0: not repeated.
  std::chrono::milliseconds patience{0};
  /// Maximum number of prepares that wait so at a time; a further one returns its first failure. Must be less than the
  /// number of threads that call prepare; otherwise waiting claims block all others.
  int maxWaiting = 64;
  /// Maximum number of concurrent calls per plugin; a further call fails with Code::unavailable. Must be less than the
  /// number of calling threads minus maxWaiting; otherwise a plugin that hangs blocks the claims of other plugins.
  int maxCalls = 128;
  /// Returns why the card with this object name can't be assigned although the API lists it: the end of a sentence, or
  /// an empty string. Empty function: unknown.
  std::function<std::string(const std::string& card)> gone{};
  /// Returns the memory of a card as it was found, in bytes; nullopt or empty function: unknown.
  std::function<std::optional<int64_t>(const std::string& card)> memoryFound{};
  /// True if every installed plugin has described itself and none has this name. Empty function: no plugin counts as
  /// uninstalled.
  std::function<bool(const std::string& provisioner)> uninstalled{};
  /// Current state of a card, as found by its plugin; nullopt or empty function: unknown.
  struct CurrentCard {
    int64_t index = 0;   ///< minor number
    std::string driver;  ///< version; empty = unknown
  };
  std::function<std::optional<CurrentCard>(const std::string& card)> found{};
  /// Boot id of the machine. Empty for a simulated node: its files never become stale.
  std::string boot{};
  /// Starts what containers of the device need on the node besides the plugin's work, such as an MPS daemon. It is
  /// called before the plugin stages the device, while the part file exists. An error fails the prepare, and the part
  /// stays. Empty function: no device needs such work.
  std::function<base::Status(const v1alpha::ElasticGPU& device, const std::stop_token& stop)> beforeStage{};
  /// Is called at each prepare, while a file of the device exists, with the largest number of containers of one pod
  /// that use the device at the same time (co_claims.h). May be empty.
  std::function<void(const std::string& deviceUid, std::size_t containers)> shared{};
  /// Returns the agent's own hooks for containers of the device, which are added to the plugin's edits. Empty function:
  /// none.
  std::function<base::Result<std::vector<core::Hook>>(const v1alpha::ElasticGPU& device)> hooks{};
  /// Group of the plugins' processes. It gets the right to create and destroy MIG instances.
  gid_t pluginGroup = 0;
  /// Maximum time of one removal of files that containers left; the kubelet waits 45 s for an unprepare.
  std::chrono::milliseconds removing{10'000};
};

/// Thread-safe. Keeps references to its arguments, which must outlive it; the folder must be open. A call reads each
/// API object once, sequentially, with a timeout of 8 s each. Reads of pods and cards are shared with concurrent calls.
/// Calls to plugins have their own deadlines.
class ClaimPreparer {
 public:
  ClaimPreparer(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, cdi::Folder& folder,
                PreparerOptions options);

  /// Returns the CDI devices for every container with the claim: "elasticgpu.io/device=<uid>" first, then foreign ones.
  /// Code::invalid: not permitted; Code::unavailable: may succeed later. The pods for which the claim is reserved get
  /// an event at the first failure, and another if the last failure differs.
  base::Result<std::vector<std::string>> prepare(const ClaimRef& claim, std::stop_token stop);
  /// Returns OK also for a claim that is not prepared. Code::conflict: a pod of this node runs with it.
  base::Status unprepare(const ClaimRef& claim, std::stop_token stop);
  /// Replaces files made for another boot, driver or minor number, as containers restart without a prepare. Withdraws a
  /// file that can't be replaced because the claim may no longer use the cards. Handles unreadable files as in (L2):
  /// while one exists, no other claim can be prepared. Call it periodically. Returns the first error.
  base::Status refresh(std::stop_token stop);
  /// Removes prepared devices that no pod uses. Call it at the start, and again after an error. Continues after errors
  /// and returns the first one.
  base::Status garbageCollect(std::stop_token stop);

 private:
  base::Result<std::vector<std::string>> prepareLocked(const ClaimRef& claim, std::vector<core::ObjectReference>& pods,
                                                       std::stop_token stop);
  base::Result<std::vector<std::string>> tryAgain(const ClaimRef& claim, const base::Status& first,
                                                  std::stop_token stop);
  base::Status useDiscoveredCards(AuthorizedDevice& grant) const;
  void useDiscoveredMinors(AuthorizedDevice& grant) const;
  void recordBoot(cdi::Spec& spec, const AuthorizedDevice& grant) const;
  bool isStale(const cdi::Spec& spec) const;
  base::Status refreshFile(const cdi::Folder::StoredSpec& entry, const std::stop_token& stop);
  /// Returns the plugins' current edits for the device, with the variables of `companions` merged.
  base::Result<core::ContainerEdits> currentEdits(const AuthorizedDevice& authorized,
                                                  const std::vector<AuthorizedDevice>& companions);
  void createMissingNodes(const AuthorizedDevice& grant);
  void linkDeviceNodes(const cdi::Spec& spec);
  base::Status stage(plugin::Provisioner& plugin, const plugin::DeviceRequest& request, const cdi::Spec& spec);
  base::Status writeEdits(const AuthorizedDevice& authorized, const std::vector<AuthorizedDevice>& companions,
                          cdi::Spec& spec);
  base::Result<core::ContainerEdits> editsFor(const AuthorizedDevice& authorized);
  base::Status undo(const cdi::Folder::StoredSpec& entry, const std::stop_token& stop);
  base::Status unstage(const cdi::Folder::StoredSpec& entry);
  base::Status unprepareIfUnused(const cdi::Folder::StoredSpec& entry, std::stop_token stop);
  base::Status recoverUnreadable(const cdi::Folder::StoredSpec& entry, std::stop_token stop);
  base::Status removeUnreadableOf(const ClaimRef& given, const std::vector<cdi::Folder::StoredSpec>& entries,
                                  std::stop_token stop);
  base::Status unstageLeftovers(const ClaimRef* given, std::stop_token stop);
  base::Status unstageUnused(const std::string& deviceUid, const ClaimRef& claim, const ClaimRef* given,
                             std::stop_token stop);
  base::Status unstageAnywhere(const std::string& deviceUid, const std::stop_token& stop);
  base::Status removeSetAside(const std::string& deviceUid, const std::stop_token& stop);
  /// Returns this node's devices that belong to claims: namespace and name of the claim, by uid of the device.
  base::Result<std::map<std::string, ClaimRef>> devices(std::stop_token stop);
  base::Result<bool> isAnother(const ClaimRef& claim, const std::stop_token& stop);
  base::Result<std::string> anyPodOf(const ClaimRef& claim, const std::stop_token& stop);
  bool hasFile(const std::string& deviceUid);
  base::Status forget(const cdi::Folder::StoredSpec& entry, const std::stop_token& stop);
  void report(const ClaimRef& claim, std::vector<core::ObjectReference> pods, const base::Status& why,
              std::stop_token stop);
  base::Result<plugin::Provisioner*> pluginOf(const std::string& provisioner);

  kube::Client client_;  ///< short retries, because the kubelet repeats its calls
  Users users_;          ///< uses client_
  CardReads cards_;      ///< reads use client_
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  cdi::Folder& folder_;
  CapacityGuard capacityGuard_;
  const PreparerOptions options_;
  ClaimLocks locks_;                     ///< by "namespace/name"
  CallLimiter limiter_;                  ///< limits calls of plugins
  std::atomic<int> waitingPrepares_{0};  ///< prepares that wait between two tries
};

}  // namespace egpu::agent

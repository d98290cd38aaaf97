// Claim → device → CDI file: what the kubelet asks of a node, for real nodes and for simulated ones.
// clang-format off
//
// STATES of a device on this node. The files say which; nothing else is remembered.
//   none    no file
//   part    elasticgpu.io-device_<uid>.json.part: for which claim, which cards, which plugin. Runtimes don't read it. It counts at the fence
//   ready   elasticgpu.io-device_<uid>.json: the same with the edits. Runtimes read it
//
//   PREPARE, under the claim's lock, after the checks of entitled.h             what a death right after it leaves, and who mends it
//   (P1) part written, if the card has room: on the disk before the folder's
//        lock is taken, renamed under it                                        part, nothing staged: again from (P1), or (U2) on
//   (P2) plugin stage(device uid)                                               part, staged: stage again is a no-op, or (U2) on
//   (P3) plugin mount(device uid), edits checked, their variables made one     part with edits: made anew, mount is pure; or (U2) on
//        with those of the claims before it in its containers (company.h),
//        part written with them; then the links in /dev/char (dev_links.h)
//   (P4) part renamed to ready                                                  ready, unanswered: (P5) answers from the file, or (U1) on
//   (P5) answer: the CDI ids, from the file                                     ready: the kubelet asks again, (P5)
//   A ready file is answered only if it is of this claim and grant, boot, driver and minor numbers, and if mount gives the same edits again;
//   else it is made anew from (P1), or refused with the words of what fails. refresh() does the same for containers that start again
//
//   UNPREPARE, under the claim's lock, if no pod of this node runs with it
//   (U1) ready renamed to part: no container gets the device any more           part, staged: (U2) on; or a pod wants it again: (P1) on
//   (U2) plugin unmount(device uid)                                             part: again is a no-op
//   (U3) plugin unstage(device uid), and what it set aside removed (staged.h)   part, nothing staged: again is a no-op
//        Without (U2) and (U3) if the plugin is uninstalled: pods would stay
//        Terminating for ever; (L4) unstages once it is installed again
//   (U4) part removed                                                           none: unprepare of what is not prepared is OK
//
// WHO MENDS. The kubelet keeps a list of its own: it repeats prepare until it is answered OK, and unprepare likewise, also after its own
// death. What it has lost (its folder, the claim, a pod deleted by force while nobody was there) leftovers() finds at the start:
//   (L1) a file, ready or part, whose claim no pod of this node names, or only pods without a running container for a ResourceClaim that was
//        made anew: (U1) on. The API away: nothing is touched, asked again later
//   (L2) a file that can't be read: its uid stands in its name. A device of this node has it: prepared again, from (P1); else every
//        plugin unstages the uid, and the file goes. So it does when the kubelet gives the device's claim back.
//        refresh() looks for such files, too
//   (L3) a temporary of a write that did not end: removed (Folder::open)
//   (L4) no file, but a plugin's state on disk (staged.h): the files went with a reboot, and no pod of this node is left for which the
//        kubelet would ask anew, or it gives the claim back: every plugin unstages the uid
//   (L5) what a plugin set aside for want of rights (staged.h): removed. What takes longer than PreparerOptions::removing is gone on with
//        later, by the agent's next start: (U4) does not wait for it
// After a reboot there are no files (/run): the kubelet asks anew for each pod that it starts again.
// A prepare that fails with what is usually over in seconds (the device not Bound yet, a plugin that starts) is tried again from the checks
// on while the kubelet waits, the claim's lock held: PreparerOptions::patience. Only some wait at once; the others are answered, and asked
// for again by the kubelet.
// A failed step leaves what a death there would. A full disk fails (P1) before anything is staged, or (P3) with the part there still. A
// refusal at (P2), of which the plugin promises that nothing was left, takes its part along.
// The API away: prepare fails, as nothing can be checked; unprepare goes by the file, and the kubelet's word that no pod runs.
// A part beside a ready file is a second (P1) to (P4) of the same device, for a ResourceClaim that was made anew: the ready one counts.
// clang-format on
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/prepare/claim_locks.h"
#include "controller/agent/prepare/edits.h"
#include "controller/agent/prepare/entitled.h"
#include "controller/agent/prepare/fence.h"
#include "controller/agent/prepare/turns.h"
#include "controller/agent/prepare/users.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent {

struct PreparerOptions {
  std::string node;  ///< this node's name
  Permitted permitted;
  /// How long a prepare that fails with Code::unavailable is tried again before the answer: the kubelet waits 45 s, and
  /// asks again only after more than a minute. 0: not at all.
  std::chrono::milliseconds patience{0};
  /// Prepares that wait so at once; one more is answered at its first failure. Fewer than threads that call prepare, or
  /// claims that wait hold up those that need not.
  int mostWaiting = 64;
  /// Calls of one plugin at once; what would make one more is Code::unavailable. Fewer than threads that call, less those
  /// that wait, or a plugin that hangs holds up the claims of the others.
  int mostCalls = 128;
  /// Why a card, an ElasticGPU's name, can't be given although the API has it: the end of a sentence, or empty if nothing
  /// is known against it. Without the function nobody can say.
  std::function<std::string(const std::string& card)> gone{};
  /// What a card was found to have, bytes; nullopt, or no function: nobody can say.
  std::function<std::optional<int64_t>(const std::string& card)> memoryFound{};
  /// True if every installed plugin has described itself, and none has this name. Without the function no plugin counts
  /// as uninstalled.
  std::function<bool(const std::string& provisioner)> uninstalled{};
  /// A card as its plugin finds it now; nullopt, or no function: unknown.
  struct Found {
    int64_t index = 0;   ///< minor number
    std::string driver;  ///< version; empty = unknown
  };
  std::function<std::optional<Found>(const std::string& card)> found{};
  /// The machine's boot id. Empty: a simulated node, and files stay right.
  std::string boot{};
  /// How long what containers left is removed in one go: the kubelet waits 45 s for an unprepare.
  std::chrono::milliseconds removing{10'000};
};

/// Thread-safe. Keeps references to what it is given, which must outlive it; the folder must be open. A call reads each
/// object of the API once, one after the other, waiting at most 8 s for each; pods and cards together with other calls.
/// It calls the plugin, which has deadlines of its own.
class ClaimPreparer {
 public:
  ClaimPreparer(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events, cdi::Folder& folder,
                PreparerOptions options);

  /// The CDI devices that every container with the claim gets: "elasticgpu.io/device=<uid>" first, then foreign ones.
  /// Else why not, which the pods that reserve the claim are told by an event: Code::invalid for what may not be,
  /// Code::unavailable for what may be later. The event comes with the first failure, and with the last one if that is
  /// another.
  base::Result<std::vector<std::string>> prepare(const ClaimRef& claim, std::stop_token stop);
  /// Ok also for what is not prepared. Code::conflict: a pod of this node runs with it.
  base::Status unprepare(const ClaimRef& claim, std::stop_token stop);
  /// Replaces the files that were made for another boot, driver or minor numbers: containers are started again without a
  /// prepare. A file that can't be replaced because its claim may not have the cards is withdrawn. Files that can't be read
  /// are handled as (L2): while there is one, no other claim is prepared. Call it periodically; the first error is
  /// returned.
  base::Status refresh(std::stop_token stop);
  /// Removes what nobody uses any more: call it at the start, and again if it fails. Goes on after an error; the first
  /// one is returned.
  base::Status leftovers(std::stop_token stop);

 private:
  base::Result<std::vector<std::string>> prepareLocked(const ClaimRef& claim, std::vector<core::ObjectReference>& pods,
                                                       std::stop_token stop);
  base::Result<std::vector<std::string>> tryAgain(const ClaimRef& claim, const base::Status& first,
                                                  std::stop_token stop);
  base::Status takeAsFound(Entitled& grant) const;
  void numberAsFound(Entitled& grant) const;
  void nameStart(cdi::Spec& spec, const Entitled& grant) const;
  bool isStale(const cdi::Spec& spec) const;
  base::Status refreshFile(const cdi::Folder::Entry& entry, const std::stop_token& stop);
  /// The edits that the plugins give now, those of `company` merged into them.
  base::Result<core::ContainerEdits> madeNow(const Entitled& entitled, const std::vector<Entitled>& company);
  void makeNodes();
  void linkNodes(const cdi::Spec& spec);
  base::Status stage(plugin::Provisioner& plugin, const plugin::DeviceRequest& request, const cdi::Spec& spec);
  base::Status mount(const Entitled& entitled, const std::vector<Entitled>& company, cdi::Spec& spec);
  base::Result<core::ContainerEdits> editsFor(const Entitled& entitled);
  base::Status undo(const cdi::Folder::Entry& entry, const std::stop_token& stop);
  base::Status unstage(const cdi::Folder::Entry& entry);
  base::Status unused(const cdi::Folder::Entry& entry, std::stop_token stop);
  base::Status unreadable(const cdi::Folder::Entry& entry, std::stop_token stop);
  base::Status unreadableOf(const ClaimRef& given, const std::vector<cdi::Folder::Entry>& entries,
                            std::stop_token stop);
  base::Status unstageLeft(const ClaimRef* given, std::stop_token stop);
  base::Status unstageUnused(const std::string& deviceUid, const ClaimRef& claim, const ClaimRef* given,
                             std::stop_token stop);
  base::Status unstageAnywhere(const std::string& deviceUid, const std::stop_token& stop);
  base::Status removeSetAside(const std::string& deviceUid, const std::stop_token& stop);
  /// This node's devices that are some claim's, by uid: namespace and name of the claim.
  base::Result<std::map<std::string, ClaimRef>> devices(std::stop_token stop);
  base::Result<bool> isAnother(const ClaimRef& claim, const std::stop_token& stop);
  base::Result<std::string> anyPodOf(const ClaimRef& claim, const std::stop_token& stop);
  bool filed(const std::string& deviceUid);
  base::Status forget(const cdi::Folder::Entry& entry, const std::stop_token& stop);
  void tell(const ClaimRef& claim, std::vector<core::ObjectReference> pods, const base::Status& why,
            std::stop_token stop);
  base::Result<plugin::Provisioner*> pluginOf(const std::string& provisioner);

  kube::Client client_;  ///< brief: the kubelet asks again
  Users users_;          ///< asked with client_
  CardReads cards_;      ///< likewise
  plugin::Registry& plugins_;
  kube::EventSink& events_;
  cdi::Folder& folder_;
  Fence fence_;
  const PreparerOptions options_;
  ClaimLocks locks_;             ///< by "namespace/name"
  Turns turns_;                  ///< with plugins
  std::atomic<int> waiting_{0};  ///< prepares between two tries
};

}  // namespace egpu::agent

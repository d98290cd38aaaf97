#include "controller/agent/prepare/preparer.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/v1alpha/size.h"
#include "controller/agent/prepare/co_claims.h"
#include "controller/agent/prepare/dev_links.h"
#include "controller/agent/prepare/merge.h"
#include "controller/agent/prepare/mig_nodes.h"
#include "controller/base/log.h"

namespace egpu::agent {

namespace {

using base::Code;
using base::Result;
using base::Status;
namespace log = base::log;

/// Parameter of the class that permits more host paths; device.spec.parameters contains a copy.
constexpr std::string_view kHostPaths = "hostPaths";

/// Intervals between two tries of a prepare: the first, which doubles each time, and the maximum.
constexpr std::chrono::milliseconds kFirstPause{250}, kMaxPause{4'000};

/// Returns a client with short timeouts: the kubelet waits 45 s for all calls of one prepare.
kube::Client withShortTimeouts(kube::Client& client) {
  constexpr std::chrono::milliseconds max{8'000};
  kube::ClientOptions options = client.options();
  options.brief = true;
  options.requestTimeout = std::min(options.requestTimeout, max);
  options.listTimeout = std::min(options.listTimeout, max);
  return {client.transport(), client.clock(), client.random(), client.metrics(), std::move(options)};
}

Status fromReply(const plugin::Reply& reply, const std::string& verb) {
  if (reply.ok()) return Status::okay();
  const std::string text =
      verb + ": " + std::string(plugin::toString(reply.outcome)) + (reply.message.empty() ? "" : ": " + reply.message);
  return Status(reply.outcome == plugin::ReplyCode::invalid ? Code::invalid : Code::unavailable, text);
}

/// Adds the claim to the message, because a pod may have several claims.
Status withClaim(const ClaimRef& claim, const Status& why) {
  if (why.message().find(claim.str()) != std::string::npos) return why;
  return Status(why.code(), "ResourceClaim " + claim.str() + ": " + why.message());
}

cdi::Spec specOf(const ClaimRef& claim, const v1alpha::ElasticGPU& device,
                 const std::vector<AuthorizedDevice>& companions) {
  cdi::Spec spec;
  spec.device = device.metadata.name;
  spec.deviceUid = device.metadata.uid;
  spec.claimNamespace = claim.namespace_;
  spec.claimName = claim.name;
  spec.claimUid = claim.uid;
  spec.provisioner = device.spec.provisioner;
  spec.cards = v1alpha::cardsInForce(device);
  for (const auto& other : companions)
    spec.beside.push_back({other.device.spec.claimRef->name, other.device.metadata.uid});
  return spec;
}

/// Takes one of `max` places until destruction.
class CallPlace {
 public:
  CallPlace(std::atomic<int>& used, int max) : used_(used), taken_(used.fetch_add(1) < max) {}
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;
  ~CallPlace() { used_.fetch_sub(1); }
  bool taken() const { return taken_; }

 private:
  std::atomic<int>& used_;
  const bool taken_;
};

/// True if the file is for the same claim and grant, edits aside.
bool same(cdi::Spec file, const cdi::Spec& wanted) {
  file.edits = wanted.edits;
  return file == wanted;
}

/// Charges at least the existing file's amounts, as running containers keep them until unprepare, even if the claim
/// shrank.
void countWhatRuns(cdi::Spec& wanted, const cdi::Spec& file) {
  for (auto& share : wanted.cards)
    for (const auto& before : file.cards) {
      if (before.uuid != share.uuid) continue;
      share.chargedCore = std::max(share.chargedCore, before.chargedCore);
      share.chargedMemory = std::max(share.chargedMemory, before.chargedMemory);
    }
}

plugin::DeviceRequest requestFor(const AuthorizedDevice& authorized) {
  const auto& device = authorized.device;
  plugin::DeviceRequest out;
  out.key = device.metadata.uid;
  out.device = device.metadata.name;
  out.claim = device.spec.claimRef->namespace_ + "/" + device.spec.claimRef->name;
  out.node = device.spec.nodeName;
  out.parameters = device.spec.parameters;
  out.source = plugin::sourceOf(device);
  if (device.spec.cards.empty()) out.capacity = device.spec.capacity;
  const auto& profile = plugin::migProfileOf(device);
  const auto& shares = v1alpha::cardsInForce(device);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& share = shares[i];
    const auto& card = authorized.cards[i];
    out.cards.push_back({share.uuid, card.model, card.index, share.core, share.memory, card.memory, card.topology.pcie,
                         profile, share.slots});
  }
  return out;
}

/// The request with the cards in the order in which mount's variables number them.
plugin::DeviceRequest inOrder(plugin::DeviceRequest request) {
  std::stable_sort(request.cards.begin(), request.cards.end(), comesBefore);
  return request;
}

std::vector<std::string> idsOf(const cdi::Spec& spec) {
  std::vector<std::string> ids{cdi::qualified(spec.deviceUid)};
  ids.insert(ids.end(), spec.edits.cdiDevices.begin(), spec.edits.cdiDevices.end());
  return ids;
}

}  // namespace

ClaimPreparer::ClaimPreparer(kube::Client& client, plugin::Registry& plugins, kube::EventSink& events,
                             cdi::Folder& folder, PreparerOptions options)
    : client_(withShortTimeouts(client)),
      users_(client_, options.node),
      plugins_(plugins),
      events_(events),
      folder_(folder),
      capacityGuard_(folder),
      options_(std::move(options)),
      limiter_(options_.maxCalls) {}

Result<plugin::Provisioner*> ClaimPreparer::pluginOf(const std::string& provisioner) {
  std::string why;
  plugin::Provisioner* plugin = plugins_.find(provisioner, &why);
  if (plugin == nullptr) return Status(Code::unavailable, "provisioner " + provisioner + ": " + why);
  return plugin;
}

Result<std::vector<std::string>> ClaimPreparer::prepare(const ClaimRef& claim, std::stop_token stop) {
  if (auto s = checkNames(claim); !s.ok()) return s;
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return Status(Code::cancelled, "stopped");
  std::vector<core::ObjectReference> pods;
  auto ids = prepareLocked(claim, pods, stop);
  if (ids) return ids;
  const Status first = withClaim(claim, ids.status());
  report(claim, pods, first, stop);
  if (first.code() != Code::unavailable || options_.patience.count() == 0) return first;
  const CallPlace place(waitingPrepares_, options_.maxWaiting);
  return place.taken() ? tryAgain(claim, first, stop) : first;
}

/// Repeats a prepare that failed with an error that usually passes within seconds.
Result<std::vector<std::string>> ClaimPreparer::tryAgain(const ClaimRef& claim, const Status& first,
                                                         std::stop_token stop) {
  auto& clock = client_.clock();
  const auto until = clock.now() + options_.patience;
  Status last = first;
  std::vector<core::ObjectReference> pods;
  for (auto pause = kFirstPause; last.code() == Code::unavailable && clock.now() + pause <= until;
       pause = std::min(2 * pause, kMaxPause)) {
    if (!clock.sleepFor(pause, stop)) return Status(Code::cancelled, "stopped");
    pods.clear();
    auto ids = prepareLocked(claim, pods, stop);
    if (ids) return ids;
    last = withClaim(claim, ids.status());
  }
  if (last.str() != first.str()) report(claim, std::move(pods), last, stop);
  return last;
}

Result<std::vector<std::string>> ClaimPreparer::prepareLocked(const ClaimRef& claim,
                                                              std::vector<core::ObjectReference>& pods,
                                                              std::stop_token stop) {
  // Comes first, while concurrent callers are still together and share one read.
  auto named = users_.podsOf(claim, stop);
  if (!named) return named.status();
  auto grant = authorizePrepare(client_, cards_, claim, options_.node, pods, stop);
  if (!grant) return grant.status();
  if (auto s = useDiscoveredCards(*grant); !s.ok()) return s;
  const auto containers = containersAtOnce(*named, claim.name);
  auto companions = coClaimsOf(client_, cards_, folder_, claim, std::move(*named), options_.node, stop);
  if (!companions) return companions.status();
  for (auto& other : *companions) useDiscoveredMinors(other);
  cdi::Spec spec = specOf(claim, grant->device, *companions);
  recordBoot(spec, *grant);
  const auto there = folder_.find(spec.deviceUid);
  if (!there) return there.status();
  if (*there && (*there)->ready && (*there)->spec) countWhatRuns(spec, *(*there)->spec);
  if (*there && (*there)->ready && !(*there)->part && (*there)->spec && same(*(*there)->spec, spec)) {
    const auto& file = *(*there)->spec;
    if (options_.shared) options_.shared(spec.deviceUid, containers);
    if (options_.boot.empty()) return idsOf(file);  // (P5)
    auto edits = currentEdits(*grant, *companions);
    // Instances can disappear while their file is there, as by a reset of the card.
    if (!edits && plugin::migProfileOf(grant->device).empty()) return edits.status();
    auto wanted = spec;
    if (edits) wanted.edits = std::move(*edits);
    if (edits && codec::encodeCdiSpec(wanted) == codec::encodeCdiSpec(file)) return idsOf(file);  // (P5)
    log::info("prepared again because the node changed", {{"claim", claim.str()}, {"device", spec.device}});
  }

  const auto plugin = pluginOf(spec.provisioner);
  if (!plugin) return plugin.status();
  const auto request = requestFor(*grant);
  createMissingNodes(*grant);
  if (auto s = capacityGuard_.reserve(spec, grant->cards); !s.ok()) return s;  // (P1)
  if (options_.shared) options_.shared(spec.deviceUid, containers);
  if (options_.beforeStage)
    if (auto s = options_.beforeStage(grant->device, stop); !s.ok()) return s;
  if (auto s = stage(**plugin, request, spec); !s.ok()) return s;         // (P2)
  if (auto s = writeEdits(*grant, *companions, spec); !s.ok()) return s;  // (P3)
  linkDeviceNodes(spec);
  if (auto s = folder_.publish(spec.deviceUid); !s.ok()) return s;  // (P4)
  log::info("prepared", {{"claim", claim.str()}, {"device", spec.device}});
  return idsOf(spec);  // (P5)
}

/// Sets the cards' current minor numbers, as the API may be late.
void ClaimPreparer::useDiscoveredMinors(AuthorizedDevice& grant) const {
  const auto& shares = v1alpha::cardsInForce(grant.device);
  for (std::size_t i = 0; options_.found && i < shares.size(); ++i)
    if (const auto found = options_.found(shares[i].name)) grant.cards[i].index = found->index;
}

void ClaimPreparer::recordBoot(cdi::Spec& spec, const AuthorizedDevice& grant) const {
  if (options_.boot.empty()) return;
  spec.boot = options_.boot;
  for (const auto& card : grant.cards) spec.minors.push_back(card.index);
  for (const auto& share : spec.cards)
    if (const auto found = options_.found ? options_.found(share.name) : std::nullopt; found)
      spec.driver = found->driver;
}

/// True if the file was made for another boot, driver or minor number. A card that no plugin finds now counts as
/// unchanged.
bool ClaimPreparer::isStale(const cdi::Spec& spec) const {
  if (options_.boot.empty()) return false;
  if (spec.boot != options_.boot) return true;
  auto driver = spec.driver;
  for (std::size_t i = 0; i < spec.cards.size(); ++i) {
    const auto found = options_.found ? options_.found(spec.cards[i].name) : std::nullopt;
    if (!found) continue;
    if (i >= spec.minors.size() || found->index != spec.minors[i]) return true;
    driver = found->driver;  // the last card's, as in recordBoot()
  }
  return driver != spec.driver;
}

Status ClaimPreparer::refresh(std::stop_token stop) {
  const auto entries = folder_.list();
  if (!entries) return entries.status();
  Status first;
  for (const auto& entry : *entries) {
    // A file that has disappeared was removed by another agent.
    const bool unread = !entry.spec && entry.spec.status().code() != Code::notFound;
    if (!unread && (!entry.ready || !entry.spec || !isStale(*entry.spec))) continue;
    const auto status = unread ? recoverUnreadable(entry, stop) : refreshFile(entry, stop);
    if (first.ok() && !status.ok()) first = status;
    if (stop.stop_requested()) break;
  }
  return first;
}

Status ClaimPreparer::refreshFile(const cdi::Folder::StoredSpec& entry, const std::stop_token& stop) {
  const ClaimRef claim{entry.spec->claimNamespace, entry.spec->claimName, entry.spec->claimUid};
  if (auto s = checkNames(claim); !s.ok()) return s;
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return {Code::cancelled, "stopped"};
  const auto stale = [&]() -> Result<bool> {
    const auto now = folder_.find(entry.deviceUid);
    if (!now) return now.status();
    return *now && (*now)->ready && (*now)->spec && isStale(*(*now)->spec);
  };
  auto before = stale();
  if (!before || !*before) return before.status();
  std::vector<core::ObjectReference> pods;
  const auto made = prepareLocked(claim, pods, stop);
  if (!made && made.status().code() != Code::invalid) return withClaim(claim, made.status());
  const auto after = stale();
  if (!after || !*after) return after.status();
  // The file's paths may lead to another card: runtimes must not find the file until the claim is prepared again.
  const Status why =
      made ? Status(Code::invalid, "another device is prepared for it") : withClaim(claim, made.status());
  report(claim, std::move(pods), why, stop);
  return folder_.withdraw(entry.deviceUid);
}

/// Limits the cards to this node's state: the smaller of the API's amounts and the found ones.
Status ClaimPreparer::useDiscoveredCards(AuthorizedDevice& grant) const {
  useDiscoveredMinors(grant);
  const auto& shares = v1alpha::cardsInForce(grant.device);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& name = shares[i].name;
    if (const std::string why = options_.gone ? options_.gone(name) : ""; !why.empty())
      return Status(Code::invalid, "card " + name + " (" + shares[i].uuid + ") " + why);
    if (!grant.cards[i].mig.empty() && shares[i].slots.empty() && !grant.device.spec.adminAccess)
      return Status(Code::invalid, "card " + name + " (" + shares[i].uuid +
                                       ") is in MIG mode, so that containers can only get instances of it, and the "
                                       "claim has none");
    const auto memory = options_.memoryFound ? options_.memoryFound(name) : std::nullopt;
    if (!memory) continue;
    auto& card = grant.cards[i];
    card.memory = std::min(card.memory, *memory);
    card.core = std::min(card.core, v1alpha::Card{}.core);
  }
  limitToCardMemory(grant);
  return Status::okay();
}

/// Creates missing device nodes before a plugin searches for them; does nothing on a simulated node.
void ClaimPreparer::createMissingNodes(const AuthorizedDevice& grant) {
  const auto& root = options_.permitted.hostRoot;
  if (root.empty()) return;
  for (const auto& missing : makeUvmNodes(root, "/proc/devices", ::mknodat))
    log::warn("a device node is missing and can't be made", {{"node", "/dev/" + missing}});
  std::vector<int64_t> minors;
  const auto& shares = v1alpha::cardsInForce(grant.device);
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (!shares[i].slots.empty()) minors.push_back(grant.cards[i].index);
  if (minors.empty()) return;
  for (const auto& missing : makeMigNodes({root, "/proc", options_.pluginGroup, ::mknodat}, minors))
    log::warn("a device node of MIG can't be used by the plugins", {{"node", "/dev/nvidia-caps/" + missing}});
}

void ClaimPreparer::linkDeviceNodes(const cdi::Spec& spec) {
  const auto& root = options_.permitted.hostRoot;
  if (root.empty()) return;
  for (const auto& missing : linkDevices(root, spec.edits.deviceNodes))
    log::warn("a container's access may end when systemd reloads: a link is missing and can't be made",
              {{"link", "/dev/char/" + missing}, {"device", spec.device}});
}

/// (P2). A refusal removes the part.
Status ClaimPreparer::stage(plugin::Provisioner& plugin, const plugin::DeviceRequest& request, const cdi::Spec& spec) {
  const auto slot = limiter_.take(spec.provisioner);
  if (!slot) return slot.status();  // the part stays: an earlier try may have staged it
  const auto reply = plugin.stage(request);
  const bool refused = !reply.ok() && !plugin::indefinite(reply.outcome);
  if (refused)
    if (auto s = folder_.removePart(spec.deviceUid); !s.ok()) return s;
  return fromReply(reply, spec.provisioner + " stage");
}

/// (P3), except the links in /dev/char.
Status ClaimPreparer::writeEdits(const AuthorizedDevice& authorized, const std::vector<AuthorizedDevice>& companions,
                                 cdi::Spec& spec) {
  auto edits = currentEdits(authorized, companions);
  if (!edits) return edits.status();
  spec.edits = std::move(*edits);
  return folder_.write(spec);
}

Result<core::ContainerEdits> ClaimPreparer::currentEdits(const AuthorizedDevice& authorized,
                                                         const std::vector<AuthorizedDevice>& companions) {
  std::vector<ClaimPart> parts;
  for (const auto& other : companions) {
    auto edits = editsFor(other);
    if (!edits)
      return Status(edits.status().code(),
                    other.device.metadata.name + " of the same container: " + edits.status().message());
    parts.push_back({inOrder(requestFor(other)).cards, std::move(edits->env)});
  }
  auto edits = editsFor(authorized);
  if (!edits) return edits.status();
  parts.push_back({inOrder(requestFor(authorized)).cards, std::move(edits->env)});
  edits->env = merged(parts);
  if (!options_.hooks) return edits;
  auto hooks = options_.hooks(authorized.device);
  if (!hooks) return hooks.status();
  edits->hooks = std::move(*hooks);
  return edits;
}

/// Returns the plugin's edits for the device, after checkEdits().
Result<core::ContainerEdits> ClaimPreparer::editsFor(const AuthorizedDevice& authorized) {
  const auto& provisioner = authorized.device.spec.provisioner;
  const auto plugin = pluginOf(provisioner);
  if (!plugin) return plugin.status();
  const auto request = inOrder(requestFor(authorized));
  auto slot = limiter_.take(provisioner);
  if (!slot) return slot.status();
  const auto reply = (*plugin)->mount(request, {}, {});
  if (auto s = fromReply(reply.reply, provisioner + " mount"); !s.ok()) return s;
  Permitted permitted = options_.permitted;
  if (const auto it = request.parameters.find(kHostPaths); it != request.parameters.end()) {
    auto more = parseHostPaths(it->second);
    if (!more) return more.status();
    permitted.more.insert(permitted.more.end(), more->begin(), more->end());
  }
  return checkEdits(reply.edits, permitted, authorized.cards);
}

void ClaimPreparer::report(const ClaimRef& claim, std::vector<core::ObjectReference> pods, const Status& why,
                           std::stop_token stop) {
  if (why.code() == Code::cancelled) return;
  log::warn("not prepared", {{"claim", claim.str()}, {"why", why.str()}});
  if (pods.empty() && why.code() == Code::invalid)  // the ResourceClaim is gone or was replaced
    if (const auto naming = users_.podsOf(claim, stop); naming.ok())
      for (const auto& pod : *naming) pods.push_back(kube::referenceTo(pod));
  for (const auto& pod : pods) events_.event(pod, "Warning", "FailedPrepareDevices", why.message());
}

Status ClaimPreparer::unprepare(const ClaimRef& claim, std::stop_token stop) {
  if (auto s = checkNames(claim); !s.ok()) return s;
  const auto held = locks_.hold(claim.str(), stop);
  if (!held) return {Code::cancelled, "stopped"};
  const auto entries = folder_.list();
  if (!entries) return entries.status();
  bool prepared = false;
  for (const auto& entry : *entries) {
    if (!entry.spec || entry.spec->claimUid != claim.uid) continue;
    prepared = true;
    const auto runs = users_.runningPodOf(claim, stop);
    if (!runs && runs.status().code() == Code::cancelled) return runs.status();
    if (!runs)
      log::warn("unprepared without a check for running pods", {{"claim", claim.str()}, {"why", runs.status().str()}});
    else if (!runs->empty())
      return {Code::conflict, "ResourceClaim " + claim.str() + " stays prepared: pod " + *runs + " runs with it"};
    if (auto s = undo(entry, stop); !s.ok()) return s;
  }
  if (prepared) return Status::okay();
  auto unread = removeUnreadableOf(claim, *entries, stop);
  if (unread.code() == Code::conflict) return unread;
  // The next start tries again.
  if (!unread.ok()) log::warn("a CDI file that can't be read is kept", {{"why", unread.str()}});
  if (const auto s = unstageLeftovers(&claim, stop); !s.ok()) log::warn("not unstaged", {{"why", s.str()}});
  return Status::okay();
}

/// (U2) and (U3).
Status ClaimPreparer::unstage(const cdi::Folder::StoredSpec& entry) {
  const std::string& name = entry.spec->provisioner;
  const auto plugin = pluginOf(name);
  if (!plugin && options_.uninstalled && options_.uninstalled(name)) {
    log::warn("released without its provisioner, which is no longer installed: files that it staged stay on the disk",
              {{"device", entry.spec->device}, {"provisioner", name}});
    return Status::okay();
  }
  if (!plugin) return plugin.status();
  const auto slot = limiter_.take(name);
  if (!slot) return slot.status();
  if (auto s = fromReply((*plugin)->unmount(entry.deviceUid, {}, {}), name + " unmount"); !s.ok()) return s;
  return fromReply((*plugin)->unstage(entry.deviceUid), name + " unstage");
}

/// (U1) to (U4).
Status ClaimPreparer::undo(const cdi::Folder::StoredSpec& entry, const std::stop_token& stop) {
  const std::string& uid = entry.deviceUid;
  if (entry.ready)
    if (auto s = folder_.withdraw(uid); !s.ok()) return s;  // (U1)
  if (auto s = unstage(entry); !s.ok()) return s;           // (U2), (U3)
  (void)removeSetAside(uid, stop);  // files of containers must not block the share; the next start continues
  if (auto s = folder_.removePart(uid); !s.ok()) return s;  // (U4)
  log::info("unprepared",
            {{"claim", entry.spec->claimNamespace + "/" + entry.spec->claimName}, {"device", entry.spec->device}});
  return Status::okay();
}

}  // namespace egpu::agent

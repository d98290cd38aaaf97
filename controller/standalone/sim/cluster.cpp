#include "controller/standalone/sim/cluster.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/base/mutex.h"
#include "controller/codec/patch.h"
#include "controller/codec/simulated.h"
#include "controller/standalone/sim/kubelet_admission.h"
#include "controller/standalone/sim/pod_scheduler.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Status;
namespace keys = v1alpha::keys;
namespace log = base::log;

constexpr std::size_t kPublishers = 8;
constexpr std::chrono::seconds kProgressInterval{5};
constexpr std::string_view kLeaseNamespace = "kube-node-lease";
/// The lease of a real kubelet lasts 40 s. Here no component acts on leases, so they last an hour to save writes. Each
/// is renewed three times per hour, a group of nodes at a time.
constexpr int64_t kLeaseSeconds = 3600;
constexpr std::chrono::milliseconds kRenewInterval{1'200'000};
constexpr std::size_t kLeasesAtOnce = 64;
constexpr std::string_view kLeases = "leases";
constexpr std::chrono::milliseconds kRetry{100}, kRetryMax{10'000};

std::map<std::string, std::string> addressesOf(const std::vector<SimNode>& nodes) {
  std::map<std::string, std::string> out;
  for (const auto& n : nodes) out.emplace(n.node.metadata.name, n.node.internalIP);
  return out;
}

std::string podKey(const core::ObjectKey& key) { return "pod/" + key.str(); }
std::string claimKey(const core::ObjectKey& key) { return "claim/" + key.str(); }

bool waitsForNode(const core::Pod& p) {
  return p.nodeName.empty() && p.schedulingGates.empty() && !p.finished() && !p.metadata.deleting();
}

/// Logs every few seconds how many of all objects are published. Thread-safe.
class Progress {
 public:
  Progress(const char* what, std::size_t all, base::Clock& clock)
      : what_(what), all_(all), clock_(clock), next_(clock.now() + kProgressInterval) {}
  void done() {
    const auto done = ++done_;
    const base::MutexLock lock(mutex_);
    if (clock_.now() < next_) return;
    next_ = clock_.now() + kProgressInterval;
    log::info("publishing", {{"kind", what_}, {"done", done}, {"of", all_}});
  }

 private:
  const char* const what_;
  const std::size_t all_;
  base::Clock& clock_;
  std::atomic<std::size_t> done_{0};
  base::Mutex mutex_;
  base::Clock::Steady next_ EGPU_GUARDED_BY(mutex_);
};

/// Calls `each` for all items on several threads. Stops at the first failure and returns it.
template <class T, class F>
Status inParallel(const std::vector<T>& items, Progress& progress, F each) {
  std::atomic<std::size_t> next{0};
  base::Mutex mutex;
  Status first;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < std::min(kPublishers, items.size()); ++t)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < items.size(); i = next++) {
          const Status s = each(items[i]);
          progress.done();
          if (s.ok()) continue;
          base::MutexLock lock(mutex);
          if (first.ok()) first = s;
          next = items.size();
        }
      });
  }
  return first;
}

}  // namespace

Cluster::Cluster(std::vector<SimNode> nodes, kube::Client& client, plugin::Registry& plugins, kube::EventSink& events,
                 base::Clock& clock, NodeFolders folders, std::set<std::string> otherSchedulers)
    : nodes_(std::move(nodes)),
      client_(client),
      events_(events),
      clock_(clock),
      started_(base::rfc3339Micro(clock.wall())),
      otherSchedulers_(std::move(otherSchedulers)),
      kubelet_(client, plugins, events, clock, addressesOf(nodes_), std::move(folders)),
      stamping_(client, events),
      pods_(client, podSink_),
      nodeReflector_(client, nodeSink_),
      claims_(client, claimSink_) {
  using cache::Emit;
  byClaim_ = podStore_.addIndex([](const core::Pod& p, const Emit& emit) {
    for (const auto& claim : v1alpha::claimNames(p)) emit(p.metadata.namespace_ + "/" + claim);
  });
  byNode_ = podStore_.addIndex([](const core::Pod& p, const Emit& emit) {
    if (!p.nodeName.empty() && !p.finished()) emit(p.nodeName);
  });
  unscheduled_ = podStore_.addIndex([](const core::Pod& p, const Emit& emit) {
    if (waitsForNode(p)) emit("yes");
  });
  listen();
}

Cluster::~Cluster() { stop(); }

// ---- hardware ----

Status Cluster::publishNode(const SimNode& node, std::stop_token stop) {
  auto made = client_.create(node.node, stop);
  if (!made && made.status().code() != Code::alreadyExists) return made.status();
  const auto body = codec::patch::nodeStatus(node.node, base::rfc3339(clock_.wall()));
  const auto written =
      client_.patch<core::Node>({"", node.node.metadata.name}, kube::PatchType::merge, body, "status", stop);
  return written ? Status::okay() : written.status();
}

Status Cluster::publishLease(const SimNode& node, std::stop_token stop) {
  core::Lease lease;
  lease.metadata.name = node.node.metadata.name;
  lease.metadata.namespace_ = kLeaseNamespace;
  lease.metadata.labels[std::string(keys::kSimulatedLabel)] = "true";
  lease.holderIdentity = node.node.metadata.name;
  lease.leaseDurationSeconds = kLeaseSeconds;
  lease.acquireTime = started_;
  lease.renewTime = base::rfc3339Micro(clock_.wall());
  const auto written = client_.patch<core::Lease>(core::keyOf(lease.metadata), kube::PatchType::merge,
                                                  codec::patch::lease(lease), {}, stop);
  if (written || written.status().code() != Code::notFound) return written ? Status::okay() : written.status();
  const auto made = client_.create(lease, stop);
  return made || made.status().code() == Code::alreadyExists ? Status::okay() : made.status();
}

Status Cluster::publishCard(const v1alpha::ElasticGPU& card, std::stop_token stop) {
  auto made = client_.create(card, stop);
  if (made) return Status::okay();
  if (made.status().code() != Code::alreadyExists) return made.status();
  const auto have = client_.get<v1alpha::ElasticGPU>({"", card.metadata.name}, stop);
  if (!have) return have.status();
  if (have->metadata.deleting()) {
    log::warn("card is being deleted; it is published again at the next start", {{"card", card.metadata.name}});
    return Status::okay();
  }
  if (have->spec.card == card.spec.card) return Status::okay();
  const auto written = client_.patch<v1alpha::ElasticGPU>({"", card.metadata.name}, kube::PatchType::merge,
                                                          codec::patch::cardSpec(card), {}, stop);
  return written ? Status::okay() : written.status();
}

Status Cluster::forgetOthers(std::stop_token stop) {
  std::set<std::string> nodeNames, cardNames;
  for (const auto& n : nodes_) {
    nodeNames.insert(n.node.metadata.name);
    for (const auto& c : n.cards) cardNames.insert(cardObject(c).metadata.name);
  }
  kube::ListOptions simulated;
  simulated.labelSelector = std::string(keys::kSimulatedLabel) + "=true";
  const auto cards = client_.listAll<v1alpha::ElasticGPU>(simulated, stop);
  if (!cards) return cards.status();
  for (const auto& c : *cards)
    if (c.isCard() && cardNames.count(c.metadata.name) == 0 && !c.metadata.deleting()) {
      log::info("card is no longer in the nodes file", {{"card", c.metadata.name}});
      if (auto s = client_.remove<v1alpha::ElasticGPU>({"", c.metadata.name}, {}, stop);
          !s.ok() && s.code() != Code::notFound)
        return s;
    }
  const auto nodes = client_.listAll<core::Node>(simulated, stop);
  if (!nodes) return nodes.status();
  for (const auto& n : *nodes)
    if (nodeNames.count(n.metadata.name) == 0) {
      log::info("node is no longer in the nodes file", {{"node", n.metadata.name}});
      if (auto s = client_.remove<core::Node>({"", n.metadata.name}, {}, stop); !s.ok() && s.code() != Code::notFound)
        return s;
      if (auto s = client_.remove<core::Lease>({std::string(kLeaseNamespace), n.metadata.name}, {}, stop);
          !s.ok() && s.code() != Code::notFound)
        return s;
    }
  return Status::okay();
}

Status Cluster::publish(std::stop_token stop) {
  core::DeviceClass deviceClass;
  deviceClass.metadata.name = keys::kDeviceClass;
  deviceClass.celSelector = "false";  // the stock scheduler must never allocate devices of this class
  if (auto made = client_.create(deviceClass, stop); !made && made.status().code() != Code::alreadyExists)
    return made.status();
  if (auto s = forgetOthers(stop); !s.ok()) return s;
  // Publish nodes before cards, because a card without its node counts as lost hardware.
  Progress ofNodes("Node", nodes_.size(), clock_);
  if (auto s = inParallel(nodes_, ofNodes,
                          [&](const SimNode& n) {
                            const Status node = publishNode(n, stop);
                            return node.ok() ? publishLease(n, stop) : node;
                          });
      !s.ok())
    return s;
  std::vector<v1alpha::ElasticGPU> cards;
  for (const auto& n : nodes_)
    for (const auto& c : n.cards) cards.push_back(cardObject(c));
  Progress ofCards("ElasticGPU", cards.size(), clock_);
  return inParallel(cards, ofCards, [&](const v1alpha::ElasticGPU& c) { return publishCard(c, stop); });
}

// ---- events and the worker ----

void Cluster::listen() {
  podStore_.listen([this](const auto& before, const auto& after) {
    const auto& pod = after ? *after : *before;
    enqueue(podKey(core::keyOf(pod.metadata)));
    const bool over = !after || after->finished() || (before && before->metadata.uid != after->metadata.uid);
    if (!over) return;
    for (const auto& claim : v1alpha::claimNames(before ? *before : pod))
      enqueue(claimKey({pod.metadata.namespace_, claim}));
    enqueueUnscheduled();
  });
  claimStore_.listen([this](const auto& before, const auto& after) {
    const auto key = core::keyOf((after ? after : before)->metadata);
    enqueue(claimKey(key));
    for (const auto& pod : podStore_.find(byClaim_, key.str()))
      if (!pod->finished() && pod->phase != "Running") enqueue(podKey(core::keyOf(pod->metadata)));
  });
  nodeStore_.listen([this](const auto& before, const auto& after) {
    enqueueUnscheduled();
    if (after) return;
    podStore_.forEach([&](const auto& pod) {
      if (pod->nodeName == before->metadata.name) enqueue(podKey(core::keyOf(pod->metadata)));
    });
  });
}

void Cluster::enqueue(const std::string& key, std::chrono::milliseconds after) {
  const auto at = std::chrono::steady_clock::now() + after;
  base::MutexLock lock(mutex_);
  auto [it, fresh] = due_.emplace(key, at);
  if (!fresh) it->second = std::min(it->second, at);
  changed_.notify_one();
}

void Cluster::enqueueUnscheduled() {
  for (const auto& pod : podStore_.find(unscheduled_, "yes")) enqueue(podKey(core::keyOf(pod->metadata)));
}

void Cluster::start() {
  nodeReflector_.start();
  claims_.start();
  pods_.start();
  enqueue(std::string(kLeases), kRenewInterval / 2);
  worker_ = std::jthread([this](std::stop_token stop) { work(stop); });
}

void Cluster::stop() {
  worker_.request_stop();
  if (worker_.joinable()) worker_.join();
  pods_.stop();
  claims_.stop();
  nodeReflector_.stop();
}

void Cluster::work(std::stop_token stop) {
  // Wait for all objects: free capacity and reservations can be computed only from complete stores.
  if (!nodeReflector_.waitForSync(stop) || !claims_.waitForSync(stop) || !pods_.waitForSync(stop)) return;
  kubelet_.clean(stop);
  while (!stop.stop_requested()) {
    std::string key;
    {
      base::MutexLock lock(mutex_);
      changed_.wait(lock, stop, [this]() EGPU_REQUIRES(mutex_) { return !due_.empty(); });
      if (stop.stop_requested()) return;
      const auto first =
          std::min_element(due_.begin(), due_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      if (first->second > std::chrono::steady_clock::now()) {
        // Keys that are added during the wait may be due earlier than the first one, such as the leases.
        const auto at = first->second;
        changed_.wait_until(lock, stop, at, [&]() EGPU_REQUIRES(mutex_) {
          return std::any_of(due_.begin(), due_.end(), [&](const auto& d) { return d.second < at; });
        });
        continue;
      }
      key = first->first;
      due_.erase(first);
    }
    if (step(key, stop)) {
      failures_.erase(key);
    } else {
      const int n = std::min(failures_[key]++, 10);
      enqueue(key, std::min(kRetryMax, kRetry * (1 << n)));
    }
  }
}

bool Cluster::step(const std::string& key, std::stop_token stop) {
  if (key == kLeases) return renewLeases(stop);
  if (key.rfind("pod/", 0) == 0) return syncPod(core::ObjectKey::of(std::string_view(key).substr(4)), stop);
  return syncReservations(core::ObjectKey::of(std::string_view(key).substr(6)), stop);
}

bool Cluster::syncPod(const core::ObjectKey& key, std::stop_token stop) {
  const auto pod = podStore_.get(key);
  auto& lastUid = podUids_[key.str()];
  if (!lastUid.empty() && (!pod || pod->metadata.uid != lastUid || pod->finished())) {
    if (!kubelet_.release(lastUid, stop).ok()) return false;
    admitted_.erase(lastUid);
  }
  if (!pod) {
    podUids_.erase(key.str());
    return true;
  }
  lastUid = pod->metadata.uid;
  if (lostItsNode(*pod, stop)) return collect(*pod, stop);
  if (pod->finished() || pod->metadata.deleting()) return true;
  const bool stamped = stamping_.stamp(*pod, stop);
  if (v1alpha::pendingClaim(*pod)) return stamped;  // writing the claims' names triggers another syncPod()
  if (waitsForNode(*pod)) return schedule(*pod, stop);
  if (pod->nodeName.empty()) return true;  // gated
  const auto admitted = admittedByKubelet(*pod, stop);
  if (!admitted) return false;
  if (!*admitted) return true;
  if (!reservePlaced(*pod, stop)) return false;
  const Status s = kubelet_.run(*pod, stop);
  return s.ok() || s.code() == Code::cancelled;
}

// ---- kubelets: admission of pods, node leases ----

/// Returns false if the kubelet refuses the pod. The pod then has the phase Failed and the reason in its status.
base::Result<bool> Cluster::admittedByKubelet(const core::Pod& pod, std::stop_token stop) {
  const auto& uid = pod.metadata.uid;
  if (pod.phase == "Running" || admitted_.count(uid) > 0) {
    admitted_.insert(uid);
    return true;
  }
  const auto node = nodeStore_.get({"", pod.nodeName});
  if (!node) return Status(Code::unavailable, "node " + pod.nodeName + " is not known yet");
  const auto offered = offeredTo(pod, stop);
  if (!offered) return offered.status();
  const auto has = offered->find(pod.nodeName);
  const auto used = useOf(pod.nodeName, [&](const core::Pod& other) {
    return other.metadata.uid != uid && (other.phase == "Running" || admitted_.count(other.metadata.uid) > 0);
  });
  const auto refused = rejectionOf(pod, *node, used, has == offered->end() ? ResourceAmounts{} : has->second);
  if (!refused) {
    admitted_.insert(uid);
    return true;
  }
  events_.event(kube::referenceTo(pod), "Warning", refused->reason, refused->message);
  const auto body = codec::patch::podRejected(uid, refused->reason, refused->message);
  const auto written =
      client_.patch<core::Pod>(core::keyOf(pod.metadata), kube::PatchType::strategic, body, "status", stop);
  if (!written && written.status().code() != Code::notFound) return written.status();
  return false;
}

bool Cluster::renewLeases(std::stop_token stop) {
  for (std::size_t i = 0; i < std::min(kLeasesAtOnce, nodes_.size()); ++i) {
    const auto& node = nodes_[nextLease_ % nodes_.size()];
    // Do not recreate the lease of a deleted node, because deleted nodes stay deleted.
    if (nodeStore_.get({"", node.node.metadata.name}) != nullptr)
      if (const auto renewed = publishLease(node, stop); !renewed.ok()) return false;
    nextLease_ = (nextLease_ + 1) % nodes_.size();
  }
  const auto rounds = static_cast<int64_t>((nodes_.size() + kLeasesAtOnce - 1) / kLeasesAtOnce);
  enqueue(std::string(kLeases), kRenewInterval / std::max<int64_t>(rounds, 1));
  return true;
}

// ---- controller manager ----

/// True if the pod's node is deleted. Asks the API server, because the store may lag behind.
bool Cluster::lostItsNode(const core::Pod& pod, std::stop_token stop) {
  if (pod.nodeName.empty() || nodeStore_.get({"", pod.nodeName}) != nullptr) return false;
  return client_.get<core::Node>({"", pod.nodeName}, stop).status().code() == Code::notFound;
}

/// Acts as the pod garbage collector: sets a pod of a deleted node to Failed and deletes it.
bool Cluster::collect(const core::Pod& pod, std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  const auto settled = [](const Status& s) {
    return s.ok() || s.code() == Code::notFound || s.code() == Code::conflict;
  };
  if (!pod.finished()) {
    const auto failed = client_.patch<core::Pod>(
        key, kube::PatchType::strategic, codec::patch::podOrphaned(pod.metadata.uid, base::rfc3339(clock_.wall())),
        "status", stop);
    if (!failed && !settled(failed.status())) return false;
  }
  if (!kubelet_.release(pod.metadata.uid, stop).ok()) return false;
  return settled(client_.remove<core::Pod>(key, codec::patch::deleteOptions(pod.metadata.uid, {}), stop));
}

/// Deletes a ResourceClaim that was created from a template once its pod has finished, even if the pod still exists.
bool Cluster::collectStamped(const core::ResourceClaim& claim, std::stop_token stop) {
  for (const auto& owner : claim.metadata.ownerReferences) {
    const auto pod = owner.kind == "Pod" ? podStore_.get({claim.metadata.namespace_, owner.name}) : nullptr;
    if (pod && pod->finished() && !stamping_.remove(claim, *pod, stop)) return false;
  }
  return true;
}

/// Acts as the ResourceClaim controller, which reserves allocated claims for a pod that no scheduler has bound: a pod
/// with spec.nodeName in its manifest, or of a static pod. It does not compare the claim's node; if that is another
/// node, the agent refuses to prepare the claim.
bool Cluster::reservePlaced(const core::Pod& pod, std::stop_token stop) {
  for (const auto& name : v1alpha::claimNames(pod)) {
    const auto claim = claimStore_.get({pod.metadata.namespace_, name});
    if (!claim || !claim->allocation || claim->metadata.deleting()) continue;
    if (!reserve(pod, *claim, stop)) return false;
  }
  return true;
}

bool Cluster::syncReservations(const core::ObjectKey& key, std::stop_token stop) {
  const auto rc = claimStore_.get(key);
  if ((!rc || rc->reservedFor.empty()) && !kubelet_.unreserved(key, stop).ok()) return false;
  if (!rc) return true;
  if (rc->reservedFor.empty()) return collectStamped(*rc, stop);
  std::vector<core::ResourceClaimConsumer> alive;
  for (const auto& c : rc->reservedFor) {
    const core::ObjectKey name{key.namespace_, c.name};
    auto pod = podStore_.get(name);
    if (!pod || pod->metadata.uid != c.uid) {  // ask the API server, because the store may lag behind
      const auto asked = client_.get<core::Pod>(name, stop);
      if (!asked && asked.status().code() != Code::notFound) return false;
      if (asked && asked->metadata.uid == c.uid && !asked->finished()) alive.push_back(c);
    } else if (!pod->finished()) {
      alive.push_back(c);
    }
  }
  if (alive.size() == rc->reservedFor.size()) return true;
  const auto body = codec::patch::reservedFor(rc->metadata.uid, rc->metadata.resourceVersion, alive, false);
  const auto written = client_.patch<core::ResourceClaim>(key, kube::PatchType::merge, body, "status", stop);
  if (written) claimStore_.observed(*written);
  return written.ok() || written.status().code() == Code::notFound;
}

}  // namespace egpu::sim

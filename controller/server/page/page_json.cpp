#include "controller/server/page/page_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "api/v1alpha/gang.h"
#include "api/v1alpha/keys.h"
#include "api/v1alpha/mig.h"
#include "api/v1alpha/remote.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/scheduler/quota/quota.h"
#include "controller/server/allocation_map.h"
#include "controller/whatif/question/subject.h"

namespace egpu::server {

namespace {

using codec::JsonText;

void put(JsonText& j, std::string_view key, std::string_view text) {
  if (!text.empty()) j.key(key).value(text);
}

void writeList(JsonText& j, std::string_view key, const std::vector<std::string>& texts) {
  j.key(key).beginArray();
  for (const auto& text : texts) j.value(text);
  j.endArray();
}

void writeTexts(JsonText& j, std::string_view key, const core::StringMap& texts) {
  j.key(key).beginObject();
  for (const auto& [name, text] : texts) j.key(name).value(text);
  j.endObject();
}

void writeConditions(JsonText& j, const std::vector<core::Condition>& conditions) {
  j.key("conditions").beginArray();
  for (const auto& each : conditions) {
    j.beginObject().key("type").value(each.type).key("status").value(each.status).key("reason").value(each.reason);
    j.key("message").value(each.message).key("since").value(base::unixSeconds(each.lastTransitionTime)).endObject();
  }
  j.endArray();
}

void writeIsolation(JsonText& j, const v1alpha::Isolation& isolation) {
  j.key("isolation").beginObject();
  put(j, "mode", isolation.mode);
  put(j, "memory", isolation.memory);
  put(j, "compute", isolation.compute);
  j.endObject();
}

/// Writes the objects with these keys under `name`, and the keys of no object under "gone".
template <class Store, class Write>
std::string listOf(std::string_view name, const Store& store, const std::vector<core::ObjectKey>& keys, Write write) {
  JsonText j;
  std::vector<std::string> gone;
  j.beginObject().key(name).beginArray();
  for (const auto& key : keys)
    if (const auto object = store.get(key))
      write(j, *object);
    else
      gone.push_back(key.str());
  j.endArray();
  writeList(j, "gone", gone);
  j.endObject();
  return j.take();
}

void writeGang(JsonText& j, const v1alpha::Gang& gang) {
  j.key("gang").beginObject().key("name").value(gang.name).key("size").value(static_cast<int64_t>(gang.size));
  put(j, "topology", gang.topology);
  j.key("podGroup").value(gang.podGroup).endObject();
}

/// Number of memory slots that the instances of a card can use, and whether one can have the media engines.
void writeMig(JsonText& j, const std::vector<v1alpha::MigProfile>& profiles) {
  if (profiles.empty()) return;
  int64_t slots = 0;
  bool media = false;
  for (const auto& each : profiles) {
    media = media || each.media;
    for (unsigned start = 0; start < v1alpha::Slots::kMemory; ++start)
      if (each.starts.has(start)) slots = std::max(slots, int64_t{start} + each.size);
  }
  j.key("mig").beginObject().key("slots").value(slots).key("media").value(media).endObject();
}

/// Amounts of a quota's status, read with the rules of its limits of this profile.
scheduler::QuotaLimits usedOf(const cache::Quota& quota, const std::string& profile) {
  cache::Quota used;
  used.spec.hard = quota.status.used;
  return scheduler::readQuota(used, profile).hard;
}

void writeLimits(JsonText& j, const scheduler::Quota& limits, const scheduler::QuotaLimits& used) {
  for (std::size_t i = 0; i < scheduler::kQuotaKeys; ++i) {
    const auto& hard = limits.hard[i];
    if (!hard) continue;
    const auto key = static_cast<scheduler::QuotaKey>(i);
    const int64_t amount = used[i].value_or(0);
    j.beginObject().key("key").value(scheduler::nameOf(key, limits.profile)).key("used").value(amount);
    j.key("hard").value(*hard).key("text");
    j.value(scheduler::quotaText(key, amount) + " of " + scheduler::quotaText(key, *hard)).endObject();
  }
}

}  // namespace

void PageJson::writeTopology(JsonText& j, const allocator::MapCard& card) const {
  const auto object = stores_.cards.get({"", card.name});
  if (!object || !object->spec.card) return;
  const auto& topology = object->spec.card->topology;
  if (topology.numa >= 0) j.key("numa").value(topology.numa);
  writeMig(j, object->spec.card->mig);
  if (topology.links.empty()) return;
  std::map<std::string, int64_t> indexes;
  for (const auto& other : stores_.cardsOnNode(object->spec.card->nodeName))
    indexes[other->spec.card->uuid] = other->spec.card->index;
  std::map<std::string_view, std::vector<int64_t>> peers;
  for (const auto& link : topology.links)
    if (const auto it = indexes.find(link.peer); it != indexes.end()) peers[link.type].push_back(it->second);
  j.key("links").beginObject();
  for (auto& [type, list] : peers) {
    std::sort(list.begin(), list.end());
    j.key(type).beginArray();
    for (const auto index : list) j.value(index);
    j.endArray();
  }
  j.endObject();
}

std::string PageJson::write(const allocator::AllocationMap& map, const std::vector<std::string>& gone) const {
  JsonText j;
  j.beginObject().key("nodes").beginArray();
  for (const auto& node : map.nodes)
    writeNode(j, node, {}, [this](JsonText& json, const allocator::MapCard& card) { writeTopology(json, card); });
  j.endArray();
  writeList(j, "gone", gone);
  j.endObject();
  return j.take();
}

std::string PageJson::nodes(const std::set<std::string>& names) const {
  allocator::AllocationMap all;
  std::vector<std::string> gone;
  for (const auto& name : names) {
    allocator::MapPage page;
    page.node = name;
    auto map = cluster_.allocationMap().map(page);
    if (map.nodes.empty()) gone.push_back(name);
    for (auto& node : map.nodes) all.nodes.push_back(std::move(node));
  }
  return write(all, gone);
}

std::string PageJson::nodesAfter(std::string& after, std::size_t max) const {
  allocator::MapPage page;
  page.after = after;
  page.limit = max;
  const auto map = cluster_.allocationMap().map(page);
  after = map.next;
  return write(map, {});
}

void PageJson::writeClaim(JsonText& j, const cache::Claim& claim) const {
  const auto& status = claim.status;
  j.beginObject().key("claim").value(core::keyOf(claim.metadata).str());
  put(j, "class", reconcile::classNameOf(stores_, claim));
  j.key("phase").value(status.phase.empty() ? v1alpha::keys::phase::kPending : std::string_view(status.phase));
  j.key("created").value(base::unixSeconds(claim.metadata.creationTimestamp));
  if (claim.metadata.deleting()) j.key("deleting").value(true);
  j.key("asks").value(whatif::requestsText(claim.spec.requests));
  if (!claim.spec.firstAvailable.empty()) {
    j.key("alternatives").beginArray();
    for (const auto& each : claim.spec.firstAvailable) j.value(each.name + ": " + whatif::requestsText(each.requests));
    j.endArray();
  }
  if (claim.spec.adminAccess) j.key("adminAccess").value(true);
  if (!claim.spec.models.empty()) writeList(j, "models", claim.spec.models);
  writeTexts(j, "granted", status.capacity);
  put(j, "alternative", status.alternative);
  put(j, "node", status.nodeName);
  put(j, "device", status.elasticGPUName);
  if (const auto device = stores_.devices.get({"", status.elasticGPUName}); device && v1alpha::isRemote(*device))
    put(j, "endpoint", v1alpha::withoutSecrets(device->spec.source->endpoint));
  if (status.usage) put(j, "use", status.usage->text);
  if (status.priority != 0) j.key("priority").value(status.priority);
  if (status.isolation) writeIsolation(j, *status.isolation);
  if (status.nominated) {
    j.key("nominated").beginObject().key("node").value(status.nominated->nodeName);
    writeList(j, "victims", status.nominated->victims);
    j.endObject();
  }
  if (const auto gang = reconcile::gangOf(stores_, claim)) writeGang(j, *gang);
  writeConditions(j, status.conditions);
  std::vector<std::string> pods;
  for (const auto& pod : stores_.podsOfClaim(core::keyOf(claim.metadata)))
    if (reconcile::alive(*pod)) pods.push_back(pod->metadata.name);
  std::sort(pods.begin(), pods.end());
  writeList(j, "pods", pods);
  j.endObject();
}

std::string PageJson::claims(const std::vector<core::ObjectKey>& keys) const {
  return listOf("claims", stores_.claims, keys, [this](JsonText& j, const auto& claim) { writeClaim(j, claim); });
}

void PageJson::writeQuota(JsonText& j, const cache::Quota& quota) const {
  j.beginObject().key("quota").value(core::keyOf(quota.metadata).str()).key("limits").beginArray();
  for (const auto& limits : scheduler::readQuotas(quota)) writeLimits(j, limits, usedOf(quota, limits.profile));
  j.endArray();
  writeTexts(j, "perClaim", quota.spec.perClaim);
  writeList(j, "classes", quota.spec.classes);
  writeList(j, "models", quota.spec.models);
  j.key("enforcement").value(quota.spec.enforcement).key("alertPercent").value(quota.spec.alertPercent);
  writeConditions(j, quota.status.conditions);
  j.endObject();
}

std::string PageJson::quotas(const std::vector<core::ObjectKey>& keys) const {
  return listOf("quotas", stores_.quotas, keys, [this](JsonText& j, const auto& quota) { writeQuota(j, quota); });
}

std::string PageJson::classes() const {
  JsonText j;
  j.beginObject().key("classes").beginArray();
  stores_.classes.forEach([&j](const auto& each) {
    j.beginObject().key("class").value(each->metadata.name).key("provisioner").value(each->provisioner);
    j.key("bindingMode").value(each->bindingMode);
    j.key("default").value(each->metadata.annotation(v1alpha::keys::kDefaultClassAnnotation) == "true");
    writeConditions(j, each->conditions);
    j.endObject();
  });
  j.endArray().endObject();
  return j.take();
}

std::string PageJson::reservations() const {
  JsonText j;
  j.beginObject().key("reservations").beginArray();
  for (const auto& each : cluster_.queries().nodeReservations())
    j.beginObject().key("claim").value(each.name).key("node").value(each.node).endObject();
  j.endArray().endObject();
  return j.take();
}

}  // namespace egpu::server

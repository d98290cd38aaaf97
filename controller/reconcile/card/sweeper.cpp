#include "controller/reconcile/card/sweeper.h"

#include <algorithm>
#include <set>

#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/reconcile/card/ledger_release.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
using std::chrono::milliseconds;

namespace {
bool names(const cache::Gpu& device, const std::string& card) {
  return std::any_of(device.spec.cards.begin(), device.spec.cards.end(),
                     [&](const auto& share) { return share.name == card; });
}
}  // namespace

Outcome Sweeper::sweepCard(const cache::Gpu& card, std::stop_token stop) {
  for (const auto& [uid, entry] : card.spec.allocations) {
    const core::ObjectKey key{"", entry.device};
    auto cached = stores_.devices.get(key);
    if (cached && cached->metadata.uid == uid && names(*cached, card.metadata.name)) continue;
    // An entry without a device. The entry was seen first, so a quorum read now decides.
    auto now = writer_.read<cache::Gpu>(key, cached ? cached->metadata.uid : std::string(), stop);
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    if (now.ok() && now->metadata.uid == uid && names(*now, card.metadata.name)) continue;
    const std::string cause = !now.ok()                  ? "device gone"
                              : now->metadata.uid != uid ? "another device of that name"
                                                         : "device does not name the card";
    base::log::info("sweeping a ledger entry",
                    {{"card", card.metadata.name}, {"device", entry.device}, {"uid", uid}, {"cause", cause}});
    const auto released = releaseEntry(writer_, card, uid, stop);  // (S1)
    if (!released.ok()) return released.code() == base::Code::notFound ? Outcome::done() : Outcome::retry(released);
  }
  if (!card.metadata.deleting()) return surplus_.card(card, stop);
  auto current = stores_.cards.get({"", card.metadata.name});
  if (!current || current->metadata.uid != card.metadata.uid || !current->spec.allocations.empty() ||
      !current->metadata.hasFinalizer(keys::kLedgerFinalizer))
    return Outcome::done();
  auto rest = current->metadata.finalizers;
  rest.erase(std::remove(rest.begin(), rest.end(), keys::kLedgerFinalizer), rest.end());
  const auto body = codec::patch::finalizers(current->metadata.uid, current->metadata.resourceVersion, rest);
  auto written = writer_.patch(*current, body, {}, stop);  // (S3)
  if (written.ok() || written.status().code() == base::Code::notFound) return Outcome::done();
  return written.status().code() == base::Code::conflict ? Outcome::requeueNow() : Outcome::retry(written.status());
}

Outcome Sweeper::sweepPlugin(const std::string& name, std::stop_token stop) {
  const auto listing = provisioning_.list(name);
  if (!listing) return Outcome::after(timeouts_.busyPluginListInterval);
  if (!listing->reply.ok()) return Outcome::done();  // the plugin's recovery requeues this key
  std::set<std::string> unknown(listing->keys.begin(), listing->keys.end());
  stores_.devices.forEach([&](const auto& device) { unknown.erase(device->metadata.uid); });
  if (unknown.empty()) return Outcome::done();
  // The plugin's list came first: devices that exist now, by a quorum read, keep their keys.
  auto all = writer_.client().listAll<cache::Gpu>({}, stop);
  if (!all.ok()) return Outcome::retry(all.status());
  for (const auto& gpu : *all) unknown.erase(gpu.metadata.uid);
  for (const auto& key : unknown) {
    base::log::info("deprovisioning a key that no device has", {{"provisioner", name}, {"key", key}});
    const auto reply = provisioning_.deprovisionKey(name, key);  // (S2)
    if (!reply) return Outcome::after(timeouts_.busyPluginListInterval);
    if (reply->outcome == plugin::ReplyCode::inProgress) return Outcome::after(timeouts_.backgroundCallInterval);
    if (!reply->ok()) return Outcome::retry({base::Code::unavailable, name + ": deprovision: " + reply->message});
  }
  return Outcome::done();
}

}  // namespace egpu::reconcile

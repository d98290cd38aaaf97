#include "controller/reconcile/intent/intent_writer.h"

#include "api/v1alpha/keys.h"
#include "controller/base/backoff.h"
#include "controller/reconcile/api_rejections.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;

std::chrono::milliseconds IntentWriter::backoffAfterRefusals(int times) const {
  const auto& timeouts = context_.timeouts;
  return base::exponentialBackoff(timeouts.firstServerRefusalBackoff, times, timeouts.provisionRefusalBackoff);
}

Outcome IntentWriter::write(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision,
                            std::stop_token stop) {
  return afterWrite(claim, cls.provisioner, decision.node,
                    context_.binder.writeIntent(claim, cls, decision, stop));  // W1
}

Outcome IntentWriter::writeRemote(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  return afterWrite(claim, device.spec.provisioner, {}, context_.binder.writeIntent(claim, device, stop));  // W1
}

Outcome IntentWriter::afterWrite(const cache::Claim& claim, const std::string& provisioner, const std::string& node,
                                 const base::Result<cache::Gpu>& device) {
  const auto& uid = claim.metadata.uid;
  if (!device.ok()) {
    // Another node may be accepted.
    if (!node.empty() && ApiRejections::isRefusal(device.status())) context_.waiting.nodes.refusedOn(uid, node);
    if (device.status().code() != base::Code::invalid) return Outcome::retry(device.status());
    const auto why = "the device was refused: " + device.status().message();  // a change of a policy causes no event
    context_.waiting.provisioners.refused(uid, provisioner, why,
                                          backoffAfterRefusals(context_.waiting.provisioners.serverRefused(uid)));
    return reportRefusal(claim, why);
  }
  context_.waiting.released.forgetClaim(uid);
  if (!belongsTo(*device, claim))  // the end of that object does not requeue this claim
    return Outcome::after(context_.timeouts.nameConflictBackoff)
        .reports(notBound(claim, reason::kProvisionFailed,
                          "an ElasticGPU named " + device->metadata.name + " exists and isn't this claim's"));
  return Outcome::requeueNow();  // (C7), or the state of an adopted device
}

Outcome IntentWriter::reportRefusal(const cache::Claim& claim, const std::string& message) {
  context_.cluster.releaseReservation(claim.metadata.uid);
  return Outcome::after(context_.waiting.provisioners.untilRefusalEnds(claim.metadata.uid))
      .reports(notBound(claim, reason::kProvisionFailed, message));
}

}  // namespace egpu::reconcile

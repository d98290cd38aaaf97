// mig.provisioner.elasticgpu.io: MIG instances of cards whose mode an administrator has enabled. They are created for a
// device when it is staged, and destroyed when it is unstaged.
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/mig/stage.h"
#include "provisioners/nvidia/container/container.h"
#include "provisioners/nvidia/container/mig_nodes.h"
#include "provisioners/nvidia/node.h"
#include "provisioners/nvidia/system.h"

namespace {

using namespace egpu::sdk;
namespace nvidia = egpu::nvidia;

class Mig final : public Provisioner {
 public:
  Description describe() override {
    // Enforced: an instance has its own memory and SMs, and a container can't reach one without its device nodes.
    return {"mig.provisioner.elasticgpu.io", "0.1.0", "mig", "Enforced"};
  }

  Status validate(const Parameters& parameters) override { return refuseUnknown(parameters, {}); }

  Status provision(Call& call, const Device& device) override {
    Status status;
    if (!egpu::mig::cardOf(device, status)) return status;
    call.isolation({"mig", "Enforced", "Enforced", "Enforced"});
    return records_.add(device);
  }
  Status deprovision(Call& call) override { return records_.remove(call.key()); }
  Status list(Call& call) override { return records_.list(call); }

  Status discover(Call& call) override { return nvidia::discover(call); }
  Status health(Call& call) override { return nvidia::health(call); }

  Status stage(Call& call, const Device& device) override { return egpu::mig::stage(call, device); }
  Status unstage(Call& call) override { return egpu::mig::unstage(call); }

  Status mount(Call& call, const Device& device, const Container&) override {
    nvidia::InstanceRecord record;
    bool elsewhere = false;
    if (Status status = egpu::mig::readStaged(device, record, elsewhere); status.code != EGPU_OK) return status;
    const Card& card = device.cards.front();
    if (elsewhere)
      mountSimulated(call, card);
    else if (Status status = mountHere(call, device, record); status.code != EGPU_OK)
      return status;
    call.env("ELASTICGPU_DEVICE", device.device);
    call.env("ELASTICGPU_CLAIM", device.claim);
    call.env("ELASTICGPU_CARDS", card.uuid);
    call.env("ELASTICGPU_MIG_PROFILE", card.migProfile);
    call.env("ELASTICGPU_ISOLATION", "mig");
    return ok();
  }

 private:
  /// Replies edits for a simulated node, on which no process opens them. They name no whole card, so that a runtime
  /// adds none.
  static void mountSimulated(Call& call, const Card& card) {
    for (const auto& node : {"/dev/nvidia" + std::to_string(card.index), std::string("/dev/nvidiactl")})
      call.deviceNode(node);
    call.env("NVIDIA_VISIBLE_DEVICES", "void");
  }

  static Status mountHere(Call& call, const Device& device, const nvidia::InstanceRecord& record) {
    std::int64_t minor = device.cards.front().index;  // the API's number may be out of date
    for (const auto& card : nvidia::kernelCards())
      if (card.uuid == record.card && card.minor >= 0) minor = card.minor;
    nvidia::MountedInstances instances;
    std::string uuids;
    for (const auto& part : record.parts) {
      const auto nodes = nvidia::migNodes(minor, part.gpuInstance, part.computeInstance);
      if (!nodes)
        return unavailable("/proc/driver/nvidia-caps/mig-minors does not list GPU instance " +
                           std::to_string(part.gpuInstance) + " of card " + record.card);
      instances.nodes.insert(instances.nodes.end(), nodes->begin(), nodes->end());
      instances.uuids.push_back(part.uuid);
      uuids += (uuids.empty() ? "" : ",") + part.uuid;
    }
    call.env("ELASTICGPU_MIG_INSTANCES", uuids);
    return nvidia::mountInstances(call, device, instances);
  }

  Records records_;
};

}  // namespace

EGPU_PROVISIONER(Mig)

// physical.provisioner.elasticgpu.io: whole cards. It creates and destroys nothing; the container gets the device nodes
// of its cards and no others.
#include <string>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/container/container.h"
#include "provisioners/nvidia/node.h"

namespace {

using namespace egpu::sdk;

constexpr std::int64_t kWholeCard = 1000;  // milli-cards

class Physical final : public Provisioner {
 public:
  Description describe() override {
    // Enforced: a container can't reach a card without its device node.
    return {"physical.provisioner.elasticgpu.io", "0.1.0", "physicalGPU", "Enforced"};
  }

  Status validate(const Parameters& parameters) override { return refuseUnknown(parameters, {}); }

  Status provision(Call& call, const Device& device) override {
    if (Status status = whole(device); status.code != EGPU_OK) return status;
    call.isolation(isAdminAccess(device) ? Isolation{"none", "None", "None", "Soft"} : wholeCardIsolation());
    return records_.add(device);
  }

  Status deprovision(Call& call) override { return records_.remove(call.key()); }

  Status list(Call& call) override { return records_.list(call); }

  Status discover(Call& call) override { return egpu::nvidia::discover(call); }
  Status health(Call& call) override { return egpu::nvidia::health(call); }

  Status stage(Call&, const Device& device) override { return egpu::nvidia::stageCards(device); }

  Status mount(Call& call, const Device& device, const Container&) override {
    if (Status status = whole(device); status.code != EGPU_OK) return status;
    if (Status status = egpu::nvidia::mountCards(call, device); status.code != EGPU_OK) return status;
    std::string uuids;
    for (const auto& card : device.cards) uuids += (uuids.empty() ? "" : ",") + card.uuid;
    call.env("ELASTICGPU_DEVICE", device.device);
    call.env("ELASTICGPU_CLAIM", device.claim);
    call.env("ELASTICGPU_CARDS", uuids);
    return ok();
  }

 private:
  static Status whole(const Device& device) {
    for (const auto& card : device.cards)
      if (card.core != kWholeCard && (card.core != 0 || card.memory != 0))  // 0 and 0: admin access
        return invalid("card " + card.uuid + ": this provisioner gives whole cards (1000 milli-cards), not " +
                       std::to_string(card.core) + "; gpushare.provisioner.elasticgpu.io gives shares");
    return ok();
  }

  Records records_;
};

}  // namespace

EGPU_PROVISIONER(Physical)

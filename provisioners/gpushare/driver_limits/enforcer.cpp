#include "provisioners/gpushare/driver_limits/enforcer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace egpu::driver_limits {
namespace {

namespace fs = std::filesystem;

/// The back ends round limits down to their pages.
constexpr uint64_t kMaxRounding = uint64_t{2} << 20;

bool isSame(uint64_t wanted, uint64_t found) { return found <= wanted && wanted - found < kMaxRounding; }
bool isSame(const CardLimits& wanted, const CardLimits& found) {
  return isSame(wanted.hard, found.hard) && isSame(wanted.soft, found.soft);
}

CardLimits partOf(const CardLimits& amounts, uint64_t containers) {
  return {amounts.hard / containers, amounts.soft / containers};
}

/// Number of equal parts.
uint64_t sharersOf(const DeviceRecord& device) {
  return std::max<uint64_t>({1, device.amounts.containers, device.containers.size()});
}

std::string bytes(uint64_t amount) { return std::to_string(amount) + " bytes"; }

}  // namespace

Enforcer::Enforcer(const Records& records, LimitDriver& driver, std::string root)
    : records_(records), driver_(driver), root_(std::move(root)) {
  std::vector<std::string> unread;
  devices_ = records_.read(unread);
  for (const auto& each : unread) report("", each);
}

void Enforcer::report(const std::string& device, const std::string& text) { problems_.push_back({device, text}); }

std::pair<CardLimits, int> Enforcer::totalOf(const std::string& cgroup, const std::string& card) const {
  std::pair<CardLimits, int> out;
  for (const auto& [uid, device] : devices_)
    for (const auto& [id, container] : device.containers) {
      const auto part = container.parts.find(card);
      if (container.cgroup != cgroup || part == container.parts.end()) continue;
      out.first.hard += part->second.hard;
      out.first.soft += part->second.soft;
      ++out.second;
    }
  return out;
}

/// Sets the limits and reads them back: only that shows whether the driver has them.
std::string Enforcer::put(const std::string& cgroup, const std::string& card, const CardLimits& limits) {
  if (auto wrong = driver_.set(card, cgroup, limits); !wrong.empty()) return wrong;
  InForce found;
  if (auto wrong = driver_.get(card, cgroup, found); !wrong.empty())
    return "the limits of card " + card + " can't be read back: " + wrong;
  if (isSame(limits, found.limits)) return {};
  return "card " + card + ", cgroup " + cgroup + ": the driver has a limit of " + bytes(found.limits.hard) +
         " (soft: " + std::to_string(found.limits.soft) + ") instead of " + bytes(limits.hard) +
         " (soft: " + std::to_string(limits.soft) + ")";
}

/// Changes the part of a container on a card. The record names the larger limits meanwhile, and after an error.
std::string Enforcer::change(const std::string& device, const std::string& id, const std::string& card,
                             CardLimits part) {
  auto& record = devices_[device].containers[id];
  CardLimits& recorded = record.parts[card];
  const CardLimits most{std::max(recorded.hard, part.hard), std::max(recorded.soft, part.soft)};
  if (most != recorded) {
    recorded = most;
    if (auto wrong = records_.writeContainer(device, id, record); !wrong.empty()) return wrong;
  }
  recorded = part;
  if (auto wrong = put(record.cgroup, card, totalOf(record.cgroup, card).first); !wrong.empty()) {
    recorded = most;
    return wrong;
  }
  return most == part ? std::string() : records_.writeContainer(device, id, record);
}

/// Memory that the container uses beyond its parts of other devices.
uint64_t Enforcer::usedBy(const ContainerRecord& container, const std::string& card) {
  InForce found;
  if (!driver_.get(card, container.cgroup, found).empty()) return 0;
  const auto part = container.parts.find(card);
  const auto own = part == container.parts.end() ? 0 : part->second.hard;
  const auto others = totalOf(container.cgroup, card).first.hard - own;
  return found.used > others ? found.used - others : 0;
}

/// Returns why the container can't have the part: another one of the device uses more than its own new part.
std::string Enforcer::whyNoPart(const std::string& device, const std::string& id, const std::string& card,
                                uint64_t part) {
  const auto& record = devices_[device];
  for (const auto& [other, container] : record.containers) {
    if (other == id) continue;
    const auto used = usedBy(container, card);
    if (used <= part) continue;
    return "the containers of the claim share its memory in equal parts, " + bytes(part) + " of card " + card +
           " each, and another container uses " + bytes(used) + "; give each container a claim of its own";
  }
  return {};
}

std::string Enforcer::create(const std::string& device, const std::string& id, const std::string& cgroup) {
  dropEnded(device);
  auto& record = devices_[device];
  if (record.amounts.cards.empty())
    return "the agent has recorded no amounts of device " + device + "; is the agent of this node running?";
  record.containers[id].cgroup = cgroup;
  auto wrong = makeRoom(device, id);
  if (wrong.empty()) wrong = start(device, id);
  if (wrong.empty()) return {};
  end(device, id);
  rebalance(device);
  return wrong;
}

/// Lowers the parts of the device's other containers.
std::string Enforcer::makeRoom(const std::string& device, const std::string& id) {
  auto& record = devices_[device];
  const auto count = sharersOf(record);
  for (const auto& [card, amounts] : record.amounts.cards)
    if (auto wrong = whyNoPart(device, id, card, amounts.hard / count); !wrong.empty()) return wrong;
  for (const auto& [card, amounts] : record.amounts.cards) {
    const auto part = partOf(amounts, count);
    for (auto& [other, container] : record.containers) {
      if (other == id) continue;
      const CardLimits before = container.parts[card];
      const CardLimits lower{std::min(before.hard, part.hard), std::min(before.soft, part.soft)};
      if (lower == before) continue;
      if (auto wrong = change(device, other, card, lower); !wrong.empty()) return wrong;
    }
    // Since the limits are lower, no container can exceed its part any more; it may have done so just before.
    if (auto wrong = whyNoPart(device, id, card, part.hard); !wrong.empty()) return wrong;
  }
  return {};
}

std::string Enforcer::start(const std::string& device, const std::string& id) {
  auto& record = devices_[device];
  auto& container = record.containers[id];
  for (const auto& [card, amounts] : record.amounts.cards) container.parts[card] = partOf(amounts, sharersOf(record));
  if (auto wrong = records_.writeContainer(device, id, container); !wrong.empty()) return wrong;
  for (const auto& [card, part] : container.parts)
    if (auto wrong = put(container.cgroup, card, totalOf(container.cgroup, card).first); !wrong.empty()) return wrong;
  return {};
}

void Enforcer::remove(const std::string& device, const std::string& id) {
  const auto known = devices_.find(device);
  if (known == devices_.end() || known->second.containers.count(id) == 0) return;
  end(device, id);
  rebalance(device);
}

void Enforcer::apply() {
  std::vector<std::string> devices;
  for (const auto& [device, record] : devices_) devices.push_back(device);
  // First all parts that become free: a cgroup may have parts of several devices.
  for (const auto& device : devices) dropEnded(device);
  for (const auto& device : devices) rebalance(device);
}

void Enforcer::dropEnded(const std::string& device) {
  const auto known = devices_.find(device);
  if (known == devices_.end()) return;
  std::vector<std::string> ended;
  for (const auto& [id, container] : known->second.containers)
    if (!Cgroups::isInUse(container.cgroup)) ended.push_back(id);
  for (const auto& id : ended) end(device, id);
}

/// Gives the containers of the device equal parts. Lowers first, so that the sum never exceeds the device.
void Enforcer::rebalance(const std::string& device) {
  auto& record = devices_[device];
  if (record.containers.empty()) return;
  for (const auto& [card, amounts] : record.amounts.cards) {
    const auto target = partOf(amounts, sharersOf(record));
    for (auto& [id, container] : record.containers) {
      const CardLimits before = container.parts[card];
      const CardLimits lower{std::min(before.hard, target.hard), std::min(before.soft, target.soft)};
      if (lower == before) continue;
      if (auto wrong = change(device, id, card, lower); !wrong.empty()) report(device, wrong);
    }
    raise(device, card, target);
    correct(device, card);
  }
}

void Enforcer::raise(const std::string& device, const std::string& card, const CardLimits& target) {
  auto& record = devices_[device];
  for (auto& [id, container] : record.containers) {
    const CardLimits before = container.parts[card];
    uint64_t others = 0;
    for (auto& [other, its] : record.containers)
      if (other != id) others += std::max(its.parts[card].hard, usedBy(its, card));
    const auto amount = record.amounts.cards[card].hard;
    const auto available = amount > others ? amount - others : 0;
    const CardLimits higher{std::max(before.hard, std::min(target.hard, available)), target.soft};
    if (higher == before || higher.soft > higher.hard) continue;
    if (auto wrong = change(device, id, card, higher); !wrong.empty()) report(device, wrong);
  }
}

/// Sets limits that differ from the records: a process was killed, or another program changed them.
void Enforcer::correct(const std::string& device, const std::string& card) {
  for (auto& [id, container] : devices_[device].containers) {
    const auto wanted = totalOf(container.cgroup, card).first;
    InForce found;
    const bool isKnown = driver_.get(card, container.cgroup, found).empty();
    if (!isKnown || !isSame(wanted, found.limits))
      if (auto wrong = put(container.cgroup, card, wanted); !wrong.empty()) report(device, wrong);
    const auto used = usedBy(container, card), part = container.parts[card].hard;
    if (used > part)
      report(device, "a container uses " + bytes(used) + " of card " + card + ", and its limit is " + bytes(part) +
                         ": it gets no more memory until it has freed some");
  }
}

/// Releases the part of a container. False if its soft limits could not be released; then the file of its record stays,
/// and the next run tries again.
bool Enforcer::end(const std::string& device, const std::string& id) {
  auto& containers = devices_[device].containers;
  const ContainerRecord container = containers[id];
  containers.erase(id);
  bool isReleased = true;
  for (const auto& [card, part] : container.parts)
    if (auto wrong = endOn(container, card, part); !wrong.empty()) {
      report(device, wrong);
      isReleased = isReleased && part.soft == 0;
    }
  if (isReleased) records_.removeContainer(device, id);
  return isReleased;
}

std::string Enforcer::endOn(const ContainerRecord& container, const std::string& card, const CardLimits& part) {
  if (Cgroups::exists(container.cgroup)) {
    auto [rest, devices] = totalOf(container.cgroup, card);
    // The hard limit stays for processes that have not ended yet.
    if (devices == 0) rest = {part.hard, 0};
    auto wrong = driver_.set(card, container.cgroup, rest);
    if (wrong.empty() || Cgroups::exists(container.cgroup)) return wrong;
  }
  return part.soft == 0 ? std::string() : repairParents(container.cgroup, card, part.soft);
}

/// Releases the soft limit of a removed cgroup. Setting a limit lowers all parents above, too, unless the process is
/// killed meanwhile: the next one then finds parents whose soft limit exceeds the sum of their children.
std::string Enforcer::repairParents(const std::string& cgroup, const std::string& card, uint64_t soft) {
  std::vector<std::pair<std::string, uint64_t>> parents;  // with their soft limits
  for (auto folder = fs::path(cgroup).parent_path(); folder.string().size() > root_.size();
       folder = folder.parent_path()) {
    if (!Cgroups::exists(folder.string())) continue;
    if (!Cgroups::isInHierarchy(folder.string())) break;
    InForce found;
    if (auto wrong = driver_.get(card, folder.string(), found); !wrong.empty()) return wrong;
    parents.emplace_back(folder.string(), found.limits.soft);
  }
  for (const auto& [folder, before] : parents) {
    InForce now;
    if (auto wrong = driver_.get(card, folder, now); !wrong.empty()) return wrong;
    if (now.limits.soft < before) continue;
    if (auto wrong = repair(folder, card, soft); !wrong.empty()) return wrong;
  }
  return {};
}

/// Subtracts the soft limit of a removed cgroup from a parent, but nothing of the parent's other children.
std::string Enforcer::repair(const std::string& folder, const std::string& card, uint64_t soft) {
  InForce own;
  if (auto wrong = driver_.get(card, folder, own); !wrong.empty()) return wrong;
  uint64_t children = 0;
  std::error_code error;
  for (const auto& child : fs::directory_iterator(folder, error)) {
    InForce its;
    // A cgroup without the controller would answer with the limits of its parent.
    if (!Cgroups::isInHierarchy(child.path().string())) continue;
    if (driver_.get(card, child.path().string(), its).empty()) children += its.limits.soft;
  }
  if (error) return Cgroups::exists(folder) ? folder + ": " + error.message() : std::string();
  const auto present = own.limits.soft;
  const auto wanted = std::max(children, present > soft ? present - soft : 0);
  return wanted < present ? driver_.set(card, folder, {own.limits.hard, wanted}) : std::string();
}

void Enforcer::release(const std::string& device) {
  const auto known = devices_.find(device);
  if (known == devices_.end()) return;
  std::vector<std::string> ids;
  for (const auto& [id, container] : known->second.containers) ids.push_back(id);
  bool areReleased = true;
  for (const auto& id : ids) areReleased = end(device, id) && areReleased;
  if (!areReleased) return;
  records_.removeDevice(device);
  devices_.erase(device);
}

std::vector<ContainerUse> Enforcer::usage() {
  std::vector<ContainerUse> out;
  for (const auto& [uid, device] : devices_)
    for (const auto& [id, container] : device.containers)
      for (const auto& [card, part] : container.parts) {
        InForce found;
        if (!Cgroups::isInUse(container.cgroup) || !driver_.get(card, container.cgroup, found).empty()) continue;
        // The driver counts per cgroup: each device of the cgroup gets its proportion.
        const auto total = totalOf(container.cgroup, card).first.hard;
        const auto used =
            total == 0 ? 0 : static_cast<uint64_t>(static_cast<unsigned __int128>(found.used) * part.hard / total);
        out.push_back({uid, card, container.cgroup, used});
      }
  return out;
}

}  // namespace egpu::driver_limits

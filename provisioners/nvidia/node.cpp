#include "provisioners/nvidia/node.h"

#include <algorithm>

#include "provisioners/nvidia/cards.h"
#include "provisioners/nvidia/system.h"
#include "provisioners/nvidia/watch.h"

namespace egpu::nvidia {
namespace {

std::string joined(const std::vector<std::string>& sentences) {
  std::string out;
  for (const auto& sentence : sentences) out += (out.empty() ? "" : "; ") + sentence;
  return out;
}

/// Returns the versions of the driver and of CUDA, which are equal for all cards.
std::vector<std::pair<std::string, std::string>> versions(const Library& nvml) {
  std::vector<std::pair<std::string, std::string>> out;
  std::string text(kTextSize, '\0');
  if (Library::call(nvml.nvmlSystemGetDriverVersion, text.data(), kTextSize - 1) == kSuccess) {
    text.back() = 0;
    text = text.c_str();
    if (std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; }))
      out.emplace_back("driverVersion", text);
  }
  int cuda = 0;  // 12020 = 12.2
  if (Library::call(nvml.nvmlSystemGetCudaDriverVersion_v2, &cuda) == kSuccess && cuda > 0)
    out.emplace_back("cudaDriverVersion", std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10));
  return out;
}

/// Adds the cards that the kernel lists but NVML did not return, with the reasons from NVML.
void findLost(const std::vector<std::string>& failures, NodeCards& out) {
  const std::string why =
      failures.empty() ? "NVML does not count it: it did not start, see the kernel's log" : joined(failures);
  for (const KernelCard& card : kernelCards()) {
    const auto same = [&](const NvmlCard& other) { return other.uuid == card.uuid || other.pci == card.pci; };
    if (std::any_of(out.cards.begin(), out.cards.end(), same)) continue;
    if (!card.uuid.empty()) out.lost.push_back({card.uuid, why, {}});
    if (failures.empty()) out.remarks.push_back("card " + (card.uuid.empty() ? card.pci : card.uuid) + ": " + why);
  }
  out.remarks.insert(out.remarks.end(), failures.begin(), failures.end());
}

sdk::Status readAll(const Library& nvml, unsigned count, const std::function<bool()>& cancelled, NodeCards& out) {
  const auto shared = versions(nvml);
  std::vector<Device> devices;
  std::vector<std::string> failures;
  for (unsigned i = 0; i < count; ++i) {
    if (cancelled())
      return sdk::unavailable("NVIDIA's driver is slow: " + std::to_string(i) + " of " + std::to_string(count) +
                              " cards read in time; is nvidia-persistenced running?");
    Device device = nullptr;
    NvmlCard card;
    const Return answer = Library::call(nvml.nvmlDeviceGetHandleByIndex_v2, i, &device);
    const std::string why = answer == kSuccess ? readCard(nvml, device, card, out.remarks) : inWords(answer);
    if (!why.empty()) {
      failures.push_back("card " + std::to_string(i) + " is left out: " + why);
      continue;
    }
    const auto same = [&](const NvmlCard& other) { return other.uuid == card.uuid; };
    if (std::any_of(out.cards.begin(), out.cards.end(), same)) {
      out.remarks.push_back("card " + card.uuid + " is reported twice; the first report is used");
      continue;
    }
    card.attributes.insert(card.attributes.end(), shared.begin(), shared.end());
    card.attributes.emplace_back("nvmlIndex", std::to_string(i));
    devices.push_back(device);
    out.cards.push_back(std::move(card));
  }
  readLinks(nvml, devices, out.cards, cancelled);
  if (cancelled()) return sdk::unavailable("NVIDIA's driver is slow: the cards' links were not read in time");
  findLost(failures, out);
  return sdk::ok();
}

}  // namespace

sdk::Status readNode(const std::function<bool()>& cancelled, NodeCards& out) {
  std::string why;
  bool absent = false;
  const auto nvml = Library::open(why, absent);
  if (!nvml && absent) {
    // The driver's package is being replaced: cards that the kernel lists are not gone.
    if (const auto cards = kernelCards(); !cards.empty())
      return sdk::unavailable(why + "; the kernel has " + std::to_string(cards.size()) + " of its cards");
    out.remarks.push_back(why);
    return sdk::ok();
  }
  if (!nvml) return sdk::unavailable(why);
  unsigned count = 0;
  if (const Return answer = Library::call(nvml->nvmlDeviceGetCount_v2, &count); answer != kSuccess)
    return sdk::unavailable("NVIDIA's driver does not count its cards: " + inWords(answer));
  if (count > kMaxCards)
    out.remarks.push_back("the driver counts " + std::to_string(count) + " cards; the first " +
                          std::to_string(kMaxCards) + " are taken");
  return readAll(*nvml, std::min(count, kMaxCards), cancelled, out);
}

namespace {

/// Reads all cards with the currently installed library: a library that the watch keeps open may belong to the previous
/// driver.
sdk::Status readAnew(sdk::Call& call, NodeCards& out) {
  const auto cancelled = [&] { return call.cancelled(); };
  sdk::Status status = readNode(cancelled, out);
  if (status.code == EGPU_OK || cancelled()) return status;
  if (Watch::shared().release()) {
    out = {};
    status = readNode(cancelled, out);
  }
  // The kernel lists the cards until the driver is unloaded.
  if (status.code != EGPU_OK && kernelCards().empty()) Watch::shared().forget();
  return status;
}

}  // namespace

sdk::Status discover(sdk::Call& call, const std::vector<std::pair<std::string, std::string>>& more) {
  NodeCards node;
  if (sdk::Status status = readAnew(call, node); status.code != EGPU_OK) return status;
  Watch::shared().follow(node.cards);
  for (const NvmlCard& card : node.cards) {
    std::vector<egpu_link> links;
    for (const Link& link : card.links) links.push_back({link.peer.c_str(), link.type.c_str(), link.count});
    std::vector<egpu_pair> attributes;
    for (const auto* all : {&card.attributes, &more})
      for (const auto& [name, value] : *all) attributes.push_back({name.c_str(), value.c_str()});
    std::vector<egpu_mig_profile> profiles;
    for (const Profile& each : card.profiles)
      profiles.push_back({each.name.c_str(), each.memory, each.compute, each.size, each.starts, each.media ? 1 : 0});
    call.gpu({sizeof(egpu_gpu), card.uuid.c_str(), card.model.c_str(), card.index, card.memory, card.smCount,
              card.numaNode, card.pci.c_str(), card.milliTflops, links.data(), links.size(), attributes.data(),
              attributes.size(), profiles.data(), profiles.size()});
  }
  return {EGPU_OK, joined(node.remarks)};
}

sdk::Status health(sdk::Call& call) {
  NodeCards node;
  if (sdk::Status status = readAnew(call, node); status.code != EGPU_OK) return status;
  Watch::shared().judge(node);
  Watch::shared().follow(node.cards);
  for (const LostCard& card : node.lost) {
    call.health(card.uuid, false, "Lost: " + card.why);
    if (!card.event.empty()) call.health(card.uuid, false, card.event);
  }
  for (const NvmlCard& card : node.cards) {
    if (!card.event.empty()) call.health(card.uuid, false, card.event);
    if (!card.illness.empty())
      call.health(card.uuid, false, card.illness);
    else if (!card.notice.empty())
      call.health(card.uuid, true, card.notice);
    call.use(card.uuid, card.memoryUsed, card.smPercent,
             card.processesKnown ? static_cast<int64_t>(card.processes.size()) : -1);
    for (const Process& process : card.processes)
      call.process(card.uuid, process.pid, process.memory, process.smPercent);
  }
  return {EGPU_OK, joined(node.remarks)};
}

sdk::Status processes(sdk::Call& call) {
  std::string why;
  bool absent = false;
  const auto nvml = Library::open(why, absent);
  if (!nvml) return absent ? sdk::ok() : sdk::unavailable(why);
  unsigned count = 0;
  if (const Return answer = Library::call(nvml->nvmlDeviceGetCount_v2, &count); answer != kSuccess)
    return sdk::unavailable("NVIDIA's driver does not count its cards: " + inWords(answer));
  for (unsigned i = 0; i < std::min(count, kMaxCards); ++i) {
    if (call.cancelled()) return sdk::unavailable("NVIDIA's driver is slow");
    std::string uuid;
    std::vector<Process> all;
    if (!readProcesses(*nvml, i, uuid, all)) continue;
    for (const Process& process : all) call.process(uuid, process.pid, process.memory, process.smPercent);
  }
  return sdk::ok();
}

}  // namespace egpu::nvidia

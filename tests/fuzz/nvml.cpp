#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <string>

#include "api/v1alpha/card_object.h"
#include "api/v1alpha/validation.h"
#include "controller/agent/cards/discovery_results.h"
#include "controller/agent/health/health.h"
#include "provisioners/nvidia/node.h"
#include "provisioners/nvidia/watch.h"
#include "tests/fuzz/targets.h"

namespace egpu::testing {

namespace {

using Feed = void (*)(const unsigned char* bytes, std::size_t size);

/// Opens the library under NVML's soname, so that dlopen finds it.
Feed fedNvml() {
  setenv("ELASTICGPU_SYSTEM_ROOT", "/nowhere", 1);  // single-threaded; the kernel's files are not read
  void* library = dlopen(EGPU_FED_NVML "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  promise(library != nullptr, "the library that answers by the bytes is there");
  return reinterpret_cast<Feed>(dlsym(library, "feedNvml"));
}

bool sane(const nvidia::NvmlCard& card) {
  const auto share = [](int64_t percent) { return percent >= -1 && percent <= 100; };
  constexpr int64_t max = int64_t{1} << 50;
  return !card.uuid.empty() && card.memory >= 0 && card.memory <= max && card.memoryUsed >= -1 &&
         card.memoryUsed <= max && share(card.smPercent) &&
         std::all_of(card.processes.begin(), card.processes.end(), [&](const auto& process) {
           return process.pid >= 0 && process.memory >= -1 && process.memory <= max && share(process.smPercent);
         });
}

plugin::Gpu gpuOf(const nvidia::NvmlCard& card) {
  plugin::Gpu out{card.uuid, card.model, card.index, card.memory, card.smCount, card.numaNode, card.pci};
  out.milliTflops = card.milliTflops;
  for (const auto& link : card.links) out.links.push_back({link.peer, link.type, link.count});
  for (const auto& [name, value] : card.attributes) out.attributes.emplace(name, value);
  return out;
}

void published(const nvidia::NodeCards& node) {
  agent::cards::Answers answers;
  auto& answer = answers["nvidia"];
  for (const auto& card : node.cards) answer.cards.gpus.push_back(gpuOf(card));
  const auto found = agent::cards::merge(answers, "n1");
  for (const auto& [name, card] : found.cards) {
    const auto errors = v1alpha::validate(v1alpha::cardObject(card.card));
    promise(errors.empty(), "what is published the API takes");
    promise(name == v1alpha::cardObject(card.card).metadata.name, "a card's object has its name");
  }
}

}  // namespace

void fuzzNvml(std::string_view bytes) {
  static const Feed feed = fedNvml();
  feed(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  nvidia::NodeCards node;
  const auto status = nvidia::readNode([] { return false; }, node);
  promise(status.code == EGPU_OK || !status.message.empty(), "a refusal says why");
  if (status.code != EGPU_OK) return;
  promise(node.cards.size() <= nvidia::kMaxCards, "no more cards than a node has");
  for (auto at = node.cards.begin(); at != node.cards.end(); ++at) {
    promise(sane(*at), "what can't be is unknown");
    const auto same = [&](const auto& other) { return other.uuid == at->uuid; };
    promise(std::none_of(node.cards.begin(), at, same), "a uuid is one card's");
    const auto others = [&](const auto& link) { return link.peer != at->uuid && link.count > 0; };
    promise(std::all_of(at->links.begin(), at->links.end(), others), "links lead to others");
  }
  published(node);
  nvidia::Watch watch;
  watch.follow(node.cards);
  for (int reading = 0; reading < 2; ++reading) {
    auto known = node;
    watch.judge(known);
    for (const auto& card : known.cards)
      promise(card.illness.empty() || agent::health::illness(card.illness).reason != agent::health::kUnhealthy,
              "an illness has its reason at its head");
  }
}

}  // namespace egpu::testing

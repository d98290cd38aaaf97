// Objects as a watch delivers them, for tests that fill stores without an API server.
#pragma once

#include <string>
#include <utility>

#include "api/core/objects.h"
#include "controller/cache/stores.h"

namespace egpu::support {

inline core::Node readyNode(const std::string& name, std::string version) {
  core::Node node;
  node.metadata.name = name;
  node.metadata.uid = "node-" + name;
  node.metadata.resourceVersion = std::move(version);
  node.ready = true;
  return node;
}

/// A card of 1000 bytes whose uuid is its name.
inline cache::Gpu cardOn(const std::string& node, const std::string& name, std::string version) {
  cache::Gpu gpu;
  gpu.metadata.name = name;
  gpu.metadata.uid = "card-" + name;
  gpu.metadata.resourceVersion = std::move(version);
  gpu.spec.card.emplace();
  gpu.spec.card->uuid = name;
  gpu.spec.card->nodeName = node;
  gpu.spec.card->memory = 1000;
  return gpu;
}

}  // namespace egpu::support

// JSON fields of ResourceClaims, of the other kinds of resource.k8s.io, and of PodGroups, declared with the calls that
// fields_core.h lists.
#pragma once

#include <optional>
#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/agent_nodes.h"
#include "controller/codec/fields_core.h"

namespace egpu::codec::internal {

/// Returns a selector that requires the node by matchFields metadata.name. For an empty name, which means any node with
/// an agent, it requires the labels of such nodes.
inline std::optional<core::NodeSelector> selectorOf(const std::string& node) {
  core::NodeSelector selector;
  if (node.empty()) {
    selector.terms.emplace_back().matchExpressions.push_back({v1alpha::kAgentLabel, "In", {"true"}});
    for (const char* label : v1alpha::kGpuNodeLabels)
      selector.terms.emplace_back().matchExpressions = {{label, "In", {"true"}},
                                                        {v1alpha::kAgentLabel, "NotIn", {"false"}}};
    return selector;
  }
  selector.terms.emplace_back().matchFields.push_back({"metadata.name", "In", {node}});
  return selector;
}
/// Returns the node that a selector requires by name, or an empty string.
inline std::string nodeOf(const std::optional<core::NodeSelector>& selector) {
  if (!selector) return {};
  for (const auto& term : selector->terms)
    for (const auto& requirement : term.matchFields)
      if (requirement.key == "metadata.name" && requirement.op == "In" && requirement.values.size() == 1)
        return requirement.values.front();
  return {};
}

void fields(auto& v, Is<core::ResourceClaimAllocation> auto& o) {
  v("allocationTimestamp", o.allocationTimestamp);
  v.objectAlways("devices", [&] {
    v.firstAlways("results", [&] {
      v("request", o.request);
      v("driver", o.driver);
      v("pool", o.pool);
      v("device", o.device);
    });
  });
  v.as("nodeSelector", o.nodeName, selectorOf, nodeOf);
}

void fields(auto& v, Is<core::ResourceClaimConsumer> auto& o) {
  v("resource", o.resource);
  v("name", o.name);
  v("uid", o.uid);
}

void fields(auto& v, Is<core::DeviceConfig> auto& o) {
  v("requests", o.requests);
  v.object("opaque", [&] {
    v("driver", o.driver);
    v.raw("parameters", o.parameters);
  });
}

/// Fields of the spec of a ResourceClaim, and of spec.spec of a ResourceClaimTemplate.
void claimSpecFields(auto& v, auto& o) {
  auto& request = o.request;
  v.object("devices", [&] {
    v.first("requests", request.others, [&] {
      v("name", o.requestName);
      v.raw("firstAvailable", request.alternatives);
      v.object("exactly", [&] {
        v("deviceClassName", o.deviceClassName);
        v.raw("selectors", request.selectors);
        v("allocationMode", request.allocationMode);
        v("count", request.count);
        v("adminAccess", request.adminAccess);
        v.object("capacity", [&] { v.quantities("requests", request.capacity); });
      });
    });
    v("config", o.config);
  });
}

void fields(auto& v, Is<core::ResourceClaim> auto& o) {
  v.objectAlways("spec", [&] { claimSpecFields(v, o); });
  v.object("status", [&] {
    v("allocation", o.allocation);
    v("reservedFor", o.reservedFor);
  });
}

void fields(auto& v, Is<core::ResourceClaimTemplate> auto& o) {
  v.objectAlways("spec", [&] {
    v.object("metadata", [&] {
      v("labels", o.labels);
      v("annotations", o.annotations);
    });
    v.objectAlways("spec", [&] { claimSpecFields(v, o.claim); });
  });
}

void fields(auto& v, Is<core::DeviceClass> auto& o) {
  v.objectAlways("spec",
                 [&] { v.first("selectors", [&] { v.object("cel", [&] { v("expression", o.celSelector); }); }); });
}

void fields(auto& v, Is<core::DeviceTaintRule> auto& o) {
  v.objectAlways("spec", [&] {
    v.object("deviceSelector", o.selects, [&] {
      v("driver", o.driver);
      v("pool", o.pool);
      v("device", o.device);
    });
    v.always("taint", o.taint);
  });
}

void fields(auto& v, Is<core::PodGroup> auto& o) {
  v.objectAlways("spec", [&] {
    v.object("schedulingPolicy", [&] { v.object("gang", [&] { v("minCount", o.minCount); }); });
    v.object("schedulingConstraints", [&] { v.first("topology", [&] { v("key", o.topology); }); });
  });
}

}  // namespace egpu::codec::internal

// Labels of the nodes that run an agent, as in its DaemonSet (manifests/deploy/agent.yaml).
#pragma once

#include <array>

namespace egpu::v1alpha {

/// "true": the node has an agent; "false": it has none, whatever its other labels are.
inline constexpr const char* kAgentLabel = "elasticgpu.io/agent";
/// A node has an agent, too, if one of these labels of node-feature-discovery and NVIDIA is "true".
inline constexpr std::array<const char*, 4> kGpuNodeLabels{
    "feature.node.kubernetes.io/pci-10de.present", "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present", "nvidia.com/gpu.present"};

}  // namespace egpu::v1alpha

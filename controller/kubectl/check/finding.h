// Findings of `check`.
#pragma once

#include <string>
#include <vector>

#include "controller/kubectl/check/inventory.h"

namespace egpu::kubectl {

struct Finding {
  enum class Level {
    error,       ///< claims are not served, or not safely
    warning,     ///< works, but not as it should
    notChecked,  ///< the user may not read an object of the check
  };
  Level level = Level::error;
  std::string check;    ///< name of the check, such as "crd"
  std::string object;   ///< "Kind/name"
  std::string problem;  ///< what is wrong
  std::string fix;      ///< the line that fixes it: a command, or a setting with its place
};
using Findings = std::vector<Finding>;

/// The checks. Each is pure: it reads the inventory, and returns nothing for a kind that could not be read.
Findings checkVersion(const Inventory& inventory);         ///< Kubernetes and kubelets; the APIs of feature gates
Findings checkDefinitions(const Inventory& inventory);     ///< CustomResourceDefinitions, DeviceClass
Findings checkPolicies(const Inventory& inventory);        ///< admission policies and their bindings
Findings checkRights(const Inventory& inventory);          ///< roles and bindings of controller, agents and users
Findings checkController(const Inventory& inventory);      ///< Deployment and Lease
Findings checkAgents(const Inventory& inventory);          ///< one ready agent per GPU node, which publishes cards
Findings checkDrivers(const Inventory& inventory);         ///< driver version, cards in trouble, classes' plugins
Findings checkRuntime(const Inventory& inventory);         ///< container runtime and CDI
Findings checkForeign(const Inventory& inventory);         ///< other device plugins and drivers on our nodes
Findings checkVisibleDevices(const Inventory& inventory);  ///< containers that reach cards without a claim
Findings checkClocks(const Inventory& inventory);          ///< clocks of nodes, controller and this machine
Findings checkCertificates(const Inventory& inventory);    ///< certificates of the kubeconfig, requests of kubelets

/// Runs all checks. Kinds that could not be read are reported with Level::notChecked.
Findings checkAll(const Inventory& inventory);
inline constexpr int kChecks = 12;

/// Names of nodes that have cards of ours, or on which an agent has to run.
std::vector<std::string> gpuNodes(const Inventory& inventory);
bool hasCards(const Inventory& inventory, const std::string& node);

}  // namespace egpu::kubectl

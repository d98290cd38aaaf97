// Objects of a cluster for `check` and `bundle`, by kind, with the kinds that the user may not read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

struct Inventory {
  Json version;                                     ///< version of the API server
  std::map<std::string, std::vector<Json>> lists;   ///< by kind: "Node", …; see kKinds in inventory.cpp
  std::map<std::string, std::string> unreadable;    ///< kind → why it could not be read
  std::vector<std::string> served;                  ///< "resource.k8s.io/v1/resourceclaims", of the groups that matter
  int64_t serverTime = 0, localTime = 0;            ///< seconds since 1970; 0 = unknown
  std::map<std::string, std::string> certificates;  ///< PEM texts of the kubeconfig by field; no keys

  const std::vector<Json>& of(const std::string& kind) const;
  bool isRead(const std::string& kind) const { return unreadable.count(kind) == 0; }
  /// Null if there is none.
  const Json& find(const std::string& kind, const std::string& name, const std::string& space = {}) const;
  bool serves(const std::string& resource) const;
  /// True for the embedded API server, which has no installation.
  bool isStandalone() const;
  /// Minor version of the API server: 34 for v1.34.2. 0 = unknown.
  int minorVersion() const;
};

/// Minor version of a text such as "v1.34.2"; 0 = it is none of version 1.
int minorOf(const std::string& version);

/// Reads all kinds at once. An error means that the API server does not answer.
base::Result<Inventory> takeInventory(const Connection& connection);

}  // namespace egpu::kubectl

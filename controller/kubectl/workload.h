// The pods and claims of manifests, placed one after the other: each sees the capacity that those before it left.
#pragma once

#include <string>
#include <vector>

#include "controller/base/status.h"
#include "controller/kubectl/cluster_mirror.h"
#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

/// Most pods of one file; a controller with more replicas is refused.
inline constexpr int64_t kMaxPods = 1000;

/// Objects of a file. Pods of controllers (pod_sources.h) are expanded to the number of their replicas.
struct Workload {
  std::vector<Json> claims, pods;
  std::vector<Json> templates, classes;  ///< ElasticGPUClaimTemplates, ElasticGPUClasses
  std::vector<std::string> ignored;      ///< notes about objects that need no GPU
  bool hasQuestions = false;             ///< a document without a kind: claim and steps, as for /simulate
  bool hasController = false;
  /// True if there is nothing to place.
  bool isEmpty() const { return !hasQuestions && pods.empty() && claims.empty(); }
  /// True if the objects have to be placed together. Otherwise they are one claim, one pod with its claims, or a
  /// question with steps, for which the controller's code has an answer with more details.
  bool isJoint() const {
    if (hasQuestions) return false;
    return hasController || pods.size() > 1 || (pods.empty() && claims.size() > 1) || !classes.empty() ||
           !templates.empty();
  }
};

/// Reads YAML or JSON, with several documents and Lists. Code::invalid names document and field.
base::Result<Workload> readWorkload(const std::string& body, const std::string& space);

/// The place of one pod, or of a claim that no pod of the file uses.
struct WorkloadPlace {
  std::string kind, name;  ///< "Pod" or "ElasticGPUClaim"; "namespace/name"
  bool fits = false;
  std::string node{};
  std::vector<std::string> cards{};
  std::string message{};  ///< why it does not fit; or a note
};

/// Places all of them in the copy of the cluster, which has them afterwards.
base::Result<std::vector<WorkloadPlace>> placeWorkload(ClusterMirror& mirror, const Workload& workload);

}  // namespace egpu::kubectl

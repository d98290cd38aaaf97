// Finds and reads the configuration of the API server as kubectl does: flag, KUBECONFIG, ~/.kube/config, service
// account.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/kube/config/endpoint.h"
#include "controller/kube/config/environment.h"

namespace egpu::kube {

struct LoadOptions {
  std::string kubeconfig;  ///< flag: this file and no other
  std::string context;     ///< flag: instead of current-context
};

/// One file's text and its path (for relative paths and messages).
struct KubeconfigFile {
  std::string path;
  std::string text;
};

/// Merges files as kubectl does (first wins per name; current-context from the first that sets it) and resolves one
/// context (empty = current). Never throws. Errors are Code::invalid and name file and field. auth-provider (gone from
/// kubectl too) and exec with interactiveMode Always are refused by name.
base::Result<Endpoint> resolveKubeconfig(const std::vector<KubeconfigFile>& files, std::string_view context = {});

/// From the service account folder and KUBERNETES_SERVICE_HOST/_PORT (IPv6 too). Code::notFound outside a cluster.
base::Result<Endpoint> inClusterEndpoint(const Environment& environment);

/// In this order: options.kubeconfig; KUBECONFIG (a list, missing files skipped, one must be there); ~/.kube/config if
/// there; in-cluster. Without a proxy-url, the proxy is that of HTTPS_PROXY or HTTP_PROXY and NO_PROXY (proxy.h).
base::Result<Endpoint> loadEndpoint(const LoadOptions& options, const Environment& environment);

}  // namespace egpu::kube

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
  std::string kubeconfig;  ///< flag: use only this file
  std::string context;     ///< flag: use this context instead of current-context
};

/// Text and path of one file; the path is used for relative paths and messages.
struct KubeconfigFile {
  std::string path;
  std::string text;
};

/// Merges files as kubectl does (the first entry of a name wins; current-context from the first file that sets it) and
/// resolves one context (empty = current). Never throws. Errors are Code::invalid and name file and field. Refuses
/// auth-provider (removed from kubectl too) and exec with interactiveMode Always, by name.
base::Result<Endpoint> resolveKubeconfig(const std::vector<KubeconfigFile>& files, std::string_view context = {});

/// Reads the service account folder and KUBERNETES_SERVICE_HOST/_PORT (IPv6 too). Code::notFound outside a cluster.
base::Result<Endpoint> inClusterEndpoint(const Environment& environment);

/// Uses the first of: options.kubeconfig; KUBECONFIG (a list: skips missing files, at least one must exist);
/// ~/.kube/config if it exists; in-cluster. Without a proxy-url, takes the proxy from HTTPS_PROXY or HTTP_PROXY and
/// NO_PROXY (proxy.h).
base::Result<Endpoint> loadEndpoint(const LoadOptions& options, const Environment& environment);

}  // namespace egpu::kube

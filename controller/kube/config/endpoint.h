// Where the API server is and how to prove who we are: what a kubeconfig or a service account boils down to.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace egpu::kube {

/// users[].user.exec: a program that makes credentials.
struct ExecPlugin {
  std::string apiVersion;  ///< client.authentication.k8s.io/v1 or /v1beta1
  std::string command;     ///< absolute, or a bare name for PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  ///< added to this process's
  bool provideClusterInfo = false;
  std::string installHint;    ///< for people, when the command is missing
  std::string clusterConfig;  ///< JSON of the cluster's extension client.authentication.k8s.io/exec; empty = none
};

/// A value. Where both …Data and …File are there, Data wins. Data is PEM text (already decoded from base64).
struct Endpoint {
  std::string server;          ///< "https://10.0.0.1:6443", possibly with a path prefix; http is allowed
  std::string caData, caFile;  ///< empty both = the system's bundle
  std::string tlsServerName;   ///< name to send and verify; empty = the server's host
  bool insecureSkipTlsVerify = false;
  std::string clientCertificateData, clientCertificateFile;
  std::string clientKeyData, clientKeyFile;
  std::string token;
  std::string tokenFile;           ///< wins over token; read again when older than a minute and on 401
  std::optional<ExecPlugin> exec;  ///< asked only where neither token nor user name is given
  std::string proxyUrl;            ///< http, https or socks5h; empty = directly. From proxy-url or the environment
  std::string configuredProxyUrl;  ///< proxy-url as the kubeconfig gives it, for the plugin
  std::string username, password;
  std::string impersonateUser, impersonateUid;
  std::vector<std::string> impersonateGroups;
  std::vector<std::pair<std::string, std::string>> impersonateExtra;
  std::string namespace_ = "default";  ///< of the context or the service account
  std::string origin;                  ///< for messages: "context dev of /home/u/.kube/config", "in-cluster"
  bool inCluster = false;              ///< from a pod's service account
};

/// The same server, for requests that bring credentials of their own.
inline Endpoint withoutCredentials(Endpoint endpoint) {
  Endpoint to;
  to.server = std::move(endpoint.server);
  to.caData = std::move(endpoint.caData);
  to.caFile = std::move(endpoint.caFile);
  to.tlsServerName = std::move(endpoint.tlsServerName);
  to.insecureSkipTlsVerify = endpoint.insecureSkipTlsVerify;
  to.proxyUrl = std::move(endpoint.proxyUrl);
  to.namespace_ = std::move(endpoint.namespace_);
  to.origin = std::move(endpoint.origin);
  return to;
}

}  // namespace egpu::kube

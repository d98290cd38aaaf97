// The API server's address and the client's credentials, from a kubeconfig or a service account.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace egpu::kube {

/// users[].user.exec: a program that returns credentials.
struct ExecPlugin {
  std::string apiVersion;  ///< client.authentication.k8s.io/v1 or /v1beta1
  std::string command;     ///< absolute, or a bare name to find in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  ///< added to the environment of this process
  bool provideClusterInfo = false;
  std::string installHint;    ///< message for people if the command is missing
  std::string clusterConfig;  ///< JSON of the cluster's extension client.authentication.k8s.io/exec; empty = none
};

/// A value. If both …Data and …File are set, Data takes precedence. Data is PEM text (already decoded from base64).
struct Endpoint {
  std::string server;          ///< "https://10.0.0.1:6443", optionally with a path prefix; http is allowed
  std::string caData, caFile;  ///< both empty = the system's bundle
  std::string tlsServerName;   ///< name to send and verify; empty = the server's host
  bool insecureSkipTlsVerify = false;
  std::string clientCertificateData, clientCertificateFile;
  std::string clientKeyData, clientKeyFile;
  std::string token;
  std::string tokenFile;           ///< takes precedence over token; read again after a minute and on 401
  std::optional<ExecPlugin> exec;  ///< set only if neither token nor user name is given
  std::string proxyUrl;            ///< http, https or socks5h; empty = no proxy. From proxy-url or the environment
  std::string configuredProxyUrl;  ///< proxy-url as in the kubeconfig, for the plugin
  std::string username, password;
  std::string impersonateUser, impersonateUid;
  std::vector<std::string> impersonateGroups;
  std::vector<std::pair<std::string, std::string>> impersonateExtra;
  std::string namespace_ = "default";  ///< namespace of the context or the service account
  std::string origin;                  ///< for messages: "context dev of /home/u/.kube/config", "in-cluster"
  bool inCluster = false;              ///< from a pod's service account
};

/// Returns the endpoint without its credentials, for requests with credentials of their own.
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

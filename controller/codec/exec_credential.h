// Input and output of a credential plugin (client.authentication.k8s.io).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::codec {

/// Cluster information that a plugin with provideClusterInfo receives.
struct ExecCluster {
  std::string server, tlsServerName;
  bool insecureSkipTlsVerify = false;
  std::string certificateAuthorityData;  ///< base64
  std::string proxyUrl;
  std::string config;  ///< JSON of the cluster's extension client.authentication.k8s.io/exec; empty = none
};

/// Returns the value of KUBERNETES_EXEC_INFO: an ExecCredential of that apiVersion, with interactive = false.
std::string encodeExecInfo(std::string_view apiVersion, const std::optional<ExecCluster>& cluster);

/// Status of an ExecCredential: a token, or a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string clientCertificateData, clientKeyData;  ///< PEM
  std::string expirationTimestamp;                   ///< RFC 3339; empty = until the server refuses it
};
/// Decodes the output of a plugin. Fails with Code::malformed if it is not JSON, has another kind or apiVersion, no
/// status, neither token nor certificate, or a certificate without its key or vice versa. The message never quotes the
/// text, which is a secret.
base::Result<ExecCredential> decodeExecCredential(std::string_view json, std::string_view apiVersion);

}  // namespace egpu::codec

// client.authentication.k8s.io: what a credential plugin is told and what it answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/base/status.h"

namespace egpu::codec {

/// The cluster as a plugin with provideClusterInfo is told it.
struct ExecCluster {
  std::string server, tlsServerName;
  bool insecureSkipTlsVerify = false;
  std::string certificateAuthorityData;  ///< base64
  std::string proxyUrl;
  std::string config;  ///< JSON of the cluster's extension client.authentication.k8s.io/exec; empty = none
};

/// KUBERNETES_EXEC_INFO: an ExecCredential of that apiVersion, never interactive.
std::string encodeExecInfo(std::string_view apiVersion, const std::optional<ExecCluster>& cluster);

/// status of an ExecCredential. Either a token or a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string clientCertificateData, clientKeyData;  ///< PEM
  std::string expirationTimestamp;                   ///< RFC 3339; empty = until the server refuses it
};
/// Code::malformed says what is wrong: not JSON, another kind or apiVersion than asked for, no status, neither token
/// nor certificate, half a pair. The text itself is a secret and never quoted.
base::Result<ExecCredential> decodeExecCredential(std::string_view json, std::string_view apiVersion);

}  // namespace egpu::codec

// TokenReview and SubjectAccessReview of the API server: the identity of a token, and what this identity may do.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/status.h"

namespace egpu::codec {

/// authentication.k8s.io/v1 UserInfo.
struct Identity {
  std::string username, uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
};

/// Encodes a TokenReview (authentication.k8s.io/v1).
std::string encodeTokenReview(std::string_view token);
struct TokenVerdict {
  bool authenticated = false;
  Identity user;
  std::string error;  ///< reason why the token is not authenticated or could not be checked
};
base::Result<TokenVerdict> decodeTokenReview(std::string_view json);

/// Encodes a SubjectAccessReview (authorization.k8s.io/v1) of a verb on all objects of a resource. space: in this
/// namespace; empty = in the cluster.
std::string encodeAccessReview(const Identity& user, std::string_view verb, std::string_view group,
                               std::string_view resource, std::string_view space = {});
struct AccessVerdict {
  bool allowed = false;
  std::string reason;
};
base::Result<AccessVerdict> decodeAccessReview(std::string_view json);

}  // namespace egpu::codec

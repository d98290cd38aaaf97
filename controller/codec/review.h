// The API server's reviews: who a token belongs to, and what that caller may do.
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

/// authentication.k8s.io/v1 TokenReview.
std::string encodeTokenReview(std::string_view token);
struct TokenVerdict {
  bool authenticated = false;
  Identity user;
  std::string error;  ///< why not, or why it could not be found out
};
base::Result<TokenVerdict> decodeTokenReview(std::string_view json);

/// authorization.k8s.io/v1 SubjectAccessReview of a verb on all objects of a kind.
std::string encodeAccessReview(const Identity& user, std::string_view verb, std::string_view group,
                               std::string_view resource);
struct AccessVerdict {
  bool allowed = false;
  std::string reason;
};
base::Result<AccessVerdict> decodeAccessReview(std::string_view json);

}  // namespace egpu::codec

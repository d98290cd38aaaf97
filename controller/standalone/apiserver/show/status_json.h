// Errors of this server as metav1.Status, the object that Kubernetes clients expect.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/http/http.h"
#include "controller/standalone/apiserver/kinds/resource.h"
#include "controller/standalone/apiserver/schema/schema.h"

namespace egpu::apiserver {

/// An error response. Thrown only inside the REST layer; Server::handle() converts it to the response.
struct ApiError {
  int code = 500;
  std::string reason, message;
  nlohmann::json details;  ///< null = none
  int retryAfterSeconds = 0;
};

ApiError badRequest(std::string message);
/// what: message for people, such as "pods/log is not served here".
ApiError pathNotFound(std::string_view what = {});
ApiError methodNotAllowed();
ApiError notAcceptable();
ApiError unsupportedMediaType(std::string message);
ApiError tooLargeBody(std::string message);
ApiError notFound(const Resource& resource, std::string_view name);
ApiError alreadyExists(const Resource& resource, std::string_view name);
/// why: "the object has been modified; …"
ApiError conflict(const Resource& resource, std::string_view name, std::string_view why);
ApiError modified(const Resource& resource, std::string_view name);
ApiError forbidden(const Resource& resource, std::string_view name, std::string_view why);
/// 422 with one cause per error.
ApiError invalid(const Resource& resource, std::string_view name, const std::vector<FieldError>& errors);
/// 410: the requested version, or that of a page token, is no longer available.
ApiError expired(std::string message);
/// 504 ResourceVersionTooLarge.
ApiError versionTooLarge(uint64_t asked, uint64_t current);
/// Converts the Status of another module: by its http and reason if set, otherwise by its code.
ApiError fromStatus(const base::Status& status, const Resource& resource, std::string_view name);

nlohmann::json toJson(const ApiError& error);
http::Response toResponse(const ApiError& error);
/// Returns {"kind":"Status","status":"Success",…}, the answer to DELETE and binding.
nlohmann::json successStatus(const Resource* resource, std::string_view name, std::string_view uid);

}  // namespace egpu::apiserver

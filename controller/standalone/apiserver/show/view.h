// Renders objects for responses: complete, as a Table, or only their metadata, in the requested version.
#pragma once

#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/standalone/apiserver/show/table.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {

enum class ObjectForm { plain, table, metadata };

/// Format of a response, from the request's Accept header.
struct Presentation {
  ObjectForm form = ObjectForm::plain;
  std::string tableVersion;  ///< version of meta.k8s.io, for Table and PartialObjectMetadata
  IncludeObject include = IncludeObject::metadata;
  std::string contentType = "application/json";
};
/// Throws ApiError 406 or 400.
Presentation presentationOf(const RequestInfo& call);

/// Returns one object as a response body. columns: see TableOptions.
std::string render(const RequestInfo& call, const Presentation& as, const Object& object, base::Clock& clock,
                   bool columns = true);
/// Returns a list with its metadata (resourceVersion, continue, remainingItemCount) as a response body.
std::string renderList(const RequestInfo& call, const Presentation& as, const std::vector<ObjectPtr>& items,
                       const Json& listMeta, base::Clock& clock);

}  // namespace egpu::apiserver

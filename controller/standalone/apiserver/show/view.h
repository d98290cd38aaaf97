// How an object is shown: as it is, as a Table, or as its metadata only, in the version that was asked for.
#pragma once

#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/standalone/apiserver/show/table.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {

enum class ObjectForm { plain, table, metadata };

/// What a request's Accept header chose. Throws ApiError 406 or 400.
struct Presentation {
  ObjectForm form = ObjectForm::plain;
  std::string tableVersion;  ///< of meta.k8s.io, Table and PartialObjectMetadata
  IncludeObject include = IncludeObject::metadata;
  std::string contentType = "application/json";
};
Presentation presentationOf(const Call& call);

/// One object as a response body. columns: see TableOptions.
std::string render(const Call& call, const Presentation& as, const Object& object, base::Clock& clock,
                   bool columns = true);
/// A list with its metadata (resourceVersion, continue, remainingItemCount).
std::string renderList(const Call& call, const Presentation& as, const std::vector<ObjectPtr>& items,
                       const Json& listMeta, base::Clock& clock);

}  // namespace egpu::apiserver

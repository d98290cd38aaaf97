#include "controller/standalone/apiserver/verbs/patch.h"

#include <optional>
#include <string>
#include <utility>

#include "controller/base/text.h"
#include "controller/standalone/apiserver/schema/schema.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

base::Status failure(int http, std::string reason, std::string message) {
  base::Status status(base::Code::invalid, std::move(message));
  status.http = http;
  status.reason = std::move(reason);
  return status;
}
base::Status badRequest(std::string message) { return failure(400, "BadRequest", std::move(message)); }
// Error for a well-formed JSON patch that can't be applied to the object. A real server has the cause only in the
// details; here it is in the message.
base::Status doesNotApply(const std::string& why) {
  return failure(422, "Invalid", "the server rejected our request due to an error in our request: " + why);
}

using Pointer = Json::json_pointer;

std::optional<Pointer> parsePointer(const std::string& text) {
  try {
    return Pointer(text);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

// Returns the value at the pointer, or null.
const Json* find(const Json& document, const Pointer& at) {
  try {
    return &document.at(at);
  } catch (const Json::exception&) {
    return nullptr;
  }
}

const std::string* textOf(const Json& operation, const char* member) {
  auto it = operation.find(member);
  return it != operation.end() ? it->get_ptr<const std::string*>() : nullptr;
}

class JsonPatch {
 public:
  explicit JsonPatch(const Json& current) : document_(current) {}

  base::Status apply(const Json& operation) {
    if (!operation.is_object()) return badRequest("json patch: an operation is not an object");
    const std::string* op = textOf(operation, "op");
    if (!op) return doesNotApply("Unexpected kind: unknown");
    const std::string* path = textOf(operation, "path");
    if (!path) return doesNotApply(*op + " operation missing path field");
    const auto at = parsePointer(*path);
    if (!at) return doesNotApply(*op + " operation has a malformed path \"" + *path + "\"");
    if (*op == "test") return test(operation, *path, *at);
    if (*op == "move" || *op == "copy") return carry(operation, *op, *path, *at);
    if (*op != "add" && *op != "remove" && *op != "replace") return doesNotApply("Unexpected kind: " + *op);
    if (*op != "remove" && !operation.contains("value"))
      return doesNotApply(*op + " operation does not apply: missing value field for path \"" + *path + "\"");
    return edit(operation, *at) ? base::Status() : missing(*op, *path);
  }

  Json take() { return std::move(document_); }

 private:
  static base::Status missing(const std::string& op, const std::string& path) {
    return doesNotApply(op + " operation does not apply: doc is missing path: \"" + path + "\": missing value");
  }

  // Applies an add, remove or replace. Returns false if it can't be applied. Checks the parent first, because the
  // library would add children to null and requires that the parent is not a scalar.
  bool edit(Json operation, Pointer at) {
    if (!at.empty()) {
      at.pop_back();
      const Json* parent = find(document_, at);
      if (!parent || !parent->is_structured()) return false;
    }
    try {
      document_.patch_inplace(Json::array({std::move(operation)}));
      return true;
    } catch (const Json::exception&) {
      return false;
    }
  }

  // Applies a test. As on a real server, an absent value equals null.
  base::Status test(const Json& operation, const std::string& path, const Pointer& at) const {
    const Json absent;
    const Json* found = find(document_, at);
    if ((found ? *found : absent) == operation.value("value", absent)) return {};
    return doesNotApply("testing value " + path + " failed: test failed");
  }

  // Applies a move or a copy.
  base::Status carry(const Json& operation, const std::string& op, const std::string& path, const Pointer& at) {
    const std::string* from = textOf(operation, "from");
    const auto source = from ? parsePointer(*from) : std::nullopt;
    if (!source) return doesNotApply(op + " operation does not apply: missing or malformed from field");
    const Json* found = find(document_, *source);
    if (!found) return missing(op, *from);
    if (!nestsWithin(*found)) return doesNotApply("the patched object nests too deeply");
    Json add = {{"op", "add"}, {"path", path}, {"value", *found}};
    if (op == "copy") {
      // Repeated copies could otherwise grow the document exponentially with the size of the patch.
      copied_ += found->dump(-1, ' ', false, Json::error_handler_t::replace).size();
      if (copied_ > kMaxPatchBytes)
        return doesNotApply("copy operations exceed the limit of " + std::to_string(kMaxPatchBytes) + " bytes");
    } else {
      if (path.starts_with(*from + "/"))
        return doesNotApply("move operation does not apply: \"" + path + "\" is inside \"" + *from + "\"");
      if (path == *from) return {};
      edit({{"op", "remove"}, {"path", *from}}, *source);
    }
    return edit(std::move(add), at) ? base::Status() : missing(op, path);
  }

  Json document_;
  size_t copied_ = 0;
};

}  // namespace

base::Result<Json> jsonPatch(const Json& current, const Json& operations) {
  if (!operations.is_array()) return badRequest("error decoding patch: a JSON patch is an array of operations");
  if (operations.size() > kMaxPatchOperations)
    return failure(413, "RequestEntityTooLarge",
                   "Request entity is too large: The allowed maximum operations in a JSON patch is " +
                       std::to_string(kMaxPatchOperations) + ", got " + std::to_string(operations.size()));
  JsonPatch patch(current);
  for (const auto& operation : operations)
    if (auto status = patch.apply(operation); !status.ok()) return status;
  return patch.take();
}

base::Result<Json> applyPatch(const Resource& resource, std::string_view contentType, const Json& current,
                              std::string_view body) {
  const std::string_view type = base::trimmed(contentType.substr(0, contentType.find(';')));
  const bool strategic = type == kStrategicMergePatch && !resource.custom;
  if (type != kJsonPatch && type != kMergePatch && !strategic) {
    std::string known = std::string(kJsonPatch) + ", " + std::string(kMergePatch);
    if (!resource.custom) known += ", " + std::string(kStrategicMergePatch);
    std::string message = "the body of the request was in an unknown format - accepted media types include: " + known;
    if (type == kApplyPatch) message = "server-side apply is not served here - accepted media types include: " + known;
    return failure(415, "UnsupportedMediaType", message);
  }
  if (body.size() > kMaxPatchBytes)
    return failure(413, "RequestEntityTooLarge",
                   "Request entity is too large: limit is " + std::to_string(kMaxPatchBytes));
  const Json patch = Json::parse(body, nullptr, false);
  if (patch.is_discarded()) return badRequest("error decoding patch: the body is not valid JSON");
  if (!nestsWithin(patch)) return badRequest("error decoding patch: it nests too deeply");

  auto result = [&]() -> base::Result<Json> {
    if (type == kJsonPatch) return jsonPatch(current, patch);
    if (!patch.is_object())
      return badRequest("error decoding patch: cannot unmarshal a patch that is not a JSON object");
    if (strategic) return strategicMergePatch(current, patch, resource.schema);
    Json merged = current;
    merged.merge_patch(patch);
    return merged;
  }();
  if (!result.ok()) return result;
  if (!result->is_object()) return doesNotApply("the patched object is not an object");
  if (!nestsWithin(*result)) return doesNotApply("the patched object nests too deeply");
  return result;
}

}  // namespace egpu::apiserver

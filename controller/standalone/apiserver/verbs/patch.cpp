#include "controller/standalone/apiserver/verbs/patch.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
// A well-formed JSON patch that does not fit the object. A real server hides the cause among details; here it is in the
// message.
base::Status doesNotApply(const std::string& why) {
  return failure(422, "Invalid", "the server rejected our request due to an error in our request: " + why);
}

using Pointer = std::vector<std::string>;

std::optional<Pointer> parsePointer(const std::string& text) {
  Pointer out;
  if (text.empty()) return out;
  if (text[0] != '/') return std::nullopt;
  for (size_t at = 1; at <= text.size();) {
    size_t end = text.find('/', at);
    if (end == std::string::npos) end = text.size();
    std::string token;
    for (size_t i = at; i < end; ++i) {
      if (text[i] != '~') {
        token += text[i];
      } else if (i + 1 < end && (text[i + 1] == '0' || text[i + 1] == '1')) {
        token += text[++i] == '0' ? '~' : '/';
      } else {
        return std::nullopt;
      }
    }
    out.push_back(std::move(token));
    at = end + 1;
  }
  return out;
}

// An array index without leading zeros; nullopt if `token` is none.
std::optional<size_t> arrayIndex(const std::string& token) {
  size_t index = 0;
  auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
  if (error != std::errc() || end != token.data() + token.size() || (token.size() > 1 && token[0] == '0'))
    return std::nullopt;
  return index;
}

// Null if there is nothing at `pointer`.
Json* resolve(Json& document, const Pointer& pointer, size_t length) {
  Json* at = &document;
  for (size_t i = 0; i < length; ++i) {
    if (at->is_object()) {
      auto it = at->find(pointer[i]);
      if (it == at->end()) return nullptr;
      at = &*it;
    } else if (at->is_array()) {
      auto index = arrayIndex(pointer[i]);
      if (!index || *index >= at->size()) return nullptr;
      at = &(*at)[*index];
    } else {
      return nullptr;
    }
  }
  return at;
}

bool addAt(Json& document, const Pointer& pointer, Json value) {
  if (pointer.empty()) {
    document = std::move(value);
    return true;
  }
  Json* parent = resolve(document, pointer, pointer.size() - 1);
  if (!parent) return false;
  const std::string& last = pointer.back();
  if (parent->is_object()) {
    (*parent)[last] = std::move(value);
    return true;
  }
  if (!parent->is_array()) return false;
  if (last == "-") {
    parent->push_back(std::move(value));
    return true;
  }
  auto index = arrayIndex(last);
  if (!index || *index > parent->size()) return false;
  parent->insert(parent->begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
  return true;
}

bool removeAt(Json& document, const Pointer& pointer) {
  if (pointer.empty() || !resolve(document, pointer, pointer.size())) return false;
  Json* parent = resolve(document, pointer, pointer.size() - 1);
  if (parent->is_object())
    parent->erase(pointer.back());
  else
    parent->erase(*arrayIndex(pointer.back()));
  return true;
}

class JsonPatch {
 public:
  explicit JsonPatch(const Json& current) : document_(current) {}

  base::Status apply(const Json& operation) {
    if (!operation.is_object()) return badRequest("json patch: an operation is not an object");
    auto text = [&](const char* name) -> const std::string* {
      auto it = operation.find(name);
      return it != operation.end() && it->is_string() ? &it->get_ref<const std::string&>() : nullptr;
    };
    const std::string* op = text("op");
    if (!op) return doesNotApply("Unexpected kind: unknown");
    const std::string* path = text("path");
    if (!path) return doesNotApply(*op + " operation missing path field");
    auto at = parsePointer(*path);
    if (!at) return doesNotApply(*op + " operation has a malformed path \"" + *path + "\"");
    auto value = operation.find("value");
    const bool needsValue = *op == "add" || *op == "replace";
    if (needsValue && value == operation.end())
      return doesNotApply(*op + " operation does not apply: missing value field for path \"" + *path + "\"");
    auto missing = [&](const std::string& where) {
      return doesNotApply(*op + " operation does not apply: doc is missing path: \"" + where + "\": missing value");
    };

    if (*op == "add") return addAt(document_, *at, *value) ? base::Status() : missing(*path);
    if (*op == "remove") return removeAt(document_, *at) ? base::Status() : missing(*path);
    if (*op == "replace") {
      Json* target = resolve(document_, *at, at->size());
      if (!target) return missing(*path);
      *target = *value;
      return {};
    }
    if (*op == "test") {
      const Json* target = resolve(document_, *at, at->size());
      const Json want = value == operation.end() ? Json() : *value;
      if (target ? *target == want : want.is_null()) return {};
      return doesNotApply("testing value " + *path + " failed: test failed");
    }
    if (*op != "move" && *op != "copy") return doesNotApply("Unexpected kind: " + *op);

    const std::string* from = text("from");
    auto source = from ? parsePointer(*from) : std::nullopt;
    if (!source) return doesNotApply(*op + " operation does not apply: missing or malformed from field");
    const Json* found = resolve(document_, *source, source->size());
    if (!found) return missing(*from);
    Json moved = *found;
    if (*op == "copy") {
      // Doubling copies would grow the document exponentially in the size of the patch.
      copied_ += moved.dump(-1, ' ', false, Json::error_handler_t::replace).size();
      if (copied_ > kMaxPatchBytes)
        return doesNotApply("copy operations exceed the limit of " + std::to_string(kMaxPatchBytes) + " bytes");
      if (!nestsWithin(moved)) return doesNotApply("the patched object nests too deeply");
    } else {
      if (at->size() > source->size() && std::equal(source->begin(), source->end(), at->begin()))
        return doesNotApply("move operation does not apply: \"" + *path + "\" is inside \"" + *from + "\"");
      removeAt(document_, *source);
    }
    return addAt(document_, *at, std::move(moved)) ? base::Status() : missing(*path);
  }

  Json take() { return std::move(document_); }

 private:
  Json document_;
  size_t copied_ = 0;
};

}  // namespace

void mergePatch(Json& target, const Json& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = Json::object();
  for (const auto& [key, value] : patch.items()) {
    if (value.is_null())
      target.erase(key);
    else
      mergePatch(target[key], value);
  }
}

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
  std::string_view type = contentType.substr(0, contentType.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
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
    mergePatch(merged, patch);
    return merged;
  }();
  if (!result.ok()) return result;
  if (!result->is_object()) return doesNotApply("the patched object is not an object");
  if (!nestsWithin(*result)) return doesNotApply("the patched object nests too deeply");
  return result;
}

}  // namespace egpu::apiserver

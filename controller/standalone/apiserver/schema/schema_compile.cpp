// Compiles OpenAPI JSON to SchemaNodes. Refuses unknown keywords, so that no rule is silently ignored.
#include <array>
#include <string_view>
#include <utility>

#include "controller/standalone/apiserver/schema/schema_node.h"

namespace egpu::apiserver {

using Type = SchemaNode::Type;

namespace {

using Json = nlohmann::json;

// Keywords that do not affect the validation here. api/v1alpha/validation.h implements CEL rules, and
// verbs/strategic_patch.cpp reads patch keys.
constexpr std::array<std::string_view, 10> kIgnored = {"description",
                                                       "title",
                                                       "example",
                                                       "externalDocs",
                                                       "x-kubernetes-validations",
                                                       "x-kubernetes-patch-strategy",
                                                       "x-kubernetes-patch-merge-key",
                                                       "x-kubernetes-map-type",
                                                       "x-kubernetes-embedded-resource",
                                                       "x-kubernetes-group-version-kind"};

std::optional<SchemaNode::Type> typeOf(std::string_view name) {
  if (name == "object") return Type::object;
  if (name == "array") return Type::array;
  if (name == "string") return Type::string;
  if (name == "integer") return Type::integer;
  if (name == "number") return Type::number;
  if (name == "boolean") return Type::boolean;
  return std::nullopt;
}

class Compiler {
 public:
  Compiler(const Json& schema, const std::string& path, std::string& error)
      : schema_(schema), path_(path), error_(error) {}

  std::unique_ptr<SchemaNode> run() {
    if (!schema_.is_object()) return fail("is not an object");
    for (const auto& [key, value] : schema_.items())
      if (!keyword(key, value)) return error_.empty() ? fail("has a malformed " + key) : nullptr;
    if (schema_.contains("anyOf") && !node_->intOrString) return fail("has anyOf without x-kubernetes-int-or-string");
    if (node_->listType == SchemaNode::ListType::map && node_->listMapKeys.empty())
      return fail("has x-kubernetes-list-type map without x-kubernetes-list-map-keys");
    return std::move(node_);
  }

 private:
  std::unique_ptr<SchemaNode> fail(const std::string& what) {
    error_ = "schema " + (path_.empty() ? std::string("root") : path_) + " " + what;
    return nullptr;
  }
  std::string child(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

  static bool count(const Json& value, std::optional<int64_t>& into) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0) return false;
    into = value.get<int64_t>();
    return true;
  }
  static bool flag(const Json& value, bool& into) {
    if (!value.is_boolean()) return false;
    into = value.get<bool>();
    return true;
  }
  static bool strings(const Json& value, std::vector<std::string>& into) {
    if (!value.is_array()) return false;
    for (const auto& v : value) {
      if (!v.is_string()) return false;
      into.push_back(v.get<std::string>());
    }
    return true;
  }
  static bool bound(const Json& value, std::optional<Json>& into) {
    if (!value.is_number()) return false;
    into = value;
    return true;
  }

  bool keyword(const std::string& key, const Json& value) {
    SchemaNode& n = *node_;
    for (auto ignored : kIgnored)
      if (key == ignored) return true;
    if (key == "type") {
      auto type = value.is_string() ? typeOf(value.get_ref<const std::string&>()) : std::nullopt;
      if (!type) return false;
      n.type = *type;
      return true;
    }
    if (key == "format") return format(value);
    if (key == "nullable") return flag(value, n.nullable);
    if (key == "default") return n.defaultValue = value, true;
    if (key == "required") return strings(value, n.required);
    if (key == "enum") {
      if (!value.is_array()) return false;
      n.enumeration.assign(value.begin(), value.end());
      return true;
    }
    if (key == "minimum") return bound(value, n.minimum);
    if (key == "maximum") return bound(value, n.maximum);
    if (key == "exclusiveMinimum") return flag(value, n.exclusiveMinimum);
    if (key == "exclusiveMaximum") return flag(value, n.exclusiveMaximum);
    if (key == "minLength") return count(value, n.minLength);
    if (key == "maxLength") return count(value, n.maxLength);
    if (key == "minItems") return count(value, n.minItems);
    if (key == "maxItems") return count(value, n.maxItems);
    if (key == "minProperties") return count(value, n.minProperties);
    if (key == "maxProperties") return count(value, n.maxProperties);
    if (key == "pattern") return pattern(value);
    if (key == "anyOf") return true;  // run() allows it only with x-kubernetes-int-or-string, where it is usual
    if (key == "properties") return properties(value);
    if (key == "additionalProperties") return additional(value);
    if (key == "items") return bool(n.items = compileNode(value, path_ + "[]", error_));
    if (key == "x-kubernetes-int-or-string") return flag(value, n.intOrString);
    if (key == "x-kubernetes-preserve-unknown-fields") return flag(value, n.preserveUnknown);
    if (key == "x-kubernetes-list-map-keys") return strings(value, n.listMapKeys);
    if (key == "x-kubernetes-list-type") return listType(value);
    fail("has " + key + ", which is not enforced here");
    return false;
  }

  bool format(const Json& value) {
    if (!value.is_string()) return false;
    const auto& name = value.get_ref<const std::string&>();
    if (name == "int32") node_->format = SchemaNode::Format::int32;
    if (name == "int64") node_->format = SchemaNode::Format::int64;
    if (name == "date-time") node_->format = SchemaNode::Format::dateTime;
    if (name == "quantity") node_->format = SchemaNode::Format::quantity;
    return true;  // unknown formats are allowed, as in Kubernetes
  }
  bool pattern(const Json& value) {
    if (!value.is_string()) return false;
    re2::RE2::Options options;
    options.set_log_errors(false);
    node_->pattern = std::make_unique<re2::RE2>(value.get_ref<const std::string&>(), options);
    return node_->pattern->ok();
  }
  bool properties(const Json& value) {
    if (!value.is_object()) return false;
    for (const auto& [name, sub] : value.items())
      if (!(node_->properties[name] = compileNode(sub, child(name), error_))) return false;
    return true;
  }
  bool additional(const Json& value) {
    if (value.is_boolean()) {
      node_->preserveUnknown = node_->preserveUnknown || value.get<bool>();
      return true;
    }
    return bool(node_->additional = compileNode(value, child("*"), error_));
  }
  bool listType(const Json& value) {
    if (value == "atomic") return true;
    if (value == "set") return node_->listType = SchemaNode::ListType::set, true;
    if (value == "map") return node_->listType = SchemaNode::ListType::map, true;
    return false;
  }

  const Json& schema_;
  const std::string& path_;
  std::string& error_;
  std::unique_ptr<SchemaNode> node_ = std::make_unique<SchemaNode>();
};

Json text(const char* description) { return {{"type", "string"}, {"description", description}}; }
Json stringMap(const char* description) {
  return {{"type", "object"}, {"description", description}, {"additionalProperties", {{"type", "string"}}}};
}

Json time(const char* description) {
  return {{"type", "string"}, {"format", "date-time"}, {"description", description}, {"nullable", true}};
}
Json ownerReferences() {
  const Json owner = {
      {"type", "object"},
      {"description", "An object that this one depends on: when all owners are gone, it is deleted."},
      {"required", {"apiVersion", "kind", "name", "uid"}},
      {"properties",
       {{"apiVersion", text("Group and version of the owner.")},
        {"kind", text("Kind of the owner.")},
        {"name", text("Name of the owner, in the same namespace or cluster-scoped.")},
        {"uid", text("Uid of the owner; another object of that name is not the owner.")},
        {"controller",
         {{"type", "boolean"}, {"description", "Whether this owner is the one that controls the object."}}},
        {"blockOwnerDeletion",
         {{"type", "boolean"},
          {"description", "Whether a foreground deletion of the owner waits for this object."}}}}}};
  return {{"type", "array"},
          {"description", "The objects that this one depends on."},
          {"x-kubernetes-list-type", "map"},
          {"x-kubernetes-list-map-keys", {"uid"}},
          {"x-kubernetes-patch-strategy", "merge"},
          {"x-kubernetes-patch-merge-key", "uid"},
          {"items", owner}};
}

}  // namespace

std::unique_ptr<SchemaNode> compileNode(const Json& schema, const std::string& path, std::string& error) {
  return Compiler(schema, path, error).run();
}

const Json& objectMetaSchema() {
  static const Json schema = {
      {"type", "object"},
      {"description",
       "Standard object metadata: name, labels, annotations and what the API server records about the object."},
      {"properties",
       {{"name", text("Unique among the objects of its kind and namespace. Can't be changed.")},
        {"generateName", text("A prefix; the API server completes it to a unique name if name is empty.")},
        {"namespace", text("Where the name is unique; empty for cluster-scoped kinds. Can't be changed.")},
        {"selfLink", text("Not filled in any more.")},
        {"uid", text("Unique over time and space, given by the API server.")},
        {"resourceVersion", text("Changes with every write; a write that carries an old one is refused. Opaque.")},
        {"generation",
         {{"type", "integer"}, {"format", "int64"}, {"description", "Counts changes of the desired state (spec)."}}},
        {"creationTimestamp", time("When the API server made the object.")},
        {"deletionTimestamp",
         time("When deletion was requested; the object is deleted once its finalizers are removed.")},
        {"deletionGracePeriodSeconds",
         {{"type", "integer"},
          {"format", "int64"},
          {"nullable", true},
          {"description", "Seconds that the object has to terminate gracefully."}}},
        {"labels", stringMap("Keys and values to select objects by.")},
        {"annotations", stringMap("Keys and values for tools and people; not selectable.")},
        {"ownerReferences", ownerReferences()},
        {"finalizers",
         {{"type", "array"},
          {"description", "Components that must still clean up before the object is deleted."},
          {"x-kubernetes-list-type", "set"},
          {"x-kubernetes-patch-strategy", "merge"},
          {"items", {{"type", "string"}}}}},
        {"managedFields",
         {{"type", "array"},
          {"description", "Field owners under server-side apply; not stored here."},
          {"items", {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}};
  return schema;
}

base::Result<std::shared_ptr<const Schema>> Schema::compile(const Json& openApi) {
  std::string error;
  auto root = compileNode(openApi, "", error);
  if (!root) return base::Status(base::Code::invalid, error);
  return std::shared_ptr<const Schema>(new Schema(std::move(root)));
}

base::Result<std::shared_ptr<const Schema>> Schema::compileObject(const Json& openApi) {
  if (!openApi.is_object()) return base::Status(base::Code::invalid, "schema root is not an object");
  Json whole = openApi;
  Json& properties = whole["properties"];
  if (properties.is_null()) properties = Json::object();
  if (!properties.is_object()) return base::Status(base::Code::invalid, "schema root has malformed properties");
  for (const char* name : {"apiVersion", "kind"})
    if (!properties.contains(name)) properties[name] = {{"type", "string"}};
  properties["metadata"] = objectMetaSchema();
  return compile(whole);
}

Schema::Schema(std::unique_ptr<SchemaNode> root) : root_(std::move(root)) {}
Schema::~Schema() = default;

}  // namespace egpu::apiserver

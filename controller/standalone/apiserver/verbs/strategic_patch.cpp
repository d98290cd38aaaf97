// Strategic merge patch. Merges lists of objects by a key that the schema names, and lists of scalars as sets.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "controller/standalone/apiserver/verbs/patch.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kDirective = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kOrderPrefix = "$setElementOrder/";
constexpr size_t kMaxListElements = 4096;  // limited, because merging compares all pairs of elements
constexpr std::string_view kDeletePrefix = "$deleteFromPrimitiveList/";

base::Status badPatch(std::string message) {
  base::Status status(base::Code::invalid, std::move(message));
  status.http = 400;
  status.reason = "BadRequest";
  return status;
}

std::string_view suffixAfter(const std::string& key, std::string_view prefix) {
  return key.compare(0, prefix.size(), prefix) == 0 ? std::string_view(key).substr(prefix.size()) : std::string_view();
}

const Json* childSchema(const Json* schema, const std::string& name) {
  if (!schema || !schema->is_object()) return nullptr;
  if (auto p = schema->find("properties"); p != schema->end() && p->is_object())
    if (auto it = p->find(name); it != p->end()) return &*it;
  if (auto a = schema->find("additionalProperties"); a != schema->end() && a->is_object()) return &*a;
  return nullptr;
}
const Json* itemSchema(const Json* schema) {
  if (!schema) return nullptr;
  auto it = schema->find("items");
  return it == schema->end() ? nullptr : &*it;
}
std::string word(const Json* schema, const char* key) {
  if (!schema) return {};
  auto it = schema->find(key);
  return it != schema->end() && it->is_string() ? it->get<std::string>() : std::string();
}
bool hasStrategy(const Json* schema, std::string_view strategy) {
  const std::string all = "," + word(schema, "x-kubernetes-patch-strategy") + ",";
  return all.find("," + std::string(strategy) + ",") != std::string::npos;
}

class Merge {
 public:
  base::Status status;

  void object(Json& target, const Json& patch, const Json* schema) {
    if (!status.ok()) return;
    if (auto it = patch.find(kDirective); it != patch.end()) {
      if (*it == "replace") {
        target = Json::object();
      } else if (*it == "delete") {
        target = Json::object();
        return;
      } else if (*it != "merge") {
        status = badPatch("unknown patch type found: " + it->dump(-1, ' ', false, Json::error_handler_t::replace));
        return;
      }
    }
    if (!target.is_object()) target = Json::object();
    if (!retainKeys(target, patch)) return;
    for (const auto& [key, value] : patch.items()) {
      if (key == kDirective || key == kRetainKeys || !suffixAfter(key, kOrderPrefix).empty()) continue;
      if (auto name = suffixAfter(key, kDeletePrefix); !name.empty()) {
        removeScalars(target, std::string(name), value);
        continue;
      }
      if (value.is_null()) {
        target.erase(key);
        continue;
      }
      const Json* sub = childSchema(schema, key);
      if (value.is_object()) {
        // Merge even into an absent object, because merging removes directives and nulls.
        if (!target.contains(key) || hasStrategy(sub, "replace")) target[key] = Json::object();
        object(target[key], value, sub);
      } else if (value.is_array() && hasStrategy(sub, "merge")) {
        list(target[key], value, sub);
      } else {
        target[key] = value;
      }
      if (!status.ok()) return;
    }
    // Order lists after they are merged. The list itself may be absent from the patch.
    for (const auto& [key, value] : patch.items())
      if (auto name = suffixAfter(key, kOrderPrefix); !name.empty()) {
        auto it = target.find(std::string(name));
        const Json* sub = childSchema(schema, std::string(name));
        if (it == target.end() || !it->is_array() || !value.is_array()) continue;
        if (!bounded(*it, name) || !bounded(value, name)) return;
        order(*it, value, word(sub, "x-kubernetes-patch-merge-key"));
      }
  }

 private:
  bool retainKeys(Json& target, const Json& patch) {
    auto it = patch.find(kRetainKeys);
    if (it == patch.end()) return true;
    if (!it->is_array()) {
      status = badPatch("$retainKeys must be a list of field names");
      return false;
    }
    if (!bounded(*it, kRetainKeys)) return false;
    auto retained = [&](const std::string& key) { return std::find(it->begin(), it->end(), Json(key)) != it->end(); };
    for (const auto& [key, value] : patch.items())
      if (key[0] != '$' && !value.is_null() && !retained(key)) {
        status = badPatch("$retainKeys list doesn't contain all the fields present in the patch: " + key);
        return false;
      }
    for (auto field = target.begin(); field != target.end();)
      field = retained(field.key()) ? std::next(field) : target.erase(field);
    return true;
  }

  bool bounded(const Json& list, std::string_view name) {
    if (list.size() <= kMaxListElements) return true;
    status = badPatch("a list of " + std::to_string(list.size()) + " elements can't be merged, at most " +
                      std::to_string(kMaxListElements) + ": " + std::string(name));
    return false;
  }

  void removeScalars(Json& target, const std::string& name, const Json& gone) {
    auto it = target.find(name);
    if (it == target.end() || !it->is_array() || !gone.is_array()) return;
    if (!bounded(*it, name) || !bounded(gone, name)) return;
    Json remaining = Json::array();
    for (const auto& v : *it)
      if (std::find(gone.begin(), gone.end(), v) == gone.end()) remaining.push_back(v);
    *it = std::move(remaining);
  }

  static Json* findByKey(Json& list, const std::string& mergeKey, const Json& value) {
    for (auto& item : list)
      if (item.is_object() && item.contains(mergeKey) && item[mergeKey] == value) return &item;
    return nullptr;
  }

  void list(Json& target, const Json& patch, const Json* schema) {
    if (!target.is_array()) target = Json::array();
    if (!bounded(target, "in the object") || !bounded(patch, "in the patch")) return;
    const std::string mergeKey = word(schema, "x-kubernetes-patch-merge-key");
    if (mergeKey.empty()) {
      for (const auto& v : patch)
        if (std::find(target.begin(), target.end(), v) == target.end()) target.push_back(v);
      return;
    }
    for (const auto& item : patch)
      if (item.is_object() && item.value(std::string(kDirective), Json()) == "replace") target = Json::array();
    for (const auto& item : patch) {
      if (!item.is_object()) {
        status = badPatch("a list of objects merged by \"" + mergeKey + "\" has an element that is not an object");
        return;
      }
      const Json directive = item.value(std::string(kDirective), Json());
      auto key = item.find(mergeKey);
      if (key == item.end()) {
        if (directive == "replace" || (directive == "delete" && item.size() == 1)) continue;
        status = badPatch("map: " + item.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 256) +
                          " does not contain declared merge key: " + mergeKey);
        return;
      }
      Json* existing = findByKey(target, mergeKey, *key);
      if (directive == "delete") {
        if (existing) target.erase(static_cast<size_t>(existing - &target[0]));
        continue;
      }
      if (!existing) {
        target.push_back(Json::object());
        existing = &target.back();
      }
      object(*existing, item, itemSchema(schema));
      if (!status.ok()) return;
    }
  }

  // Sorts the elements in `wanted` by their order there. Other elements keep their positions relative to their
  // neighbors.
  static void order(Json& list, const Json& wanted, const std::string& mergeKey) {
    auto keyOf = [&](const Json& item) -> Json {
      if (mergeKey.empty()) return item;
      return item.is_object() ? item.value(mergeKey, Json()) : Json();
    };
    std::vector<Json> wantedKeys;
    for (const auto& w : wanted) wantedKeys.push_back(keyOf(w));
    struct RankedItem {
      size_t at;    // index in `list`
      size_t rank;  // index in `wanted`
    };
    std::vector<RankedItem> named, others;
    for (size_t i = 0; i < list.size(); ++i) {
      auto it = std::find(wantedKeys.begin(), wantedKeys.end(), keyOf(list[i]));
      if (it == wantedKeys.end())
        others.push_back({i, 0});
      else
        named.push_back({i, static_cast<size_t>(it - wantedKeys.begin())});
    }
    std::stable_sort(named.begin(), named.end(),
                     [](const RankedItem& a, const RankedItem& b) { return a.rank < b.rank; });
    Json out = Json::array();
    for (size_t i = 0, j = 0; i < named.size() || j < others.size();) {
      const bool takeNamed = j == others.size() || (i < named.size() && named[i].at < others[j].at);
      out.push_back(std::move(list[takeNamed ? named[i++].at : others[j++].at]));
    }
    list = std::move(out);
  }
};

}  // namespace

base::Result<Json> strategicMergePatch(const Json& current, const Json& patch, const Json& schema) {
  Json target = current;
  Merge merge;
  merge.object(target, patch, &schema);
  if (!merge.status.ok()) return merge.status;
  return target;
}

}  // namespace egpu::apiserver

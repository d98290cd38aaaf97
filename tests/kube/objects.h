// JSON of small objects, lists, events and errors as an API server sends them.
#pragma once

#include <string>
#include <vector>

namespace egpu::kube {

inline std::string nodeJson(const std::string& name, const std::string& version) {
  return R"({"apiVersion":"v1","kind":"Node","metadata":{"name":")" + name + R"(","uid":"u-)" + name +
         R"(","resourceVersion":")" + version + R"("}})";
}
inline std::string nodeList(const std::vector<std::string>& items, const std::string& version,
                            const std::string& next = {}) {
  std::string out = R"({"items":[)";  // 1.20 sends items first
  for (std::size_t i = 0; i < items.size(); ++i) out += (i > 0 ? "," : "") + items[i];
  out += R"(],"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":")" + version + "\"";
  if (!next.empty()) out += R"(,"continue":")" + next + "\"";
  return out + "}}";
}
inline std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}";
}
inline std::string bookmark(const std::string& version, bool initialEnd = false) {
  return event("BOOKMARK", R"({"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":")" + version + "\"" +
                               (initialEnd ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "") + "}}");
}
inline std::string statusJson(int code, const std::string& reason, const std::string& cause = {}) {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"said )" + reason +
         R"(","reason":")" + reason + "\"" +
         (cause.empty() ? "" : R"(,"details":{"causes":[{"reason":")" + cause + R"("}]})") + R"(,"code":)" +
         std::to_string(code) + "}";
}

}  // namespace egpu::kube

#include "controller/standalone/apiserver/schema/openapi.h"

#include <gtest/gtest.h>

#include <optional>

#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/schema/crd.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

constexpr const char* kProto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

class OpenApis : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(addBuiltinKinds(table_).ok());
    ASSERT_TRUE(addCustomKinds(table_).ok());
    api_.emplace(table_);
  }
  Json json(const char* path) {
    auto answer = api_->answer(path, "application/json");
    EXPECT_FALSE(answer.body.empty()) << path;
    return Json::parse(answer.body, nullptr, false);
  }
  ResourceTable table_;
  std::optional<OpenApi> api_;
};

// Every $ref must resolve, or kubectl refuses the whole document.
void checkReferences(const Json& value, const Json& document) {
  if (value.is_object())
    if (auto it = value.find("$ref"); it != value.end()) {
      std::string pointer = it->get<std::string>().substr(1);
      EXPECT_TRUE(document.contains(Json::json_pointer(pointer))) << pointer;
    }
  if (value.is_structured())
    for (const auto& child : value) checkReferences(child, document);
}

TEST_F(OpenApis, DescribesEveryKind) {
  const Json v2 = json("/openapi/v2");
  EXPECT_EQ(v2["swagger"], "2.0");
  checkReferences(v2, v2);
  const Json& claim = v2["definitions"]["io.elasticgpu.v1alpha.ElasticGPUClaim"];
  EXPECT_EQ(claim["x-kubernetes-group-version-kind"][0]["kind"], "ElasticGPUClaim");
  EXPECT_EQ(claim["required"], Json::array({"spec"}));
  EXPECT_FALSE(claim["properties"]["spec"]["properties"]["resources"]["description"].get<std::string>().empty());
  const Json& containers =
      v2["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["properties"]["containers"];
  EXPECT_EQ(containers["x-kubernetes-patch-merge-key"], "name");
  EXPECT_FALSE(
      v2["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["properties"]["volumes"]["items"].contains(
          "properties"));
  for (const auto& r : table_.all())
    for (const auto& [name, definition] : v2["definitions"].items())
      if (auto it = definition.find("x-kubernetes-group-version-kind");
          it != definition.end() && (*it)[0]["kind"] == r->kind) {
        EXPECT_FALSE(definition.value("description", "").empty()) << name;
      }
}

TEST_F(OpenApis, IndexesVersion3) {
  const Json index = json("/openapi/v3");
  ASSERT_TRUE(index["paths"].contains("apis/elasticgpu.io/v1alpha"));
  const std::string url = index["paths"]["apis/elasticgpu.io/v1alpha"]["serverRelativeURL"];
  EXPECT_EQ(url.rfind("/openapi/v3/apis/elasticgpu.io/v1alpha?hash=", 0), 0u);
  for (const auto& [key, value] : index["paths"].items()) {
    const Json document = json(("/openapi/v3/" + key).c_str());
    EXPECT_EQ(document["openapi"], "3.0.0");
    checkReferences(document, document);
  }
  const Json v3 = json("/openapi/v3/apis/elasticgpu.io/v1alpha");
  const Json& patch =
      v3["paths"]["/apis/elasticgpu.io/v1alpha/namespaces/{namespace}/elasticgpuclaims/{name}"]["patch"];
  EXPECT_EQ(patch["x-kubernetes-group-version-kind"]["kind"], "ElasticGPUClaim");
  bool validation = false;
  for (const auto& p : patch["parameters"]) validation = validation || p["name"] == "fieldValidation";
  EXPECT_TRUE(validation);
  EXPECT_TRUE(api_->answer("/openapi/v3/apis/none/v1", "").body.empty());
  EXPECT_TRUE(api_->answer("/openapi/v4", "").body.empty());
}

// Parses one protobuf message as far as needed to check its structure: length-delimited fields by number.
std::multimap<int, std::string> fields(const std::string& message) {
  std::multimap<int, std::string> out;
  size_t at = 0;
  auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < message.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message[at++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  };
  while (at < message.size()) {
    const uint64_t tag = varint();
    if ((tag & 7) == 0) {
      out.emplace(static_cast<int>(tag >> 3), std::to_string(varint()));
    } else if ((tag & 7) == 2) {
      const uint64_t size = varint();
      if (size > message.size() - at) {
        ADD_FAILURE() << "a field runs past its message";
        break;
      }
      out.emplace(static_cast<int>(tag >> 3), message.substr(at, size));
      at += size;
    } else {
      ADD_FAILURE() << "unexpected wire type";
      break;
    }
  }
  return out;
}

TEST_F(OpenApis, EncodesVersion2AsProtobuf) {
  auto answer = api_->answer("/openapi/v2", kProto);
  EXPECT_EQ(answer.contentType, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
  auto document = fields(std::string(answer.body));
  EXPECT_EQ(document.find(1)->second, "2.0");
  bool found = false;
  auto definitions = fields(document.find(9)->second);
  EXPECT_EQ(definitions.size(), json("/openapi/v2")["definitions"].size());
  for (const auto& [number, text] : definitions) {
    EXPECT_EQ(number, 1);
    auto named = fields(text);
    if (named.find(1)->second != "io.elasticgpu.v1alpha.ElasticGPUClaim") continue;
    found = true;
    auto schema = fields(named.find(2)->second);
    EXPECT_EQ(fields(schema.find(22)->second).find(1)->second, "object");
    EXPECT_EQ(schema.find(19)->second, "spec");
    EXPECT_EQ(schema.count(25), 1u);
    bool extension = false;
    for (auto [at, end] = schema.equal_range(31); at != end; ++at)
      extension = extension || fields(at->second).find(1)->second == "x-kubernetes-group-version-kind";
    EXPECT_TRUE(extension);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace egpu::apiserver

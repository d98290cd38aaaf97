// Tests rules outside the shared table: names, and amounts that only structs can hold.
#include "api/v1alpha/validation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace egpu::v1alpha {
namespace {

bool names(const FieldErrors& errors, std::string_view field) {
  return std::any_of(errors.begin(), errors.end(), [&](const FieldError& e) { return e.field == field; });
}

TEST(DnsNames, labels) {
  for (const char* good : {"a", "a1", "1a", "a-b", "0"}) EXPECT_TRUE(isDnsLabel(good)) << good;
  for (const char* bad : {"", "-a", "a-", "A", "a.b", "a_b", "a b", "ä"}) EXPECT_FALSE(isDnsLabel(bad)) << bad;
  EXPECT_TRUE(isDnsLabel(std::string(63, 'a')));
  EXPECT_FALSE(isDnsLabel(std::string(64, 'a')));
}

TEST(DnsNames, subdomains) {
  for (const char* good : {"a", "a.b", "gpushare.provisioner.elasticgpu.io", "1.2"})
    EXPECT_TRUE(isDnsSubdomain(good)) << good;
  for (const char* bad : {"", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a/b"}) EXPECT_FALSE(isDnsSubdomain(bad)) << bad;
  EXPECT_TRUE(isDnsSubdomain(std::string(253, 'a')));
  EXPECT_FALSE(isDnsSubdomain(std::string(254, 'a')));
}

ElasticGPU card() {
  ElasticGPU out;
  out.metadata.name = "gpu-1";
  out.spec.card = Card{};
  out.spec.card->uuid = "GPU-1";
  out.spec.card->nodeName = "n1";
  out.spec.card->memory = 1000;
  return out;
}

TEST(Ledger, sumsBeyond64BitsAreOverCommitted) {
  auto object = card();
  object.spec.allocations["a"] = {"egpu-a", "ns/a", INT64_MAX, INT64_MAX};
  object.spec.allocations["b"] = {"egpu-b", "ns/b", INT64_MAX, INT64_MAX};
  const auto errors = validate(object);
  ASSERT_TRUE(names(errors, "spec.allocations"));
  EXPECT_NE(errors[0].message.find("18446744073709551614 milli-cards"), std::string::npos) << errors[0].message;
}

TEST(Ledger, negativeAmountsFreeNoCapacity) {
  auto object = card();
  object.spec.allocations["a"] = {"egpu-a", "ns/a", 1500, 0};
  object.spec.allocations["b"] = {"egpu-b", "ns/b", -500, 0};
  EXPECT_TRUE(names(validate(object), "spec.allocations[b]"));
}

TEST(Classes, everyFieldIsNamed) {
  ElasticGPUClass object;
  object.provisioner = "Not a name";
  object.reclaimPolicy = "Recycle";
  object.bindingMode = "Later";
  const auto errors = validate(object);
  EXPECT_TRUE(names(errors, "provisioner"));
  EXPECT_TRUE(names(errors, "reclaimPolicy"));
  EXPECT_TRUE(names(errors, "egpuBindingMode"));
  object = {};
  object.provisioner = "mock.provisioner.elasticgpu.io";
  EXPECT_TRUE(validate(object).empty());
}

TEST(Claims, updateReportsBrokenRulesOfTheNewObjectToo) {
  ElasticGPUClaim before;
  before.spec.requests = {{"elasticgpu.io/gpu", "1"}};
  ElasticGPUClaim after = before;
  after.spec.requests = {{"elasticgpu.io/gpu", "0"}};
  const auto errors = validateUpdate(before, after);
  EXPECT_TRUE(names(errors, "spec.resources.requests"));
  EXPECT_TRUE(names(errors, "spec.resources.requests[elasticgpu.io/gpu]"));
}

}  // namespace
}  // namespace egpu::v1alpha

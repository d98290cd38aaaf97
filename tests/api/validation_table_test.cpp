// Tests the rules in C++ with the table that also tests the CRDs' rules on a real API server.
#include <gtest/gtest.h>

#include <algorithm>

#include "api/v1alpha/validation.h"
#include "controller/codec/codec.h"
#include "tests/crd/case_table.h"

namespace egpu::v1alpha {
namespace {

using testing::Case;

template <class T>
FieldErrors complaints(const Case& c) {
  const auto after = codec::decode<T>(c.after);
  if (!after) return {{"", "does not decode: " + after.status().str()}};
  if (c.before.empty()) return validate(*after);
  const auto before = codec::decode<T>(c.before);
  if (!before) return {{"", "what stands does not decode: " + before.status().str()}};
  return validateUpdate(*before, *after);
}

FieldErrors complaints(const Case& c) {
  if (c.kind == "ElasticGPU") return complaints<ElasticGPU>(c);
  if (c.kind == "ElasticGPUClaimTemplate") return complaints<ElasticGPUClaimTemplate>(c);
  if (c.kind == "ElasticGPUClaim") return complaints<ElasticGPUClaim>(c);
  if (c.kind == "ElasticGPUQuota") return complaints<ElasticGPUQuota>(c);
  return complaints<ElasticGPUClass>(c);
}

std::string text(const FieldErrors& errors) {
  std::string out;
  for (const auto& error : errors) out += "  " + error.field + ": " + error.message + "\n";
  return out.empty() ? "  nothing\n" : out;
}

TEST(ValidationTable, acceptsWhatTheApiServerAccepts) {
  int seen = 0;
  for (const auto& c : testing::readCases()) {
    if (!c.accept) continue;
    ++seen;
    const auto errors = complaints(c);
    EXPECT_TRUE(errors.empty()) << c.name << "\n" << text(errors) << c.after;
  }
  EXPECT_GT(seen, 50);
}

TEST(ValidationTable, refusesByRuleWhatTheApiServerRefusesByRule) {
  int seen = 0;
  for (const auto& c : testing::readCases()) {
    if (c.accept || !c.rule) continue;
    ++seen;
    const auto errors = complaints(c);
    const bool named = std::any_of(errors.begin(), errors.end(), [&](const FieldError& error) {
      return testing::isAtOrBelow(error.field, c.field) && error.message.find(c.contains) != std::string::npos;
    });
    EXPECT_TRUE(named) << c.name << ": nothing about " << c.field << " that contains \"" << c.contains << "\", but\n"
                       << text(errors) << c.after;
  }
  EXPECT_GT(seen, 80);
}

}  // namespace
}  // namespace egpu::v1alpha

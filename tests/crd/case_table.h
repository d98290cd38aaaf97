// tests/crd/cases.yaml for tests in C++: every case with its objects as JSON text, patches already merged.
#pragma once

#include <string>
#include <vector>

namespace egpu::testing {

struct Case {
  std::string name;
  std::string kind;  ///< ElasticGPU | ElasticGPUClaim | ElasticGPUClaimTemplate | ElasticGPUClass | ElasticGPUQuota
  std::string operation;  ///< create | update | status
  std::string before;     ///< the object that stands, as JSON; empty for a create
  std::string after;      ///< what is written, as JSON
  bool accept = false;
  bool rule = false;     ///< of a refusal: validation.h must see it; else types, bounds, patterns and names do
  std::string field;     ///< the field complained about, or a parent of it
  std::string contains;  ///< a part of the message; may be empty
};

/// The whole table; throws std::runtime_error if it can't be read.
std::vector<Case> readCases();

/// Whether a complaint about `field` answers one expected about `expected`: the same field or one below it, in either
/// way of writing keys ("requests[a/b]", "requests.a/b").
bool isAtOrBelow(const std::string& field, const std::string& expected);

}  // namespace egpu::testing

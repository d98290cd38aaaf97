// Reads tests/crd/cases.yaml for tests in C++: every case with its objects as JSON text, patches already merged.
#pragma once

#include <string>
#include <vector>

namespace egpu::testing {

struct Case {
  std::string name;
  std::string kind;  ///< ElasticGPU | ElasticGPUClaim | ElasticGPUClaimTemplate | ElasticGPUClass | ElasticGPUQuota
  std::string operation;  ///< create | update | status
  std::string before;     ///< the stored object as JSON; empty for a create
  std::string after;      ///< the written object as JSON
  bool accept = false;
  bool rule = false;  ///< a refusal that validation.h must detect; false: types, bounds, patterns and names detect it
  std::string field;  ///< the field in the refusal, or a parent of it
  std::string contains;  ///< a part of the message; may be empty
};

/// Returns the whole table. Throws std::runtime_error if it can't be read.
std::vector<Case> readCases();

/// Returns true if a refusal of `field` matches the expected field: the same field or one below it. Both spellings of
/// keys are accepted ("requests[a/b]", "requests.a/b").
bool isAtOrBelow(const std::string& field, const std::string& expected);

}  // namespace egpu::testing

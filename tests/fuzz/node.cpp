#include <algorithm>

#include "controller/agent/health/foreign_use.h"
#include "controller/agent/health/health.h"
#include "controller/base/printable.h"
#include "tests/fuzz/targets.h"

namespace egpu::testing {

void fuzzNode(std::string_view bytes) {
  const auto pod = agent::health::podOf(bytes);
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; };
  promise(pod.empty() || pod.size() == 36, "a pod's uid has its length");
  promise(std::all_of(pod.begin(), pod.end(), plain), "a pod's uid is hexadecimal");

  const auto illness = agent::health::illness(bytes);
  const auto letter = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  promise(!illness.healthy && !illness.reason.empty() && illness.reason.size() <= 64, "an illness has a reason");
  promise(std::all_of(illness.reason.begin(), illness.reason.end(), letter), "a reason is a word");
  promise(illness.message.size() <= 1024 && !base::hasControls(illness.message), "a message is fit for a condition");
}

}  // namespace egpu::testing

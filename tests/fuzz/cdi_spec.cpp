#include "controller/codec/cdi_spec.h"

#include "tests/fuzz/targets.h"

namespace egpu::testing {

void fuzzCdiSpec(std::string_view bytes) {
  (void)codec::hasRunningContainer(bytes);
  const auto spec = codec::decodeCdiSpec(bytes);
  promise(spec.ok() || !spec.status().message().empty(), "a refusal says why");
  if (!spec) return;
  for (const auto& card : spec->cards)
    promise(card.chargedCore >= 0 && card.chargedMemory >= 0, "no card is charged less than nothing");
  const std::string text = codec::encodeCdiSpec(*spec);
  const auto again = codec::decodeCdiSpec(text);
  promise(again.ok() && codec::encodeCdiSpec(*again) == text, "what was read is written as it was read");
}

}  // namespace egpu::testing

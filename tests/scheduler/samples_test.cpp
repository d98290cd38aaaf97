// The sample classes: each is valid, and every policy, split and preset has one.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "api/v1alpha/validation.h"
#include "controller/base/files.h"
#include "controller/codec/codec.h"
#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler::testing {
namespace {

TEST(Samples, EveryClassIsValidAndEveryPolicyHasOne) {
  std::set<std::string, std::less<>> shown;
  for (const auto& file : std::filesystem::directory_iterator(EGPU_SOURCE_DIR "/manifests/samples/classes")) {
    SCOPED_TRACE(file.path().filename().string());
    const auto json = codec::yamlToJson(*base::readFile(file.path()));
    ASSERT_TRUE(json.ok()) << json.status().message();
    const auto cls = codec::decode<v1alpha::ElasticGPUClass>(*json);
    ASSERT_TRUE(cls.ok()) << cls.status().message();
    EXPECT_EQ(cls->metadata.name + ".yaml", file.path().filename().string());
    EXPECT_TRUE(v1alpha::validate(*cls).empty());
    const std::vector<Refusal> refusals = checkParameters(*cls);
    EXPECT_TRUE(refusals.empty()) << refusals.front().field << ": " << refusals.front().message;
    for (const auto& [key, value] : cls->parameters) shown.insert(key + ' ' + value);
  }
  auto expectShown = [&](const std::string& key, std::string_view name) {
    EXPECT_TRUE(shown.contains(key + ' ' + std::string(name))) << "no sample with " << key << ": " << name;
  };
  for (const std::string_view name : presetNames()) expectShown("preset", name);
  // The presets' samples cover their tiers.
  for (const std::string_view name : nodePolicyNames())
    if (!findPreset(name)) expectShown("nodePolicy", name);
  for (const std::string_view name : cardPolicyNames())
    if (!findPreset(name)) expectShown("cardPolicy", name);
  expectShown("split", "evenly");
  expectShown("split", "fill");
}

}  // namespace
}  // namespace egpu::scheduler::testing

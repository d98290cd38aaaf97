#include "api/v1alpha/pod_amounts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {
namespace {

StringMap annotations(const StringMap& amounts) {
  StringMap all = {{"other/gpu", "1"}, {"egpuc.elasticgpu.io/x", "c"}};
  for (const auto& [what, value] : amounts) all["egpu.elasticgpu.io/" + what] = value;
  return all;
}

std::string nameOf(const StringMap& amounts) { return amountsTemplate(annotations(amounts)); }

TEST(PodAmounts, ANameSpellsThemAndIsReadBack) {
  const std::vector<std::pair<StringMap, std::string>> cases = {
      {{{"gpu", "2"}}, "egpu-amounts.gpu-2"},
      {{{"gpu-core", "10"}, {"gpu-memory", "4Gi"}}, "egpu-amounts.core-10.memory-4-gi"},
      {{{"gpu", "1"}, {"gpu-core", "10"}, {"gpu-memory", "1.5Gi"}, {"class", "a.b-c"}},
       "egpu-amounts.gpu-1.core-10.memory-1-05-gi.class-a.b-c"},
      {{{"gpu-memory", "1e+9"}}, "egpu-amounts.memory-1e-19"},
      {{{"gpu-memory", "1E9"}, {"class", "core-10"}}, "egpu-amounts.memory-1-e9.class-core-10"},
      {{{"gpu-core", "-5"}}, "egpu-amounts.core--25"},
      {{{"gpu-core", "ten"}}, "egpu-amounts.core-ten"},
      {{{"tflops", "12.5"}, {"gpu-memory", "4Gi"}}, "egpu-amounts.memory-4-gi.tflops-12-05"},
  };
  for (const auto& [amounts, name] : cases) {
    EXPECT_EQ(nameOf(amounts), name);
    EXPECT_TRUE(isDnsSubdomain(name)) << name;
    const auto spec = amountsOf(name);
    ASSERT_TRUE(spec) << name;
    EXPECT_EQ(spec->className, amounts.contains("class") ? amounts.at("class") : "");
    EXPECT_EQ(spec->requests.size(), amounts.size() - amounts.count("class"));
    for (const auto& [what, value] : amounts)
      if (what != "class") {
        EXPECT_EQ(spec->requests.at("elasticgpu.io/" + what), value) << name;
      }
  }
  EXPECT_EQ(amountsTemplate({{"egpuc.elasticgpu.io/x", "c"}, {"egpuct.elasticgpu.io/y", "t"}}), "");
}

TEST(PodAmounts, MigInstancesAreSpelledAsANumberAndAProfile) {
  const StringMap amounts = {{"mig", "2x1g.10gb.me"}, {"class", "mig"}};
  const std::string name = "egpu-amounts.mig-2x1g-010gb-0me.class-mig";
  EXPECT_EQ(nameOf(amounts), name);
  const auto spec = amountsOf(name);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->requests, (StringMap{{"elasticgpu.io/mig-1g.10gb.me", "2"}}));
  EXPECT_FALSE(validateAmounts(name));
  EXPECT_FALSE(validateAmounts(annotations(amounts)));
  EXPECT_TRUE(validateAmounts(annotations({{"mig", "9x1g.10gb"}})));
  EXPECT_FALSE(amountsOf("egpu-amounts.mig-1g-010gb"));
}

TEST(PodAmounts, AModelAnIsolationAndAPriorityAreSpelledToo) {
  const StringMap all = {{"gpu-core", "10"},
                         {"model", "NVIDIA A100-SXM4-80GB|Tesla_T4"},
                         {"isolation", "hami-core"},
                         {"priority", "high.prio-1"},
                         {"class", "share"}};
  const std::string name =
      "egpu-amounts.core-10.model--n-v-i-d-i-a-3-a100-2-s-x-m4-280-g-b-6-tesla-4-t4.isolation-hami-2core"
      ".priority-high-0prio-21.class-share";
  EXPECT_EQ(nameOf(all), name);
  EXPECT_TRUE(isDnsSubdomain(name));
  const auto spec = amountsOf(name);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->models, (std::vector<std::string>{"NVIDIA A100-SXM4-80GB", "Tesla_T4"}));
  EXPECT_EQ(spec->isolation, "hami-core");
  EXPECT_EQ(spec->priorityClassName, "high.prio-1");
  EXPECT_EQ(spec->className, "share");
  EXPECT_EQ(spec->requests.size(), 1u);
  EXPECT_FALSE(validateAmounts(annotations(all)));
}

TEST(PodAmounts, DifferentOnesNeverHaveTheSameName) {
  std::mt19937 random(7);
  const std::string letters = "0159.+-eEpPtTgGmMkKinu";
  const auto value = [&] {
    std::string text;
    for (auto n = 1 + random() % 4; n > 0; --n) text += letters[random() % letters.size()];
    return text;
  };
  const std::vector<std::string> classes = {"a", "a.gpu-1", "core-1", "class-a", "a.class-b", "1-gi.class-a"};
  std::map<std::string, StringMap> seen;
  for (int i = 0; i < 20'000; ++i) {
    StringMap amounts;
    for (const auto* what : {"gpu", "gpu-core", "gpu-memory"})
      if (random() % 2 == 0) amounts[what] = value();
    if (amounts.empty()) continue;
    if (random() % 2 == 0) amounts["class"] = classes[random() % classes.size()];
    const auto name = nameOf(amounts);
    ASSERT_TRUE(isDnsSubdomain(name)) << name;
    const auto [it, fresh] = seen.emplace(name, amounts);
    ASSERT_TRUE(fresh || it->second == amounts) << name;
    const auto spec = amountsOf(name);
    ASSERT_TRUE(spec) << name;
    for (const auto& [what, text] : amounts)
      if (what != "class") {
        ASSERT_EQ(spec->requests.at("elasticgpu.io/" + what), text) << name;
      }
  }
}

TEST(PodAmounts, WhatIsNotExactlySoSpellsNothing) {
  for (const auto* name : {"egpu-amounts",
                           "egpu-amounts.",
                           "egpu-amounts.unreadable",
                           "egpu-amounts.class-a",
                           "egpu-amounts.gpu-",
                           "egpu-amounts.core-10.gpu-1",
                           "egpu-amounts.gpu-1.gpu-1",
                           "egpu-amounts.gpu-1.",
                           "egpu-amounts.gpu-1.class-",
                           "egpu-amounts.gpu-1-",
                           "egpu-amounts.gpu-1-3",
                           "egpu-amounts.gpu-1-x",
                           "egpu-amounts.tflops-1.gpu-1",
                           "egpu-amounts.class-a.model-x",
                           "egpu-amounts.model-x",
                           "egpu-amounts.gpu-1.model-",
                           "egpu-amounts.gpu-1.class-A",
                           "egpu-amountsgpu-1",
                           "tenth",
                           ""})
    EXPECT_FALSE(amountsOf(name)) << name;
  EXPECT_FALSE(amountsOf("egpu-amounts.gpu-" + std::string(25, '1')));
  EXPECT_FALSE(amountsOf("egpu-amounts.gpu-1.class-" + std::string(250, 'c')));
  for (const auto* name : {"egpu-amounts.unreadable", "egpu-amounts.gpu-1", "egpu-amounts.x"})
    EXPECT_TRUE(namesAmounts(name)) << name;
  for (const auto* name : {"egpu-amounts", "egpu-amountsx.gpu-1", "tenth"}) EXPECT_FALSE(namesAmounts(name)) << name;
}

TEST(PodAmounts, EveryMistakeNamesItsAnnotation) {
  struct AmountsCase {
    StringMap amounts;
    const char *field, *message;
  };
  const std::vector<AmountsCase> cases = {
      {{{"gpu-core", "ten"}}, "gpu-core", "must be a quantity greater than zero"},
      {{{"gpu-core", "10%"}}, "gpu-core", "must be a quantity greater than zero"},
      {{{"gpu-core", ""}}, "gpu-core", "must be a quantity greater than zero"},
      {{{"gpu-core", "-5"}}, "gpu-core", "must be a quantity greater than zero"},
      {{{"gpu-core", "0.5"}}, "gpu-core", "gpu-core must be a whole number of percent"},
      {{{"gpu", "1.5"}}, "gpu", "gpu must be a whole number of cards"},
      {{{"gpu", "1"}, {"gpu-memory", "4GiB"}}, "gpu-memory", "is no suffix"},
      {{{"gpu-memory", "1.5"}}, "gpu-memory", "gpu-memory must be bytes with a suffix (4Gi)"},
      {{{"gpu-memory", "000000000000000000000000004Gi"}}, "gpu-memory", "at most 24 characters"},
      {{{"gpu-core", "10"}, {"class", "No Class"}}, "class", "is not the name of an ElasticGPUClass"},
      {{{"gpu-core", "10"}, {"class", ""}}, "class", "is not the name of an ElasticGPUClass"},
      {{{"gpu-core", "10"}, {"class", std::string(240, 'c')}}, "class", "too long"},
      {{{"class", "share"}}, "gpu-core", "missing: request gpu, gpu-core, gpu-memory, tflops or mig"},
      {{{"gpu", "1"}, {"memory", "4Gi"}},
       "memory",
       "unknown; known are class, gpu, gpu-core, gpu-memory, tflops, mig, model, isolation and priority"},
      {{{"gpu", "1"}, {"", "4Gi"}}, "", "unknown; known are"},
      {{{"gpu", "1"}, {"model", ""}}, "model", "is empty"},
      {{{"gpu", "1"}, {"model", "A100||T4"}}, "model", "a model has 1 to 253 characters"},
      {{{"gpu", "1"}, {"model", "A100;T4"}}, "model", "letters, digits and"},
      {{{"gpu", "1"}, {"model", std::string(101, 'm')}}, "model", "at most 100 characters"},
      {{{"gpu", "1"}, {"isolation", "MPS"}}, "isolation", "must be a DNS label"},
      {{{"gpu", "1"}, {"priority", "High"}}, "priority", "must be a DNS subdomain"},
      {{{"mig", "1g.10gb"}}, "mig", "such as 2x1g.10gb"},
      {{{"mig", "2x"}}, "mig", "such as 2x1g.10gb"},
      {{{"mig", "2x1g.10gb+me"}}, "mig", "with '.' for '+'"},
      {{{"tflops", "2e6"}}, "tflops", "tflops must be at most 1000000"},
  };
  for (const auto& one : cases) {
    const auto mistake = validateAmounts(annotations(one.amounts));
    ASSERT_TRUE(mistake) << one.message;
    EXPECT_TRUE(mistake->field.starts_with("metadata.annotations[egpu.elasticgpu.io/" + std::string(one.field) + "]"))
        << mistake->field;
    EXPECT_NE(mistake->message.find(one.message), std::string::npos) << mistake->message;
    const auto name = nameOf(one.amounts);
    EXPECT_TRUE(namesAmounts(name)) << name;
    // No template is created for it: the name spells no amounts, or amounts that are a mistake.
    EXPECT_TRUE(validateAmounts(name)) << name;
  }
  EXPECT_FALSE(validateAmounts(annotations({{"gpu-core", "10"}, {"gpu-memory", "4Gi"}, {"class", "share"}})));
  EXPECT_FALSE(validateAmounts(annotations({})));
  EXPECT_FALSE(validateAmounts("egpu-amounts.core-10.class-share"));
}

}  // namespace
}  // namespace egpu::v1alpha

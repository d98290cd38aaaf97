#include "controller/agent/prepare/merge.h"

#include <gtest/gtest.h>

namespace egpu::agent {
namespace {

using Cards = std::vector<plugin::CardShare>;

plugin::CardShare card(const std::string& uuid, int64_t index, int64_t core = 100) {
  return {uuid, "", index, core, 4096LL << 20, 0};
}

ClaimPart share(const std::string& device, const std::string& uuids, Cards cards) {
  return {std::move(cards),
          {{"ELASTICGPU_DEVICE", device},
           {"ELASTICGPU_CARDS", uuids},
           {"ELASTICGPU_CORE_0", "100"},
           {"NVIDIA_VISIBLE_DEVICES", uuids},
           {"ELASTICGPU_ISOLATION", "none"}}};
}

/// Returns the edits of gpushare for one card with isolation hami-core.
ClaimPart hami(const std::string& device, const plugin::CardShare& card, const std::string& memory) {
  auto out = share(device, card.uuid, {card});
  out.env[2].second = std::to_string(card.core);
  out.env.emplace_back("CUDA_DEVICE_MEMORY_LIMIT_0", memory);
  out.env.emplace_back("CUDA_DEVICE_SM_LIMIT", std::to_string(card.core / 10));
  return out;
}

std::string env(const Variables& all, const std::string& name) {
  std::string found;
  for (const auto& [key, value] : all)
    if (key == name) found += found.empty() ? value : " and " + value;
  return found;
}

TEST(Merge, OneClaimStaysAsItsPluginGivesIt) {
  auto one = share("egpu-1", "GPU-2,GPU-1", {card("GPU-2", 2), card("GPU-1", 1)});
  one.env.emplace_back("CUDA_DEVICE_SM_LIMIT", "7");
  EXPECT_EQ(merged({one}), one.env);
}

TEST(Merge, ListsNameTheDevicesOfAllClaimsOnce) {
  const auto all = merged({share("egpu-1", "GPU-1,GPU-2", {card("GPU-1", 0), card("GPU-2", 1)}),
                           share("egpu-2", "GPU-3", {card("GPU-3", 2)}), share("egpu-3", "GPU-1", {card("GPU-1", 0)})});
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-2,GPU-3");
  EXPECT_EQ(env(all, "ELASTICGPU_DEVICE"), "egpu-1,egpu-2,egpu-3");
  EXPECT_EQ(env(all, "ELASTICGPU_ISOLATION"), "none");
}

TEST(Merge, MigInstancesOfAllClaims) {
  const auto claim = [](const std::string& card, const std::string& uuids, const std::string& profile) {
    return ClaimPart{{{card, "", 0, 142, 4096LL << 20, 0}},
                     {{"ELASTICGPU_MIG_INSTANCES", uuids}, {"ELASTICGPU_MIG_PROFILE", profile}}};
  };
  const auto all = merged({claim("GPU-1", "MIG-a,MIG-b", "1g.5gb"), claim("GPU-2", "MIG-c", "2g.10gb")});
  EXPECT_EQ(env(all, "ELASTICGPU_MIG_INSTANCES"), "MIG-a,MIG-b,MIG-c");
  EXPECT_EQ(env(all, "ELASTICGPU_MIG_PROFILE"), "1g.5gb,2g.10gb");
}

TEST(Merge, RemoteGpusOfAllClaims) {
  const auto claim = [](const std::string& endpoint) {
    return ClaimPart{{}, {{"ELASTICGPU_REMOTE_ENDPOINT", endpoint}, {"VENDOR_SERVER", endpoint}}};
  };
  const auto all = merged({claim("10.0.0.2:7000"), claim("10.0.0.1:7000")});
  EXPECT_EQ(env(all, "ELASTICGPU_REMOTE_ENDPOINT"), "10.0.0.2:7000,10.0.0.1:7000");
  EXPECT_EQ(env(all, "VENDOR_SERVER"), "10.0.0.1:7000") << "a variable of the class has one address";
}

TEST(Merge, NumbersGoOnAfterTheCardsOfTheClaimsBefore) {
  auto second = share("egpu-2", "GPU-3", {card("GPU-3", 2)});
  second.env.emplace_back("CUDA_DEVICE_MEMORY_LIMIT_0", "4096m");
  second.env.emplace_back("PORT_8080", "x");
  second.env.emplace_back("REPLICA_7", "x");
  second.env.emplace_back("A_", "x");
  const auto all = merged({share("egpu-1", "GPU-1,GPU-2", {card("GPU-1", 0), card("GPU-2", 1)}), second});
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "100");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_2"), "100");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_2"), "4096m");
  EXPECT_EQ(env(all, "PORT_8080"), "x") << "no card has such a number";
  EXPECT_EQ(env(all, "REPLICA_7"), "x") << "the claim has no such card";
  EXPECT_EQ(env(all, "A_"), "x");
}

TEST(Merge, CardsAreNumberedAsTheNodeDoesWhateverTheClaims) {
  const auto all =
      merged({hami("egpu-1", card("GPU-5", 5, 200), "4096m"), hami("egpu-2", card("GPU-2", 2, 300), "1024m")});
  EXPECT_EQ(env(all, "ELASTICGPU_CARDS"), "GPU-2,GPU-5");
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-2,GPU-5");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_0"), "1024m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_1"), "4096m");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "300");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_1"), "200");
  EXPECT_EQ(env(all, "ELASTICGPU_DEVICE"), "egpu-1,egpu-2");
  EXPECT_EQ(env(all, "CUDA_DEVICE_SM_LIMIT"), "20") << "the smallest";
}

TEST(Merge, CardsAreNumberedByPciAddressWhateverTheirMinorNumbers) {
  auto a = card("GPU-A", 1, 200), b = card("GPU-B", 0, 300), far = card("GPU-FAR", 2);
  a.pciAddress = "0000:01:00.0", b.pciAddress = "0000:41:00.0", far.pciAddress = "10000:01:00.0";
  const auto all = merged({hami("egpu-1", far, "2048m"), hami("egpu-2", b, "1024m"), hami("egpu-3", a, "4096m")});
  EXPECT_EQ(env(all, "ELASTICGPU_CARDS"), "GPU-A,GPU-B,GPU-FAR");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_0"), "4096m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_1"), "1024m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_2"), "2048m");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "200");
}

TEST(Merge, TwoSharesOfOneCardAddUp) {
  const auto all =
      merged({hami("egpu-1", card("GPU-1", 0, 200), "4096m"), hami("egpu-2", card("GPU-1", 0, 300), "2048m")});
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_0"), "6144m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_1"), "") << "the container has one card";
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "500");
  EXPECT_EQ(env(all, "CUDA_DEVICE_SM_LIMIT"), "50");
}

TEST(Merge, NumbersAreThoseOfTheVisibleCardsWhateverTheClaims) {
  auto both = share("egpu-4", "GPU-2,GPU-1", {card("GPU-2", 1, 10), card("GPU-1", 0, 10)});
  both.env.emplace_back("ELASTICGPU_CORE_1", "10");
  const auto all =
      merged({hami("egpu-1", card("GPU-1", 0, 200), "4096m"), hami("egpu-2", card("GPU-1", 0, 300), "2048m"),
              hami("egpu-3", card("GPU-2", 1, 400), "1024m"), both});
  EXPECT_EQ(env(all, "NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-2");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_0"), "6144m");
  EXPECT_EQ(env(all, "CUDA_DEVICE_MEMORY_LIMIT_1"), "1024m") << "GPU-2 is the second that the container sees";
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_0"), "510");
  EXPECT_EQ(env(all, "ELASTICGPU_CORE_1"), "500");
  EXPECT_EQ(env(all, "CUDA_DEVICE_SM_LIMIT"), "41") << "the smallest of the cards' sums";
}

TEST(Merge, TwoSharesOfOneMpsCardAddUp) {
  ClaimPart one{{card("GPU-1", 0, 200)},
                {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4096M"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20"}}};
  ClaimPart two{{card("GPU-1", 0, 250)},
                {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1024M"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"}}};
  const auto all = merged({one, two});
  EXPECT_EQ(env(all, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=5120M");
  EXPECT_EQ(env(all, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "45");
}

TEST(Merge, NothingToAddIsReportedOnlyIfNobodyAdds) {
  const auto with = [](const std::string& first, const std::string& second) {
    return env(merged({{{card("GPU-1", 0)}, {{"NVIDIA_VISIBLE_DEVICES", first}}},
                       {{card("GPU-2", 1)}, {{"NVIDIA_VISIBLE_DEVICES", second}}}}),
               "NVIDIA_VISIBLE_DEVICES");
  };
  EXPECT_EQ(with("void", "void"), "void");
  EXPECT_EQ(with("void", "GPU-2"), "GPU-2");
  EXPECT_EQ(with("GPU-1", "void"), "GPU-1");
}

}  // namespace
}  // namespace egpu::agent

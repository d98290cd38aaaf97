#include "controller/agent/usage/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace egpu::agent::usage {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kGiB = int64_t{1} << 30;

/// The exported gauges, by name and labels.
class Shown final : public base::Metrics {
 public:
  void add(std::string_view, double, const base::MetricLabels&) override {}
  void observe(std::string_view, double, const base::MetricLabels&) override {}
  void set(std::string_view gauge, double value, const base::MetricLabels& labels) override {
    all[keyOf(gauge, labels)] = value;
  }
  void forget(std::string_view gauge, const base::MetricLabels& labels) override {
    EXPECT_EQ(all.erase(keyOf(gauge, labels)), 1u) << keyOf(gauge, labels);
  }
  std::size_t of(const std::string& start) const {
    std::size_t n = 0;
    for (const auto& [name, value] : all) n += name.rfind(start, 0) == 0 ? 1 : 0;
    return n;
  }
  std::map<std::string, double> all;

 private:
  static std::string keyOf(std::string_view gauge, const base::MetricLabels& labels) {
    std::string out(gauge);
    for (const auto& [name, value] : labels) out += " " + name + "=" + value;
    return out;
  }
};

Usage sample() {
  Usage out;
  out.cards = {{"gpu-a", "GPU-A", "A100", 80 * kGiB, {10 * kGiB, 60, 3}, {}}};
  out.claims = {{"ns", "train", "p", "GPU-A", {3 * kGiB, 35, 2}, 400, 4 * kGiB}};
  return out;
}

TEST(SeriesTest, CardsAndClaimsHaveTheLabelsThatJoin) {
  Shown shown;
  Series(shown, "n1").show(sample());
  const std::string card = " Hostname=n1 UUID=GPU-A modelName=A100",
                    claim = " UUID=GPU-A claim=train namespace=ns pod=p";
  EXPECT_EQ(shown.all, (std::map<std::string, double>{
                           {"elasticgpu_card_memory_used_bytes" + card, 10.0 * kGiB},
                           {"elasticgpu_card_sm_utilisation_ratio" + card, 0.6},
                           {"elasticgpu_card_processes" + card, 3},
                           {"elasticgpu_claim_memory_used_bytes" + claim, 3.0 * kGiB},
                           {"elasticgpu_claim_sm_utilisation_ratio" + claim, 0.35},
                           {"elasticgpu_claim_processes" + claim, 2},
                           {"elasticgpu_claim_memory_limit_bytes" + claim, 4.0 * kGiB},
                           {"elasticgpu_claim_core_limit_ratio" + claim, 0.4},
                           {"elasticgpu_claim_series_left_out", 0},
                       }));
}

TEST(SeriesTest, AnInstanceIsNamedUntilItIsDestroyed) {
  Shown shown;
  Series series(shown, "n1");
  series.show({}, {{"GPU-A", "7", "MIG-a", "1g.5gb", "ns", "train"}});
  EXPECT_EQ(shown.all.at("elasticgpu_mig_instance_info GPU_I_ID=7 UUID=GPU-A claim=train mig_uuid=MIG-a namespace=ns "
                         "profile=1g.5gb"),
            1);
  series.show({});
  EXPECT_EQ(shown.of("elasticgpu_mig_instance_info"), 0u);
}

TEST(SeriesTest, WhatHoldsNoMoreDisappears) {
  Shown shown;
  Series series(shown, "n1");
  series.show(sample());
  auto usage = sample();
  usage.claims[0].used = {-1, -1, 1};
  usage.cards[0].used.smPercent = -1;
  series.show(usage);
  EXPECT_EQ(shown.of("elasticgpu_claim_memory_used_bytes"), 0u) << "not known";
  EXPECT_EQ(shown.of("elasticgpu_card_sm"), 0u);
  EXPECT_EQ(shown.of("elasticgpu_claim_processes"), 1u);
  usage.claims.clear();
  series.show(usage);
  EXPECT_EQ(shown.of("elasticgpu_claim_"), 1u) << "but for the number of those left out";
  series.show({});
  EXPECT_EQ(shown.of("elasticgpu_card_"), 0u);
}

TEST(SeriesTest, WhatWasNotAskedForIsNoLimit) {
  Shown shown;
  auto usage = sample();
  usage.claims[0].core = 0;
  Series(shown, "n1").show(usage);
  EXPECT_EQ(shown.of("elasticgpu_claim_core_limit_ratio"), 0u);
  EXPECT_EQ(shown.of("elasticgpu_claim_memory_limit_bytes"), 1u);
}

TEST(SeriesTest, TheirNumberIsBounded) {
  Shown shown;
  Usage usage;
  for (std::size_t i = 0; i < kMaxSeries + 7; ++i)
    usage.claims.push_back({"ns", "c" + std::to_string(i), "p", "GPU-A", {}, 100, kGiB});
  Series series(shown, "n1");
  series.show(usage);
  EXPECT_EQ(shown.of("elasticgpu_claim_processes"), kMaxSeries);
  EXPECT_EQ(shown.all.at("elasticgpu_claim_series_left_out"), 7);
  usage.claims.resize(1);
  series.show(usage);
  EXPECT_EQ(shown.of("elasticgpu_claim_processes"), 1u);
  EXPECT_EQ(shown.all.at("elasticgpu_claim_series_left_out"), 0);
}

}  // namespace
}  // namespace egpu::agent::usage

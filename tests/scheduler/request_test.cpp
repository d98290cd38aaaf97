// Units, class parameters and refused requests (controller/scheduler/request.h).
#include "controller/scheduler/request.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace egpu::scheduler {
namespace {

constexpr int64_t kMi = int64_t{1} << 20;
constexpr int64_t kGi = int64_t{1} << 30;
const std::string kPrefix = "gpushare.provisioner.elasticgpu.io/";

using Requests = std::map<std::string, std::string>;
using Params = std::map<std::string, std::string>;

v1alpha::ElasticGPUClass classWith(const Params& parameters) {
  v1alpha::ElasticGPUClass cls;
  cls.metadata.name = "shares";
  cls.provisioner = "gpushare.provisioner.elasticgpu.io";
  for (const auto& [k, v] : parameters) cls.parameters[k] = v;
  return cls;
}

v1alpha::ElasticGPUClaim claimWith(const Requests& requests) {
  v1alpha::ElasticGPUClaim claim;
  claim.metadata.name = "claim";
  for (const auto& [k, v] : requests) claim.spec.requests[k.find('/') == std::string::npos ? kPrefix + k : k] = v;
  return claim;
}

std::variant<Request, Refusal> make(const Requests& requests, const Params& parameters = {}) {
  return makeRequest(claimWith(requests), classWith(parameters));
}

struct Good {
  const char* what;
  Requests requests;
  Params parameters;
  int64_t cards;
  bool whole;
  Amount perCard;
  bool memoryFromCore;
  int64_t milliTflops;
};

class Units : public ::testing::TestWithParam<Good> {};

TEST_P(Units, BecomeIntegers) {
  const Good& row = GetParam();
  const auto made = make(row.requests, row.parameters);
  ASSERT_TRUE(std::holds_alternative<Request>(made))
      << std::get<Refusal>(made).field << ": " << std::get<Refusal>(made).message;
  const Request& r = std::get<Request>(made);
  EXPECT_EQ(r.cards, row.cards);
  EXPECT_EQ(r.wholeCards, row.whole);
  if (!row.whole) {
    EXPECT_EQ(r.perCard.core, row.perCard.core);
    EXPECT_EQ(r.perCard.memory, row.perCard.memory);
  }
  EXPECT_EQ(r.memoryFromCore, row.memoryFromCore);
  EXPECT_EQ(r.milliTflopsPerCard, row.milliTflops);
}

TEST(UnitsOfMemory, ANumberWithoutAUnitIsRememberedIfItCountsGiB) {
  const auto assumed = [](const std::string& memory, const Params& parameters = {}) {
    return std::get<Request>(make({{"gpu-memory", memory}}, parameters)).memoryAssumedGiB;
  };
  EXPECT_TRUE(assumed("3000"));
  EXPECT_FALSE(assumed("3000Mi"));
  EXPECT_FALSE(assumed("3e3"));
  EXPECT_FALSE(assumed("3000", {{"memoryUnit", "MiB"}}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, Units,
    ::testing::Values(
        Good{"the seed's claim", {{"gpu-core", "10"}, {"gpu-memory", "4"}}, {}, 1, false, {100, 4 * kGi}, false, 0},
        Good{"one percent", {{"gpu-core", "1"}, {"gpu-memory", "1Mi"}}, {}, 1, false, {10, kMi}, false, 0},
        Good{"the group's prefix",
             {{"elasticgpu.io/gpu-core", "10"}, {"elasticgpu.io/gpu-memory", "4Gi"}},
             {},
             1,
             false,
             {100, 4 * kGi},
             false,
             0},
        Good{"both prefixes that agree",
             {{"elasticgpu.io/gpu-core", "10"}, {"gpu-core", "10"}},
             {},
             1,
             false,
             {100, 0},
             true,
             0},
        Good{"core alone", {{"gpu-core", "25"}}, {}, 1, false, {250, 0}, true, 0},
        Good{"memory alone", {{"gpu-memory", "4"}}, {}, 1, false, {0, 4 * kGi}, false, 0},
        Good{"core as an exponent", {{"gpu-core", "1e1"}}, {}, 1, false, {100, 0}, true, 0},
        Good{"a full card's core is a share", {{"gpu-core", "100"}}, {}, 1, false, {1000, 0}, true, 0},
        Good{"two whole cards by core", {{"gpu-core", "200"}}, {}, 2, true, {}, false, 0},
        Good{"two cards by core with their memory",
             {{"gpu-core", "200"}, {"gpu-memory", "64"}},
             {},
             2,
             false,
             {1000, 32 * kGi},
             false,
             0},
        Good{"one whole card", {{"gpu", "1"}}, {}, 1, true, {}, false, 0},
        Good{"eight whole cards", {{"gpu", "8"}}, {}, 8, true, {}, false, 0},
        Good{"half of each of two", {{"gpu", "2"}, {"gpu-core", "50"}}, {}, 2, false, {500, 0}, true, 0},
        Good{"each with memory",
             {{"gpu", "2"}, {"gpu-core", "50"}, {"gpu-memory", "3"}},
             {},
             2,
             false,
             {500, 3 * kGi},
             false,
             0},
        Good{"each with memory only", {{"gpu", "2"}, {"gpu-memory", "3"}}, {}, 2, false, {0, 3 * kGi}, false, 0},
        Good{"tflops", {{"tflops", "20"}}, {}, 1, false, {}, true, 20'000},
        Good{"tflops fraction", {{"tflops", "1.5"}}, {}, 1, false, {}, true, 1500},
        Good{"tflops below one", {{"tflops", "0.5"}}, {}, 1, false, {}, true, 500},
        Good{"tflops in thousandths", {{"tflops", "1234m"}}, {}, 1, false, {}, true, 1234},
        Good{"tflops with memory", {{"tflops", "20"}, {"gpu-memory", "8"}}, {}, 1, false, {0, 8 * kGi}, false, 20'000},
        Good{"tflops of each", {{"gpu", "4"}, {"tflops", "20"}}, {}, 4, false, {}, true, 20'000},
        Good{"bytes", {{"gpu-memory", "1073741824e0"}}, {}, 1, false, {0, kGi}, false, 0},
        Good{"an exponent is bytes", {{"gpu-memory", "4e9"}}, {}, 1, false, {0, 4'000'000'000}, false, 0},
        Good{"a decimal suffix", {{"gpu-memory", "500M"}}, {}, 1, false, {0, 500'000'000}, false, 0},
        Good{"a fraction with a suffix", {{"gpu-memory", "1.5Gi"}}, {}, 1, false, {0, 1536 * kMi}, false, 0},
        Good{"memoryUnit MiB", {{"gpu-memory", "4"}}, {{"memoryUnit", "MiB"}}, 1, false, {0, 4 * kMi}, false, 0},
        Good{"memoryUnit leaves suffixes alone",
             {{"gpu-memory", "4Gi"}},
             {{"memoryUnit", "MiB"}},
             1,
             false,
             {0, 4 * kGi},
             false,
             0}),
    [](const auto& instance) {
      std::string name = instance.param.what;
      for (char& c : name)
        if (!isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

struct Bad {
  const char* what;
  Requests requests;
  const char* reason;
  const char* key;  ///< the field's key, without prefix; empty: the requests as a whole
  std::vector<std::string> message;
};

class RefusedRequest : public ::testing::TestWithParam<Bad> {};

TEST_P(RefusedRequest, NamesTheFieldAndWhatWouldDo) {
  const Bad& row = GetParam();
  const auto made = make(row.requests);
  ASSERT_TRUE(std::holds_alternative<Refusal>(made));
  const Refusal& refusal = std::get<Refusal>(made);
  EXPECT_EQ(refusal.reason, row.reason) << refusal.message;
  const std::string key = row.key;
  const std::string full = key.find('/') == std::string::npos ? kPrefix + key : key;
  EXPECT_EQ(refusal.field, key.empty() ? "spec.resources.requests" : "spec.resources.requests[" + full + "]");
  for (const std::string& part : row.message)
    EXPECT_NE(refusal.message.find(part), std::string::npos) << refusal.message;
}

const char* const kInvalid = "InvalidParameter";
const char* const kNot = "NotRepresentable";

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedRequest,
    ::testing::Values(
        Bad{"core 150", {{"gpu-core", "150"}}, kNot, "gpu-core", {"100", "200"}},
        Bad{"core 101", {{"gpu-core", "101"}}, kNot, "gpu-core", {"100", "200"}},
        Bad{"core 250", {{"gpu-core", "250"}}, kNot, "gpu-core", {"200", "300"}},
        Bad{"core 10.5", {{"gpu-core", "10.5"}}, kNot, "gpu-core", {"10 or 11"}},
        Bad{"core 0.5", {{"gpu-core", "0.5"}}, kNot, "gpu-core", {"nearest: 1"}},
        Bad{"core 500m", {{"gpu-core", "500m"}}, kNot, "gpu-core", {"nearest: 1"}},
        Bad{"core above 100 of each", {{"gpu", "2"}, {"gpu-core", "200"}}, kNot, "gpu-core", {"100"}},
        Bad{"core zero", {{"gpu-core", "0"}}, kInvalid, "gpu-core", {"greater than zero"}},
        Bad{"core negative", {{"gpu-core", "-10"}}, kInvalid, "gpu-core", {"greater than zero"}},
        Bad{"core percent sign", {{"gpu-core", "50%"}}, kInvalid, "gpu-core", {"not a quantity"}},
        Bad{"core absurd", {{"gpu-core", "1e30"}}, kNot, "gpu-core", {"exceeds the maximum"}},
        Bad{"core empty", {{"gpu-core", ""}}, kInvalid, "gpu-core", {"not a quantity"}},
        Bad{"memory 1.5", {{"gpu-memory", "1.5"}}, kNot, "gpu-memory", {"1536Mi", "1 or 2"}},
        Bad{"memory 0.0000000001", {{"gpu-memory", "0.0000000001"}}, kNot, "gpu-memory", {"nearest: 1"}},
        Bad{"memory fraction of a byte", {{"gpu-memory", "1500m"}}, kNot, "gpu-memory", {"1e0 or 2e0"}},
        Bad{"memory 1.1Gi", {{"gpu-memory", "1.1Gi"}}, kNot, "gpu-memory", {"1181116006e0 or 1181116007e0"}},
        Bad{"memory zero", {{"gpu-memory", "0"}}, kInvalid, "gpu-memory", {"greater than zero"}},
        Bad{"memory negative", {{"gpu-memory", "-4Gi"}}, kInvalid, "gpu-memory", {"greater than zero"}},
        Bad{"memory absurd", {{"gpu-memory", "8Ei"}}, kNot, "gpu-memory", {"1Pi"}},
        Bad{"memory absurd in GiB", {{"gpu-memory", "9223372036854775807"}}, kNot, "gpu-memory", {"1Pi"}},
        Bad{"memory wrong unit", {{"gpu-memory", "4GB"}}, kInvalid, "gpu-memory", {"not a quantity"}},
        Bad{"memory not divisible",
            {{"gpu-core", "300"}, {"gpu-memory", "64"}},
            kNot,
            "gpu-memory",
            {"3 cards", "68719476735", "68719476738"}},
        Bad{"gpu fraction", {{"gpu", "1.5"}}, kNot, "gpu", {"1 or 2"}},
        Bad{"gpu zero", {{"gpu", "0"}}, kInvalid, "gpu", {"greater than zero"}},
        Bad{"gpu absurd", {{"gpu", "100000"}}, kNot, "gpu", {"1024"}},
        Bad{"tflops too fine", {{"tflops", "1.2345"}}, kNot, "tflops", {"1.234 or 1.235"}},
        Bad{"tflops next to nothing", {{"tflops", "0.0001"}}, kNot, "tflops", {"nearest: 0.001"}},
        Bad{"tflops absurd", {{"tflops", "1e10"}}, kNot, "tflops", {"the maximum of 1000000000"}},
        Bad{"tflops and core", {{"tflops", "20"}, {"gpu-core", "10"}}, kInvalid, "tflops", {"one of them"}},
        Bad{"unknown key", {{"gpu-cores", "10"}}, kInvalid, "gpu-cores", {"gpu-core", "gpu-memory", "tflops"}},
        Bad{"another provisioner's key", {{"other.io/gpu", "1"}}, kInvalid, "other.io/gpu", {"unknown key"}},
        Bad{"a prefix of the prefix",
            {{"gpushare.provisioner.elasticgpu.io.x/gpu", "1"}},
            kInvalid,
            "gpushare.provisioner.elasticgpu.io.x/gpu",
            {"unknown key"}},
        Bad{"two spellings disagree",
            {{"elasticgpu.io/gpu-core", "10"}, {"gpu-core", "20"}},
            kInvalid,
            "gpu-core",
            {"elasticgpu.io/gpu-core"}},
        Bad{"nothing", {}, kInvalid, "", {"gpu-core"}}),
    [](const auto& instance) {
      std::string name = instance.param.what;
      for (char& c : name)
        if (!isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST(Requests, WhatAMessageOffersIsTaken) {
  for (const char* offered : {"1181116006e0", "1181116007e0"}) {
    const auto made = make({{"gpu-memory", offered}});
    ASSERT_TRUE(std::holds_alternative<Request>(made)) << offered;
    EXPECT_EQ(std::to_string(std::get<Request>(made).perCard.memory) + "e0", offered);
  }
}

TEST(Requests, AMegabyteOfJunkStaysOutOfTheMessage) {
  const auto made = make({{"gpu-core", std::string(1 << 20, 'x')}});
  ASSERT_TRUE(std::holds_alternative<Refusal>(made));
  EXPECT_LT(std::get<Refusal>(made).message.size(), 1000u);
  const auto key = make({{kPrefix + std::string(1 << 20, 'x'), "1"}});
  ASSERT_TRUE(std::holds_alternative<Refusal>(key));
  EXPECT_LT(std::get<Refusal>(key).field.size(), 1000u);
}

TEST(Requests, ANamedCardWithoutRequestsIsTheWholeCard) {
  v1alpha::ElasticGPUClaim claim;
  claim.spec.elasticGPUName = "gpu-1";
  const auto made = makeRequest(claim, classWith({}));
  ASSERT_TRUE(std::holds_alternative<Request>(made));
  EXPECT_TRUE(std::get<Request>(made).wholeCards);
  EXPECT_EQ(std::get<Request>(made).cards, 1);
  EXPECT_TRUE(std::get<Request>(made).pinnedCards.empty()) << "the caller knows whether it is a card";
}

TEST(Parameters, AreRead) {
  const auto made = make({{"gpu-core", "10"}}, {{"nodePolicy", "spread"},
                                                {"cardPolicy", "spread"},
                                                {"split", "none"},
                                                {"coreOvercommit", "1.5"},
                                                {"memoryOvercommit", "2.125"},
                                                {"maxClaimsPerCard", "4"},
                                                {"maxClaimsPerNode", "0"},
                                                {"model", "V100|A100 80GB"},
                                                {"minMemory", "16"},
                                                {"isolation", "the provisioner's own"}});
  ASSERT_TRUE(std::holds_alternative<Request>(made)) << std::get<Refusal>(made).message;
  const Request& r = std::get<Request>(made);
  EXPECT_EQ(r.nodePolicy, "spread");
  EXPECT_EQ(r.cardPolicy, "spread");
  EXPECT_EQ(r.coreOvercommit, 1500);
  EXPECT_EQ(r.memoryOvercommit, 2125);
  EXPECT_EQ(r.maxClaimsPerCard, 4);
  EXPECT_EQ(r.maxClaimsPerNode, 0);
  EXPECT_EQ(r.models, (std::vector<std::string>{"V100", "A100 80GB"}));
  EXPECT_EQ(r.minMemory, 16 * kGi);
}

TEST(Requests, AClaimNarrowsTheModelsOfItsClass) {
  v1alpha::ElasticGPUClaim claim;
  claim.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  claim.spec.models = {"T4", "V100"};
  EXPECT_EQ(std::get<Request>(makeRequest(claim, classWith({}))).models, (std::vector<std::string>{"T4", "V100"}));
  EXPECT_EQ(std::get<Request>(makeRequest(claim, classWith({{"model", "V100|A100"}}))).models,
            std::vector<std::string>{"V100"});
  const auto refusal = std::get<Refusal>(makeRequest(claim, classWith({{"model", "A100|H100"}})));
  EXPECT_EQ(refusal.field, "spec.models");
  EXPECT_NE(refusal.message.find("it allows A100, H100"), std::string::npos) << refusal.message;
}

TEST(Requests, AClaimMayRequireTheIsolationOfItsClass) {
  v1alpha::ElasticGPUClaim claim;
  claim.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  claim.spec.isolation = "mps";
  EXPECT_TRUE(std::holds_alternative<Request>(makeRequest(claim, classWith({{"isolation", "mps"}}))));
  for (const Params& parameters : {Params{}, Params{{"isolation", "hami-core"}}}) {
    const auto refusal = std::get<Refusal>(makeRequest(claim, classWith(parameters)));
    EXPECT_EQ(refusal.field, "spec.isolation");
    EXPECT_NE(refusal.message.find("provides " + (parameters.empty() ? "none" : parameters.at("isolation"))),
              std::string::npos)
        << refusal.message;
  }
  claim.spec.requests = {{"elasticgpu.io/gpu", "1"}};
  EXPECT_TRUE(std::holds_alternative<Request>(makeRequest(claim, classWith({}))))
      << "a whole card is shared with nobody";
  claim.spec.isolation = "none";
  claim.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  EXPECT_TRUE(std::holds_alternative<Request>(makeRequest(claim, classWith({}))));
}

TEST(Parameters, APresetIsAPairOfPoliciesAndExcludesThem) {
  const std::map<std::string, std::pair<std::string, std::string>> pairs{
      {"compact-first", {"compact-first", "compact-first"}},
      {"low-load-first", {"low-load-first", "low-load-first"}},
      {"node-compact-gpu-low-load", {"compact-first", "low-load-first"}}};
  for (const auto& [preset, policies] : pairs) {
    const auto made = make({{"gpu-core", "10"}}, {{"preset", preset}});
    ASSERT_TRUE(std::holds_alternative<Request>(made)) << std::get<Refusal>(made).message;
    EXPECT_EQ(std::get<Request>(made).nodePolicy, policies.first);
    EXPECT_EQ(std::get<Request>(made).cardPolicy, policies.second);
    for (const char* tier : {"nodePolicy", "cardPolicy"}) {
      const auto refusals = checkParameters(classWith({{"preset", preset}, {tier, "spread"}}));
      ASSERT_EQ(refusals.size(), 1u);
      EXPECT_EQ(refusals[0].field, "parameters[preset]");
      EXPECT_NE(refusals[0].message.find("either"), std::string::npos);
    }
  }
}

TEST(Parameters, WeightsOfTheLoadScoresAddUpToOne) {
  struct Row {
    Params parameters;
    int64_t memory;
  };
  const Row rows[] = {{{{"preset", "compact-first"}}, 700},
                      {{{"preset", "compact-first"}, {"memoryWeight", "0.25"}, {"tflopsWeight", "0.75"}}, 250},
                      {{{"nodePolicy", "low-load-first"}, {"memoryWeight", "0.125"}}, 125},
                      {{{"cardPolicy", "compact-first"}, {"tflopsWeight", "1"}}, 0},
                      {{{"cardPolicy", "low-load-first"}, {"memoryWeight", "1.000"}, {"tflopsWeight", "0"}}, 1000}};
  for (const Row& row : rows) {
    const auto made = make({{"gpu-core", "10"}}, row.parameters);
    ASSERT_TRUE(std::holds_alternative<Request>(made)) << std::get<Refusal>(made).message;
    EXPECT_EQ(std::get<Request>(made).memoryWeight, row.memory);
  }
}

TEST(Parameters, WeightsThatMeanNothingAreRefused) {
  struct Row {
    Params parameters;
    const char* field;
    const char* message;
  };
  const Row rows[] = {
      {{{"preset", "compact-first"}, {"memoryWeight", "1.001"}}, "memoryWeight", "from 0 to 1"},
      {{{"preset", "compact-first"}, {"memoryWeight", "0.7125"}}, "memoryWeight", "three places"},
      {{{"preset", "compact-first"}, {"tflopsWeight", "30%"}}, "tflopsWeight", "such as 0.7"},
      {{{"preset", "compact-first"}, {"tflopsWeight", "99999999999999999999"}}, "tflopsWeight", "from 0 to 1"},
      {{{"preset", "compact-first"}, {"memoryWeight", "0.7"}, {"tflopsWeight", "0.4"}}, "memoryWeight", "here 0.6;"},
      {{{"memoryWeight", "0.5"}}, "memoryWeight", "neither nodePolicy binpack nor cardPolicy binpack"},
      {{{"nodePolicy", "fragmentation"}, {"tflopsWeight", "0.5"}}, "tflopsWeight", "compact-first, low-load-first"}};
  for (const Row& row : rows) {
    const auto made = make({{"gpu-core", "10"}}, row.parameters);
    ASSERT_TRUE(std::holds_alternative<Refusal>(made)) << row.message;
    const Refusal& refusal = std::get<Refusal>(made);
    EXPECT_EQ(refusal.reason, "InvalidParameter");
    EXPECT_EQ(refusal.field, "parameters[" + std::string(row.field) + "]");
    EXPECT_NE(refusal.message.find(row.message), std::string::npos) << refusal.message;
  }
  EXPECT_EQ(checkParameters(classWith({{"nodePolicy", "x"}, {"memoryWeight", "1"}})).size(), 1u) << "said once";
}

v1alpha::ElasticGPUClaim choosing(const Params& annotations) {
  auto claim = claimWith({{"gpu-core", "10"}});
  for (const auto& [k, v] : annotations) claim.metadata.annotations["elasticgpu.io/" + k] = v;
  return claim;
}

TEST(ClaimPolicies, AreTheClaimsWhereItsClassAllowsIt) {
  const auto cls = classWith({{"nodePolicy", "spread"}, {"cardPolicy", "simple"}, {"claimPolicies", "true"}});
  const auto policies = [&](const Params& annotations) {
    const auto made = makeRequest(choosing(annotations), cls);
    if (const auto* refusal = std::get_if<Refusal>(&made)) return refusal->message;
    return std::get<Request>(made).nodePolicy + '/' + std::get<Request>(made).cardPolicy;
  };
  EXPECT_EQ(policies({}), "spread/simple");
  EXPECT_EQ(policies({{"node-policy", "fragmentation"}}), "fragmentation/simple");
  EXPECT_EQ(policies({{"card-policy", "low-load-first"}}), "spread/low-load-first");
  EXPECT_EQ(policies({{"node-policy", "binpack"}, {"card-policy", "topology"}}), "binpack/topology");
  const auto dgx = classWith({{"static", "dgx2"}, {"claimPolicies", "true"}});
  EXPECT_EQ(std::get<Request>(makeRequest(choosing({{"card-policy", "static"}}), dgx)).cardPolicy, "static dgx2");
  EXPECT_EQ(std::get<Request>(makeRequest(choosing({{"card-policy", "spread"}}), dgx)).cardPolicy, "spread");
  const auto weighed = classWith({{"memoryWeight", "0.5"}, {"claimPolicies", "true"}});
  EXPECT_EQ(std::get<Request>(makeRequest(choosing({{"node-policy", "compact-first"}}), weighed)).memoryWeight, 500);
}

TEST(ClaimPolicies, AreRefusedWhereNoneMayChooseOrNoneIsKnown) {
  const auto refused = [](const Params& parameters, const Params& annotations) {
    const auto made = makeRequest(choosing(annotations), classWith(parameters));
    return std::holds_alternative<Refusal>(made) ? std::get<Refusal>(made) : Refusal{};
  };
  for (const Params& parameters : {Params{}, Params{{"claimPolicies", "false"}}, Params{{"nodePolicy", "spread"}}}) {
    const Refusal node = refused(parameters, {{"node-policy", "spread"}});
    EXPECT_EQ(node.reason, "InvalidParameter");
    EXPECT_EQ(node.field, "metadata.annotations[elasticgpu.io/node-policy]");
    EXPECT_NE(node.message.find("claimPolicies: \"true\""), std::string::npos) << node.message;
    EXPECT_EQ(refused(parameters, {{"card-policy", "spread"}}).field,
              "metadata.annotations[elasticgpu.io/card-policy]");
  }
  const Params may{{"claimPolicies", "true"}};
  EXPECT_NE(
      refused(may, {{"node-policy", "tetris"}}).message.find("\"tetris\": unknown; known: binpack, compact-first"),
      std::string::npos);
  EXPECT_NE(refused(may, {{"card-policy", ""}}).message.find("known: binpack"), std::string::npos);
  EXPECT_NE(refused(may, {{"card-policy", "static dgx2"}}).message.find("known: binpack"), std::string::npos)
      << "which machine it is the class says";
  EXPECT_NE(refused(may, {{"node-policy", "node-compact-gpu-low-load"}}).message.find("unknown"), std::string::npos);
  const auto refusals = checkParameters(classWith({{"claimPolicies", "yes"}}));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_NE(refusals[0].message.find("known: true, false"), std::string::npos);
}

TEST(Split, TotalsNeedNotBeWholeCards) {
  for (const char* split : {"evenly", "fill"}) {
    const auto made = make({{"gpu-core", "150"}, {"gpu-memory", "7"}}, {{"split", split}});
    ASSERT_TRUE(std::holds_alternative<Request>(made)) << std::get<Refusal>(made).message;
    const Request& r = std::get<Request>(made);
    EXPECT_EQ(r.split, split == std::string("fill") ? Split::fill : Split::evenly);
    EXPECT_EQ(r.cards, 1);
    EXPECT_FALSE(r.wholeCards);
    EXPECT_EQ(r.perCard, (Amount{1500, 7 * kGi})) << "the total";
    EXPECT_EQ(std::get<Request>(make({{"gpu-core", "200"}}, {{"split", split}})).perCard.core, 2000)
        << "two cards' worth, on however many";
    const Request each = std::get<Request>(make({{"gpu", "2"}, {"gpu-core", "50"}}, {{"split", split}}));
    EXPECT_EQ(each.split, Split::none) << "gpu says how much of each card";
    EXPECT_EQ(each.cards, 2);
  }
  const Params evenly{{"split", "evenly"}};
  const auto message = [&](const Requests& requests) { return std::get<Refusal>(make(requests, evenly)).message; };
  EXPECT_NE(message({{"gpu-core", "150.5"}}).find("150 or 151"), std::string::npos);
  EXPECT_NE(message({{"gpu-core", "1601"}}).find("the maximum of 1600"), std::string::npos);
  EXPECT_NE(message({{"gpu", "2"}, {"gpu-core", "150"}}).find("nearest: 100"), std::string::npos);
}

TEST(Parameters, DefaultToBinpack) {
  const auto made = make({{"gpu-core", "10"}});
  EXPECT_EQ(std::get<Request>(made).nodePolicy, "binpack");
  EXPECT_EQ(std::get<Request>(made).cardPolicy, "binpack");
}

TEST(Parameters, MinMemoryFollowsTheUnitWhateverTheOrder) {
  const auto made = make({{"gpu-core", "10"}}, {{"memoryUnit", "MiB"}, {"minMemory", "16384"}});
  EXPECT_EQ(std::get<Request>(made).minMemory, 16 * kGi);
}

TEST(Parameters, UnknownValuesAreRefusedWithTheKnownOnes) {
  struct Row {
    const char* key;
    const char* value;
    const char* message;
  };
  const Row rows[] = {
      {"nodePolicy", "tetris", "binpack, compact-first, "},
      {"nodePolicy", "", "binpack, compact-first, "},
      {"preset", "compact", "known: compact-first, low-load-first, node-compact-gpu-low-load"},
      {"cardPolicy", "Binpack", "binpack, compact-first, low-load-first, simple, spread, static, topology"},
      {"split", "even", "known: none, evenly, fill"},
      {"split", "", "known: none, evenly, fill"},
      {"memoryUnit", "GB", "GiB, MiB"},
      {"coreOvercommit", "0.5", "from 1"},
      {"coreOvercommit", "1.2345", "three places"},
      {"coreOvercommit", "1.", "decimal"},
      {"coreOvercommit", "-2", "decimal"},
      {"memoryOvercommit", "2x", "decimal"},
      {"memoryOvercommit", "99999999999999999999", "1000"},
      {"maxClaimsPerCard", "-1", "whole number"},
      {"maxClaimsPerCard", "1.5", "whole number"},
      {"maxClaimsPerNode", "many", "whole number"},
      {"model", "", "|"},
      {"model", "V100|", "|"},
      {"minMemory", "1.5", "nearest"},
      {"minMemory", "0", "greater than zero"},
      {"minMemory", "4GB", "GB is no suffix: G or Gi"},
      {"cardPolicy", "static dgx2", "known: binpack"},
      {"preemptible", "yes", "known: true, false"},
      {"movable", "True", "known: true, false"},
      {"hostPaths", "/dev/vendor*, rel", "\"rel\" is neither an absolute path"},
      {"hostPaths", "/a,,/b", "\"\" is neither an absolute path"},
      {"hostPaths", "/a/../b", "nor a CDI device"},
      {"static", "dgx3", "known: dgx1-pascal, dgx1-volta, dgx2"},
      {"static", "", "known: dgx1-pascal, dgx1-volta, dgx2"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.key) + "=" + row.value);
    const auto refusals = checkParameters(classWith({{row.key, row.value}}));
    ASSERT_EQ(refusals.size(), 1u);
    EXPECT_EQ(refusals[0].reason, "InvalidParameter");
    EXPECT_EQ(refusals[0].field, "parameters[" + std::string(row.key) + "]");
    EXPECT_NE(refusals[0].message.find(row.message), std::string::npos) << refusals[0].message;
    const auto made = make({{"gpu-core", "10"}}, {{row.key, row.value}});
    ASSERT_TRUE(std::holds_alternative<Refusal>(made)) << "a claim of such a class is refused with it";
    EXPECT_EQ(std::get<Refusal>(made), refusals[0]);
  }
}

TEST(Parameters, AStaticMachineIsACardPolicy) {
  EXPECT_TRUE(checkParameters(classWith({{"static", "dgx1-volta"}})).empty());
  EXPECT_TRUE(checkParameters(classWith({{"static", "dgx1-volta"}, {"cardPolicy", "static"}})).empty());
  EXPECT_EQ(checkParameters(classWith({{"static", "dgx1-volta"}, {"cardPolicy", "binpack"}})).size(), 1u);
  EXPECT_EQ(checkParameters(classWith({{"static", "dgx1-volta"}, {"preset", "compact-first"}})).size(), 1u);
}

TEST(Parameters, WhatThePluginMayGiveOfTheHostIsForItsAgents) {
  const auto made = make({{"gpu-core", "10"}}, {{"hostPaths", "/dev/vendor*, /opt/vendor/, vendor.com/x=*"}});
  EXPECT_EQ(std::get<Request>(made), std::get<Request>(make({{"gpu-core", "10"}}, {})));
}

TEST(Parameters, EveryFaultIsListed) {
  EXPECT_EQ(checkParameters(classWith({{"nodePolicy", "x"}, {"cardPolicy", "y"}, {"split", "z"}})).size(), 3u);
  EXPECT_TRUE(checkParameters(classWith({{"vendor.example/anything", "x"}})).empty());
}

}  // namespace
}  // namespace egpu::scheduler

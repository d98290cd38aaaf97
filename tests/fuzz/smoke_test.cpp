// Runs every fuzz target on its corpus and on seeded mutations of it, under the compiler and sanitizers of the tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "tests/fuzz/targets.h"

namespace egpu::testing {
namespace {

struct Target {
  const char* name;
  void (*run)(std::string_view);
};
std::ostream& operator<<(std::ostream& out, const Target& target) { return out << target.name; }

std::vector<std::string> corpus(const std::string& name) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(EGPU_SOURCE_DIR) + "/tests/fuzz/corpus/" + name))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    out.push_back(text.str());
  }
  return out;
}

std::string mutated(std::string text, const std::vector<std::string>& others, std::mt19937_64& random) {
  constexpr std::string_view tokens[] = {"{", "}",  "[",       "]",   ":",  ",",  "\"", "null", "-", "1e999",
                                         "0", "\n", "\\u0000", "&a ", "*a", "<<", "Gi", "\xff", "."};
  for (std::size_t n = random() % 4 + 1; n > 0; --n) {
    const std::size_t at = text.empty() ? 0 : random() % text.size();
    switch (random() % 6) {
      case 0:
        text.insert(at, tokens[random() % std::size(tokens)]);
        break;
      case 1:
        text.erase(at, random() % 8 + 1);
        break;
      case 2:
        if (!text.empty()) text[at] = static_cast<char>(random() % 256);
        break;
      case 3:
        text.insert(at, text.substr(at, random() % 40));
        break;
      case 4: {
        const auto& other = others[random() % others.size()];
        text = text.substr(0, at) + other.substr(other.empty() ? 0 : random() % other.size());
        break;
      }
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

class FuzzSmoke : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzSmoke, holdsItsPromises) {
  const auto seeds = corpus(GetParam().name);
  ASSERT_GE(seeds.size(), 3u);
  GetParam().run("");
  for (const auto& seed : seeds) GetParam().run(seed);
  std::mt19937_64 random(20260102);
  for (int i = 0; i < 4000; ++i) GetParam().run(mutated(seeds[random() % seeds.size()], seeds, random));
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSmoke,
                         ::testing::Values(Target{"quantity", fuzzQuantity}, Target{"watch", fuzzWatch},
                                           Target{"kubeconfig", fuzzKubeconfig}, Target{"object", fuzzObject},
                                           Target{"driver", fuzzDriver}, Target{"cdi_spec", fuzzCdiSpec},
                                           Target{"nvml", fuzzNvml}, Target{"node", fuzzNode},
                                           Target{"kubelet", fuzzKubelet}, Target{"extender", fuzzExtender}),
                         [](const auto& instance) { return std::string(instance.param.name); });

// A driver that can't fail would prove nothing.
TEST(FuzzSmokeDeathTest, aBrokenPromiseEndsTheProcess) { EXPECT_DEATH(promise(false, "such"), "broken promise: such"); }

}  // namespace
}  // namespace egpu::testing

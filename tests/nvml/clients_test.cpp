// Third-party NVML clients (nvidia-ml-py, nvitop, gpustat) see the same cards on the fake NVML that discovery
// publishes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "controller/plugin/in_process.h"
#include "tests/nvml/fake_nvml.h"
#include "tests/nvml/mig_state.h"

namespace egpu::plugin::testing {
namespace {

using nlohmann::json;

constexpr int64_t kMiB = 1 << 20;

/// Returns the output of a command in the environment of this process, in which the client finds the fake NVML.
std::string output(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  for (int c = 0; pipe && (c = std::fgetc(pipe.get())) != EOF;) out += static_cast<char>(c);
  return out;
}

json parsed(const std::string& text) {
  auto out = json::parse(text, nullptr, false);
  EXPECT_FALSE(out.is_discarded()) << text;
  return out.is_discarded() ? json::object() : out;
}

class NvmlClientsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("EGPU_NVML_CLIENTS");
    ASSERT_NE(bin, nullptr) << "clients_test.sh installs the clients and sets this variable";
    clients = bin;
    setenv("LD_LIBRARY_PATH", EGPU_FAKE_NVML_FOLDER, 1);
    // gpustat omits processes that do not run.
    auto first = fake.file["devices"][0], last = fake.file["devices"][2];
    first["processes"].push_back(YAML::Load("[" + std::to_string(getpid()) + ", 3221225472, 40]"));
    first["graphicsProcesses"].push_back(YAML::Load("[" + std::to_string(getppid()) + ", 104857600]"));
    first["sm"] = 40;
    last["processes"].push_back(YAML::Load("[" + std::to_string(getpid()) + ", 1073741824]"));
    last["persistence"] = true;
    fake.write();
    read();
  }
  void read() {
    ASSERT_TRUE(registry.load(EGPU_PROVISIONER_DIR "/libphysical.so").ok());
    auto* plugin = registry.find("physical.provisioner.elasticgpu.io", nullptr);
    ASSERT_NE(plugin, nullptr);
    found = plugin->discover();
    health = plugin->health();
    ASSERT_TRUE(found.reply.ok()) << found.reply.message;
    ASSERT_TRUE(health.reply.ok()) << health.reply.message;
    ASSERT_EQ(found.gpus.size(), 4U);
  }
  json ask(const std::string& client) {
    return parsed(output("'" + clients + "/python3' '" EGPU_NVML_TESTS "/clients.py' " + client));
  }
  /// Memory of each process on a card, by pid.
  std::map<std::string, int64_t> processesOn(const std::string& uuid) const {
    std::map<std::string, int64_t> out;
    for (const auto& p : health.processes)
      if (p.uuid == uuid) out[std::to_string(p.pid)] = p.memory;
    return out;
  }
  int64_t usedOf(const std::string& uuid) const {
    for (const auto& use : health.use)
      if (use.uuid == uuid) return use.memory;
    return -1;
  }
  std::string attribute(std::size_t card, const std::string& name) const {
    for (const auto& [key, value] : found.gpus[card].attributes)
      if (key == name) return value;
    return {};
  }
  /// Discovery omits the vendor from model names, and replaces blanks by '-'.
  static std::string modelOf(std::string name) {
    if (name.rfind("NVIDIA ", 0) == 0) name.erase(0, 7);
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
  }
  void compare(const json& seen, int64_t reserved) {
    EXPECT_EQ(seen["driver"], attribute(0, "driverVersion"));
    ASSERT_EQ(seen["cards"].size(), found.gpus.size());
    for (std::size_t i = 0; i < found.gpus.size(); ++i) {
      const auto& card = seen["cards"][i];
      const auto& gpu = found.gpus[i];
      EXPECT_EQ(card["uuid"], gpu.uuid);
      EXPECT_EQ(modelOf(card["name"]), gpu.model);
      EXPECT_EQ(card["minor"], gpu.index);
      EXPECT_EQ(card["used"], usedOf(gpu.uuid)) << gpu.uuid;
      EXPECT_EQ(card["persistence"], i == 2 ? 1 : 0);
      if (reserved >= 0) {
        EXPECT_EQ((card["total"].get<int64_t>() - card["reserved"].get<int64_t>()) / kMiB * kMiB, gpu.memory);
      }
    }
  }

  nvidia::testing::FakeNvml fake{"mixed"};
  InProcessRegistry registry{{std::chrono::seconds(60), std::chrono::seconds(60)}};
  DiscoverReply found;
  HealthReply health;
  std::string clients;
};

TEST_F(NvmlClientsTest, NvidiaMlPySeesWhatDiscoveryPublishes) {
  const auto seen = ask("nvml");
  compare(seen, 0);
  for (const auto& card : seen["cards"])
    EXPECT_EQ(card["processes"], json(processesOn(card["uuid"]))) << "only programs that compute are a card's users";
  EXPECT_EQ(seen["cards"][0]["graphics"], (json{{std::to_string(getppid()), 104857600}}));
}

TEST_F(NvmlClientsTest, NvidiaMlPyListsMigDevices) {
  auto card = fake.file["devices"][1];
  card["mig"] = 1;
  card["migProfiles"] =
      YAML::Load("[{number: 0, name: 1g.12gb, id: 19, slices: 1, size: 1, starts: [0, 1], memoryMib: 1}]");
  fake.write();
  nvidia::testing::withFakeInstances([](nvidia::testing::FakeInstances& now) {
    now.all[0] = {1, 1, 5, 19, 1, 1, 1, {1}};
    return true;
  });
  const auto seen = ask("nvml");
  EXPECT_EQ(seen["cards"][0]["mig"], json::array());
  EXPECT_EQ(seen["cards"][1]["mig"], (json{{{"uuid", "MIG-3ed00000-0000-4000-8000-000000000500"},
                                            {"gpuInstance", 5},
                                            {"computeInstance", 0},
                                            {"card", found.gpus[1].uuid}}}));
}

TEST_F(NvmlClientsTest, NvitopSeesWhatDiscoveryPublishes) {
  const auto seen = ask("nvitop");
  compare(seen, -1);
  auto shown = processesOn(found.gpus[0].uuid);
  shown[std::to_string(getppid())] = 104857600;  // nvitop also lists graphics programs
  EXPECT_EQ(seen["cards"][0]["processes"], json(shown));
  EXPECT_EQ(seen["cards"][2]["processes"], json(processesOn(found.gpus[2].uuid)));
}

TEST_F(NvmlClientsTest, GpustatSeesWhatDiscoveryPublishes) {
  const auto seen = parsed(output("'" + clients + "/gpustat' --json"));
  ASSERT_EQ(seen["gpus"].size(), found.gpus.size());
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    const auto& card = seen["gpus"][i];
    const auto& gpu = found.gpus[i];
    EXPECT_EQ(card["uuid"], gpu.uuid);
    EXPECT_EQ(modelOf(card["name"]), gpu.model);
    EXPECT_EQ(card["memory.used"], usedOf(gpu.uuid) / kMiB);
    std::map<std::string, int64_t> processes;
    for (const auto& p : card["processes"])
      processes[std::to_string(p["pid"].get<int64_t>())] = p["gpu_memory_usage"].get<int64_t>() * kMiB;
    auto shown = processesOn(gpu.uuid);
    if (i == 0) shown[std::to_string(getppid())] = 104857600;
    EXPECT_EQ(processes, shown) << gpu.uuid;
  }
  EXPECT_EQ(seen["gpus"][0]["utilization.gpu"], 40);
}

TEST_F(NvmlClientsTest, NvitopDrawsItsTable) {
  const auto text = output("'" + clients + "/nvitop' --once --ascii 2>&1");
  EXPECT_NE(text.find("555.42.02"), std::string::npos) << text;
  EXPECT_NE(text.find("RTX A6000"), std::string::npos) << text;
}

}  // namespace
}  // namespace egpu::plugin::testing

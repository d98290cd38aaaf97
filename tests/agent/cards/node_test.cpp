// A node whose plugins run in processes of their own: NVIDIA's cards by the fake NVML, another vendor's by the zoo.
#include <atomic>
#include <thread>

#include "controller/agent/cards/cards.h"
#include "controller/plugin/hosted_registry.h"
#include "tests/agent/cards/fixture.h"
#include "tests/nvml/fake_nvml.h"

namespace egpu::agent::cards {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class NodeTest : public ApiTest {
 protected:
  void start(const std::string& node) {
    fake = std::make_unique<nvidia::testing::FakeNvml>(node);
    plugin::HostOptions host;
    host.env = fake->environment();
    const std::string provisioners = EGPU_PROVISIONER_DIR, zoo = EGPU_ZOO_DIR;
    registry = std::make_unique<plugin::HostedRegistry>(
        std::vector<std::string>{provisioners + "/libphysical.so", provisioners + "/libgpushare.so",
                                 zoo + "/libdiscovers.so", zoo + "/libcrashes.so"},
        host, serverClock, random);
    CardsOptions options;
    options.publisher.node = "n1";
    options.publisher.quiet = std::chrono::minutes(5);
    cards = std::make_unique<Cards>(*client, *registry, events, clock, random, options);
    cards->start();
  }
  template <class F>
  void eventually(F so) {
    const auto until = std::chrono::steady_clock::now() + seconds(120);
    while (!so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      cards->wake();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::unique_ptr<nvidia::testing::FakeNvml> fake;
  std::unique_ptr<plugin::HostedRegistry> registry;
  std::unique_ptr<Cards> cards;
};

TEST_F(NodeTest, TheCardsOfAllVendorsAreThereAndRecover) {
  start("a100-mig");
  const std::string mig = "gpu-a1060000-0000-4000-8000-000000000000",
                    whole = "gpu-a1060000-0000-4000-8000-000000000001";
  eventually([&] { return healthy(mig).status == "True" && healthy(whole).status == "True" && card("npu-old"); });
  const auto have = card(whole);
  EXPECT_EQ(have->metadata.label("elasticgpu.io/discovered-by"), "gpushare.provisioner.elasticgpu.io");
  EXPECT_EQ(have->spec.card->model, "A100-SXM4-40GB");
  EXPECT_EQ(have->spec.card->smCount, 108);
  EXPECT_EQ(have->spec.card->milliTflops, 312'000);
  EXPECT_EQ(have->spec.card->attributes.at("driverVersion"), "535.104.05");
  ASSERT_EQ(card(mig)->spec.card->mig.size(), 7U);
  EXPECT_EQ(card(mig)->spec.card->mig[5], (v1alpha::MigProfile{"1g.5gb+me", int64_t{4864} << 20, 1, 1, {0x7f}, true}));
  EXPECT_EQ(card("npu-a")->spec.card->attributes, (core::StringMap{{"firmware", "7.3"}}));
  EXPECT_EQ(card("npu-a")->spec.card->topology.links.size(), 2u);

  fake->file["devices"][1]["xids"].push_back(119);
  fake->file["devices"][1]["ecc"] = 1;
  fake->write();
  eventually([&] { return healthy(whole).reason == "Xid119"; });
  EXPECT_THAT(healthy(whole).message, HasSubstr("nvidia-smi --gpu-reset"));
  fake->file["devices"][1]["lost"] = true;
  fake->write();
  eventually([&] { return healthy(whole).reason == "Lost"; });
  EXPECT_EQ(healthy("npu-a").status, "True");

  // Reset or rebooted: the kernel initialises the card again.
  fake->unplug(1);
  eventually([&] { return healthy(whole).reason == "CardGone"; });
  fake->file["devices"][1].remove("lost");
  fake->file["devices"][1].remove("ecc");
  fake->file["devices"][1].remove("xids");
  fake->write();
  eventually([&] { return healthy(whole).reason == "Probation"; });
  clock.advance(std::chrono::minutes(5));
  eventually([&] { return healthy(whole).status == "True"; });
}

/// The driver is unloaded under the agent and returns with one card fewer.
TEST_F(NodeTest, ADriverThatIsExchangedLosesNoCard) {
  start("a100");
  const std::string name = "gpu-a1000000-0000-4000-8000-00000000000";
  eventually([&] { return healthy(name + "3").status == "True"; });
  const auto before = card(name + "3");
  fake->file["errors"]["nvmlInit_v2"] = 18;
  fake->write();
  eventually([&] { return !cards->foundCard(name + "3"); });
  fake->file.remove("errors");
  fake->file["devices"].remove(3);
  fake->file["nvlinks"] = YAML::Load("[[0, 1, 4], [0, 2, 4], [1, 2, 4]]");
  fake->write();
  eventually([&] { return healthy(name + "3").reason == "CardGone"; });
  EXPECT_EQ(card(name + "3")->spec, before->spec);
  EXPECT_EQ(healthy(name + "0").status, "True");
}

}  // namespace
}  // namespace egpu::agent::cards

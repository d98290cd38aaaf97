#include "controller/agent/cards/remote_devices.h"

#include "tests/agent/cards/fixture.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::cards {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kRemote = "remote.provisioner.elasticgpu.io";

class RemoteDevicesTest : public ApiTest {
 protected:
  RemoteDevicesTest() {
    EXPECT_TRUE(folder.open().ok());
    Gpu device;
    device.metadata.name = "egpu-a";
    device.spec.source.emplace();
    device.spec.source->kind = v1alpha::SourceKind::remote;
    device.spec.source->endpoint = "10.0.0.1:7000";
    device.spec.className = "pool";
    device.spec.provisioner = kRemote;
    device.spec.reclaimPolicy = "Delete";
    device.spec.claimRef = v1alpha::ClaimRef{"default", "a", "uid-of-a"};
    const auto made = admin->create(device);
    EXPECT_TRUE(made.ok()) << made.status().str();
    uid = made->metadata.uid;
    prepare();
  }
  void prepare() {
    cdi::Spec spec;
    spec.device = "egpu-a";
    spec.deviceUid = uid;
    spec.claimNamespace = "default";
    spec.claimName = "a";
    spec.claimUid = "r";
    spec.provisioner = kRemote;
    spec.edits.env = {{"ELASTICGPU_REMOTE_ENDPOINT", "10.0.0.1:7000"}};
    EXPECT_TRUE(folder.write(spec).ok());
    EXPECT_TRUE(folder.publish(uid).ok());
  }
  void unprepare() {
    EXPECT_TRUE(folder.withdraw(uid).ok());
    EXPECT_TRUE(folder.removePart(uid).ok());
  }
  Answers reporting(const std::string& message) {
    std::vector<plugin::CardHealth> health;
    if (!message.empty()) health.push_back({uid, false, message});
    return {{kRemote, answer({}, health)}};
  }
  base::Status publish(const Answers& answers) { return devices->publish(answers, {}); }
  auto lost() { return card("egpu-a")->status.accessLost; }
  void restartAgent() { devices = std::make_unique<RemoteDevices>(folder, *client, events, clock, "n1"); }

  support::ScratchFolder scratch;
  cdi::Folder folder{scratch.path() + "/cdi"};
  std::string uid;
  std::unique_ptr<RemoteDevices> devices = std::make_unique<RemoteDevices>(folder, *client, events, clock, "n1");
};

TEST_F(RemoteDevicesTest, ALossIsReportedOnceAndEndsWithTheReport) {
  ASSERT_TRUE(publish(reporting("LeaseNotRenewed: the pool does not answer")).ok());
  ASSERT_EQ(lost().count("n1"), 1U);
  EXPECT_EQ(lost().at("n1").reason, "LeaseNotRenewed");
  EXPECT_EQ(lost().at("n1").message, "the pool does not answer");
  EXPECT_NE(lost().at("n1").since, "");
  EXPECT_THAT(events.taken(), ElementsAre("ElasticGPUClaim a LeaseNotRenewed: node n1: the pool does not answer"));
  const auto before = server->resourceVersion();
  ASSERT_TRUE(publish(reporting("LeaseNotRenewed: the pool does not answer")).ok());
  EXPECT_EQ(server->resourceVersion(), before);
  EXPECT_THAT(events.taken(), IsEmpty());
  ASSERT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  EXPECT_EQ(lost().at("n1").reason, "LeaseLost");
  ASSERT_TRUE(publish(reporting("")).ok());
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(RemoteDevicesTest, ReportsOfOtherNodesStay) {
  change("egpu-a", R"({"status":{"accessLost":{"n2":{"reason":"LeaseLost","message":"gone"}}}})", "status");
  ASSERT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  EXPECT_EQ(lost().size(), 2U);
  ASSERT_TRUE(publish(reporting("")).ok());
  EXPECT_EQ(lost().size(), 1U);
  EXPECT_EQ(lost().count("n2"), 1U);
}

TEST_F(RemoteDevicesTest, ARestartedAgentEndsTheReportOfTheLastOne) {
  ASSERT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  restartAgent();
  ASSERT_TRUE(publish({}).ok());
  EXPECT_EQ(lost().size(), 1U) << "its plugin has not answered yet";
  ASSERT_TRUE(publish({{kRemote, failure()}}).ok());
  EXPECT_EQ(lost().size(), 1U);
  ASSERT_TRUE(publish(reporting("")).ok());
  EXPECT_THAT(lost(), IsEmpty());
}

TEST_F(RemoteDevicesTest, TheReportEndsWithThePreparation) {
  ASSERT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  unprepare();
  ASSERT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  EXPECT_THAT(lost(), IsEmpty());
  EXPECT_FALSE(devices->isDevice(uid));
}

TEST_F(RemoteDevicesTest, AReportThatCantBeWrittenIsWrittenLater) {
  transport->code = 403;
  transport->refuses = [](const kube::HttpRequest& request) { return request.method == kube::Method::patch; };
  EXPECT_FALSE(publish(reporting("LeaseLost: it has ended")).ok());
  EXPECT_THAT(lost(), IsEmpty());
  EXPECT_THAT(events.taken(), IsEmpty());
  transport->refuses = nullptr;
  ASSERT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  EXPECT_EQ(lost().size(), 1U);
  EXPECT_EQ(events.taken().size(), 1U);
}

TEST_F(RemoteDevicesTest, ADeviceThatIsGoneNeedsNoReport) {
  ASSERT_TRUE(admin->remove<Gpu>({"", "egpu-a"}, "{}").ok());
  EXPECT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
  unprepare();
  EXPECT_TRUE(publish(reporting("LeaseLost: it has ended")).ok());
}

TEST_F(RemoteDevicesTest, OnlyPreparedDevicesWithoutCardsAreDevices) {
  EXPECT_TRUE(devices->isDevice(uid));
  EXPECT_FALSE(devices->isDevice("GPU-1"));
  EXPECT_FALSE(devices->isDevice("../" + uid));
}

}  // namespace
}  // namespace egpu::agent::cards

// Reports on claims to the kubelet and to the cards' publisher.
#include "controller/cmd/claim_driver.h"

#include <gmock/gmock.h>

#include "tests/agent/prepare/fixture.h"

namespace egpu::cmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = agent::dra::DeviceHealth::State;

class ClaimDriverTest : public agent::PrepareTest {
 protected:
  /// Publishes the card as its agent would, with this status of the condition Healthy; no condition if empty.
  void judged(const std::string& card, const std::string& status, const std::string& reason = "Working") {
    v1alpha::ElasticGPU object;
    object.metadata.name = object.metadata.uid = card;
    object.metadata.resourceVersion = std::to_string(++version);
    object.status.conditions.clear();
    if (!status.empty()) object.status.conditions.push_back({"Healthy", status, reason, "words", "", 0});
    cards.informed(object);
  }
  int version = 1'000'000;
  cache::Store<v1alpha::ElasticGPU> cards;
  ClaimDriver claims{client, preparer, folder, cards, world.clock, "n1"};
};

TEST_F(ClaimDriverTest, TheKubeletHearsPoolDeviceAndCdiDevices) {
  const auto claim = claimed("a");
  const auto devices = claims.prepare(claim, {});
  ASSERT_TRUE(devices.ok()) << devices.status().str();
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ(devices->front().pool, "n1");
  EXPECT_EQ(devices->front().device, deviceOf(claim).metadata.name);  // as in the allocation
  EXPECT_EQ(devices->front().cdiDevices, ids(uidOf(claim)));
  EXPECT_TRUE(devices->front().requests.empty());
  EXPECT_TRUE(claims.prepare({"default", "other", "u"}, {}).status().code() != base::Code::ok);
}

TEST_F(ClaimDriverTest, ADeviceIsAsItsCardsAre) {
  const auto claim = claimed("a");
  EXPECT_TRUE(claims.devices().empty());
  ASSERT_TRUE(claims.prepare(claim, {}).ok());
  const auto card = deviceOf(claim).spec.cards.at(0).name;

  ASSERT_EQ(claims.devices().size(), 1u);
  EXPECT_EQ(claims.devices()[0].state, State::unknown);  // its card is not known yet
  judged(card, "");
  EXPECT_EQ(claims.devices()[0].state, State::unknown);
  judged(card, "True");
  EXPECT_EQ(claims.devices()[0].state, State::healthy);
  EXPECT_EQ(claims.devices()[0].message, "");
  judged(card, "False", "Xid79");
  EXPECT_EQ(claims.devices()[0].state, State::unhealthy);
  EXPECT_THAT(claims.devices()[0].message, HasSubstr("Xid79: words"));
  EXPECT_EQ(claims.devices()[0].pool, "n1");
  EXPECT_EQ(claims.devices()[0].device, deviceOf(claim).metadata.name);
}

TEST_F(ClaimDriverTest, OneIllCardOfSeveralMakesADeviceIll) {
  agent::cdi::Spec spec;
  spec.device = "egpu-1";
  spec.deviceUid = spec.claimUid = "u-1";
  spec.claimNamespace = "default";
  spec.claimName = "both";
  spec.provisioner = plugin.description().name;
  spec.cards = {{"gpu-a", "GPU-a", 1000, 1, 1000, 1}, {"gpu-b", "GPU-b", 1000, 1, 1000, 1}};
  ASSERT_TRUE(folder.write(spec).ok() && folder.publish("u-1").ok());
  judged("gpu-a", "True");
  EXPECT_EQ(claims.devices()[0].state, State::unknown);
  judged("gpu-b", "False");
  EXPECT_EQ(claims.devices()[0].state, State::unhealthy);
  judged("gpu-a", "");
  EXPECT_EQ(claims.devices()[0].state, State::unhealthy);
  judged("gpu-b", "True");
  judged("gpu-a", "True");
  EXPECT_EQ(claims.devices()[0].state, State::healthy);
}

/// A pod without a claim, with many processes on a card that many claims share, must not cost a read per process and
/// claim.
TEST_F(ClaimDriverTest, WhoHasNoClaimIsAskedOncePerNamespace) {
  const auto prepared = [&](const std::string& uid, const std::string& space) {
    agent::cdi::Spec spec;
    spec.device = "egpu-" + uid;
    spec.deviceUid = spec.claimUid = uid;
    spec.claimNamespace = space;
    spec.claimName = "claim-" + uid;
    spec.provisioner = plugin.description().name;
    spec.cards = {{"gpu-a", "GPU-a", 50, 1, 50, 1}};
    ASSERT_TRUE(folder.write(spec).ok() && folder.publish(uid).ok());
  };
  for (int i = 0; i < 20; ++i) prepared("u-" + std::to_string(i), i % 2 == 0 ? "default" : "team");
  int reads = 0;
  line.refuses = [&](const kube::HttpRequest&) { return ++reads, false; };
  for (int process = 0; process < 8; ++process) EXPECT_EQ(claims.hasClaim("stranger", "GPU-a"), false);
  EXPECT_EQ(reads, 2);
  prepared("u-20", "team");
  for (int process = 0; process < 8; ++process) EXPECT_EQ(claims.hasClaim("stranger", "GPU-a"), false);
  EXPECT_EQ(reads, 3) << "only who came is asked about";
}

TEST_F(ClaimDriverTest, APodWithAClaimMayUseItsCardsAndNoOther) {
  const auto claim = claimed("a");
  ASSERT_TRUE(claims.prepare(claim, {}).ok());
  const auto card = deviceOf(claim).spec.cards.at(0).uuid;
  const auto pod = world.pod("a").metadata.uid;
  EXPECT_EQ(claims.hasClaim("somebody", card), false);
  EXPECT_EQ(claims.hasClaim(pod, "GPU-another"), false);
  apiAway(true);
  EXPECT_EQ(claims.hasClaim(pod, card), std::nullopt);  // unknown: no pod is accused without evidence
  apiAway(false);
  EXPECT_EQ(claims.hasClaim(pod, card), true);
  apiAway(true);
  EXPECT_EQ(claims.hasClaim(pod, card), true);          // cached
  EXPECT_EQ(claims.hasClaim("somebody", card), false);  // cached
  EXPECT_EQ(claims.hasClaim("somebody else", card), std::nullopt);
}

}  // namespace
}  // namespace egpu::cmd

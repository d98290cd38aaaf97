// (C1), (C6) to (C8), (D1), W1 to W6: from a claim to a device, and all states in between.
#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using BindingTest = ReconcileTest;

TEST_F(BindingTest, C8_ImmediateClaimIsBoundWithFiveWrites) {
  world.addClaim("a", "share", {{"gpu-core", "10"}, {"gpu-memory", "4"}});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 5u);  // W1, W2, W4, W5, W6
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(claim.status.elasticGPUName, deviceOf("a"));
  EXPECT_EQ(claim.spec.elasticGPUName, deviceOf("a"));
  EXPECT_EQ(claim.status.nodeName, "n1");
  EXPECT_EQ(claim.status.capacity.at("core"), "10%");
  EXPECT_EQ(claim.status.capacity.at("memory"), "4Gi");
  EXPECT_TRUE(claim.metadata.hasFinalizer(v1alpha::keys::kClaimFinalizer));
  EXPECT_EQ(world.reason("a"), "Bound");
  EXPECT_EQ(world.reason("a", "Accepted"), "Accepted");
  const auto device = world.gpu(deviceOf("a"));
  EXPECT_EQ(device.status.phase, "Bound");
  ASSERT_EQ(device.spec.cards.size(), 1u);
  EXPECT_EQ(device.spec.cards[0].core, 100);
  EXPECT_EQ(device.spec.cards[0].memory, 4 * kGi);
  EXPECT_EQ(device.spec.source->kind, v1alpha::SourceKind::gpuShare);
  EXPECT_EQ(device.spec.reclaimPolicy, "Delete");
  const auto card = world.gpu(device.spec.cards[0].name);
  EXPECT_EQ(card.spec.allocations.at(device.metadata.uid).claim, "default/a");
  EXPECT_EQ(world.plugin.made().count(device.metadata.uid), 1u);
  const auto event = "a Normal Bound has device " + deviceOf("a") + " on node n1, core 10%, memory 4Gi";
  EXPECT_EQ(countEvents(event), 1);
  start();
  driver->run();
  EXPECT_EQ(countEvents("a Normal Bound"), 0) << "a new controller repeats no event";
}

TEST_F(BindingTest, C8_TheIsolationThatTheProvisionerReportsIsInTheStatus) {
  const v1alpha::Isolation mps{"mps", "Soft", "Soft", "None"};
  world.plugin.isolateBy(mps);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  ASSERT_TRUE(world.claim("a").status.isolation);
  EXPECT_EQ(*world.claim("a").status.isolation, mps);
  EXPECT_EQ(*world.gpu(deviceOf("a")).status.isolation, mps);
  world.plugin.isolateBy(std::nullopt);
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_FALSE(world.claim("b").status.isolation) << "not reported: unknown";
  EXPECT_FALSE(world.gpu(deviceOf("b")).status.isolation);
}

TEST_F(BindingTest, C8_NothingIsWrittenWhenNothingChanges) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addClaim("b", "share", {{"gpu-core", "300"}});
  world.addClaim("c", "nosuch", {{"gpu-core", "10"}});
  driver->run();
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
}

TEST_F(BindingTest, C8_TwoCardsOfOneNode) {
  world.addClaim("two", "share", {{"gpu", "2"}});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 6u);  // one more entry
  const auto device = world.gpu(deviceOf("two"));
  ASSERT_EQ(device.spec.cards.size(), 2u);
  EXPECT_EQ(device.spec.cards[0].core, 1000);
  EXPECT_EQ(device.spec.cards[1].memory, 16 * kGi);
}

TEST_F(BindingTest, W2_MoreEntriesThanOneStateWritesAreWrittenOnce) {
  world.addNode("n2");
  for (int i = 0; i < 2 * Binder::kEntriesAtOnce + 1; ++i) world.addCard("n2", i);
  settle();
  world.addClaim("many", "share", {{"gpu", std::to_string(2 * Binder::kEntriesAtOnce + 1)}});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 4U + 2 * Binder::kEntriesAtOnce + 1) << "as for one card, and the other entries";
  const auto device = world.gpu(deviceOf("many"));
  ASSERT_EQ(device.status.phase, "Bound");
  for (const auto& card : device.spec.cards)
    EXPECT_EQ(world.gpu(card.name).spec.allocations.count(device.metadata.uid), 1U) << card.name;
}

TEST_F(BindingTest, D1_AnIntentWhoseClaimIsGoneIsRolledBack) {
  cache::Gpu device;
  device.metadata.name = "egpu-00000000-dead-dead-dead-000000000000";
  device.metadata.finalizers = {std::string(v1alpha::keys::kDeviceFinalizer)};
  device.spec.cards = {{"gpu-n1-1", "GPU-n1-1", 100, kGi, 100, kGi}};
  device.spec.nodeName = "n1";
  device.spec.provisioner = support::World::kPlugin;
  device.spec.claimRef = v1alpha::ClaimRef{"default", "a", "00000000-dead-dead-dead-000000000000"};
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_FALSE(world.exists(device.metadata.name));
}

TEST_F(BindingTest, D1_ALedgerThatRefusesRollsBackAndDecidesAnew) {
  // A foreign entry that this controller has not seen yet takes the capacity of the chosen card.
  world.addClaim("a", "share", {{"gpu-core", "60"}});
  settle();
  const auto first = world.gpu(deviceOf("a")).spec.cards[0].name;
  const auto second = first == "gpu-n1-0" ? "gpu-n1-1" : "gpu-n1-0";
  world.addClaim("b", "share", {{"gpu-core", "60"}});
  driver->poll();
  world.json<cache::Gpu>({"", second},
                         R"({"spec":{"allocations":{"foreign":{"device":"x","claim":"y/z","core":600,"memory":0}}}})");
  // Does not poll, so that the cache is stale.
  while (driver->stepOnce()) {
  }
  EXPECT_EQ(world.violation(), "");
  driver->run();
  // The foreign entry is garbage (its device does not exist) and is swept; then the claim fits.
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(BindingTest, W2_ALedgerHoldsSoManyEntriesAndNoMore) {
  world.json<cache::Gpu>({"", "gpu-n1-1"}, R"({"status":{"phase":"Failed","reason":"Broken"}})", "status");
  settle();
  for (int i = 0; i < 130; ++i) world.addClaim("m" + std::to_string(i), "share", {{"gpu-memory", "1Mi"}});
  settle();
  int bound = 0, noFit = 0;
  std::string why;
  for (int i = 0; i < 130; ++i) {
    const auto name = "m" + std::to_string(i);
    bound += world.claim(name).status.phase == "Bound";
    if (world.reason(name) == "NoFit") {
      ++noFit;
      why = world.message(name);
    }
  }
  EXPECT_EQ(bound, 128);
  EXPECT_EQ(noFit, 2);
  EXPECT_NE(why.find("128 claims per card"), std::string::npos) << why;
}

TEST_F(BindingTest, W1_AnAssumptionOfUnknownOutcomeEndsWithItsClaim) {
  support::RefusingTransport line(*world.transport);
  line.code = 0;
  startOver(line);
  line.refuses = [](const kube::HttpRequest& r) {
    return r.target.find("/elasticgpus") != std::string::npos && r.method != kube::Method::patch;
  };
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 2000);  // the device may exist
  world.removeClaim("a");
  settle();
  line.refuses = nullptr;
  driver->run();
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0);
  world.addClaim("b", "share", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  driver.reset();
}

TEST_F(BindingTest, W1_AnAssumptionOfAnEarlierClaimOfThatNameIsGivenBack) {
  support::RefusingTransport line(*world.transport);
  line.code = 0;
  startOver(line);
  line.refuses = [](const kube::HttpRequest& r) {
    return r.target.find("/elasticgpus") != std::string::npos && r.method != kube::Method::patch;
  };
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  line.refuses = nullptr;
  world.removeClaim("a");
  world.addClaim("a", "share", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  driver.reset();
}

TEST_F(BindingTest, W2_AServerThatRefusesTheEntryForGoodIsNotAskedInALoop) {
  support::RefusingTransport line(*world.transport);
  line.code = 422;
  line.message = "denied by policy";
  line.refuses = [](const kube::HttpRequest& request) {
    return request.body.find("\"allocations\"") != std::string::npos &&
           request.body.find("\"core\"") != std::string::npos;
  };
  startOver(line);
  driver->limit = 2000;
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  ASSERT_NO_THROW(settle());
  EXPECT_LT(line.refused, 20);
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_NE(world.message("a").find("denied by policy"), std::string::npos) << world.message("a");
  world.removeClaim("a");
  driver->run();
  driver.reset();
}

TEST_F(BindingTest, AShareIsNoWholeCard) {
  world.addClaim("a", "keep", {{"gpu-core", "30"}, {"gpu-memory", "4"}});
  settle();
  const auto share = deviceOf("a");
  world.addClaim("pair", "keep", {{"gpu", "2"}, {"gpu-core", "20"}});
  settle();
  const auto pair = deviceOf("pair");
  world.removeClaim("a");
  world.removeClaim("pair");
  settle();
  world.addClaim("early", "keep", {}, share);
  settle();
  EXPECT_EQ(world.message("early"), "device " + share +
                                        " is Released: it was retained for claim default/a, which is gone; clear its "
                                        "spec.claimRef to make it Available");
  world.removeClaim("early");
  for (const auto& name : {share, pair}) world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  settle();
  world.addClaim("whole", "keep", {{"gpu", "1"}}, share);
  world.addClaim("wholes", "keep", {{"gpu", "2"}}, pair);
  world.addClaim("more", "keep", {{"gpu", "2"}, {"gpu-core", "30"}}, pair);
  settle();
  for (const auto* name : {"whole", "wholes", "more"}) {
    EXPECT_EQ(world.reason(name), "StaticNotAvailable") << name;
    EXPECT_NE(world.message(name).find("smaller than requested"), std::string::npos) << world.message(name);
  }
  world.addClaim("fits", "keep", {{"gpu", "2"}, {"gpu-core", "20"}}, pair);
  settle();
  EXPECT_EQ(world.claim("fits").status.elasticGPUName, pair);
}

TEST_F(BindingTest, OvercommitGrantsMoreThanItCharges) {
  world.addClass("over", "Delete", "Immediate", {{"coreOvercommit", "2"}, {"memoryOvercommit", "1.5"}});
  world.addClaim("a", "over", {{"gpu-core", "25"}, {"gpu-memory", "3"}});
  settle();
  const auto device = world.gpu(deviceOf("a"));
  ASSERT_EQ(device.spec.cards.size(), 1u);
  EXPECT_EQ(device.spec.cards[0].core, 250);
  EXPECT_EQ(device.spec.cards[0].chargedCore, 125);
  EXPECT_EQ(device.spec.cards[0].memory, 3 * kGi);
  EXPECT_EQ(device.spec.cards[0].chargedMemory, 2 * kGi);
  EXPECT_EQ(world.gpu(device.spec.cards[0].name).spec.allocations.at(device.metadata.uid).core, 125);
  EXPECT_EQ(world.claim("a").status.capacity.at("core"), "25%");
}

TEST_F(BindingTest, LimitsOfClaimsPerCardAndNode) {
  world.addClass("few", "Delete", "Immediate", {{"maxClaimsPerCard", "1"}});
  world.addClass("fewer", "Delete", "Immediate", {{"maxClaimsPerNode", "2"}});
  world.addClaim("a", "few", {{"gpu-core", "10"}});
  settle();
  world.addClaim("b", "few", {{"gpu-core", "10"}});
  settle();
  EXPECT_NE(world.gpu(deviceOf("a")).spec.cards[0].name, world.gpu(deviceOf("b")).spec.cards[0].name);
  world.addClaim("c", "few", {{"gpu-core", "10"}});
  world.nextSecond();  // the older claim comes first and leaves too little capacity for the younger one
  world.addClaim("d", "fewer", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit");
  EXPECT_NE(world.message("c").find("1 claim per card"), std::string::npos) << world.message("c");
  EXPECT_EQ(world.reason("d"), "NoFit");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.claim("c").status.phase, "Bound");
  EXPECT_EQ(world.reason("d"), "NoFit");
}

TEST_F(BindingTest, ModelAndMinMemory) {
  world.addClass("a100", "Delete", "Immediate", {{"model", "A100|H100"}});
  world.addClass("large", "Delete", "Immediate", {{"minMemory", "32"}});
  world.addClaim("m", "a100", {{"gpu-core", "10"}});
  world.addClaim("l", "large", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("m"), "NoFit");
  EXPECT_EQ(world.reason("l"), "NoFit");
  world.addCard("n1", 2, 40 * kGi);
  settle();
  EXPECT_EQ(world.reason("m"), "NoFit");
  EXPECT_EQ(world.claim("l").status.phase, "Bound");
  EXPECT_EQ(world.gpu(deviceOf("l")).spec.cards[0].name, "gpu-n1-2");
}

TEST_F(BindingTest, C7_AnIntentOfAnEarlierProcessIsAdopted) {
  // Another controller wrote the intent for the second card; this controller would have chosen the first.
  auto claim = world.addClaim("a", "share", {{"gpu-core", "10"}});
  cache::Gpu device;
  device.metadata.name = deviceNameFor(claim);
  device.metadata.finalizers = {std::string(v1alpha::keys::kDeviceFinalizer)};
  device.spec.cards = {{"gpu-n1-1", "GPU-n1-1", 100, kGi, 100, kGi}};
  device.spec.nodeName = "n1";
  device.spec.provisioner = support::World::kPlugin;
  device.spec.reclaimPolicy = "Delete";
  device.spec.claimRef = v1alpha::ClaimRef{"default", "a", claim.metadata.uid};
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.gpu("gpu-n1-1").spec.allocations.size(), 1u);
  EXPECT_EQ(world.gpu("gpu-n1-0").spec.allocations.size(), 0u);
}

TEST_F(BindingTest, W4_ADeviceThatIsDeletedWhileItIsProvisionedIsUndoneAndMadeAnew) {
  std::string first;
  world.plugin.after = [&] {  // between W3 and W4
    if (!first.empty()) return;
    first = world.gpu(deviceOf("a")).metadata.uid;
    support::World::mustOk(world.client.remove<cache::Gpu>({"", deviceOf("a")}));
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  world.plugin.after = nullptr;
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  const auto second = world.gpu(deviceOf("a")).metadata.uid;
  EXPECT_NE(second, first);
  EXPECT_EQ(world.plugin.made(), std::set<std::string>{second});
}

}  // namespace
}  // namespace egpu::reconcile

// Several claims in one container: for any combination of containers and claims, each container gets its amounts on the
// right cards.
#include "controller/agent/prepare/co_claims.h"

#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

using base::Code;

core::Container container(const std::string& name, std::vector<std::string> claims) {
  core::Container out;
  out.name = name;
  out.image = "x";
  out.resourceClaims = std::move(claims);
  return out;
}

class CompanyTest : public PrepareTest {
 protected:
  CompanyTest() {
    world.addCard("n1", 1);
    driver->settle();
    // As gpushare with isolation hami-core.
    plugin.editsOf = [](const plugin::DeviceRequest& request) {
      const auto& card = request.cards.at(0);
      plugin::ContainerEdits out;
      out.env = {{"ELASTICGPU_CARDS", card.uuid},
                 {"CUDA_DEVICE_MEMORY_LIMIT_0", std::to_string(card.memory >> 20) + "m"}};
      out.deviceNodes = {{"/dev/nvidia" + std::to_string(card.index), "", "rw"}};
      return out;
    };
  }
  void claim(const std::string& name, int card, int gib) {
    world.addClaim(name, "share", {{"gpu-core", "10"}, {"gpu-memory", std::to_string(gib)}},
                   "gpu-n1-" + std::to_string(card));
    driver->settle();
  }
  void pod(const std::string& name, const std::vector<std::string>& claims, std::vector<core::Container> containers) {
    auto pod = support::World::podOf(name, claims);
    pod.containers = std::move(containers);
    support::World::must(world.client.create(pod));
    driver->settle();
    world.schedule(name);
  }
  base::Status prepare(const std::string& name) {
    return preparer.prepare({"default", name, world.resourceClaim(name)->metadata.uid}, {}).status();
  }
  /// Returns the result of a runtime that applies these claims' files to one container: "CARDS LIMIT_0 LIMIT_1".
  std::string environmentOf(const std::vector<std::string>& claims) {
    core::StringMap env;
    for (const auto& name : claims) {
      const auto entry = folder.find(world.gpu("egpu-" + world.claim(name).metadata.uid).metadata.uid);
      if (!entry.ok() || !*entry || !(*entry)->ready) return "no file of " + name;
      for (const auto& [key, value] : (*entry)->spec->edits.env) env[key] = value;
    }
    return env["ELASTICGPU_CARDS"] + " " + env["CUDA_DEVICE_MEMORY_LIMIT_0"] + " " + env["CUDA_DEVICE_MEMORY_LIMIT_1"];
  }
  const std::string both = "GPU-n1-0,GPU-n1-1 2048m 1024m";  ///< a has 1 GiB of card 1, b 2 GiB of card 0
};

TEST_F(CompanyTest, TwoClaimsOfOneContainerAreGivenAsOne) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  for (const char* name : {"b", "a"}) EXPECT_TRUE(prepare(name).ok()) << name;
  EXPECT_EQ(environmentOf({"a", "b"}), both) << "each limit on its own card, numbered as the driver numbers them";
  EXPECT_EQ(environmentOf({"a"}), "GPU-n1-1 1024m ");
  const auto entry = folder.find(world.gpu("egpu-" + world.claim("b").metadata.uid).metadata.uid);
  ASSERT_EQ((*entry)->spec->edits.deviceNodes.size(), 1U) << "nodes are each file's own";
  EXPECT_EQ((*entry)->spec->edits.deviceNodes[0].path, "/dev/nvidia0");
}

TEST_F(CompanyTest, CardsAreNumberedByPciAddressWhateverTheirMinorNumbers) {
  const auto moveTo = [&](const std::string& card, const std::string& address) {
    world.json<v1alpha::ElasticGPU>({"", card}, R"({"spec":{"card":{"topology":{"pcie":")" + address + R"("}}}})");
  };
  moveTo("gpu-n1-0", "0000:81:00.0");
  moveTo("gpu-n1-1", "0000:01:00.0");
  driver->settle();
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  EXPECT_TRUE(prepare("a").ok() && prepare("b").ok());
  EXPECT_EQ(environmentOf({"a", "b"}), "GPU-n1-1,GPU-n1-0 1024m 2048m");
}

TEST_F(CompanyTest, ASecondPrepareIsAnsweredFromTheFile) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  ASSERT_TRUE(prepare("a").ok() && prepare("b").ok());
  (void)plugin.calls();
  ASSERT_TRUE(prepare("a").ok() && prepare("b").ok());
  EXPECT_EQ(plugin.calls(), Calls{});
}

TEST_F(CompanyTest, AContainerWithOneOfThemGetsThatAlone) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("one", {"a"}), container("two", {"a", "b"})});
  ASSERT_TRUE(prepare("a").ok() && prepare("b").ok());
  EXPECT_EQ(environmentOf({"a"}), "GPU-n1-1 1024m ");
  EXPECT_EQ(environmentOf({"a", "b"}), both);
}

TEST_F(CompanyTest, WhatOneTextCantExpressIsRefused) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("one", {"b"}), container("two", {"a", "b"})});
  EXPECT_TRUE(prepare("a").ok());
  const auto refused = prepare("b");
  EXPECT_EQ(refused.code(), Code::invalid);
  EXPECT_NE(refused.message().find("ResourceClaim default/b is the last of b in container one of pod p, and of a, b in "
                                   "container two of pod p"),
            std::string::npos)
      << refused.str();
  EXPECT_TRUE(PrepareTest::hasEvent("p", "in spec.resourceClaims a claim that is always used with the same other"));
  EXPECT_EQ(environmentOf({"b"}), "no file of b");
}

TEST_F(CompanyTest, AnotherOrderMakesItSayable) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"b", "a"}, {container("one", {"b"}), container("two", {"a", "b"})});
  ASSERT_TRUE(prepare("a").ok() && prepare("b").ok());
  EXPECT_EQ(environmentOf({"b"}), "GPU-n1-0 2048m ");
  EXPECT_EQ(environmentOf({"b", "a"}), both);
}

TEST_F(CompanyTest, AClaimThatIsPreparedForOthersExcludesThoseThatHaveMore) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("alone", {"b"}, {container("main", {"b"})});
  ASSERT_TRUE(prepare("b").ok());
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  const auto refused = prepare("a");
  EXPECT_EQ(refused.code(), Code::invalid);
  EXPECT_NE(refused.message().find("ResourceClaim default/b is the last of a, b in container main of pod p"),
            std::string::npos)
      << refused.str();
  EXPECT_EQ(environmentOf({"b"}), "GPU-n1-0 2048m ") << "what runs is not touched";
}

TEST_F(CompanyTest, TwoPodsWithTheSameClaimsShareTheFiles) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  pod("q", {"a", "b"}, {container("other", {"b", "a"})});
  ASSERT_TRUE(prepare("a").ok() && prepare("b").ok());
  EXPECT_EQ(environmentOf({"a", "b"}), both) << "the pod's order counts, not the container's";
}

TEST_F(CompanyTest, AnotherDriversClaimDoesNotCount) {
  claim("b", 0, 2);
  core::ResourceClaim nic;
  nic.metadata.name = "nic";
  nic.metadata.namespace_ = "default";
  nic.deviceClassName = "nic.example.com";
  nic.requestName = "gpu";
  nic = support::World::must(world.client.create(nic));
  pod("p", {"b"}, {container("main", {"b"})});
  nic.allocation = world.resourceClaim("b")->allocation;
  nic.allocation->driver = "nic.example.com";
  const auto text = codec::encode(nic);
  world.json<core::ResourceClaim>({"default", "nic"}, "{" + text.substr(text.find("\"status\":")), "status");
  auto other = support::World::podOf("q", {"b", "nic"}, false);
  other.nodeName = "n1";
  support::World::must(world.client.create(other));
  ASSERT_TRUE(prepare("b").ok()) << prepare("b").str();
  EXPECT_EQ(environmentOf({"b"}), "GPU-n1-0 2048m ");
}

TEST_F(CompanyTest, APodOnItsWayOutDoesNotCount) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("old", {"b"}, {container("main", {"b"})});
  world.json<core::Pod>({"default", "old"}, R"({"metadata":{"finalizers":["example.com/stays"]}})");
  (void)world.client.remove<core::Pod>({"default", "old"});
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  ASSERT_TRUE(prepare("a").ok() && prepare("b").ok());
  EXPECT_EQ(environmentOf({"a", "b"}), both);
  world.json<core::Pod>({"default", "old"}, R"({"metadata":{"finalizers":null}})");
}

TEST_F(CompanyTest, AClaimBesideItThatIsNotBoundBlocksIt) {
  claim("a", 1, 1);
  claim("b", 0, 2);
  pod("p", {"a", "b"}, {container("main", {"a", "b"})});
  world.json<cache::Gpu>({"", "egpu-" + world.claim("a").metadata.uid}, R"({"status":{"phase":"Released"}})", "status");
  const auto waits = prepare("b");
  EXPECT_EQ(waits.code(), Code::unavailable);
  EXPECT_NE(waits.message().find("another claim of its container: ElasticGPU egpu-"), std::string::npos) << waits.str();
}

TEST(ContainersAtOnce, InitContainersThatEndDoNotCount) {
  core::Pod pod, other;
  pod.metadata.name = "p";
  pod.resourceClaims = {{"first", "a"}, {"second", "b"}};
  pod.initContainers = {container("init", {"first"}), container("beside", {"first"})};
  pod.initContainers[1].sidecar = true;
  pod.containers = {container("main", {"first", "second"}), container("second", {"first"}), container("none", {})};
  other.resourceClaims = {{"first", "a"}};
  other.containers = {container("main", {"first"})};
  EXPECT_EQ(containersAtOnce({other, pod}, "a"), 3u);
  EXPECT_EQ(containersAtOnce({other, pod}, "b"), 1u);
  EXPECT_EQ(containersAtOnce({}, "a"), 1u);
}

TEST(UsesOf, TheOrderIsThePodsAndNamesOfTemplatesComeFromTheStatus) {
  core::Pod pod;
  pod.metadata.name = "p";
  pod.resourceClaims = {{"second", "", "template"}, {"first", "a"}, {"again", "a"}, {"second", "p-second-x"}};
  pod.initContainers = {container("init", {"first"})};
  pod.containers = {container("main", {"again", "first", "second"}), container("none", {"second"})};
  EXPECT_EQ(usesOf({pod}, "a"),
            (std::vector<Use>{{"container init of pod p", {"a"}}, {"container main of pod p", {"p-second-x", "a"}}}));
}

}  // namespace
}  // namespace egpu::agent

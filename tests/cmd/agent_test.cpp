// elastic-gpu-agent as a process: its protocol with the kubelet, its endpoints, its exits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "controller/agent/cdi/folder.h"
#include "controller/agent/health/health.h"
#include "controller/base/files.h"
#include "controller/base/ids.h"
#include "controller/base/subprocess.h"
#include "controller/base/text.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/standalone/apiserver/server.h"
#include "tests/agent/dra/kubelet.h"
#include "tests/agent/dra/pod_resources.h"
#include "tests/nvml/fake_nvml.h"

namespace egpu::agent::dra {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AgentTest : public KubeletTest {
 protected:
  void SetUp() override {
    KubeletTest::SetUp();
    fs::create_directory(folder + "/plugins");
    options.pluginFolder = folder + "/plugins/elasticgpu.io";
    // Nothing listens there: an agent without an API server registers, and refuses every claim.
    useServer("http://127.0.0.1:1");
  }
  void useServer(const std::string& url) const {
    std::ofstream(folder + "/kubeconfig") << R"(
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: ")" + url +
                                                 R"("}}]
users: [{name: none, user: {}}]
)";
  }
  void TearDown() override {
    agent.reset();
    KubeletTest::TearDown();
  }
  std::vector<std::string> arguments() const {
    return {EGPU_BIN_DIR "/elastic-gpu-agent",
            "--node-name=node-a",
            "--kubelet-dir=" + folder,
            "--cdi-root=" + folder + "/cdi",
            "--kubeconfig=" + folder + "/kubeconfig",
            "--ops-listen=127.0.0.1:0",
            "--probes-listen=127.0.0.1:0",
            "--write-ops-address=" + folder + "/ops",
            "--write-probes-address=" + folder + "/probes"};
  }
  void run(const std::vector<std::string>& argv) {
    base::Subprocess::Options o;
    o.argv = argv;
    for (const char* name : {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"})
      if (const char* value = ::getenv(name)) o.env.push_back(std::string(name) + "=" + value);
    o.env.insert(o.env.end(), environment.begin(), environment.end());
    auto started = base::Subprocess::spawn(o);
    ASSERT_TRUE(started.ok()) << started.status().str();
    agent.emplace(std::move(*started));
  }
  void runUntilItServes() {
    for (const char* file : {"/ops", "/probes"}) fs::remove(folder + file);
    run(arguments());
    ASSERT_TRUE(eventually([&] { return fs::exists(folder + "/probes"); }));
  }
  /// Returns "200 body".
  std::string ask(const std::string& file, const std::string& path) {
    kube::Endpoint endpoint;
    endpoint.server = "http://" + *base::readFile(folder + file);
    const auto to = kube::curlTransport(endpoint, clock);
    kube::HttpRequest request;
    request.target = path;
    const auto answer = (*to)->perform(request, {});
    return answer ? std::to_string(answer->status) + " " + answer->body : answer.status().str();
  }
  v1::NodePrepareResourcesRequest claim() {
    v1::NodePrepareResourcesRequest request;
    addClaim(request, "u1");
    return request;
  }
  base::SystemClock clock;
  std::vector<std::string> environment;  ///< "NAME=value", in addition to the defaults
  std::optional<base::Subprocess> agent;
};

TEST_F(AgentTest, RegistersAndReportsHowItDoes) {
  runUntilItServes();
  EXPECT_EQ(ask("/probes", "/healthz"), "200 ok\n");
  EXPECT_THAT(ask("/probes", "/readyz"), StartsWith("503 "));
  ASSERT_TRUE(registered());
  PrepareCall call(dial(pluginSocket()), claim());
  ASSERT_TRUE(call.get().ok()) << call.get().error_message();
  EXPECT_NE(call.error("u1"), "");  // without an API server no claim can be authorized
  const auto text = ask("/ops", "/metrics");
  EXPECT_THAT(text, StartsWith("200 "));
  EXPECT_THAT(text, HasSubstr("elasticgpu_agent_prepare_seconds_count{result=\"failed\"} 1"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes"));
  EXPECT_THAT(ask("/probes", "/metrics"), StartsWith("404 "));
}

/// A process with a user of the plugin's own stages the limiter's files there.
TEST_F(AgentTest, ItsPluginsMayWriteToTheirFolderWithoutAFlagThatNamesIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "plugins have this user, too";
  if (std::system("unshare --mount true") != 0) GTEST_SKIP() << "no mount namespace is permitted";
  auto argv = arguments();
  const std::string mounted = "mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/elasticgpu && exec \"$0\" \"$@\"";
  argv.insert(argv.begin(), {"/usr/bin/unshare", "--mount", "/bin/sh", "-c", mounted});
  run(argv);
  const std::string seen = "/proc/" + std::to_string(agent->pid()) + "/root/var/lib/elasticgpu";
  EXPECT_TRUE(eventually([&] {
    struct stat info {};
    return ::stat(seen.c_str(), &info) == 0 && info.st_gid == 61184 && (info.st_mode & 01070) == 01070;
  }));
}

TEST_F(AgentTest, WhatIsUsedIsShownWhileItIsPrepared) {
  nvidia::testing::FakeNvml node("a100");
  node.file["devices"][0]["sm"] = 35;
  // A process outside of pods counts for the card.
  node.file["devices"][0]["processes"].push_back(YAML::Load("[" + std::to_string(::getpid()) + ", 3221225472, 30]"));
  node.write();
  environment = node.environment();
  const auto card = node.file["devices"][0]["uuid"].as<std::string>();
  cdi::Spec spec;
  spec.device = "egpu-1";
  spec.deviceUid = spec.claimUid = "u-1";
  spec.claimNamespace = "ns";
  spec.claimName = "train";
  spec.provisioner = "gpushare.provisioner.elasticgpu.io";
  spec.cards = {{"gpu-a", card, 250, int64_t{4} << 30, 250, int64_t{4} << 30}};
  cdi::Folder prepared(folder + "/cdi");
  ASSERT_TRUE(prepared.open().ok() && prepared.write(spec).ok() && prepared.publish("u-1").ok());
  runUntilItServes();
  std::string text;
  ASSERT_TRUE(eventually([&] {
    text = ask("/ops", "/metrics");
    return text.find("elasticgpu_card_memory_used_bytes{") != std::string::npos;
  })) << text;
  const auto onCard = "{Hostname=\"node-a\",UUID=\"" + card + "\",modelName=\"A100-SXM4-80GB\"} ";
  EXPECT_THAT(text, HasSubstr("elasticgpu_card_memory_used_bytes" + onCard + "3221225472\n"));
  EXPECT_THAT(text, HasSubstr("elasticgpu_card_sm_utilisation_ratio" + onCard + "0.35\n"));
  EXPECT_THAT(text, HasSubstr("elasticgpu_card_processes" + onCard + "1\n"));
  const auto ofClaim = "{UUID=\"" + card + "\",claim=\"train\",namespace=\"ns\",pod=\"\"} ";
  EXPECT_THAT(text, HasSubstr("elasticgpu_claim_memory_used_bytes" + ofClaim + "0\n"));
  EXPECT_THAT(text, HasSubstr("elasticgpu_claim_processes" + ofClaim + "0\n"));
  EXPECT_THAT(text, HasSubstr("elasticgpu_claim_memory_limit_bytes" + ofClaim + "4294967296\n"));
  EXPECT_THAT(text, HasSubstr("elasticgpu_claim_core_limit_ratio" + ofClaim + "0.25\n"));
  EXPECT_THAT(text, HasSubstr("# HELP elasticgpu_claim_series_left_out Claims' pods"));
  ASSERT_TRUE(prepared.withdraw("u-1").ok());
  EXPECT_THAT(ask("/ops", "/metrics"), ::testing::Not(HasSubstr("train"))) << "unprepared, it has no series";
}

/// NVIDIA's device plugin gave a card to a pod that has no process yet.
TEST_F(AgentTest, ACardThatTheKubeletGaveByOthersIsFenced) {
  nvidia::testing::FakeNvml node("a100");
  environment = node.environment();
  const auto uuid = [&](int i) { return node.file["devices"][i]["uuid"].as<std::string>(); };
  FakePodResources given;
  addDevices(given.container("team", "notebook", "main"), "nvidia.com/gpu", {uuid(1)});
  fs::create_directory(folder + "/pod-resources");
  given.listen(folder + "/pod-resources/kubelet.sock");
  base::Random random;
  auto api = apiserver::Server::create({}, clock, random);
  ASSERT_TRUE(api.ok()) << api.status().str();
  const auto listener = http::listen("127.0.0.1:0", **api);
  ASSERT_TRUE(listener.ok()) << listener.status().str();
  useServer("http://" + (*listener)->address());
  kube::Endpoint endpoint;
  endpoint.server = "http://" + (*listener)->address();
  const auto line = kube::curlTransport(endpoint, clock);
  kube::Client client(**line, clock, random, metrics);
  const auto healthOf = [&](int i) {
    const auto card = client.get<v1alpha::ElasticGPU>({"", base::lowered(uuid(i))});
    const auto* healthy = card ? health::healthyOf(card->status.conditions) : nullptr;
    return healthy ? healthy->reason + ": " + healthy->message : std::string();
  };
  runUntilItServes();
  const std::string words = "ForeignUse: used without a claim by container main of pod team/notebook, ";
  EXPECT_TRUE(eventually([&] { return healthOf(1).starts_with(words); })) << healthOf(1);
  EXPECT_THAT(healthOf(0), StartsWith("Working"));
  agent.reset();
  (*listener)->stop();
}

/// The test's NVML is not found on the host: the cards have the reason, and claims for the mode avoid them.
TEST_F(AgentTest, ACardTellsWhyTheDriverDoesNotLimitMemory) {
  nvidia::testing::FakeNvml node("a100");
  environment = node.environment();
  fs::create_directory(folder + "/state");
  environment.push_back("ELASTICGPU_STATE_DIR=" + folder + "/state");
  base::Random random;
  auto api = apiserver::Server::create({}, clock, random);
  ASSERT_TRUE(api.ok()) << api.status().str();
  const auto listener = http::listen("127.0.0.1:0", **api);
  ASSERT_TRUE(listener.ok()) << listener.status().str();
  useServer("http://" + (*listener)->address());
  kube::Endpoint endpoint;
  endpoint.server = "http://" + (*listener)->address();
  const auto line = kube::curlTransport(endpoint, clock);
  kube::Client client(**line, clock, random, metrics);
  const auto support = [&] {
    const auto uuid = node.file["devices"][1]["uuid"].as<std::string>();
    const auto card = client.get<v1alpha::ElasticGPU>({"", base::lowered(uuid)});
    if (!card || !card->isCard()) return std::string();
    const auto found = card->spec.card->attributes.find(std::string_view("memoryLimits"));
    return found == card->spec.card->attributes.end() ? std::string() : found->second;
  };
  runUntilItServes();
  EXPECT_TRUE(eventually([&] { return !support().empty(); }));
  EXPECT_NE(support(), "available");
  EXPECT_THAT(support(), HasSubstr(" "));
  agent.reset();
  (*listener)->stop();
}

/// Files of a node with these plugins, and an API server with a pod that has the claim "used".
class PreparedFilesTest : public AgentTest {
 protected:
  void SetUp() override {
    AgentTest::SetUp();
    auto made = apiserver::Server::create({}, clock, random);
    ASSERT_TRUE(made.ok()) << made.status().str();
    api = std::move(*made);
    auto listening = http::listen("127.0.0.1:0", *api);
    ASSERT_TRUE(listening.ok()) << listening.status().str();
    listener = std::move(*listening);
    useServer("http://" + listener->address());
    kube::Endpoint endpoint;
    endpoint.server = "http://" + listener->address();
    const auto line = kube::curlTransport(endpoint, clock);
    kube::Client client(**line, clock, random, metrics);
    core::Namespace ns;
    ns.metadata.name = "default";
    (void)client.create(ns);
    core::Pod pod;
    pod.metadata.name = "p";
    pod.metadata.namespace_ = "default";
    pod.nodeName = "node-a";
    pod.resourceClaims.push_back({"used", "used"});
    pod.containers.emplace_back();
    pod.containers.back().name = "main";
    pod.containers.back().image = "none";
    ASSERT_TRUE(client.create(pod).ok());
    ASSERT_TRUE(prepared.open().ok());
  }
  void TearDown() override {
    AgentTest::TearDown();
    if (listener) listener->stop();
  }
  void prepare(const std::string& uid, const std::string& claim) {
    cdi::Spec spec;
    spec.device = "egpu-" + uid;
    spec.deviceUid = uid;
    spec.claimNamespace = "default";
    spec.claimName = claim;
    spec.claimUid = "of-" + uid;
    spec.provisioner = "removed.example.com";
    spec.boot = "an earlier one";
    spec.cards = {{"gpu-a", "GPU-A", 250, int64_t{4} << 30, 250, int64_t{4} << 30}};
    ASSERT_TRUE(prepared.write(spec).ok() && prepared.publish(uid).ok());
  }
  bool exists(const std::string& uid, const std::string& end) const {
    return fs::exists(folder + "/cdi/elasticgpu.io-device_" + uid + ".json" + end);
  }
  void runWithPlugins() {
    auto argv = arguments();
    argv.push_back("--plugins=" + folder + "/plugins");
    run(argv);
  }

  base::Random random;
  std::unique_ptr<apiserver::Server> api;
  std::unique_ptr<http::Listener> listener;
  cdi::Folder prepared{folder + "/cdi"};
};

/// The file's paths may lead to another card.
TEST_F(PreparedFilesTest, AStaleFileIsWithdrawnWhateverElseCannotBeTakenAway) {
  std::ofstream(folder + "/plugins/broken.so") << "it may be the one that is missing";
  prepare("left", "unused");
  prepare("stale", "used");
  runWithPlugins();
  EXPECT_TRUE(eventually([&] { return exists("stale", ".part") && !exists("stale", ""); }));
  EXPECT_TRUE(eventually([&] { return exists("left", ".part"); })) << "only its plugin can unstage it";
}

TEST_F(PreparedFilesTest, TheLastPluginMayBeUninstalledToo) {
  prepare("left", "unused");
  runWithPlugins();
  EXPECT_TRUE(eventually([&] { return !exists("left", "") && !exists("left", ".part"); }));
}

TEST_F(AgentTest, Kill9LeavesNothingThatTheNextOneCantReplace) {
  runUntilItServes();
  ASSERT_TRUE(registered());
  const auto channel = dial(pluginSocket());
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)));
  ::kill(agent->pid(), SIGKILL);
  EXPECT_THAT(agent->finish(std::chrono::seconds(10)), HasSubstr("signal 9"));
  ASSERT_TRUE(fs::exists(registrySocket()) && fs::exists(pluginSocket()));  // stale
  runUntilItServes();
  EXPECT_TRUE(registered());
  // The kubelet's old connection reconnects to the new process.
  EXPECT_TRUE(eventually([&] {
    PrepareCall call(channel, claim());
    return call.get().ok();
  }));
}

TEST_F(AgentTest, SigtermRemovesItsSocketsAndEndsWell) {
  runUntilItServes();
  ::kill(agent->pid(), SIGTERM);
  EXPECT_EQ(agent->finish(std::chrono::seconds(30)), "exited with status 0");
  EXPECT_FALSE(fs::exists(registrySocket()));
  EXPECT_FALSE(fs::exists(pluginSocket()));
}

TEST_F(AgentTest, WrongUsageIsNamed) {
  auto argv = arguments();
  argv[1] = "--node-name=../../etc";
  run(argv);
  EXPECT_EQ(agent->finish(std::chrono::seconds(30)), "exited with status 2");
  argv = arguments();
  argv[2] = "--kubelet-dir=" + folder + "/" + std::string(120, 'x');
  run(argv);
  EXPECT_EQ(agent->finish(std::chrono::seconds(30)), "exited with status 1");
  for (const char* wrong : {"--probation=-5s", "--probation=5", "--probation=5 weeks", "--usage-interval=60"}) {
    argv = arguments();
    argv.emplace_back(wrong);
    run(argv);
    EXPECT_EQ(agent->finish(std::chrono::seconds(30)), "exited with status 2") << wrong;
  }
}

}  // namespace
}  // namespace egpu::agent::dra

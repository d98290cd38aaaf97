// elastic-gpu-agent as a process: its kubelet's dialogue, its endpoints, its ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "controller/base/files.h"
#include "controller/base/subprocess.h"
#include "controller/kube/transport/curl_transport.h"
#include "tests/agent/dra/kubelet.h"

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
    // Nobody answers there: an agent without an API server registers, and says no to every claim.
    std::ofstream(folder + "/kubeconfig") << R"(
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
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
    auto started = base::Subprocess::spawn(o);
    ASSERT_TRUE(started.ok()) << started.status().str();
    agent.emplace(std::move(*started));
  }
  void runUntilItServes() {
    for (const char* file : {"/ops", "/probes"}) fs::remove(folder + file);
    run(arguments());
    ASSERT_TRUE(eventually([&] { return fs::exists(folder + "/probes"); }));
  }
  /// "200 body"
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
  std::optional<base::Subprocess> agent;
};

TEST_F(AgentTest, RegistersAndSaysHowItDoes) {
  runUntilItServes();
  EXPECT_EQ(ask("/probes", "/healthz"), "200 ok\n");
  EXPECT_THAT(ask("/probes", "/readyz"), StartsWith("503 "));
  ASSERT_TRUE(registered());
  PrepareCall call(dial(pluginSocket()), claim());
  ASSERT_TRUE(call.get().ok()) << call.get().error_message();
  EXPECT_NE(call.error("u1"), "");  // no API server: nothing can be checked, so nothing is given
  const auto metrics = ask("/ops", "/metrics");
  EXPECT_THAT(metrics, StartsWith("200 "));
  EXPECT_THAT(metrics, HasSubstr("elasticgpu_agent_prepare_seconds_count{result=\"failed\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("process_resident_memory_bytes"));
  EXPECT_THAT(ask("/probes", "/metrics"), StartsWith("404 "));
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
  // The kubelet's old connection finds the new process by itself.
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
  for (const char* probation : {"--probation=-5s", "--probation=5", "--probation=5 weeks"}) {
    argv = arguments();
    argv.emplace_back(probation);
    run(argv);
    EXPECT_EQ(agent->finish(std::chrono::seconds(30)), "exited with status 2") << probation;
  }
}

}  // namespace
}  // namespace egpu::agent::dra

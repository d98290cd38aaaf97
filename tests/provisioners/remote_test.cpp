// The plugin for remote GPUs, with the example pool server over HTTPS.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/provisioners/plugin_fixture.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kToken = "s3cret-t0ken";

/// PoolFiles with a certificate of 127.0.0.1 and a token, removed at the end.
class PoolFiles {
 public:
  PoolFiles() {
    char name[] = "/tmp/egpu-remote-XXXXXX";
    path_ = ::mkdtemp(name);
    const std::string make =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "
        "/CN=pool -addext subjectAltName=IP:127.0.0.1 -keyout " +
        path_ + "/key -out " + path_ + "/cert 2>/dev/null";
    EXPECT_EQ(std::system(make.c_str()), 0);
    std::ofstream(path_ + "/token") << kToken << "\n";
    std::ofstream(path_ + "/wrong") << "other\n";
  }
  ~PoolFiles() { EXPECT_EQ(std::system(("rm -r " + path_).c_str()), 0); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The example pool server, as a process.
class PoolServer {
 public:
  PoolServer(const PoolFiles& folder, int gpus) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string words[] = {EGPU_PYTHON,     EGPU_POOL_SERVER, "--gpus",       std::to_string(gpus), "--cert",
                           folder / "cert", "--key",          folder / "key", "--token-file",       folder / "token"};
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, EGPU_PYTHON, &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) url += c;
    ::close(ends[0]);
  }
  ~PoolServer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  PoolServer(const PoolServer&) = delete;
  PoolServer& operator=(const PoolServer&) = delete;

  std::string url;

 private:
  pid_t pid_ = 0;
};

class RemoteTest : public PluginTest {
 protected:
  RemoteTest() : PluginTest("remote") {}
  void SetUp() override {
    PluginTest::SetUp();
    ::setenv("ELASTICGPU_STATE_DIR", (folder / "state").c_str(), 1);
  }
  void TearDown() override {
    for (const char* key : {"a", "b", "c"}) plugin->unstage(key);
    ::unsetenv("ELASTICGPU_STATE_DIR");
  }
  core::StringMap parameters(const std::string& url) const {
    return {{"pool", url}, {"owner", "test"}, {"caFile", folder / "cert"}, {"tokenFile", folder / "token"}};
  }
  /// A device without cards, which requests one GPU.
  static DeviceRequest device(const std::string& key, core::StringMap parameters) {
    auto d = testing::device(key, {}, std::move(parameters));
    d.capacity = {{"remote.provisioner.elasticgpu.io/gpu", "1"}};
    return d;
  }

  PoolFiles folder;
};

TEST_F(RemoteTest, RefusesParametersWithTheValidOnes) {
  const auto good = parameters("https://pool.example.com:7443");
  const auto refused = [&](const std::string& name, const std::string& value) {
    auto all = good;
    all[name] = value;
    EXPECT_EQ(outcomeOf(plugin->validate(all)), ReplyCode::invalid) << name << ": " << value;
    EXPECT_THAT(message, HasSubstr(name));
  };
  EXPECT_EQ(outcomeOf(plugin->validate(good)), ReplyCode::ok) << message;
  for (const char* url : {"", "http://pool", "https://", "https://user@pool", "https://pool?x", "https://po ol"})
    refused("pool", url);
  for (const char* owner : {"", "a/b", "a b"}) refused("owner", owner);
  for (const char* seconds : {"", "29", "86401", "1m"}) refused("leaseSeconds", seconds);
  refused("caFile", "cert");
  refused("tokenFile", "token");
  refused("endpointVariable", "1X");
  refused("mounts", "/a");
  refused("mounts", "/a:b");
  refused("token", "abc");
}

TEST_F(RemoteTest, ALeaseLivesAsLongAsItsDevice) {
  const PoolServer server(folder, 2);
  const auto all = parameters(server.url);
  ASSERT_EQ(outcomeOf(plugin->validate(all)), ReplyCode::ok) << message;
  auto a = device("a", all);
  const auto first = plugin->provision(a);
  ASSERT_EQ(outcomeOf(first), ReplyCode::ok) << message;
  EXPECT_EQ(first.source.endpoint, "127.0.0.1:7000");
  const auto again = plugin->provision(a);
  EXPECT_EQ(outcomeOf(again), ReplyCode::noChange) << message;
  EXPECT_EQ(again.source, first.source);
  EXPECT_THAT(plugin->list().keys, ::testing::ElementsAre("a"));
  auto other = a;
  other.capacity["remote.provisioner.elasticgpu.io/gpu"] = "2";
  EXPECT_EQ(outcomeOf(plugin->provision(other)), ReplyCode::exists);
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  EXPECT_TRUE(plugin->list().keys.empty());
}

TEST_F(RemoteTest, AFullPoolIsReported) {
  const PoolServer server(folder, 1);
  const auto all = parameters(server.url);
  ASSERT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", all))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("is full: all 1 GPUs are leased"));
  ASSERT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", all))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("b")), ReplyCode::ok);
}

TEST_F(RemoteTest, TheServerMustHaveATrustedCertificateAndTheClientAToken) {
  const PoolServer server(folder, 1);
  auto all = parameters(server.url);
  all["tokenFile"] = folder / "wrong";
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("tokenFile"));
  EXPECT_THAT(message, Not(HasSubstr("other")));
  all["tokenFile"] = folder / "missing";
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("cannot be read"));
  all = parameters(server.url);
  all.erase("caFile");
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("certificate"));
}

TEST_F(RemoteTest, APoolThatIsDownDoesNotStopTheOthers) {
  const PoolServer server(folder, 1);
  const auto up = parameters(server.url), down = parameters("https://127.0.0.1:1");
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", down))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("does not answer"));
  ASSERT_EQ(outcomeOf(plugin->provision(device("b", up))), ReplyCode::ok) << message;
  ASSERT_EQ(outcomeOf(plugin->validate(down)), ReplyCode::ok) << "no request";
  EXPECT_THAT(plugin->list().keys, ::testing::ElementsAre("b"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("b")), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, TheContainerGetsTheEndpointAndTheLibraries) {
  auto all = parameters("https://pool.example.com:7443");
  all["endpointVariable"] = "SCUDA_SERVER";
  all["mounts"] = "/opt/scuda/libscuda.so:/usr/lib/libcuda.so.1, /opt/scuda/conf:/etc/scuda";
  auto a = device("a", all);
  EXPECT_EQ(plugin->mount(a, "ns/pod", "main").reply.outcome, ReplyCode::unavailable) << "no endpoint yet";
  a.source.endpoint = "10.0.0.1:7000";
  const auto reply = plugin->mount(a, "ns/pod", "main");
  ASSERT_TRUE(reply.reply.ok()) << reply.reply.message;
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_REMOTE_ENDPOINT"), "10.0.0.1:7000");
  EXPECT_EQ(env(reply.edits, "SCUDA_SERVER"), "10.0.0.1:7000");
  EXPECT_EQ(mountedAt(reply.edits, "/usr/lib/libcuda.so.1"), "/opt/scuda/libscuda.so");
  EXPECT_EQ(mountedAt(reply.edits, "/etc/scuda"), "/opt/scuda/conf");
  EXPECT_TRUE(reply.edits.deviceNodes.empty());
}

TEST_F(RemoteTest, ADeviceWithCardsIsRefused) {
  auto local = testing::device("a", {card(0, 1000, 16 * kGiB)}, parameters("https://pool.example.com"));
  EXPECT_EQ(outcomeOf(plugin->provision(local)), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("uses no card of the cluster"));
}

TEST_F(RemoteTest, TheNodeRenewsTheLeaseWhileTheDeviceIsStaged) {
  const PoolServer server(folder, 1);
  auto all = parameters(server.url);
  all["leaseSeconds"] = "30";
  auto a = device("a", all);
  a.source = plugin->provision(a).source;
  ASSERT_EQ(outcomeOf(plugin->stage(a)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->stage(a)), ReplyCode::noChange) << message;
  const std::string ask = "curl -s --cacert " + (folder / "cert") + " -H 'Authorization: Bearer " + kToken + "' '" +
                          server.url + "/v1/leases?owner=test' | grep -q '\"renewals\": {\"a\": [1-9]'";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool renewed = false;
  while (!(renewed = std::system(ask.c_str()) == 0) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(renewed);
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::noChange) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, APodDoesNotStartWithAnotherGpuThanItsClaimNames) {
  const PoolServer server(folder, 2);
  auto a = device("a", parameters(server.url));
  a.source = plugin->provision(a).source;
  ASSERT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << "as if the lease had ended";
  ASSERT_EQ(outcomeOf(plugin->provision(device("b", parameters(server.url)))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->stage(a)), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("the pool now gives 127.0.0.1:7001 instead of 127.0.0.1:7000"));
}

}  // namespace
}  // namespace egpu::plugin::testing

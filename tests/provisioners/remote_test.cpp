// The plugin for remote GPUs, with the example pool server over HTTPS.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

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
  PoolServer(const PoolFiles& folder, int gpus) : PoolServer(folder, gpus, {EGPU_POOL_SERVER}) {}
  PoolServer(const PoolServer&) = delete;
  PoolServer& operator=(const PoolServer&) = delete;
  ~PoolServer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string url;

 protected:
  PoolServer(const PoolFiles& folder, int gpus, std::vector<std::string> script) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<std::string> words{EGPU_PYTHON};
    words.insert(words.end(), script.begin(), script.end());
    for (const auto& word : {std::string("--gpus"), std::to_string(gpus), std::string("--cert"), folder / "cert",
                             std::string("--key"), folder / "key", std::string("--token-file"), folder / "token"})
      words.push_back(word);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, EGPU_PYTHON, &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) url += c;
    ::close(ends[0]);
  }

 private:
  pid_t pid_ = 0;
};

/// A pool server whose faults the test sets (faulty_pool.py).
class FaultyPool : public PoolServer {
 public:
  FaultyPool(const PoolFiles& folder, int gpus)
      : PoolServer(folder, gpus,
                   {EGPU_FAULTY_POOL, EGPU_POOL_SERVER, (set(folder, "{}"), folder / "faults"), folder / "requests"}),
        folder_(folder) {}
  void set(const std::string& faults) const { set(folder_, faults); }
  /// Number of requests that begin with this text.
  int requests(const std::string& begin = {}) const {
    std::ifstream in(folder_ / "requests");
    int count = 0;
    for (std::string line; std::getline(in, line);) count += line.rfind(begin, 0) == 0 ? 1 : 0;
    return count;
  }

 private:
  static void set(const PoolFiles& folder, const std::string& faults) {
    std::ofstream(folder / "faults.new") << faults;
    std::filesystem::rename(folder / "faults.new", folder / "faults");
  }
  const PoolFiles& folder_;
};

class RemoteTest : public PluginTest {
 protected:
  RemoteTest() : PluginTest("remote") {}
  void SetUp() override {
    PluginTest::SetUp();
    ::setenv("ELASTICGPU_STATE_DIR", state().c_str(), 1);
    restart();
  }
  std::string state() const { return folder / "state"; }
  /// Loads the plugin as a new process does: a copy of the file has variables of its own.
  void restart() {
    const auto copy = folder / ("libremote" + std::to_string(registries_.size()) + ".so").c_str();
    std::filesystem::copy_file(EGPU_PROVISIONER_DIR "/libremote.so", copy);
    auto& fresh = *registries_.emplace_back(std::make_unique<InProcessRegistry>());
    const base::Status status = fresh.load(copy);
    ASSERT_TRUE(status.ok()) << status.str();
    plugin = fresh.find("remote.provisioner.elasticgpu.io", nullptr);
  }
  /// Calls until the outcome is this one.
  bool becomes(ReplyCode outcome, const std::function<Reply()>& call, std::chrono::seconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (outcomeOf(call()) != outcome) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return true;
  }
  /// Sends a request to the pool beside the plugin; true if the answer contains the text.
  bool ask(const PoolServer& server, const std::string& request, const std::string& text) const {
    const std::string command = "curl -s -i --cacert " + (folder / "cert") + " -H 'Authorization: Bearer " + kToken +
                                "' " + request + " | grep -q '" + text + "'";
    return server.url.size() > 8 && std::system(command.c_str()) == 0;
  }
  /// Ends the lease as the pool does.
  bool endLease(const PoolServer& server, const std::string& key) const {
    return ask(server, "-X DELETE '" + server.url + "/v1/leases/" + key + "?owner=test'", " 204 ");
  }
  void TearDown() override {
    for (const char* key : {"a", "b", "c"}) plugin->unstage(key);
    ::unsetenv("ELASTICGPU_STATE_DIR");
  }
  core::StringMap parameters(const std::string& url) const {
    return {{"pool", url}, {"owner", "test"}, {"caFile", folder / "cert"}, {"tokenFile", folder / "token"}};
  }
  bool isRenewed(const PoolServer& server, const std::string& key, std::chrono::seconds limit) const {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!ask(server, "'" + server.url + "/v1/leases?owner=test'", "\"renewals\": {.*\"" + key + "\": [1-9]")) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }
  /// A device without cards, which requests one GPU.
  static DeviceRequest device(const std::string& key, core::StringMap parameters) {
    auto d = testing::device(key, {}, std::move(parameters));
    d.capacity = {{"remote.provisioner.elasticgpu.io/gpu", "1"}};
    return d;
  }

  /// A device that is provisioned and staged, with the shortest lease.
  DeviceRequest staged(const std::string& key, const std::string& url) {
    auto all = parameters(url);
    all["leaseSeconds"] = "30";
    auto d = device(key, all);
    d.source = plugin->provision(d).source;
    EXPECT_EQ(outcomeOf(plugin->stage(d)), ReplyCode::ok) << message;
    return d;
  }

  PoolFiles folder;

 private:
  std::vector<std::unique_ptr<InProcessRegistry>> registries_;
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
  other.capacity["remote.provisioner.elasticgpu.io/gpu-memory"] = "8Gi";
  EXPECT_EQ(outcomeOf(plugin->provision(other)), ReplyCode::exists);
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  EXPECT_TRUE(plugin->list().keys.empty());
}

TEST_F(RemoteTest, AFullPoolIsReported) {
  const PoolServer server(folder, 1);
  const auto all = parameters(server.url);
  ASSERT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", all))), ReplyCode::reschedule);
  EXPECT_THAT(message, HasSubstr("is full: all 1 GPUs are leased"));
  ASSERT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok);
  EXPECT_EQ(outcomeOf(plugin->provision(device("b", all))), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("b")), ReplyCode::ok);
}

TEST_F(RemoteTest, ThePoolRefusesWhatItCannotLease) {
  const PoolServer server(folder, 2);
  auto two = device("a", parameters(server.url));
  two.capacity = {{"remote.provisioner.elasticgpu.io/gpu", "2"}};
  EXPECT_EQ(outcomeOf(plugin->provision(two)), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("a lease is for one GPU, not for 2"));
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
  EXPECT_THAT(message, HasSubstr("the token of parameter tokenFile cannot be read from " + (folder / "missing") +
                                 ": No such file or directory"));
  EXPECT_THAT(message, Not(HasSubstr("does not answer")));
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

TEST_F(RemoteTest, ADeviceOfAnAdministratorNeedsNoPool) {
  EXPECT_EQ(outcomeOf(plugin->validate({})), ReplyCode::ok) << message;
  const core::StringMap mounts{{"mounts", "/opt/scuda:/opt/scuda"}};
  EXPECT_EQ(outcomeOf(plugin->validate(mounts)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->validate({{"owner", "test"}})), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("owner is given without pool"));
  auto a = device("a", mounts);
  EXPECT_EQ(outcomeOf(plugin->provision(a)), ReplyCode::invalid) << "no address";
  EXPECT_THAT(message, HasSubstr("has no parameter pool"));
  a.source.endpoint = "10.0.0.1:7000";
  EXPECT_EQ(outcomeOf(plugin->provision(a)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->stage(a)), ReplyCode::noChange) << "there is no lease to renew";
  const auto reply = plugin->mount(a, "ns/pod", "main");
  EXPECT_EQ(env(reply.edits, "ELASTICGPU_REMOTE_ENDPOINT"), "10.0.0.1:7000");
  EXPECT_EQ(mountedAt(reply.edits, "/opt/scuda"), "/opt/scuda");
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, ADeviceWithCardsIsRefused) {
  auto local = testing::device("a", {card(0, 1000, 16 * kGiB)}, parameters("https://pool.example.com"));
  EXPECT_EQ(outcomeOf(plugin->provision(local)), ReplyCode::invalid);
  EXPECT_THAT(message, HasSubstr("uses no card of the cluster"));
}

TEST_F(RemoteTest, TheNodeRenewsTheLeaseWhileTheDeviceIsStaged) {
  const PoolServer server(folder, 1);
  const auto a = staged("a", server.url);
  EXPECT_EQ(outcomeOf(plugin->stage(a)), ReplyCode::noChange) << message;
  EXPECT_TRUE(isRenewed(server, "a", std::chrono::seconds(30)));
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::noChange) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, ALeaseThatThePoolForgetsIsReportedUntilItIsRenewed) {
  const PoolServer server(folder, 1);
  const auto a = staged("a", server.url);
  EXPECT_TRUE(plugin->health().cards.empty());
  const auto waitFor = [&](bool isReported) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    auto reply = plugin->health();
    while (reply.cards.empty() == isReported && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      reply = plugin->health();
    }
    return reply.cards;
  };
  ASSERT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << "as if the pool had ended the lease";
  const auto lost = waitFor(true);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].uuid, "a");
  EXPECT_FALSE(lost[0].healthy);
  EXPECT_THAT(lost[0].message, HasSubstr("LeaseLost: the lease of the remote GPU has ended: pool " + server.url +
                                         " does not know the lease a any more"));
  EXPECT_THAT(lost[0].message, Not(HasSubstr(kToken)));
  ASSERT_EQ(outcomeOf(plugin->provision(a)), ReplyCode::ok) << message;
  EXPECT_TRUE(waitFor(false).empty()) << "it is renewed again";
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
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

TEST_F(RemoteTest, ASlowPoolDoesNotDelayTheClaimsOfOthers) {
  const FaultyPool slow(folder, 1);
  const PoolServer quick(folder, 1);
  slow.set(R"({"delay": 3, "code": 507})");
  constexpr int kClaims = 40, kCalls = 4;  // calls of one plugin that the host has under way
  std::atomic<int> next{0};
  std::atomic<int64_t> quickTook{0};
  const auto begin = std::chrono::steady_clock::now();
  const auto work = [&] {
    for (int i = next++; i <= kClaims; i = next++) {
      const bool isLast = i == kClaims;
      const auto reply = plugin->provision(device("k" + std::to_string(i), parameters(isLast ? quick.url : slow.url)));
      if (!isLast) continue;
      EXPECT_EQ(reply.outcome, ReplyCode::ok) << reply.message;
      quickTook =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
    }
  };
  {
    std::vector<std::jthread> calls;
    for (int i = 0; i < kCalls; ++i) calls.emplace_back(work);
  }
  EXPECT_LT(quickTook, 2500);
  EXPECT_EQ(slow.requests("PUT"), 2);
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", parameters(slow.url)))), ReplyCode::unavailable);
  EXPECT_THAT(message, HasSubstr("answers slowly: the last answer took 3."));
  EXPECT_EQ(slow.requests("PUT"), 2);
  slow.set(R"({"code": 507})");
  EXPECT_TRUE(becomes(
      ReplyCode::reschedule, [&] { return plugin->provision(device("a", parameters(slow.url))); },
      std::chrono::seconds(9)))
      << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("k" + std::to_string(kClaims))), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, ADeadPoolDoesNotHoldUpTheDeletionOfClaimsOfOthers) {
  const PoolServer server(folder, 2);
  const auto up = parameters(server.url), down = parameters("https://127.0.0.1:1");
  ASSERT_EQ(outcomeOf(plugin->provision(device("a", up))), ReplyCode::ok) << message;
  ASSERT_TRUE(endLease(server, "a"));
  restart();
  ASSERT_EQ(outcomeOf(plugin->validate(down)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << "the pool of the lease is recorded: " << message;
  ASSERT_EQ(outcomeOf(plugin->provision(device("b", up))), ReplyCode::ok) << message;
  std::filesystem::remove_all(state());
  restart();
  ASSERT_EQ(outcomeOf(plugin->validate(down)), ReplyCode::ok) << message;
  ASSERT_EQ(outcomeOf(plugin->validate(up)), ReplyCode::ok) << message;
  EXPECT_THAT(plugin->list().keys, ::testing::ElementsAre("b"));
  ASSERT_TRUE(endLease(server, "b"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("b")), ReplyCode::ok) << "the pool has listed the lease: " << message;
}

TEST_F(RemoteTest, ALeaseEndsWithItsTimeIfThePoolIsDead_AndAPoolWithoutClassAndLeasesIsForgotten) {
  const FaultyPool idle(folder, 1);
  auto down = parameters("https://127.0.0.1:1"), unused = parameters(idle.url);
  down["leaseSeconds"] = unused["leaseSeconds"] = "30";
  EXPECT_EQ(outcomeOf(plugin->provision(device("a", down))), ReplyCode::unavailable);
  ASSERT_EQ(outcomeOf(plugin->validate(unused)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::unavailable) << "a node may have renewed it just now";
  EXPECT_TRUE(plugin->list().keys.empty());
  EXPECT_EQ(idle.requests("GET"), 1);
  std::this_thread::sleep_for(std::chrono::seconds(31));
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  EXPECT_TRUE(plugin->list().keys.empty());
  EXPECT_EQ(idle.requests("GET"), 2);
  EXPECT_TRUE(plugin->list().keys.empty());
  EXPECT_EQ(idle.requests("GET"), 2) << "it gets no token any more";
  ASSERT_EQ(outcomeOf(plugin->provision(device("b", unused))), ReplyCode::ok) << message;
  EXPECT_THAT(plugin->list().keys, ::testing::ElementsAre("b"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("b")), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, ALeaseThatThePoolMakesAfterItsDeletionIsEnded) {
  const FaultyPool server(folder, 1);
  const auto all = parameters(server.url);
  ASSERT_EQ(outcomeOf(plugin->validate(all)), ReplyCode::ok) << message;
  server.set(R"({"delay": 11, "method": "PUT"})");
  ASSERT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::unavailable) << "it takes longer than a call";
  ASSERT_TRUE(becomes(
      ReplyCode::ok, [&] { return plugin->deprovision("a"); }, std::chrono::seconds(2)))
      << message;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (plugin->list().keys.empty() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_THAT(plugin->list().keys, ::testing::ElementsAre("a"));
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  EXPECT_TRUE(plugin->list().keys.empty());
}

TEST_F(RemoteTest, FilesOfOtherPluginsAreNotUsed) {
  const FaultyPool server(folder, 1);
  auto a = device("a", parameters(server.url));
  a.source.endpoint = "127.0.0.1:7000";
  const std::string settings = R"({"pool":")" + server.url + R"(","owner":"test","caFile":")" + (folder / "cert") +
                               R"(","tokenFile":")" + (folder / "token") + R"(","leaseSeconds":"30"})";
  std::filesystem::create_directories(state());
  std::filesystem::permissions(state(), std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  std::ofstream(state() + "/remote-pools.json") << "[" << settings << "]";
  const auto plant = [&](const std::string& at) {
    std::filesystem::create_directories(at + "/leases");
    std::ofstream(at + "/x") << settings;
    std::ofstream(at + "/leases/lease-x") << settings;
  };
  const auto isRefused = [&] {
    restart();
    EXPECT_TRUE(plugin->health().cards.empty());
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_TRUE(plugin->list().keys.empty());
    EXPECT_EQ(outcomeOf(plugin->provision(a)), ReplyCode::unavailable);
    EXPECT_THAT(message, HasSubstr(state() + "/remote"));
    EXPECT_THAT(message, HasSubstr("is no folder that only the user of the plugin can write to"));
    EXPECT_EQ(server.requests(), 0) << "the token is sent to a server that another plugin has chosen";
  };
  plant(folder / "planted");
  std::filesystem::create_symlink(folder / "planted", state() + "/remote");
  isRefused();
  std::filesystem::remove(state() + "/remote");
  plant(state() + "/remote");
  std::filesystem::permissions(state() + "/remote", std::filesystem::perms::all);
  isRefused();
  if (::geteuid() == 0) {
    std::filesystem::permissions(state() + "/remote", std::filesystem::perms::owner_all);
    ASSERT_EQ(::chown((state() + "/remote").c_str(), 61200, 61200), 0);
    isRefused();
  }
  std::filesystem::remove_all(state() + "/remote");
  restart();
  EXPECT_EQ(outcomeOf(plugin->provision(a)), ReplyCode::ok) << message;
  EXPECT_EQ(std::filesystem::status(state() + "/remote").permissions(), std::filesystem::perms::owner_all);
  EXPECT_EQ(outcomeOf(plugin->stage(a)), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->unstage("a")), ReplyCode::ok) << message;
  EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, ASlowPoolDoesNotDelayTheRenewalsOfOthers) {
  const FaultyPool slow(folder, 8);
  const PoolServer quick(folder, 1);
  const auto stage = [&](const std::string& key, const PoolServer& server) {
    ASSERT_EQ(outcomeOf(plugin->provision(device(key, parameters(server.url)))), ReplyCode::ok) << message;
    std::ofstream(state() + "/remote/" + key)
        << R"({"pool":")" << server.url << R"(","owner":"test","caFile":")" << (folder / "cert") << R"(","tokenFile":")"
        << (folder / "token") << R"(","leaseSeconds":"30"})";
  };
  for (int i = 0; i < 8; ++i) stage("s" + std::to_string(i), slow);
  stage("quick", quick);
  slow.set(R"({"delay": 6})");
  EXPECT_TRUE(plugin->health().cards.empty());
  EXPECT_TRUE(isRenewed(quick, "quick", std::chrono::seconds(4)));
  EXPECT_LE(slow.requests("POST"), 2) << "so few are under way at a time";
  slow.set("{}");
  for (const char* key : {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "quick"})
    EXPECT_EQ(outcomeOf(plugin->unstage(key)), ReplyCode::ok) << message;
}

TEST_F(RemoteTest, AnEndpointThatIsNoAddressIsRefusedAndItsLeaseReleased) {
  const FaultyPool server(folder, 1);
  const auto all = parameters(server.url);
  std::string umlauts;
  for (int i = 0; i < 400; ++i) umlauts += "\u00fc";
  for (const std::string& endpoint : {std::string("10.0.0.9"), std::string("10.0.0.9:0"), std::string("10.0.0.9:99999"),
                                      std::string(":7000"), std::string("a b:7000"), std::string("fe80::1"), umlauts}) {
    server.set(R"({"endpoint": ")" + endpoint + R"("})");
    EXPECT_EQ(outcomeOf(plugin->provision(device("a", all))), ReplyCode::unavailable) << endpoint;
    EXPECT_THAT(message, HasSubstr("the endpoint \"" + (endpoint == umlauts ? "\u00fc\u00fc" : endpoint)));
    EXPECT_THAT(message, HasSubstr("is not HOST:PORT, such as 10.0.0.9:7000; the lease has been released"));
    EXPECT_THAT(message, Not(HasSubstr("\ufffd"))) << "it is cut between two characters";
    EXPECT_TRUE(plugin->list().keys.empty());
  }
  for (const std::string endpoint : {"gpu-1.pool.example.com:7000", "[fe80::1]:7000"}) {
    server.set(R"({"endpoint": ")" + endpoint + R"("})");
    const auto reply = plugin->provision(device("a", all));
    EXPECT_EQ(outcomeOf(reply), ReplyCode::ok) << message;
    EXPECT_EQ(reply.source.endpoint, endpoint);
    EXPECT_EQ(outcomeOf(plugin->deprovision("a")), ReplyCode::ok) << message;
  }
}

}  // namespace
}  // namespace egpu::plugin::testing

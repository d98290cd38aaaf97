// Effects of a malicious plugin: it can only fail its own class.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "controller/base/subprocess.h"
#include "controller/plugin/hosted_registry.h"
#include "controller/plugin/manifest.h"
#include "tests/plugin/zoo.h"

namespace egpu::plugin {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::builtIn;
using testing::device;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::zoo;

class SandboxTest : public ::testing::Test {
 protected:
  SandboxTest() {
    folder = ::testing::TempDir() + "/sandbox-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    chmod(folder.c_str(), 0755);
    options.deadlines = {milliseconds(20'000), milliseconds(20'000)};
    options.grace = milliseconds(50);
  }
  ~SandboxTest() override {
    plugin.reset();
    fs::remove_all(folder);
  }
  HostedProvisioner& start(const std::string& path) {
    plugin = std::make_unique<HostedProvisioner>(path, options, clock, random, [](HostedProvisioner&) {});
    plugin->waitFirstAttempt();
    return *plugin;
  }
  /// Copies a plugin of the zoo into a folder with a manifest beside it. Returns its path.
  std::string copyOf(const std::string& name, const std::string& manifest) {
    const std::string path = folder + "/lib" + name + ".so";
    fs::copy_file(zoo(name), path);
    write(folder + "/lib" + name + ".yaml", manifest);
    return path;
  }
  static void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  }
  static bool root() { return geteuid() == 0; }

  /// Changes the working folder during its lifetime.
  struct Inside {
    explicit Inside(const std::string& there) { fs::current_path(there); }
    ~Inside() { fs::current_path(before); }
    const fs::path before = fs::current_path();
  };

  std::string folder;
  HostOptions options;
  base::ManualClock clock;
  base::Random random{1};
  std::unique_ptr<HostedProvisioner> plugin;
};

TEST_F(SandboxTest, NothingIsLeftOpenHere) {
  const Reply ready = start(zoo("good")).readiness();
  ASSERT_TRUE(ready.ok()) << ready.message;
  EXPECT_THAT(ready.message, IsEmpty());
}

TEST_F(SandboxTest, NoSocketIsOpened) {
  auto& p = start(zoo("connects"));
  for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, 200})
    for (const char* upper : {"", "yes"}) {
      const Reply reply = p.provision(device("a", {{"family", std::to_string(family)}, {"upper", upper}}));
      EXPECT_EQ(reply.outcome, ReplyCode::internal) << family;
      EXPECT_EQ(reply.message, "EACCES") << family;
    }
}

TEST_F(SandboxTest, TheNetworkIsThereForAPluginWhoseManifestAsksForIt) {
  auto& p = start(copyOf("connects", "# speaks to its server\nnetwork: true\n"));
  for (const int family : {AF_INET, AF_INET6, AF_NETLINK}) {
    const Reply reply = p.provision(device("a", {{"family", std::to_string(family)}}));
    if (family == AF_INET6 && reply.message == "EAFNOSUPPORT") continue;  // a machine without IPv6
    EXPECT_TRUE(reply.message == "it went well" || reply.message == "ESOCKTNOSUPPORT" ||
                reply.message == "EPROTONOSUPPORT")
        << family << ": " << reply.message;
  }
  for (const int family : {AF_UNIX, AF_PACKET, AF_VSOCK, AF_ALG})
    EXPECT_EQ(p.provision(device("a", {{"family", std::to_string(family)}})).message, "EACCES") << family;
}

TEST_F(SandboxTest, LocalSocketsAreThereForAPluginWhoseManifestAsksForThem) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  const base::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  chmod(address.sun_path, 0666);
  auto& p = start(copyOf("connects", "network: false\nunixSockets: true\n"));
  const std::string local = std::to_string(AF_UNIX);
  EXPECT_EQ(p.provision(device("a", {{"family", local}, {"path", address.sun_path}})).message, "it went well");
  EXPECT_EQ(p.provision(device("a", {{"family", std::to_string(AF_INET)}})).message, "EACCES");
}

TEST_F(SandboxTest, AForkBombEndsWithItsPlugin) {
  options.limits.processes = 40;
  options.deadlines.slow = milliseconds(500);
  auto& p = start(zoo("fork_bomb"));
  const pid_t group = p.pid();
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::timeout);
  ASSERT_TRUE(eventually([&] { return !p.readiness().ok(); }));
  EXPECT_EQ(p.readiness().outcome, ReplyCode::timeout);
  EXPECT_TRUE(eventually([&] { return kill(-group, 0) != 0; })) << "its descendants are gone with it";
}

TEST_F(SandboxTest, OneThatTakesAllMemoryFallsAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves terabytes of address space, so it has no limit here";
#endif
  options.limits.memory = uint64_t{512} << 20;
  auto& p = start(zoo("eats_memory"));
  ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
  const Reply reply = p.provision(device("a"));
  EXPECT_EQ(reply.outcome, ReplyCode::crashed);
  EXPECT_THAT(reply.message, HasSubstr("signal 11"));
}

TEST_F(SandboxTest, OneThatTakesAllFilesGetsItsShare) {
  auto& p = start(zoo("eats_files"));
  EXPECT_EQ(p.provision(device("a")).outcome, ReplyCode::noChange);
}

TEST_F(SandboxTest, CredentialsCannotBeRead) {
  const std::string token = folder + "/token";
  write(token, "secret");
  fs::create_directory(folder + "/secrets");
  write(folder + "/secrets/token", "secret");
  write(folder + "/plain", "not secret");
  options.hidden = {token, folder + "/secrets"};
  for (const std::vector<std::string>& without :
       std::vector<std::vector<std::string>>{{}, {"mounts"}, {"landlock"}, {"user"}, {"user", "landlock"}}) {
    SCOPED_TRACE(::testing::PrintToString(without));
    options.without = without;
    auto& p = start(zoo("reads_file"));
    ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
    for (const std::string& path : {token, folder + "/secrets/token", "/proc/self/root" + token})
      EXPECT_EQ(p.provision(device("a", {{"file", path}})).outcome, ReplyCode::internal) << path;
    EXPECT_EQ(p.provision(device("a", {{"file", folder + "/plain"}})).message, "it went well");
  }
}

/// A driver's container mounts its root folder on the host when it is ready, after the plugin has started.
TEST_F(SandboxTest, MountsThatComeLaterAreSeen) {
  if (!root()) GTEST_SKIP() << "mounts nothing";
  std::thread([&] {
    // A mount namespace of this thread, which the plugin's process inherits.
    if (unshare(CLONE_NEWNS) != 0) return;
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    const std::string host = folder + "/host", run = host + "/run", driver = run + "/driver", hidden = host + "/hidden";
    fs::create_directory(host);
    ASSERT_EQ(mount("none", host.c_str(), "tmpfs", 0, "mode=0755"), 0);
    ASSERT_EQ(mount("none", host.c_str(), nullptr, MS_SHARED, nullptr), 0);
    for (const auto& each : {run, driver, hidden}) fs::create_directory(each);
    options.hidden = {hidden};
    auto& p = start(zoo("reads_file"));
    ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
    ASSERT_EQ(mount("none", driver.c_str(), "tmpfs", 0, "mode=0755"), 0);
    write(driver + "/libnvidia-ml.so.1", "a library");
    EXPECT_EQ(p.provision(device("a", {{"file", driver + "/libnvidia-ml.so.1"}})).message, "it went well");
    // A hidden folder stays hidden despite later mounts.
    ASSERT_EQ(mount("none", hidden.c_str(), "tmpfs", 0, "mode=0755"), 0);
    write(hidden + "/token", "secret");
    EXPECT_EQ(p.provision(device("a", {{"file", hidden + "/token"}})).outcome, ReplyCode::internal);
    plugin.reset();
    for (const auto& each : {driver, hidden, host}) EXPECT_EQ(umount(each.c_str()), 0) << each;
  }).join();
}

TEST_F(SandboxTest, CredentialsNamedByARelativePathCannotBeRead) {
  for (const char* name : {"token", "config"}) write(folder + "/" + name, "secret");
  fs::create_directory(folder + "/secrets");
  write(folder + "/secrets/token", "secret");
  const Inside inside(folder);
  options.hidden = {"token", "./secrets/../secrets/"};
  for (const std::vector<std::string>& without :
       std::vector<std::vector<std::string>>{{}, {"user"}, {"user", "mounts"}, {"user", "landlock"}}) {
    SCOPED_TRACE(::testing::PrintToString(without));
    options.without = without;
    setenv("KUBECONFIG", "config", 1);
    auto& p = start(zoo("reads_file"));
    unsetenv("KUBECONFIG");
    ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
    for (const char* name : {"/token", "/config", "/secrets/token"})
      EXPECT_EQ(p.provision(device("a", {{"file", folder + name}})).outcome, ReplyCode::internal) << name;
  }
}

TEST_F(SandboxTest, AStateFolderNamedByARelativePathIsWrittenTo) {
  const Inside inside(folder);
  const auto runs = [&](const std::string& state) {
    std::error_code none;
    return std::distance(fs::directory_iterator(folder + "/" + state + "/mock", none), fs::directory_iterator());
  };
  for (const std::string state : {"of-the-options", "of-the-environment"}) {
    fs::create_directory(state);
    if (state == "of-the-options")
      options.env = {"ELASTICGPU_STATE_DIR=" + state};
    else
      setenv("ELASTICGPU_STATE_DIR", state.c_str(), 1);
    auto& p = start(builtIn("mock"));
    unsetenv("ELASTICGPU_STATE_DIR");
    options.env.clear();
    ASSERT_TRUE(p.provision(device("a")).ok());
    EXPECT_EQ(runs(state), 1) << state;
  }
}

TEST_F(SandboxTest, TheHostTakesNoRelativePath) {
  struct SandboxRow {
    std::string flag, variable;
  };
  for (const SandboxRow& row : {SandboxRow{"--hide=token", "A=b"}, SandboxRow{"--hide=", "A=b"},
                                SandboxRow{"--hide=/nonexistent", "ELASTICGPU_STATE_DIR=state"}}) {
    auto sockets = base::socketPair();
    ASSERT_TRUE(sockets.ok());
    base::Subprocess::Options launch;
    launch.argv = {options.hostBinary, row.flag, zoo("good")};
    launch.env = {row.variable};
    launch.channel = sockets->second.get();
    auto process = base::Subprocess::spawn(launch);
    ASSERT_TRUE(process.ok());
    *sockets = {};  // closing the sockets ends the serving process
    EXPECT_EQ(process->finish(milliseconds(30'000)), "exited with status 64") << row.flag << " " << row.variable;
  }
}

TEST_F(SandboxTest, CredentialsAreHiddenWhereTheyUsuallyLie) {
  setenv("KUBECONFIG", ("/nonexistent:" + folder + "/config").c_str(), 1);
  write(folder + "/config", "secret");
  auto& p = start(zoo("reads_file"));
  unsetenv("KUBECONFIG");
  EXPECT_EQ(p.provision(device("a", {{"file", folder + "/config"}})).outcome, ReplyCode::internal);
}

TEST_F(SandboxTest, OnlyItsOwnFoldersCanBeWrittenTo) {
  const std::string state = folder + "/hidden/state";
  fs::create_directories(state);
  chmod((folder + "/hidden").c_str(), 0700);  // only root may traverse it
  write(folder + "/hidden/other", "secret");
  options.hidden = {folder + "/hidden"};
  options.env = {"ELASTICGPU_STATE_DIR=" + state};
  auto& p = start(zoo("reads_file"));
  const auto tried = [&](const std::string& file) {
    return p.provision(device("a", {{"file", file}, {"write", "yes"}})).message;
  };
  EXPECT_EQ(tried(state + "/mine"), "it went well");
  EXPECT_TRUE(fs::exists(state + "/mine"));
  EXPECT_EQ(tried("/etc/made-by-a-plugin"), "EACCES");
  EXPECT_EQ(tried(std::string(EGPU_BIN_DIR) + "/made-by-a-plugin"), "EACCES");
  EXPECT_EQ(tried("/proc/sys/kernel/core_pattern"), "EACCES");
  EXPECT_THAT(p.provision(device("a", {{"file", folder + "/hidden/other"}})).message, ::testing::Ne("it went well"));
}

TEST_F(SandboxTest, APluginInAFolderOfRootsAloneIsLoaded) {
  chmod(folder.c_str(), 0700);
  options.hidden = {folder};
  EXPECT_TRUE(start(copyOf("good", "")).readiness().ok()) << plugin->readiness().message;
}

TEST_F(SandboxTest, TheControllerIsOutOfReach) {
  for (const std::vector<std::string>& without :
       std::vector<std::vector<std::string>>{{}, {"user"}, {"user", "landlock"}}) {
    SCOPED_TRACE(::testing::PrintToString(without));
    options.without = without;
    auto& p = start(zoo("traces"));
    ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
    for (const char* how :
         {"ptrace", "readv", "mem", "environ", "root", "kill", "tgkill", "prlimit", "affinity", "priority"}) {
      const Reply reply = p.provision(device("a", {{"how", how}}));
      EXPECT_EQ(reply.outcome, ReplyCode::internal) << how;
      EXPECT_THAT(reply.message, ::testing::AnyOf("EPERM", "EACCES")) << how;
    }
  }
  EXPECT_EQ(plugin->provision(device("a", {{"how", "owner"}})).message, "EPERM");
}

TEST_F(SandboxTest, SystemCallsThatNoPluginNeedsAreRefused) {
  auto& p = start(zoo("breaks_out"));
  ASSERT_TRUE(p.readiness().ok()) << p.readiness().message;
  for (const char* how :
       {"mount",      "unshare",        "clone",      "bpf",      "kexec",          "module",        "handle",
        "chroot",     "keyctl",         "perf",       "setsid",   "setpgid",        "setuid",        "chmod",
        "dumpable",   "dumpable-again", "privileges", "outlives", "dies-otherwise", "shared-memory", "messages",
        "semaphores", "queue"})
    EXPECT_EQ(p.provision(device("a", {{"how", how}})).message, "EPERM") << how;
  for (const char* how : {"clone3", "io_uring", "memfd"})
    EXPECT_EQ(p.provision(device("a", {{"how", how}})).message, "ENOSYS") << how;
  EXPECT_EQ(p.provision(device("a", {{"how", "datagram"}})).message, "EACCES");
  // The plugin's process may request to die with its controller.
  EXPECT_EQ(p.provision(device("a", {{"how", "dies"}})).message, "it went well");
}

TEST_F(SandboxTest, WhatIsLeftOpenIsReported) {
  options.without = {"mounts", "landlock", "user", "seccomp"};
  const Reply ready = start(zoo("good")).readiness();
  ASSERT_TRUE(ready.ok()) << ready.message;
  EXPECT_THAT(ready.message, HasSubstr("not fully confined"));
  EXPECT_THAT(ready.message, HasSubstr("read the controller's credentials"));
  EXPECT_THAT(ready.message, HasSubstr("use the network"));
}

TEST_F(SandboxTest, APluginCannotReportForItsHostThatItIsConfined) {
  options.without = {"mounts", "landlock", "user", "seccomp"};
  options.env = {"ELASTICGPU_FORGES=hello"};
  const Reply hello = start(zoo("forges_hello")).readiness();
  EXPECT_TRUE(!hello.ok() || hello.message.find("not fully confined") != std::string::npos) << hello.message;
  options.env = {"ELASTICGPU_FORGES=both"};
  const Reply both = start(zoo("forges_hello")).readiness();
  EXPECT_EQ(both.outcome, ReplyCode::garbage) << both.message;
  EXPECT_THAT(both.message, HasSubstr("an unexpected frame"));
}

/// Returns the process's limit of processes, which includes the user's other processes; -1 if it is unknown.
long maxProcesses(pid_t pid) {
  std::ifstream limits("/proc/" + std::to_string(pid) + "/limits");
  long max = -1;
  for (std::string line; std::getline(limits, line);)
    if (line.rfind("Max processes", 0) == 0) max = std::atol(line.c_str() + std::strlen("Max processes"));
  return max;
}

TEST_F(SandboxTest, WhatIsDeadGivesThePluginNoMoreProcesses) {
  if (!root()) GTEST_SKIP() << "needs a user of its own";
  options.without = {"mounts"};
  options.limits.processes = 100;
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kUser = 61003;
    if (setresgid(kUser, kUser, kUser) != 0 || setresuid(kUser, kUser, kUser) != 0) _exit(2);
    const auto max = [&] {
      auto& p = start(zoo("good"));
      const long out = p.readiness().ok() ? maxProcesses(p.pid()) : -1;
      plugin.reset();
      return out;
    };
    const long before = max();
    for (int i = 0; i < 3; ++i) {
      const pid_t dead = fork();
      if (dead == 0) _exit(0);
      siginfo_t end{};
      waitid(P_PID, static_cast<id_t>(dead), &end, WEXITED | WNOWAIT);
    }
    _exit(before > 100 && max() == before ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(SandboxTest, ThePluginsFilesMustBeInGoodHands) {
  struct SandboxRow {
    std::function<void(const std::string& plugin)> spoil;
    const char* why;
  };
  const std::vector<SandboxRow> rows = {
      {[](const std::string& p) { chmod(p.c_str(), 0777); }, "libgood.so can be written to by others"},
      {[&](const std::string&) { chmod((folder + "/libgood.yaml").c_str(), 0666); },
       "libgood.yaml can be written to by others"},
      {[&](const std::string&) { chmod(folder.c_str(), 0777); }, "can be written to by others: use chmod go-w"},
      {[&](const std::string&) { write(folder + "/libgood.yaml", "netwrok: true"); },
       "line 1: \"netwrok\" is not known; known are network, unixSockets"},
      {[&](const std::string&) {
         fs::remove(folder + "/libgood.yaml");
         fs::create_directory(folder + "/libgood.yaml");
       },
       "not a regular file"}};
  for (const auto& row : rows) {
    fs::remove_all(folder);
    fs::create_directory(folder);
    const std::string path = copyOf("good", "network: true");
    row.spoil(path);
    const Reply state = start(path).readiness();
    EXPECT_EQ(state.outcome, ReplyCode::unavailable) << row.why;
    EXPECT_THAT(state.message, HasSubstr(row.why));
  }
  if (!root()) return;
  fs::remove_all(folder);
  fs::create_directory(folder);
  const std::string path = copyOf("good", "");
  ASSERT_EQ(chown((folder + "/libgood.yaml").c_str(), 12345, 12345), 0);
  EXPECT_THAT(start(path).readiness().message, HasSubstr("belongs to user 12345"));
}

TEST_F(SandboxTest, OnlyTheClassOfABadPluginIsHarmed) {
  options.openWait = milliseconds(600'000);
  options.deadlines.slow = milliseconds(500);
  options.limits.processes = 40;
  options.limits.memory = uint64_t{512} << 20;
  HostedRegistry registry({zoo("fork_bomb"), zoo("eats_memory"), zoo("good")}, options, clock, random);
  registry.find("fork-bomb.example.com", nullptr)->provision(device("a"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  registry.find("eats-memory.example.com", nullptr)->provision(device("a"));
#endif
  EXPECT_TRUE(registry.find("good.example.com", nullptr)->provision(device("a")).ok());
  EXPECT_TRUE(registry.readiness("good.example.com").ok());
}

TEST(Manifest, IsAFewLines) {
  const auto all = parseManifest("---\n# comment\nnetwork: true   # its server\n\n  unixSockets :  false\r\n");
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(*all, (Manifest{true, false}));
  EXPECT_EQ(*parseManifest(""), Manifest{});
  for (const char* bad : {"network", "network: yes", "network: \"true\"", "network:", ": true", "network: true, x",
                          "{network: true}", "Network: true"})
    EXPECT_FALSE(parseManifest(bad).ok()) << bad;
  EXPECT_THAT(parseManifest("\n\nnetwork: yes").status().message(), HasSubstr("line 3: network is true or false"));
}

}  // namespace
}  // namespace egpu::plugin

// Sockets, and the protocol by which the kubelet registers a driver.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "controller/base/subprocess.h"
#include "tests/agent/dra/kubelet.h"

namespace egpu::agent::dra {
namespace {

namespace fs = std::filesystem;

mode_t modeOf(const std::string& path) {
  struct stat s {};
  return ::lstat(path.c_str(), &s) == 0 ? s.st_mode & 07777 : 0;
}

/// Leaves a stale socket without a listener, as kill -9 does.
void leaveStaleSocket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
}

TEST_F(KubeletTest, ReportsToTheKubeletWhatItIs) {
  start();
  EXPECT_EQ(server->missing(), "the kubelet has not registered the driver yet");
  ::pluginregistration::PluginInfo info;
  const auto status = registration(info);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info.type(), "DRAPlugin");
  EXPECT_EQ(info.name(), "elasticgpu.io");
  EXPECT_EQ(info.endpoint(), pluginSocket());
  const std::vector<std::string> versions(info.supported_versions().begin(), info.supported_versions().end());
  EXPECT_EQ(versions, (std::vector<std::string>{"v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"}));
  EXPECT_EQ(server->missing(), "");

  v1::NodePrepareResourcesRequest request;
  addClaim(request, "u1");
  PrepareCall call(dial(info.endpoint()), request);
  EXPECT_TRUE(call.get().ok()) << call.get().error_message();
}

TEST_F(KubeletTest, IsNotReadyWhenTheKubeletRefusesIt) {
  start();
  ::pluginregistration::PluginInfo info;
  ASSERT_TRUE(registration(info, false, "endpoint already registered").ok());
  EXPECT_EQ(server->missing(), "the kubelet refuses the driver: endpoint already registered");
  ASSERT_TRUE(registration(info).ok());  // the kubelet tries again
  EXPECT_EQ(server->missing(), "");
}

TEST_F(KubeletTest, SocketsAreTheirOwnersWhateverTheUmask) {
  const mode_t before = ::umask(0);
  start();
  ::umask(before);
  EXPECT_EQ(modeOf(registrySocket()), 0600u);
  EXPECT_EQ(modeOf(pluginSocket()), 0600u);
  EXPECT_EQ(modeOf(options.pluginFolder), 0700u);
}

TEST_F(KubeletTest, ReplacesWhatADeadProcessLeft) {
  fs::create_directory(options.pluginFolder);
  leaveStaleSocket(registrySocket());
  leaveStaleSocket(pluginSocket());
  start();
  EXPECT_TRUE(registered());
}

TEST_F(KubeletTest, RemovesBothSocketsWhenItStops) {
  start();
  ASSERT_TRUE(fs::exists(registrySocket()) && fs::exists(pluginSocket()));
  server->stop();
  EXPECT_TRUE(fs::is_empty(options.registryFolder));
  EXPECT_TRUE(fs::is_empty(options.pluginFolder));
  server->stop();
}

TEST_F(KubeletTest, MakesItsSocketsAnewInAFolderMadeAnew) {
  start();
  ASSERT_TRUE(registered());
  Gate gate;
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    gate.pass(stop);
    return std::vector<PreparedDevice>{};
  };
  v1::NodePrepareResourcesRequest request;
  addClaim(request, "u1");
  PrepareCall underWay(dial(pluginSocket()), request);
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));

  fs::remove_all(options.registryFolder);
  fs::remove_all(options.pluginFolder);
  ASSERT_TRUE(eventually([&] { return server->missing().find("plugins_registry") != std::string::npos; }))
      << server->missing();
  fs::create_directory(options.registryFolder);
  ASSERT_TRUE(eventually([&] { return fs::exists(registrySocket()); }));
  ASSERT_TRUE(eventually([&] { return server->missing() == "the kubelet has not registered the driver yet"; }));
  EXPECT_TRUE(registered());
  EXPECT_EQ(server->missing(), "");

  gate.open();  // calls in progress are not lost
  EXPECT_TRUE(underWay.get().ok()) << underWay.get().error_message();
  PrepareCall next(dial(pluginSocket()), request);
  EXPECT_TRUE(next.get().ok()) << next.get().error_message();
}

TEST_F(KubeletTest, WaitsForAKubeletThatIsNotThereYet) {
  fs::remove_all(options.registryFolder);
  start();
  EXPECT_NE(server->missing().find(registrySocket()), std::string::npos) << server->missing();
  EXPECT_EQ(server->wrong(), "");
  fs::create_directory(options.registryFolder);
  EXPECT_TRUE(eventually([&] { return fs::exists(registrySocket()); }));
  EXPECT_TRUE(registered());
}

TEST_F(KubeletTest, AFileInTheSocketsPlaceIsReplaced) {
  std::ofstream(registrySocket()) << "not a socket";
  start();
  EXPECT_TRUE(registered());
}

TEST_F(KubeletTest, ANewAgentTakesOverAndAnOldOneLeavesItsSockets) {
  start();
  ASSERT_TRUE(registered());
  Server newer(driver, health, metrics, options);
  ASSERT_TRUE(newer.start().ok());
  EXPECT_TRUE(eventually([&] { return server->missing().find("another process serves there") != std::string::npos; }))
      << server->missing();
  EXPECT_TRUE(registered());
  EXPECT_EQ(newer.missing(), "");
  server->stop();
  EXPECT_TRUE(fs::exists(registrySocket()) && fs::exists(pluginSocket()));
  EXPECT_TRUE(registered());
}

TEST_F(KubeletTest, AnAgentThatWasPushedAsideServesAgainWhenTheOtherEnds) {
  start();
  Server newer(driver, health, metrics, options);
  ASSERT_TRUE(newer.start().ok());
  ASSERT_TRUE(eventually([&] { return !server->missing().empty(); }));
  newer.stop();
  EXPECT_TRUE(eventually([&] { return fs::exists(registrySocket()) && fs::exists(pluginSocket()); }));
  EXPECT_TRUE(registered());
  EXPECT_EQ(server->missing(), "");
}

TEST_F(KubeletTest, WithoutDescriptorsItServesLater) {
  start();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  registrySocket().copy(address.sun_path, sizeof address.sun_path - 1);
  const base::UniqueFd caller(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};  // the most that poll() accepts, and none for a caller
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(::connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  char word = 0;
  EXPECT_LT(::recv(caller.get(), &word, 1, MSG_DONTWAIT), 0) << "nobody took the call";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  pollfd answer{caller.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&answer, 1, 30'000), 1) << "gRPC's first words";
  EXPECT_TRUE(registered());
}

TEST_F(KubeletTest, FoldersThatNoSocketFitsInAreNamed) {
  options.registryFolder = folder + "/" + std::string(120, 'x');
  Server tooLong(driver, health, metrics, options);
  const auto s = tooLong.start();
  EXPECT_EQ(s.code(), base::Code::invalid);
  EXPECT_NE(s.message().find("too long for a socket"), std::string::npos) << s.message();
  options.registryFolder = "relative";
  Server relative(driver, health, metrics, options);
  EXPECT_NE(relative.start().message().find("not an absolute path"), std::string::npos);
}

}  // namespace
}  // namespace egpu::agent::dra

// The kubelet's side of the protocol over its sockets, and a driver whose answers the test sets.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "controller/agent/dra/proto/dra_v1.grpc.pb.h"
#include "controller/agent/dra/proto/registration.grpc.pb.h"
#include "controller/agent/dra/server.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::dra {

namespace v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;

/// Polls the condition for at most half a minute.
inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Blocks callers until the test opens it.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Returns false if stopped before the gate opened.
  bool pass(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    const bool passed = changed_.wait(lock, stop, [&] { return open_; });
    --waiting_;
    return passed;
  }
  int waiting() {
    std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool open_ = false;
  int waiting_ = 0;
};

class FakeDriver final : public Driver {
 public:
  using Answer = base::Result<std::vector<PreparedDevice>>;
  std::function<Answer(const ClaimRef&, const std::stop_token&)> onPrepare = [](const ClaimRef& c,
                                                                                const std::stop_token&) -> Answer {
    return std::vector<PreparedDevice>{{{"gpu"}, "node-a", "egpu-" + c.uid, {"elasticgpu.io/device=" + c.uid}}};
  };
  std::function<base::Status(const ClaimRef&, const std::stop_token&)> onUnprepare =
      [](const ClaimRef&, const std::stop_token&) { return base::Status::okay(); };

  Answer prepare(const ClaimRef& claim, std::stop_token stop) override {
    const Inside inside(*this);
    return onPrepare(claim, stop);
  }
  base::Status unprepare(const ClaimRef& claim, std::stop_token stop) override {
    const Inside inside(*this);
    return onUnprepare(claim, stop);
  }
  std::atomic<int> calls{0}, now{0}, max{0};

 private:
  struct Inside {
    explicit Inside(FakeDriver& d) : driver(d) {
      ++driver.calls;
      const int n = ++driver.now;
      for (int max = driver.max; max < n && !driver.max.compare_exchange_weak(max, n);) {
      }
    }
    ~Inside() { --driver.now; }
    FakeDriver& driver;
  };
};

class FakeHealth final : public HealthSource {
 public:
  std::vector<DeviceHealth> devices() override {
    std::lock_guard lock(mutex_);
    return devices_;
  }
  void set(std::vector<DeviceHealth> devices) {
    std::lock_guard lock(mutex_);
    devices_ = std::move(devices);
  }

 private:
  std::mutex mutex_;
  std::vector<DeviceHealth> devices_;
};

/// Opens a connection to a socket that no other channel shares.
inline std::shared_ptr<grpc::Channel> dial(const std::string& path) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), args);
}

inline void addClaim(v1::NodePrepareResourcesRequest& request, const std::string& uid,
                     const std::string& name = "claim", const std::string& space = "default") {
  auto& claim = *request.add_claims();
  claim.set_namespace_(space);
  claim.set_name(name);
  claim.set_uid(uid);
}

/// One call: sent at construction, answered when get() returns.
struct PrepareCall {
  explicit PrepareCall(const std::shared_ptr<grpc::Channel>& channel, v1::NodePrepareResourcesRequest r,
                       std::chrono::milliseconds within = std::chrono::minutes(1))
      : request(std::move(r)), stub(v1::DRAPlugin::NewStub(channel)) {
    context.set_deadline(std::chrono::system_clock::now() + within);
    thread = std::jthread([this] { status = stub->NodePrepareResources(&context, request, &response); });
  }
  const grpc::Status& get() {
    if (thread.joinable()) thread.join();
    return status;
  }
  std::string error(const std::string& uid) {
    const auto it = response.claims().find(uid);
    return it == response.claims().end() ? "no result" : it->second.error();
  }
  v1::NodePrepareResourcesRequest request;
  v1::NodePrepareResourcesResponse response;
  grpc::ClientContext context;
  grpc::Status status;
  std::unique_ptr<v1::DRAPlugin::Stub> stub;
  std::jthread thread;
};

/// Folders like a kubelet's, and servers on them.
class KubeletTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options.registryFolder = folder + "/plugins_registry";
    options.pluginFolder = folder + "/elasticgpu.io";
    std::filesystem::create_directory(options.registryFolder);
  }
  void TearDown() override { server.reset(); }
  void start() {
    server = std::make_unique<Server>(driver, health, metrics, options);
    const auto s = server->start();
    ASSERT_TRUE(s.ok()) << s.str();
  }
  std::string registrySocket() const { return options.registryFolder + "/elasticgpu.io-reg.sock"; }
  std::string pluginSocket() const { return options.pluginFolder + "/dra.sock"; }

  /// Registers the driver as the kubelet's plugin watcher does when it sees the socket.
  grpc::Status registration(::pluginregistration::PluginInfo& info, bool take = true, const std::string& why = {}) {
    const auto channel = dial(registrySocket());
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)))
      return {grpc::StatusCode::UNAVAILABLE, "no connection"};
    const auto stub = ::pluginregistration::Registration::NewStub(channel);
    grpc::ClientContext asking;
    asking.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    if (auto s = stub->GetInfo(&asking, {}, &info); !s.ok()) return s;
    ::pluginregistration::RegistrationStatus status;
    status.set_plugin_registered(take);
    status.set_error(why);
    ::pluginregistration::RegistrationStatusResponse response;
    grpc::ClientContext telling;
    return stub->NotifyRegistrationStatus(&telling, status, &response);
  }
  bool registered() {
    ::pluginregistration::PluginInfo info;
    return registration(info).ok();
  }

  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  FakeDriver driver;
  FakeHealth health;
  base::NoMetrics metrics;
  ServerOptions options;
  std::unique_ptr<Server> server;
};

}  // namespace egpu::agent::dra

// Prepare and unprepare as the kubelet calls them, and invalid calls.
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <set>
#include <string_view>

#include "tests/agent/dra/kubelet.h"

namespace egpu::agent::dra {
namespace {

using base::Code;
using base::Status;

/// Sends bytes that need not be a valid message.
grpc::Status callRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const std::string& bytes,
                     std::string* answer = nullptr) {
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<grpc::Status> status;
  stub.UnaryCall(&context, method, {}, &request, &response, [&](const grpc::Status& s) {
    std::lock_guard lock(mutex);
    status = s;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return status.has_value(); });
  grpc::Slice whole;
  if (answer != nullptr && response.TrySingleSlice(&whole).ok())
    *answer = std::string(reinterpret_cast<const char*>(whole.begin()), whole.size());
  return *status;
}

constexpr const char* kPrepare = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources";
constexpr const char* kUnprepare = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources";

class CallsTest : public KubeletTest {
 protected:
  void SetUp() override {
    KubeletTest::SetUp();
    start();
    channel = dial(pluginSocket());
  }
  v1::NodePrepareResourcesRequest ask(const std::vector<std::string>& uids) {
    v1::NodePrepareResourcesRequest request;
    for (const auto& uid : uids) addClaim(request, uid, "claim-" + uid);
    return request;
  }
  std::shared_ptr<grpc::Channel> channel;
};

TEST_F(CallsTest, EachClaimHasItsOwnResult) {
  driver.onPrepare = [](const ClaimRef& c, const std::stop_token&) -> FakeDriver::Answer {
    if (c.uid == "u2") return Status(Code::invalid, c.namespace_ + "/" + c.name + " is on another node");
    PreparedDevice device{
        {"gpu"}, "node-a", "egpu-" + c.uid, {"elasticgpu.io/device=" + c.uid, "nvidia.com/gpu=GPU-1"}};
    return std::vector<PreparedDevice>{device};
  };
  PrepareCall call(channel, ask({"u1", "u2", "u3"}));
  ASSERT_TRUE(call.get().ok()) << call.get().error_message();
  ASSERT_EQ(call.response.claims().size(), 3u);
  EXPECT_EQ(call.error("u2"), "default/claim-u2 is on another node");
  const auto& u1 = call.response.claims().at("u1");
  EXPECT_EQ(u1.error(), "");
  ASSERT_EQ(u1.devices_size(), 1);
  EXPECT_EQ(u1.devices(0).pool_name(), "node-a");
  EXPECT_EQ(u1.devices(0).device_name(), "egpu-u1");
  EXPECT_EQ(u1.devices(0).request_names(0), "gpu");
  ASSERT_EQ(u1.devices(0).cdi_device_ids_size(), 2);
  EXPECT_EQ(u1.devices(0).cdi_device_ids(0), "elasticgpu.io/device=u1");
}

TEST_F(CallsTest, UnprepareAnswersForEachClaimToo) {
  driver.onUnprepare = [](const ClaimRef& c, const std::stop_token&) {
    return c.uid == "u2" ? Status(Code::unavailable, "a pod still runs") : Status::okay();
  };
  v1::NodeUnprepareResourcesRequest request;
  request.ParseFromString(ask({"u1", "u2"}).SerializeAsString());  // both messages have the same fields
  v1::NodeUnprepareResourcesResponse response;
  grpc::ClientContext context;
  const auto stub = v1::DRAPlugin::NewStub(channel);
  ASSERT_TRUE(stub->NodeUnprepareResources(&context, request, &response).ok());
  ASSERT_EQ(response.claims().size(), 2u);
  EXPECT_EQ(response.claims().at("u1").error(), "");
  EXPECT_EQ(response.claims().at("u2").error(), "a pod still runs");
}

TEST_F(CallsTest, AFailureWithoutAWordIsNoSuccess) {
  driver.onPrepare = [](const ClaimRef&, const std::stop_token&) -> FakeDriver::Answer {
    return Status(Code::internal, "");
  };
  PrepareCall call(channel, ask({"u1"}));
  ASSERT_TRUE(call.get().ok());
  EXPECT_NE(call.error("u1"), "");
}

TEST_F(CallsTest, ACallOfNoClaimsIsAnswered) {
  PrepareCall call(channel, {});
  EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(driver.calls, 0);
}

TEST_F(CallsTest, NamesThatAreNoneGetNoFurther) {
  std::mutex mutex;
  std::set<std::string> seen;
  driver.onPrepare = [&](const ClaimRef& c, const std::stop_token&) -> FakeDriver::Answer {
    std::lock_guard lock(mutex);
    seen.insert(c.uid);
    return std::vector<PreparedDevice>{};
  };
  v1::NodePrepareResourcesRequest request;
  addClaim(request, "good");
  addClaim(request, "../../etc/passwd");
  addClaim(request, "");
  addClaim(request, std::string(65, 'a'));
  addClaim(request, "space", "claim", "../kube-system");
  addClaim(request, "name", "../claim");
  addClaim(request, "zero", std::string("a\0b", 3));
  PrepareCall call(channel, request);
  ASSERT_TRUE(call.get().ok()) << call.get().error_message();
  EXPECT_EQ(call.response.claims().size(), 7u);
  EXPECT_EQ(call.error("good"), "");
  EXPECT_EQ(call.error("../../etc/passwd"), "the claim's uid is not valid");
  EXPECT_EQ(call.error("space"), "the claim's namespace is no DNS label");
  EXPECT_EQ(call.error("name"), "the claim's name is no DNS name");
  EXPECT_EQ(seen, std::set<std::string>{"good"});
}

TEST_F(CallsTest, WordsThatAreNotUtf8DontCostTheOtherClaimsTheirAnswer) {
  driver.onPrepare = [](const ClaimRef& c, const std::stop_token&) -> FakeDriver::Answer {
    if (c.uid == "u1")
      return Status(Code::internal, "the plugin said \xc3\x28 and much more " + std::string(100'000, 'x'));
    return std::vector<PreparedDevice>{};
  };
  PrepareCall call(channel, ask({"u1", "u2"}));
  ASSERT_TRUE(call.get().ok()) << call.get().error_message();
  EXPECT_EQ(call.error("u1").substr(0, 20), "the plugin said ?( a");
  EXPECT_LE(call.error("u1").size(), 1024u);
  EXPECT_EQ(call.error("u2"), "");
}

TEST_F(CallsTest, FieldsOfLaterKubeletsAreOverlooked) {
  std::string bytes = ask({"u1"}).SerializeAsString();
  bytes += "\x7a\x03new";  // field 15 of the request
  bytes +=
      "\x0a\x1a\x0a\x07"
      "default\x12\x02u2\x1a\x01"
      "c\x22\x08subclaim";  // a claim with a field 4
  std::string answer;
  const auto status = callRaw(channel, kPrepare, bytes, &answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::NodePrepareResourcesResponse response;
  ASSERT_TRUE(response.ParseFromString(answer));
  EXPECT_EQ(response.claims().size(), 2u);
  EXPECT_EQ(response.claims().at("u2").error(), "");
}

TEST_F(CallsTest, BytesThatAreNoMessageAreRefused) {
  for (const auto* method : {kPrepare, kUnprepare})
    for (const auto& bytes : {std::string("\xff\xff\xff\xff"),
                              std::string("\x0a\x7f"
                                          "short"),
                              std::string("\x0a\x04\x12\x02\xc3\x28")})
      EXPECT_FALSE(callRaw(channel, method, bytes).ok());
  EXPECT_EQ(callRaw(channel, "/v1.DRAPlugin/NodePrepareResources", "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(driver.calls, 0);
  PrepareCall call(channel, ask({"u1"}));
  EXPECT_TRUE(call.get().ok());
}

TEST_F(CallsTest, HugeMessagesAreRefused) {
  v1::NodePrepareResourcesRequest huge;
  addClaim(huge, "u1", std::string(8 << 20, 'n'));
  PrepareCall tooLong(channel, huge);
  EXPECT_EQ(tooLong.get().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << tooLong.get().error_message();

  v1::NodePrepareResourcesRequest many;
  for (int i = 0; i < 100'000; ++i) many.add_claims();
  PrepareCall tooMany(channel, many);
  EXPECT_EQ(tooMany.get().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << tooMany.get().error_message();

  PrepareCall twice(channel, ask({"u1", "u1"}));
  EXPECT_EQ(twice.get().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << twice.get().error_message();
  EXPECT_EQ(driver.calls, 0);
}

TEST_F(CallsTest, ClaimsOfOneCallAreWorkedOnSideBySide) {
  std::atomic<int> here{0};
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token&) -> FakeDriver::Answer {
    ++here;
    return eventually([&] { return here == 4; }) ? FakeDriver::Answer(std::vector<PreparedDevice>{})
                                                 : FakeDriver::Answer(Status(Code::deadline, "alone"));
  };
  PrepareCall call(channel, ask({"u1", "u2", "u3", "u4"}));
  ASSERT_TRUE(call.get().ok());
  for (const char* uid : {"u1", "u2", "u3", "u4"}) EXPECT_EQ(call.error(uid), "");
}

TEST_F(CallsTest, NoMoreClaimsAtOnceThanStated) {
  server.reset();
  options.atOnce = 3;
  start();
  channel = dial(pluginSocket());
  Gate gate;
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    gate.pass(stop);
    return std::vector<PreparedDevice>{};
  };
  PrepareCall a(channel, ask({"a1", "a2", "a3", "a4"})), b(channel, ask({"b1", "b2", "b3", "b4"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 3; }));
  gate.open();
  EXPECT_TRUE(a.get().ok());
  EXPECT_TRUE(b.get().ok());
  EXPECT_EQ(driver.calls, 8);
  EXPECT_EQ(driver.max, 3);
}

TEST_F(CallsTest, TwoPodsThatShareAClaimAreServedOneAfterTheOther) {
  Gate gate;
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    gate.pass(stop);
    return std::vector<PreparedDevice>{};
  };
  PrepareCall first(channel, ask({"shared"})), second(channel, ask({"shared"})), other(channel, ask({"other"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 2; }));  // The first call and the call for the other claim.
  gate.open();
  EXPECT_TRUE(first.get().ok() && second.get().ok() && other.get().ok());
  EXPECT_EQ(driver.calls, 3);
  EXPECT_EQ(driver.max, 2);
}

TEST_F(CallsTest, ACancelledCallStops) {
  Gate gate;
  std::atomic<int> stopped{0};
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    if (gate.pass(stop)) return std::vector<PreparedDevice>{};
    ++stopped;
    return Status(Code::cancelled, "stopped");
  };
  PrepareCall call(channel, ask({"u1", "u2"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 2; }));
  PrepareCall waiting(channel, ask({"u1"}));  // behind the first call
  call.context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(eventually([&] { return stopped == 2; }));
  gate.open();
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(waiting.error("u1"), "");
}

TEST_F(CallsTest, ACallWhoseDeadlineHasPassedStops) {
  Gate gate;
  std::atomic<bool> stopped{false};
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    stopped = !gate.pass(stop);
    return Status(Code::cancelled, "stopped");
  };
  PrepareCall call(channel, ask({"u1"}), std::chrono::milliseconds(200));
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(eventually([&] { return stopped.load(); }));
}

TEST_F(CallsTest, WhatNobodyWaitsForIsNotBegun) {
  Gate gate;
  std::atomic<bool> begun{false}, stopped{false};
  driver.onPrepare = [&](const ClaimRef& c, const std::stop_token& stop) -> FakeDriver::Answer {
    if (c.name == "late") begun = true;
    if (c.uid == "beside") stopped = !Gate().pass(stop);
    if (c.uid == "u1") gate.pass({});  // ignores stops, like a plugin that hangs
    return std::vector<PreparedDevice>{};
  };
  PrepareCall first(channel, ask({"u1"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));
  v1::NodePrepareResourcesRequest request;
  addClaim(request, "u1", "late");  // waits for the first call
  addClaim(request, "beside");      // detects the stop of the call
  PrepareCall givenUp(channel, request, std::chrono::milliseconds(200));
  ASSERT_TRUE(eventually([&] { return stopped.load(); }));
  EXPECT_EQ(givenUp.get().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  gate.open();
  EXPECT_TRUE(first.get().ok());
  PrepareCall last(channel, ask({"u1"}));  // after both
  EXPECT_TRUE(last.get().ok());
  EXPECT_FALSE(begun);
}

TEST_F(CallsTest, AKubeletThatDiesStopsItsCalls) {
  std::atomic<bool> stopped{false};
  Gate gate;
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    stopped = !gate.pass(stop);
    return Status(Code::cancelled, "stopped");
  };
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  pluginSocket().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::fcntl(connection, F_SETFL, O_NONBLOCK);
  PrepareCall call(grpc::CreateInsecureChannelFromFd("kubelet", connection), ask({"u1"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));
  ::shutdown(connection, SHUT_RDWR);  // without closing the connection properly
  EXPECT_TRUE(eventually([&] { return stopped.load(); }));
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CallsTest, StopLetsCallsUnderWayEnd) {
  Gate gate;
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    if (!gate.pass(stop)) return Status(Code::cancelled, "stopped");
    return std::vector<PreparedDevice>{};
  };
  PrepareCall call(channel, ask({"u1"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));
  std::jthread stopping([&] { server->stop(); });
  // The server accepts no new connection, and still processes its calls.
  ASSERT_TRUE(eventually([&] {
    PrepareCall late(dial(pluginSocket()), ask({"u2"}), std::chrono::milliseconds(100));
    return !late.get().ok();
  }));
  gate.open();
  EXPECT_TRUE(call.get().ok()) << call.get().error_message();
  EXPECT_EQ(call.error("u1"), "");
}

TEST_F(CallsTest, StopCancelsWhatOutlastsTheGrace) {
  server.reset();
  options.grace = std::chrono::milliseconds(100);
  start();
  channel = dial(pluginSocket());
  Gate gate;
  std::atomic<bool> stopped{false};
  driver.onPrepare = [&](const ClaimRef&, const std::stop_token& stop) -> FakeDriver::Answer {
    stopped = !gate.pass(stop);
    return Status(Code::cancelled, "stopped");
  };
  PrepareCall call(channel, ask({"u1"}));
  ASSERT_TRUE(eventually([&] { return gate.waiting() == 1; }));
  server->stop();
  EXPECT_FALSE(call.get().ok());
  EXPECT_TRUE(stopped);
}

TEST_F(CallsTest, AHundredPodsAtOnce) {
  std::vector<std::unique_ptr<PrepareCall>> calls;
  for (int i = 0; i < 100; ++i)
    calls.push_back(std::make_unique<PrepareCall>(channel, ask({"pod" + std::to_string(i)})));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(calls[i]->get().ok()) << calls[i]->get().error_message();
    EXPECT_EQ(calls[i]->error("pod" + std::to_string(i)), "");
  }
  EXPECT_EQ(driver.calls, 100);
}

}  // namespace
}  // namespace egpu::agent::dra

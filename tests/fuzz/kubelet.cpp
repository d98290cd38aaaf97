#include <google/protobuf/stubs/logging.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "api/v1alpha/validation.h"
#include "controller/agent/dra/proto/dra_v1.grpc.pb.h"
#include "controller/agent/dra/server.h"
#include "controller/base/log.h"
#include "controller/base/printable.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace egpu::testing {

namespace {

namespace dra = agent::dra;
namespace v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;

/// A driver whose answers of all kinds depend on the uid; it refuses uids that could leave a folder.
class AnyDriver final : public dra::Driver, public dra::HealthSource {
 public:
  base::Result<std::vector<dra::PreparedDevice>> prepare(const agent::ClaimRef& claim, std::stop_token) override {
    checkNames(claim);
    if (claim.uid.size() % 3 == 0) return base::Status(base::Code::invalid, "\xff no text \xc3");
    if (claim.uid.size() % 3 == 1) return base::Status(base::Code::unavailable, "");
    return std::vector<dra::PreparedDevice>{{{"r"}, "n1", "egpu-1", {"elasticgpu.io/device=" + claim.uid}}};
  }
  base::Status unprepare(const agent::ClaimRef& claim, std::stop_token) override {
    checkNames(claim);
    return claim.uid.size() % 2 == 0 ? base::Status::okay() : base::Status(base::Code::conflict, "it runs");
  }
  std::vector<dra::DeviceHealth> devices() override { return {}; }

 private:
  static void checkNames(const agent::ClaimRef& claim) {
    const bool plain = std::all_of(claim.uid.begin(), claim.uid.end(), [](unsigned char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    });
    promise(plain && !claim.uid.empty() && claim.uid.size() <= 64, "a uid can be a file's name");
    promise(v1alpha::isDnsLabel(claim.namespace_), "a namespace is a name");
    promise(v1alpha::isDnsSubdomain(claim.name), "a claim's name is a name");
  }
};

/// A server on sockets of its own, with a connection to each. It never ends.
class Agent {
 public:
  Agent() {
    base::log::configure(base::log::Level::off, false);
    options_.registryFolder = scratch_.path() + "/registry";
    options_.pluginFolder = scratch_.path() + "/driver";
    std::filesystem::create_directory(options_.registryFolder);
    server_.emplace(driver_, driver_, metrics_, options_);
    promise(server_->start().ok(), "the server starts");
    plugin_ = dial(options_.pluginFolder + "/dra.sock");
    registry_ = dial(options_.registryFolder + "/" + options_.driver + "-reg.sock");
  }
  grpc::Status call(bool registry, const std::string& method, std::string_view bytes, std::string& answer) {
    const grpc::Slice slice(bytes.data(), bytes.size());
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::GenericStub stub(registry ? registry_ : plugin_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<grpc::Status> status;
    stub.UnaryCall(&context, method, {}, &request, &response, [&](const grpc::Status& s) {
      const std::lock_guard lock(mutex);
      status = s;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return status.has_value(); });
    if (grpc::Slice whole; status->ok() && response.DumpToSingleSlice(&whole).ok())
      answer.assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
    return *status;
  }
  const dra::Server& server() const { return *server_; }

 private:
  static std::shared_ptr<grpc::Channel> dial(const std::string& path) {
    return grpc::CreateChannel("unix:" + path, grpc::InsecureChannelCredentials());
  }
  const support::ScratchFolder scratch_;
  AnyDriver driver_;
  base::NoMetrics metrics_;
  dra::ServerOptions options_;
  std::optional<dra::Server> server_;
  std::shared_ptr<grpc::Channel> plugin_, registry_;
};

/// The kubelet relies on a result for each claim of a readable call, regardless of the call's other claims.
template <class Request, class Response>
void claims(Agent& agent, const std::string& method, std::string_view bytes) {
  std::string answer;
  const auto status = agent.call(false, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/" + method, bytes, answer);
  promise(status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED, "a call is answered");
  Request request;
  Response response;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    promise(!status.ok(), "what is no message is refused");
    return;
  }
  std::set<std::string> uids;
  for (const auto& claim : request.claims()) uids.insert(claim.uid());
  if (uids.size() < static_cast<std::size_t>(request.claims_size()) || request.claims_size() > 1024) {
    promise(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT, "a call that can't be answered is refused");
    return;
  }
  promise(status.ok() && response.ParseFromString(answer), "a call is answered by a message");
  promise(static_cast<std::size_t>(response.claims_size()) == uids.size(), "with a result for each claim");
  for (const auto& uid : uids) promise(response.claims().count(uid) == 1, "under its uid");
  for (const auto& [uid, result] : response.claims()) {
    promise(result.error().size() <= 1024, "with words that an event can hold");
    if constexpr (std::is_same_v<Response, v1::NodePrepareResourcesResponse>)
      promise(result.error().empty() == (result.devices_size() > 0), "with devices or with words");
  }
}

}  // namespace

void fuzzKubelet(std::string_view bytes) {
  static Agent& agent = *new Agent;
  if (bytes.empty()) return;
  const auto message = bytes.substr(1);
  std::string answer;
  switch (static_cast<unsigned char>(bytes[0]) % 4) {
    case 0:
      return claims<v1::NodePrepareResourcesRequest, v1::NodePrepareResourcesResponse>(agent, "NodePrepareResources",
                                                                                       message);
    case 1:
      return claims<v1::NodeUnprepareResourcesRequest, v1::NodeUnprepareResourcesResponse>(
          agent, "NodeUnprepareResources", message);
    case 2:
      agent.call(true, "/pluginregistration.Registration/NotifyRegistrationStatus", message, answer);
      promise(agent.server().missing().size() < 2048, "what is missing is said in bounds");
      return;
    default:
      agent.call(true, "/pluginregistration.Registration/GetInfo", message, answer);
  }
}

}  // namespace egpu::testing

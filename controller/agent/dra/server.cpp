#include "controller/agent/dra/server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "controller/agent/dra/services.h"
#include "controller/agent/dra/socket.h"
#include "controller/base/log.h"

namespace egpu::agent::dra {
namespace {

using base::Code;
using base::Status;

constexpr int kCheckIntervalMs = 1000;  // interval between two checks of the sockets' files
constexpr int kMaxStreams = 64;         // maximum threads, one per health stream; the kubelet opens one stream
constexpr int kMaxBytes = 4 << 20;      // maximum size of a message, as in the kubelet

/// Writes gRPC's errors to the agent's log.
void logGrpc(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) base::log::warn("grpc", {{"message", args->message}});
}

void logProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  if (level >= google::protobuf::LOGLEVEL_ERROR) base::log::warn("protobuf", {{"message", message}});
}

}  // namespace

struct Server::Services {
  Services(Driver& driver, HealthSource& health, base::Metrics& metrics, const ServerOptions& o)
      : plugin(o.pluginFolder + "/dra.sock"),
        registry(o.registryFolder + "/" + o.driver + "-reg.sock"),
        registration(o.driver, plugin.path()),
        claims(driver, metrics, o.atOnce),
        feed(health),
        healthV1(feed),
        healthV1alpha1(feed) {}

  Socket plugin, registry;
  RegistrationService registration;
  PluginService claims;
  HealthFeed feed;
  HealthServiceV1 healthV1;
  HealthServiceV1alpha1 healthV1alpha1;
  std::unique_ptr<grpc::Server> server;
};

Server::Server(Driver& driver, HealthSource& health, base::Metrics& metrics, ServerOptions options)
    : options_(std::move(options)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      services_(std::make_unique<Services>(driver, health, metrics, options_)) {}

Server::~Server() { stop(); }

Status Server::start() {
  for (const Socket* socket : {&services_->plugin, &services_->registry})
    if (auto s = socket->check(); !s.ok()) return s;
  gpr_set_log_function(logGrpc);
  google::protobuf::SetLogHandler(logProtobuf);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("dra").SetMaxThreads(kMaxStreams));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{&services_->registration, &services_->claims,
                                                                      &services_->healthV1, &services_->healthV1alpha1})
    builder.RegisterService(service);
  services_->server = builder.BuildAndStart();
  if (!services_->server) return {Code::internal, "the gRPC server does not start"};
  restore();
  thread_ = std::jthread([this](const std::stop_token& stop) { watchSockets(stop); });
  return Status::okay();
}

void Server::stop() {
  if (!services_->server) return;
  thread_.request_stop();
  const uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof one) < 0) base::log::debug("no wake", {{"error", std::strerror(errno)}});
  thread_.join();
  services_->feed.end();
  services_->server->Shutdown(std::chrono::system_clock::now() + options_.grace);
  services_->server.reset();
  services_->registry.close();
  services_->plugin.close();
}

std::string Server::missing() const {
  {
    base::MutexLock lock(mutex_);
    if (!problem_.empty()) return problem_;
  }
  return services_->registration.missing();
}

std::string Server::wrong() const {
  base::MutexLock lock(mutex_);
  const bool failsForLong = !problem_.empty() && std::chrono::steady_clock::now() - since_ >= kSocketFailureTimeout;
  return failsForLong ? problem_ : std::string();
}

void Server::healthChanged() { services_->feed.changed(); }

void Server::watchSockets(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    serve(kCheckIntervalMs);
    if (!stop.stop_requested()) restore();
  }
}

/// Waits for connections, at most `timeoutMs`, and passes them to gRPC.
void Server::serve(int timeoutMs) {
  const std::array<const Socket*, 2> sockets = {&services_->plugin, &services_->registry};
  std::array<pollfd, 3> fds = {
      {{sockets[0]->fd(), POLLIN, 0}, {sockets[1]->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  if (::poll(fds.data(), fds.size(), timeoutMs) <= 0) return;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if ((fds[i].revents & POLLIN) == 0) continue;
    const int connection = sockets[i]->accept();
    if (connection >= 0)
      grpc::AddInsecureChannelFromFd(services_->server.get(), connection);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      ::poll(&fds[2], 1, timeoutMs);  // the connection stays pending, so poll() would return immediately
  }
}

void Server::restore() { note(open()); }

/// Creates the missing sockets. The registry socket comes last, because the kubelet calls the driver as soon as it
/// appears.
Status Server::open() {
  if (::mkdir(options_.pluginFolder.c_str(), 0700) != 0 && errno != EEXIST)
    return {Code::unavailable, options_.pluginFolder + ": " + std::strerror(errno)};
  for (Socket* socket : {&services_->plugin, &services_->registry}) {
    if (socket->ours()) continue;
    // A socket that is not open takes over the file: at the start, the other process is an agent that is terminating.
    if (socket->fd() >= 0 && socket->taken())
      return {Code::unavailable, socket->path() + ": another process serves there"};
    const bool again = socket->fd() >= 0;
    if (auto s = socket->open(); !s.ok()) return s;
    base::log::info(again ? "socket created again" : "socket created", {{"path", socket->path()}});
    if (socket == &services_->registry) services_->registration.begin();
  }
  return Status::okay();
}

void Server::note(const Status& status) {
  base::MutexLock lock(mutex_);
  if (problem_ == status.message()) return;
  if (problem_.empty()) since_ = std::chrono::steady_clock::now();
  problem_ = status.message();
  if (!status.ok()) base::log::warn("the kubelet can't reach the agent", {{"error", problem_}});
}

}  // namespace egpu::agent::dra

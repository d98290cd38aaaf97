// gRPC server of the DRA driver: two sockets for the kubelet, and the services on them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "api/v1alpha/keys.h"
#include "controller/agent/dra/driver.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::dra {

struct ServerOptions {
  std::string driver{v1alpha::keys::kDriver};
  /// Folder of the kubelet, which calls sockets that appear in it. Not created by the agent.
  std::string registryFolder = "/var/lib/kubelet/plugins_registry";
  /// Folder of the driver; the kubelet must see it under the same path. Created if missing, but its parents are not.
  std::string pluginFolder = "/var/lib/kubelet/plugins/elasticgpu.io";
  std::size_t atOnce = 256;                 ///< maximum claims processed in parallel
  std::chrono::milliseconds grace{10'000};  ///< time for running calls at a stop; then they are cancelled
};

/// Listens on registryFolder/<driver>-reg.sock and pluginFolder/dra.sock, which only this process's user and root can
/// open. If a socket's file disappears, it is created again within about a second, and the kubelet registers the driver
/// again. Replaces files of dead processes; after the start, waits until a live process that has created a file ends.
/// Thread-safe.
class Server {
 public:
  /// All references must outlive the server.
  Server(Driver& driver, HealthSource& health, base::Metrics& metrics, ServerOptions options);
  ~Server();

  /// Returns Code::invalid for paths that no socket can have. missing() reports errors that may go away, such as a
  /// missing folder.
  base::Status start();
  /// Lets running calls finish, cancels them after the grace period, then removes the sockets. Idempotent.
  void stop();

  /// Returns an empty string if both sockets exist and the kubelet has registered the driver, otherwise the reason.
  std::string missing() const;
  /// Returns the error that has blocked the sockets for at least kSocketFailureTimeout, or an empty string. It may need
  /// a restart: a folder deleted under a container's mount returns only with a new container.
  std::string wrong() const;
  static constexpr std::chrono::seconds kSocketFailureTimeout{60};

  /// Makes the health streams send the current state of the HealthSource immediately.
  void healthChanged();

 private:
  struct Services;
  void watchSockets(const std::stop_token& stop);
  void restore();
  base::Status open();
  void note(const base::Status& status);
  void serve(int timeoutMs);

  const ServerOptions options_;
  base::UniqueFd wake_;  ///< eventfd that wakes the thread
  std::unique_ptr<Services> services_;

  mutable base::Mutex mutex_;
  std::string problem_ EGPU_GUARDED_BY(mutex_);  ///< last error of the sockets; empty = none
  std::chrono::steady_clock::time_point since_ EGPU_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace egpu::agent::dra

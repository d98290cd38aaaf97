// The DRA driver that this node's kubelet talks to: its two sockets, and the services on them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "api/v1alpha/keys.h"
#include "controller/agent/dra/driver.h"
#include "controller/base/metrics.h"
#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::dra {

struct ServerOptions {
  std::string driver{v1alpha::keys::kDriver};
  /// The kubelet's; it asks whoever puts a socket there. The agent doesn't make it.
  std::string registryFolder = "/var/lib/kubelet/plugins_registry";
  /// The driver's own, under the same name for the kubelet as here. Made if it is missing, not those above it.
  std::string pluginFolder = "/var/lib/kubelet/plugins/elasticgpu.io";
  std::size_t atOnce = 256;                 ///< claims
  std::chrono::milliseconds grace{10'000};  ///< of calls under way when it stops; then they are cancelled
};

/// registryFolder/<driver>-reg.sock and pluginFolder/dra.sock, for this process's user and root alone. A socket whose file
/// is gone is made anew within a second or so, and the kubelet registers the driver again; files that a process that died
/// has left are replaced. A file that another live process put there is left to it until that ends. Thread-safe.
class Server {
 public:
  /// References must outlive it.
  Server(Driver& driver, HealthSource& health, base::Metrics& metrics, ServerOptions options);
  ~Server();

  /// Code::invalid for folders in which no socket can be. What may mend itself, such as a missing folder, is no error:
  /// missing() tells it.
  base::Status start();
  /// Calls under way end, at the latest after the grace; then the sockets are removed. Idempotent.
  void stop();

  /// Empty: the sockets are there and the kubelet has registered the driver. Else what is missing.
  std::string missing() const;
  /// Empty, or what has kept the sockets from being made for kHopeless: a folder that was deleted under a container's mount
  /// comes back with a new container only.
  std::string wrong() const;
  static constexpr std::chrono::seconds kHopeless{60};

  /// Streams tell the kubelet at once what the HealthSource says.
  void healthChanged();

 private:
  struct Services;
  void keep(const std::stop_token& stop);
  void restore();
  base::Status open();
  void note(const base::Status& status);
  void serve(int timeoutMs);

  const ServerOptions options_;
  base::UniqueFd wake_;  ///< eventfd: the thread has to look
  std::unique_ptr<Services> services_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::string problem_;  ///< with the sockets
  std::chrono::steady_clock::time_point since_;

  std::jthread thread_;
};

}  // namespace egpu::agent::dra

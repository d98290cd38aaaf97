// Observes the controller's writes under its client: finds objects that are written to the same contents again and again
// although no other client has written anything meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/forwarding_transport.h"

namespace egpu::support {

/// Thread-safe; all references must outlive it. What counts as the same contents: the object without uid,
/// resourceVersion, generation, managedFields and times. An object that is made again under its name is the same one.
class WriteObserver final : public ForwardingTransport {
 public:
  static constexpr int kMaxReturns = 3;  ///< of one object to the same contents
  /// The version of the server's last write. It grows with each write of any client.
  using LastVersion = std::function<uint64_t()>;

  WriteObserver(kube::Transport& inner, LastVersion lastVersion)
      : ForwardingTransport(inner), lastVersion_(std::move(lastVersion)) {}

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override;

  /// Objects that returned too often, with the contents; empty if none did.
  std::string oscillations() const;
  /// Something else than an API object changed, such as the answers of a plugin.
  void inputsChanged();

 private:
  /// Writes that were not seen here are changed inputs.
  void forgetIfOthersWrote();
  void wrote(const kube::HttpRequest& request, const std::string& answer);

  const LastVersion lastVersion_;
  mutable std::mutex mutex_;
  uint64_t ownVersion_ = 0;                                  ///< after the last write seen here
  std::map<std::string, std::map<std::string, int>> times_;  ///< object → contents → how often written
  std::map<std::string, std::string> last_;                  ///< object → its contents
  std::map<std::string, std::string> found_;                 ///< object → report
};

}  // namespace egpu::support

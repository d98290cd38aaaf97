// Observes the controller's writes under its client. Finds objects that are repeatedly written to the same contents
// although no other client writes.
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

/// Thread-safe. All references must outlive it. Contents are equal if the objects are equal without uid,
/// resourceVersion, generation, managedFields and times. A recreated object counts as the same object.
class WriteObserver final : public ForwardingTransport {
 public:
  static constexpr int kMaxReturns = 3;  ///< maximum of returns to the same contents, per object
  /// Returns the version of the server's last write. It grows with each write of any client.
  using LastVersion = std::function<uint64_t()>;

  WriteObserver(kube::Transport& inner, LastVersion lastVersion)
      : ForwardingTransport(inner), lastVersion_(std::move(lastVersion)) {}

  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override;

  /// Returns the objects that returned too often, with the contents; empty if there are none.
  std::string oscillations() const;
  /// Reports a change of an input that is not an API object, such as the answers of a plugin.
  void inputsChanged();

 private:
  /// Treats writes that this observer did not see as changed inputs.
  void forgetIfOthersWrote();
  void wrote(const kube::HttpRequest& request, const std::string& answer);

  const LastVersion lastVersion_;
  mutable std::mutex mutex_;
  uint64_t ownVersion_ = 0;                                  ///< version after the last observed write
  std::map<std::string, std::map<std::string, int>> times_;  ///< object → contents → number of writes
  std::map<std::string, std::string> last_;                  ///< object → its contents
  std::map<std::string, std::string> found_;                 ///< object → report
};

}  // namespace egpu::support

// The checks of egpu-sanity: they test the contract of api/plugin/provisioner.h on a plugin in a host process of its
// own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/mutex.h"
#include "controller/plugin/hosted.h"

namespace egpu::plugin::sanity {

/// The test environment of the plugin.
struct SanityOptions {
  std::string path;
  std::string hostBinary;      ///< empty: beside this executable
  core::StringMap parameters;  ///< parameters of the class
  std::string model = "Tesla-V100-SXM2-16GB";
  int64_t core = 1000;                 ///< milli-cards of each card
  int64_t memory = int64_t{16} << 30;  ///< bytes of each card
  int cards = 1;
  std::string profile;   ///< profile of MIG instances with one memory slot; empty = the devices have none
  int cycles = 1000;     ///< number of lifecycles in the leak check
  std::string stateDir;  ///< an empty folder, the plugin's $ELASTICGPU_STATE_DIR
};

/// One plugin under test. Not thread-safe, except plugin().
class PluginUnderTest {
 public:
  explicit PluginUnderTest(SanityOptions options);

  const SanityOptions& options() const { return options_; }
  HostedProvisioner& plugin() { return *plugin_; }
  /// Kills the host process with SIGKILL and waits for the next one. Returns the error; empty on success.
  std::string killAndRecover();
  /// Returns a device with a new key.
  DeviceRequest device();
  /// Repeats the call until the answer is definite, at most 30 seconds.
  Reply settle(const std::function<Reply()>& call);

 private:
  std::string waitReady(uint64_t startsBefore);

  const SanityOptions options_;
  base::SystemClock clock_;
  base::Random random_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t changes_ EGPU_GUARDED_BY(mutex_) = 0;
  int serial_ = 0;
  std::unique_ptr<HostedProvisioner> plugin_;  // last: its thread uses the members above
};

struct Check {
  std::string name;
  std::string promise;                               ///< the tested sentence of the contract
  std::function<std::string(PluginUnderTest&)> run;  ///< returns how the promise was broken; empty = kept
};
const std::vector<Check>& checks();

}  // namespace egpu::plugin::sanity

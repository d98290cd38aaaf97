// The checks of egpu-sanity: what api/plugin/provisioner.h promises, tried on a plugin in a host process of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/plugin/hosted.h"

namespace egpu::plugin::sanity {

/// What the plugin is tried with.
struct Options {
  std::string path;
  std::string hostBinary;      ///< empty: beside this executable
  core::StringMap parameters;  ///< the class's
  std::string model = "Tesla-V100-SXM2-16GB";
  int64_t core = 1000;                 ///< milli-cards of each card
  int64_t memory = int64_t{16} << 30;  ///< bytes of each card
  int cards = 1;
  int cycles = 1000;     ///< lifecycles of the leak check
  std::string stateDir;  ///< an empty folder, $ELASTICGPU_STATE_DIR of the plugin
};

/// One plugin under test. Not thread-safe but for its plugin().
class PluginUnderTest {
 public:
  explicit PluginUnderTest(Options options);

  const Options& options() const { return options_; }
  HostedProvisioner& plugin() { return *plugin_; }
  /// Kills the host process with SIGKILL and waits for the next one; empty or what went wrong.
  std::string killAndRecover();
  /// A device with a key that was never used.
  DeviceRequest device();
  /// Calls until the answer is definite, or a minute has passed.
  Reply settle(const std::function<Reply()>& call);

 private:
  std::string waitReady(uint64_t startsBefore);

  const Options options_;
  base::SystemClock clock_;
  base::Random random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  int serial_ = 0;
  std::unique_ptr<HostedProvisioner> plugin_;  // last: its thread uses the above
};

struct Check {
  std::string name;
  std::string promise;                               ///< the sentence of the contract
  std::function<std::string(PluginUnderTest&)> run;  ///< empty = kept, else how it was broken
};
const std::vector<Check>& checks();

}  // namespace egpu::plugin::sanity

#include <signal.h>

#include <chrono>
#include <thread>
#include <utility>

#include "controller/plugin/sanity/checks.h"

namespace egpu::plugin::sanity {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30'000};

HostOptions hostOptions(const SanityOptions& options) {
  HostOptions out;
  if (!options.hostBinary.empty()) out.hostBinary = options.hostBinary;
  out.deadlines = {milliseconds(5'000), milliseconds(10'000)};
  out.grace = milliseconds(1'000);
  out.backoffFirst = milliseconds(2);
  out.maxBackoff = milliseconds(50);
  out.traceable = true;  // its descriptors and memory are measured
  out.env = {"ELASTICGPU_STATE_DIR=" + options.stateDir};
  return out;
}

}  // namespace

PluginUnderTest::PluginUnderTest(SanityOptions options)
    : options_(std::move(options)),
      plugin_(std::make_unique<HostedProvisioner>(options_.path, hostOptions(options_), clock_, random_,
                                                  [this](HostedProvisioner&) {
                                                    const base::MutexLock lock(mutex_);
                                                    ++changes_;
                                                    changed_.notify_all();
                                                  })) {
  plugin_->waitFirstAttempt();
}

std::string PluginUnderTest::waitReady(uint64_t startsBefore) {
  base::MutexLock lock(mutex_);
  const auto ready = [&] { return plugin_->starts() > startsBefore && plugin_->readiness().ok(); };
  if (changed_.wait_for(lock, kPatience, ready)) return {};
  return "no host process came up again after kill -9: " + plugin_->readiness().message;
}

std::string PluginUnderTest::killAndRecover() {
  const uint64_t before = plugin_->starts();
  const pid_t pid = plugin_->pid();
  if (pid > 0) kill(pid, SIGKILL);
  return waitReady(before);
}

DeviceRequest PluginUnderTest::device() {
  const std::string n = std::to_string(++serial_);
  DeviceRequest d;
  d.key = "5a217e00-0000-4000-8000-" + std::string(12 - std::min<std::size_t>(12, n.size()), '0') + n;
  d.device = "egpu-" + d.key;
  d.claim = "sanity/claim-" + n;
  d.node = "sanity-node";
  const bool remote = plugin_->description().source == "remote";  // such devices have no cards
  if (remote) d.capacity = {{"elasticgpu.io/gpu", std::to_string(options_.cards)}};
  for (int i = 0; i < (remote ? 0 : options_.cards); ++i)
    d.cards.push_back({"GPU-5a217e00-0000-4000-8000-00000000000" + std::to_string(i), options_.model, i, options_.core,
                       options_.memory, std::max(options_.memory, int64_t{16} << 30)});
  // Consecutive devices have different slots, so that they can exist side by side.
  for (auto& card : d.cards) {
    card.migProfile = options_.profile;
    if (!options_.profile.empty())
      card.slots.bits = static_cast<uint16_t>(1U << (static_cast<unsigned>(serial_) % v1alpha::Slots::kMemory));
  }
  d.parameters = options_.parameters;
  return d;
}

Reply PluginUnderTest::settle(const std::function<Reply()>& call) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  Reply reply = call();
  while (reply.outcome == ReplyCode::inProgress && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
    reply = call();
  }
  return reply;
}

}  // namespace egpu::plugin::sanity

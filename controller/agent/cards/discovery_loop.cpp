#include "controller/agent/cards/discovery_loop.h"

#include <algorithm>
#include <utility>

#include "controller/base/log.h"

namespace egpu::agent::cards {

namespace {

/// True if the plugin's process may have ended in one of the calls.
bool mayHaveEnded(const PluginReport& answer) {
  const auto ended = [](plugin::ReplyCode code) {
    return code == plugin::ReplyCode::crashed || code == plugin::ReplyCode::timeout ||
           code == plugin::ReplyCode::garbage;
  };
  return ended(answer.cards.reply.outcome) || ended(answer.health.reply.outcome);
}

}  // namespace

DiscoveryLoop::DiscoveryLoop(plugin::Registry& plugins, base::Clock& clock, base::Random& random,
                             std::chrono::milliseconds interval, std::function<void()> answered)
    : plugins_(plugins), clock_(clock), random_(random), interval_(interval), answered_(std::move(answered)) {
  listener_->loop = this;
  plugins_.onChange([listener = listener_](const std::string& name) {
    base::MutexLock lock(listener->mutex);
    if (listener->loop) listener->loop->changed(name);
  });
}

DiscoveryLoop::~DiscoveryLoop() {
  {
    base::MutexLock lock(listener_->mutex);
    listener_->loop = nullptr;
  }
  stop();
}

void DiscoveryLoop::start() {
  {
    base::MutexLock lock(mutex_);
    running_ = true;
  }
  for (const auto& name : plugins_.names()) changed(name);
}

void DiscoveryLoop::stop() {
  decltype(askers_) askers;
  {
    base::MutexLock lock(mutex_);
    running_ = false;
    askers = std::exchange(askers_, {});
  }
  for (const auto& [name, asker] : askers) asker->thread.request_stop();
}

void DiscoveryLoop::wake() {
  base::MutexLock lock(mutex_);
  for (const auto& [name, asker] : askers_) asker->alarm.ring();
}

Answers DiscoveryLoop::answers() const {
  base::MutexLock lock(mutex_);
  return answers_;
}

bool DiscoveryLoop::complete() const {
  const auto names = plugins_.names();
  base::MutexLock lock(mutex_);
  return std::all_of(names.begin(), names.end(),
                     [&](const auto& name) EGPU_REQUIRES(mutex_) { return answers_.count(name) > 0; });
}

/// Called when a plugin is loaded, fails or recovers. Queries the plugin in each case.
void DiscoveryLoop::changed(const std::string& name) {
  base::MutexLock lock(mutex_);
  if (!running_) return;
  auto& asker = askers_[name];
  if (asker) {
    asker->process = ++processes_;
    return asker->alarm.ring();
  }
  asker = std::make_unique<Asker>();
  asker->process = ++processes_;
  asker->thread = std::jthread([this, name, &its = *asker](std::stop_token stop) { run(name, its, std::move(stop)); });
}

uint64_t DiscoveryLoop::processOf(const Asker& asker) const {
  const base::MutexLock lock(mutex_);
  return asker.process;
}

void DiscoveryLoop::run(const std::string& name, Asker& asker, std::stop_token stop) {
  std::string failure;
  while (!stop.stop_requested()) {
    const auto before = processOf(asker);
    std::string why;
    auto* plugin = plugins_.find(name, &why);
    PluginReport answer{{{plugin::ReplyCode::unavailable, why}, {}}, {{plugin::ReplyCode::unavailable, why}, {}}, 0};
    if (plugin) answer = ask(*plugin);
    if (plugins_.closing() || stop.stop_requested()) return;  // at a stop, the answer is meaningless
    const auto& reply = answer.cards.reply;
    const std::string now = reply.ok() ? "" : std::string(plugin::toString(reply.outcome)) + ": " + reply.message;
    if (now != failure && !now.empty())
      base::log::warn("discovery failed; the provisioner's cards are kept unchanged",
                      {{"provisioner", name}, {"why", now}});
    failure = now;
    {
      base::MutexLock lock(mutex_);
      if (!plugin || mayHaveEnded(answer)) asker.process = ++processes_;
      // If the process changed meanwhile, either may have answered: use a number that no other answer has.
      answer.process = asker.process == before ? before : ++processes_;
      answers_[name] = std::move(answer);
    }
    answered_();
    const std::chrono::milliseconds jitter(random_.below(static_cast<uint64_t>(interval_.count() / 5 + 1)));
    if (!asker.alarm.sleepUntil(clock_, clock_.now() + interval_ + jitter, stop)) return;
  }
}

}  // namespace egpu::agent::cards

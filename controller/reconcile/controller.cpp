#include "controller/reconcile/controller.h"

#include "controller/base/log.h"

namespace egpu::reconcile {

Controller::Controller(kube::Client& client, plugin::Registry& registry, base::Clock& clock, kube::EventSink& events,
                       base::Metrics& metrics, ControllerOptions options)
    : options_(std::move(options)),
      clock_(clock),
      metrics_(metrics),
      cluster_(stores_),
      queue_("controller", clock, metrics, options_.rateLimit),
      reconciler_(
          client, stores_, cluster_, registry, clock, events, metrics,
          [this](const std::string& key) { queue_.add(key); }, options_.reconciler),
      gpuSink_(stores_),
      claimSink_(stores_.claims),
      classSink_(stores_.classes),
      podSink_(stores_),
      nodeSink_(stores_.nodes),
      carrierSink_(stores_.carriers),
      gpus_(client, gpuSink_, options_.reflector),
      claims_(client, claimSink_, options_.reflector),
      classes_(client, classSink_, options_.reflector),
      pods_(client, podSink_, options_.reflector),
      nodes_(client, nodeSink_, options_.reflector),
      carriers_(client, carrierSink_, options_.reflector) {
  cluster_.onDecision([this](bool fits, double seconds) {
    metrics_.add("elasticgpu_decisions_total", 1, {{"result", fits ? "fits" : "no_fit"}});
    metrics_.observe("elasticgpu_decision_seconds", seconds, {});
  });
}

Controller::~Controller() { stop(); }

void Controller::start() {
  gpus_.start();
  claims_.start();
  classes_.start();
  pods_.start();
  nodes_.start();
  carriers_.start();
  starter_ = std::jthread([this](std::stop_token stop) { gather(std::move(stop)); });
}

void Controller::gather(std::stop_token stop) {
  // No decision on half a world: a card not yet listed is a card that is gone.
  if (!gpus_.waitForSync(stop) || !claims_.waitForSync(stop) || !classes_.waitForSync(stop) ||
      !pods_.waitForSync(stop) || !nodes_.waitForSync(stop) || !carriers_.waitForSync(stop))
    return;
  reconciler_.enqueueStart();
  for (int i = 0; i < options_.workers; ++i)
    workers_.emplace_back([this](std::stop_token token) { work(std::move(token)); });
  base::log::info("listed everything, reconciling", {{"claims", stores_.claims.size()},
                                                     {"devices", stores_.devices.size()},
                                                     {"cards", stores_.cards.size()},
                                                     {"workers", options_.workers}});
  {
    std::lock_guard lock(readyMutex_);
    ready_.store(true);
  }
  readyChanged_.notify_all();
}

bool Controller::waitUntilReady(std::stop_token stop) {
  std::unique_lock lock(readyMutex_);
  readyChanged_.wait(lock, stop, [this] { return ready_.load() || stopped_.load(); });
  return ready_.load();
}

void Controller::work(std::stop_token stop) {
  while (auto key = queue_.get(stop)) {
    const auto outcome = reconciler_.step(*key, cancel_.get_token());
    switch (outcome.kind) {
      case Outcome::Kind::done:
        queue_.forget(*key);
        break;
      case Outcome::Kind::after:
        queue_.forget(*key);
        queue_.addAfter(*key, outcome.delay);
        break;
      case Outcome::Kind::retry:
        queue_.addRateLimited(*key);
        break;
    }
    queue_.done(*key);
  }
}

bool Controller::quiet() const { return ready_.load() && queue_.idle(); }

void Controller::stop() {
  if (stopped_.exchange(true)) return;
  {
    std::lock_guard lock(readyMutex_);
    ready_.store(false);
  }
  readyChanged_.notify_all();
  if (starter_.joinable()) {
    starter_.request_stop();
    starter_.join();
  }
  queue_.shutDown();
  if (!queue_.drain(options_.drain)) base::log::warn("steps did not end in time, cancelling their calls");
  cancel_.request_stop();
  for (auto& worker : workers_) worker.request_stop();
  workers_.clear();
  gpus_.stop();
  claims_.stop();
  classes_.stop();
  pods_.stop();
  nodes_.stop();
  carriers_.stop();
}

}  // namespace egpu::reconcile

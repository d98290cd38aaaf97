#include "controller/cmd/compose.h"

#include <map>
#include <utility>

#include "controller/base/log.h"
#include "controller/base/subprocess.h"
#include "controller/cmd/files.h"

namespace egpu::cmd {

namespace {

plugin::HostOptions hostOptions(const std::string& state, base::Metrics& metrics) {
  plugin::HostOptions o;
  if (!state.empty()) o.env.push_back("ELASTICGPU_STATE_DIR=" + state);
  o.metrics = &metrics;
  return o;
}

reconcile::ControllerOptions controllerOptions(const ControllerOptions& o) {
  reconcile::ControllerOptions out;
  out.workers = static_cast<int>(o.workers);
  out.standby = o.election.has_value();
  return out;
}

}  // namespace

std::string defaultPluginFolder() { return base::executableFolder() + "/../lib/provisioners"; }

Core::Core(kube::Transport& transport, base::Clock& clock, base::Random& random, const ControllerOptions& options)
    : options_(options),
      plugins_({options.plugins.empty() ? defaultPluginFolder() : options.plugins},
               hostOptions(options.pluginState, metrics_), clock, random),
      client_(transport, clock, random, metrics_),
      events_(client_, "elastic-gpu-controller"),
      controller_(client_, plugins_, clock, events_, metrics_, controllerOptions(options)),
      questions_(controller_.stores(), controller_.cluster(), clock),
      operations_({[this] { return controller_.cluster().map(); }, [this] { return metricsText(); },
                   [this] { return leaseLost() ? std::string("the lease is lost, stopping") : std::string(); },
                   [this] { return missing(); }, [this] { return role(); },
                   [this](const http::Request& request) { return questions_.answer(request); }}) {
  if (options_.election) elector_.emplace(transport, clock, random, metrics_, *options_.election);
  for (const auto& file : plugins_.files())
    base::log::info(
        "provisioner",
        {{"file", file.path}, {"name", file.name}, {"state", file.readiness.ok() ? "ready" : file.readiness.message}});
}

Core::~Core() { stop(); }

std::string Core::missing() const {
  if (!controller_.ready()) return "the cluster's objects are not all listed yet";
  return {};
}

std::string Core::role() const {
  if (!elector_) return {};
  return elector_->role() == kube::LeaderElector::Role::leader ? "leader" : "standby";
}

/// Gauges of the whole cluster are read when somebody asks, not on every change.
std::string Core::metricsText() {
  std::lock_guard lock(scrape_);
  const auto map = controller_.cluster().map();
  int64_t free = 0, partly = 0, full = 0, quarantined = 0;
  std::set<base::MetricLabels> shown;
  for (const auto& node : map.nodes)
    for (const auto& card : node.cards) {
      const base::MetricLabels labels = {{"node", node.name}, {"uuid", card.uuid}, {"model", card.model}};
      metrics_.set("elasticgpu_card_core_allocated_millicards", static_cast<double>(card.usedCore), labels);
      metrics_.set("elasticgpu_card_memory_allocated_bytes", static_cast<double>(card.usedMemory), labels);
      shown.insert(labels);
      if (!card.offered)
        ++quarantined;
      else if (card.takes.empty())
        ++free;
      else if (card.usedCore >= card.core || card.usedMemory >= card.memory)
        ++full;
      else
        ++partly;
    }
  for (const auto& gone : shownCards_)
    if (shown.count(gone) == 0)
      for (const char* gauge : {"elasticgpu_card_core_allocated_millicards", "elasticgpu_card_memory_allocated_bytes"})
        metrics_.forget(gauge, gone);
  shownCards_ = std::move(shown);
  for (const auto& [state, count] :
       {std::pair{"free", free}, {"partly", partly}, {"full", full}, {"quarantined", quarantined}})
    metrics_.set("elasticgpu_cards", static_cast<double>(count), {{"state", state}});
  std::map<std::string, int64_t> phases = {{"Pending", 0}, {"Bound", 0}, {"Lost", 0}};
  controller_.stores().claims.forEach(
      [&](const auto& c) { ++phases[c->status.phase.empty() ? "Pending" : c->status.phase]; });
  for (const auto& [phase, count] : phases)
    metrics_.set("elasticgpu_claims", static_cast<double>(count), {{"phase", phase}});
  if (controller_.ready()) questions_.publish(metrics_);
  return metrics_.text();
}

base::Status Core::start(std::function<void()> leaseLost) {
  leaseLost_ = std::move(leaseLost);
  auto listener = http::listen(options_.opsListen, operations_);
  if (!listener) return listener.status();
  listener_ = std::move(*listener);
  controller_.start();
  return base::Status::okay();
}

base::Status Core::announce(std::stop_token stop) {
  if (!controller_.waitUntilReady(stop)) return base::Status(base::Code::cancelled, "stopped");
  if (elector_)
    elector_->start([this] { controller_.lead(); },
                    [this](const base::Status&) {
                      controller_.abandon();
                      if (leaseLost_) leaseLost_();
                    });
  if (options_.writeOpsAddress.empty()) return base::Status::okay();
  return writeFile(options_.writeOpsAddress, opsAddress(), 0644);
}

void Core::stop() {
  controller_.stop();
  if (elector_) elector_->release();  // only now: until here the work was ours
  events_.stop();
  if (listener_) listener_->stop();
}

}  // namespace egpu::cmd

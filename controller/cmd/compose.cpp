#include "controller/cmd/compose.h"

#include "controller/base/log.h"
#include "controller/base/subprocess.h"
#include "controller/cmd/files.h"

namespace egpu::cmd {

namespace {

plugin::HostOptions hostOptions(base::Metrics& metrics) {
  plugin::HostOptions o;
  o.metrics = &metrics;
  return o;
}

reconcile::ControllerOptions controllerOptions(const ControllerOptions& o) {
  reconcile::ControllerOptions out;
  out.workers = static_cast<int>(o.workers);
  return out;
}

}  // namespace

std::string defaultPluginFolder() { return base::executableFolder() + "/../lib/provisioners"; }

Core::Core(kube::Transport& transport, base::Clock& clock, base::Random& random, const ControllerOptions& options)
    : options_(options),
      plugins_({options.plugins.empty() ? defaultPluginFolder() : options.plugins}, hostOptions(metrics_), clock, random),
      client_(transport, clock, random, metrics_),
      events_(client_, "elastic-gpu-controller"),
      controller_(client_, plugins_, clock, events_, metrics_, controllerOptions(options)),
      operations_({[this] { return controller_.cluster().map(); }, [this] { return metricsText(); }, [] { return std::string(); },
                   [this] { return missing(); }}) {
  for (const auto& file : plugins_.files())
    base::log::info("provisioner", {{"file", file.path}, {"name", file.name}, {"state", file.readiness.ok() ? "ready" : file.readiness.message}});
}

Core::~Core() { stop(); }

std::string Core::missing() const {
  if (!controller_.ready()) return "the cluster's objects are not all listed yet";
  return {};
}

/// Gauges of the whole cluster are read when somebody asks, not on every change.
std::string Core::metricsText() {
  const auto map = controller_.cluster().map();
  int64_t free = 0, partly = 0, full = 0, quarantined = 0;
  for (const auto& node : map.nodes)
    for (const auto& card : node.cards) {
      const base::MetricLabels labels = {{"node", node.name}, {"uuid", card.uuid}, {"model", card.model}};
      metrics_.set("elasticgpu_card_core_allocated_millicards", static_cast<double>(card.usedCore), labels);
      metrics_.set("elasticgpu_card_memory_allocated_bytes", static_cast<double>(card.usedMemory), labels);
      if (!card.offered) ++quarantined;
      else if (card.takes.empty()) ++free;
      else if (card.usedCore >= card.core || card.usedMemory >= card.memory) ++full;
      else ++partly;
    }
  metrics_.set("elasticgpu_cards", static_cast<double>(free), {{"state", "free"}});
  metrics_.set("elasticgpu_cards", static_cast<double>(partly), {{"state", "partly"}});
  metrics_.set("elasticgpu_cards", static_cast<double>(full), {{"state", "full"}});
  metrics_.set("elasticgpu_cards", static_cast<double>(quarantined), {{"state", "quarantined"}});
  return metrics_.text();
}

base::Status Core::start() {
  auto listener = http::listen(options_.opsListen, operations_);
  if (!listener) return listener.status();
  listener_ = std::move(*listener);
  controller_.start();
  return base::Status::okay();
}

base::Status Core::announce() {
  controller_.waitUntilReady();
  if (options_.writeOpsAddress.empty()) return base::Status::okay();
  return writeFile(options_.writeOpsAddress, opsAddress(), 0644);
}

void Core::stop() {
  controller_.stop();
  events_.stop();
  if (listener_) listener_->stop();
}

}  // namespace egpu::cmd

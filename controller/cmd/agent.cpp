#include "controller/cmd/agent.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/agent/boot_id.h"
#include "controller/agent/health/open_runtime.h"
#include "controller/agent/prepare/mig_nodes.h"
#include "controller/base/log.h"
#include "controller/base/private_files.h"
#include "controller/base/text.h"
#include "controller/cmd/options.h"
#include "controller/plugin/host/sandbox.h"

namespace egpu::cmd {

namespace {

using base::Status;

constexpr const char* kProc = "/proc";  ///< the host's
constexpr std::chrono::seconds kRefreshInterval{15};

plugin::HostOptions hostOptions(const AgentOptions& options, base::Metrics& metrics) {
  plugin::HostOptions o;
  if (!options.pluginState.empty()) o.env.push_back("ELASTICGPU_STATE_DIR=" + options.pluginState);
  if (!options.hostRoot.empty()) o.env.push_back("ELASTICGPU_HOST_ROOT=" + options.hostRoot);
  if (!options.driverRoot.empty()) o.env.push_back("ELASTICGPU_DRIVER_ROOT=" + options.driverRoot);
  o.limits = options.pluginLimits;
  o.hidden = options.pluginHidden;
  // Credentials of the host, which are hidden from plugins on the host as well.
  if (!options.hostRoot.empty()) o.hidden.push_back(options.hostRoot + "/etc/kubernetes");
  o.metrics = &metrics;
  return o;
}

kube::ClientOptions clientOptions() {
  kube::ClientOptions o;
  o.fieldManager = o.userAgent = "elastic-gpu-agent";
  o.requestTimeout = std::chrono::seconds(10);  // the kubelet waits 45 s for a claim
  return o;
}

agent::dra::ServerOptions kubeletOptions(const AgentOptions& options) {
  agent::dra::ServerOptions o;
  o.registryFolder = options.kubeletFolder + "/plugins_registry";
  o.pluginFolder = options.kubeletFolder + "/plugins/" + o.driver;
  return o;
}

/// True if every plugin file has described itself, and none has this name. No file may be missing.
bool isUninstalled(const plugin::HostedRegistry& plugins, const std::string& provisioner) {
  const auto files = plugins.files();
  const auto couldBe = [&](const auto& file) { return file.name.empty() || file.name == provisioner; };
  return plugins.hasReadFolders() && std::none_of(files.begin(), files.end(), couldBe);
}

agent::PreparerOptions preparerOptions(const AgentOptions& options, const plugin::HostedRegistry& plugins,
                                       decltype(agent::PreparerOptions::gone) gone,
                                       decltype(agent::PreparerOptions::memoryFound) memoryFound,
                                       decltype(agent::PreparerOptions::found) found,
                                       decltype(agent::PreparerOptions::beforeStage) beforeStage,
                                       decltype(agent::PreparerOptions::hooks) hooks,
                                       decltype(agent::PreparerOptions::shared) shared) {
  agent::PreparerOptions o;
  o.node = options.nodeName;
  o.patience = std::chrono::seconds(20);
  // A plugin that hangs can occupy half of the threads; a quarter of them may wait for it.
  o.maxWaiting = static_cast<int>(agent::dra::ServerOptions().atOnce / 4);
  o.maxCalls = static_cast<int>(agent::dra::ServerOptions().atOnce / 2);
  o.uninstalled = [&plugins](const std::string& provisioner) { return isUninstalled(plugins, provisioner); };
  o.gone = std::move(gone);
  o.memoryFound = std::move(memoryFound);
  o.found = std::move(found);
  o.beforeStage = std::move(beforeStage);
  o.hooks = std::move(hooks);
  o.shared = std::move(shared);
  o.boot = agent::bootIdOf(kProc);
  if (!options.pluginState.empty()) o.permitted.stateFolder = options.pluginState;
  o.permitted.driverRoot = options.driverRoot;
  o.pluginGroup = plugin::host::kPluginGroup;
  o.permitted.hostRoot = options.hostRoot.empty() ? "/" : options.hostRoot;
  if (const char* root = std::getenv("ELASTICGPU_SYSTEM_ROOT")) o.permitted.systemRoot = root;  // single-threaded here
  return o;
}

agent::cards::CardsOptions cardsOptions(const AgentOptions& options, agent::health::HasClaim hasClaim,
                                        agent::health::PodName podName, std::function<std::string()> warning,
                                        decltype(agent::cards::PublisherOptions::given) given,
                                        decltype(agent::cards::CardsOptions::attribute) attribute,
                                        decltype(agent::cards::PublisherOptions::describe) describe,
                                        agent::cards::RemoteDevices& remoteDevices) {
  agent::cards::CardsOptions o;
  o.publisher.node = options.nodeName;
  o.publisher.hasClaim = std::move(hasClaim);
  o.publisher.podName = std::move(podName);
  o.publisher.warning = std::move(warning);
  o.publisher.given = std::move(given);
  o.publisher.describe = std::move(describe);
  o.publisher.isDevice = [&remoteDevices](const std::string& uid) { return remoteDevices.isDevice(uid); };
  o.publishDevices = [&remoteDevices](const auto& answers, const auto& stop) {
    return remoteDevices.publish(answers, stop);
  };
  o.publisher.quiet = options.probation;
  o.publisher.boot = agent::bootIdOf(kProc);
  o.publisher.host.proc = kProc;
  if (!options.pluginState.empty()) o.publisher.host.state = options.pluginState;
  o.publisher.usageEvery = options.usageEvery;
  o.attribute = std::move(attribute);
  return o;
}

agent::limiter::LimiterOptions limiterOptions(const AgentOptions& options) {
  agent::limiter::LimiterOptions o;
  o.node = options.nodeName;
  o.proc = kProc;
  if (!options.pluginState.empty()) o.state = options.pluginState;
  return o;
}

agent::sharing::MpsCommandsOptions sharingOptions(const AgentOptions& options) {
  agent::sharing::MpsCommandsOptions o;
  if (!options.pluginState.empty()) o.state = options.pluginState;
  o.hostRoot = options.hostRoot;
  o.driverRoot = options.driverRoot;
  return o;
}

/// The program is in the folder driver-limits beside the folder of the plugins.
agent::memory_limits::MemoryLimitsOptions memoryLimitsOptions(const AgentOptions& options) {
  const auto plugins = options.plugins.empty() ? defaultPluginFolder() : options.plugins;
  agent::memory_limits::MemoryLimitsOptions o;
  o.program.host = sharingOptions(options);
  o.program.source = plugins + "/../driver-limits/driver-limits";
  return o;
}

agent::sharing::MpsSupervisorOptions mpsOptions(const AgentOptions& options) {
  agent::sharing::MpsSupervisorOptions o;
  o.node = options.nodeName;
  o.commands = sharingOptions(options);
  o.daemon.proc = kProc;
  o.daemon.boot = agent::bootIdOf(kProc);
  return o;
}

Status named(const char* flag, const Status& status) {
  return {status.code(), std::string(flag) + ": " + status.message()};
}

}  // namespace

Agent::Agent(kube::Transport& transport, base::Clock& clock, base::Random& random, const AgentOptions& options)
    : options_(options),
      clock_(clock),
      plugins_({options.plugins.empty() ? defaultPluginFolder() : options.plugins}, hostOptions(options, metrics_),
               clock, random),
      client_(transport, clock, random, metrics_, clientOptions()),
      events_(client_, "elastic-gpu-agent"),
      folder_(options.cdiFolder),
      preparer_(client_, plugins_, events_, folder_,
                preparerOptions(
                    options, plugins_, [this](const std::string& card) { return cards_.whyGone(card); },
                    [this](const std::string& card) { return cards_.memoryOf(card); },
                    [this](const std::string& card) { return foundNow(card); },
                    [this](const v1alpha::ElasticGPU& device, const std::stop_token& stop) {
                      if (auto s = timeSlices_.requireFor(device); !s.ok()) return s;
                      if (auto s = memoryLimits_.requireFor(device); !s.ok()) return s;
                      return mps_.requireFor(device, stop);
                    },
                    [this](const v1alpha::ElasticGPU& device) { return memoryLimits_.hooksFor(device); },
                    [this](const std::string& uid, std::size_t containers) { memoryLimits_.expect(uid, containers); })),
      prepared_(client_, folder_, clock, options.nodeName),
      podResources_(options.kubeletFolder + "/pod-resources/kubelet.sock"),
      remoteDevices_(folder_, client_, events_, clock, options.nodeName),
      cards_(
          client_, plugins_, events_, clock, random,
          cardsOptions(
              options, [this](const std::string& pod, const std::string& card) { return driver_.hasClaim(pod, card); },
              [this](const std::string& pod) { return driver_.podName(pod); }, [this] { return checkRuntime(); },
              [this](const std::stop_token& stop) { return podResources_.list(stop); },
              [this](const auto& readings, const std::stop_token& stop) { return learned(readings, stop); },
              [this](v1alpha::Card& card) { describe(card); }, remoteDevices_)),
      devices_(client_, options.nodeName),
      limiter_(
          client_, plugins_, events_, folder_, prepared_, cards_.store(),
          [this](const std::string& name) { return devices_.find(name); }, clock, limiterOptions(options)),
      sharing_(hostPrograms_, sharingOptions(options)),
      timeSlices_(sharing_, folder_, sharingOptions(options).state + "/time-slices", agent::bootIdOf(kProc)),
      memoryLimits_(
          hostPrograms_, folder_, events_, clock, [this](const std::string& name) { return devices_.find(name); },
          [this] { cards_.wake(); }, memoryLimitsOptions(options)),
      losses_(prepared_, cards_.store(), client_, clock, kProc),
      mps_(hostPrograms_, clock, folder_, cards_.store(), losses_, client_, events_, mpsOptions(options)),
      driver_(client_, preparer_, folder_, cards_.store(), clock, options.nodeName),
      kubelet_(driver_, driver_, metrics_, kubeletOptions(options)),
      probes_({[this] { return wrong(); }, [this] { return missing(); }, [this] { return warning(); }}),
      operations_(*this),
      series_(metrics_, options.nodeName) {
  for (const auto& file : plugins_.files())
    base::log::info(
        "provisioner",
        {{"file", file.path}, {"name", file.name}, {"state", file.readiness.ok() ? "ready" : file.readiness.message}});
}

Agent::~Agent() { stop(); }

std::string Agent::missing() const {
  if (stopping_) return "the agent is stopping";
  if (!cards_.published()) return "the node's cards are not published yet";
  return kubelet_.missing();
}

std::string Agent::checkRuntime() {
  auto found = agent::health::openToAll(options_.hostRoot.empty() ? "/" : options_.hostRoot);
  const base::MutexLock lock(warned_);
  return warning_ = std::move(found);
}

std::string Agent::warning() const {
  const base::MutexLock lock(warned_);
  return warning_.empty() ? "" : "warning: " + warning_;
}

std::optional<agent::PreparerOptions::CurrentCard> Agent::foundNow(const std::string& card) const {
  const auto found = cards_.foundCard(card);
  if (!found) return std::nullopt;
  const auto driver = found->attributes.find(std::string_view("driverVersion"));
  return agent::PreparerOptions::CurrentCard{found->index,
                                             driver == found->attributes.end() ? std::string() : driver->second};
}

/// Adds whether the driver limits the memory of containers on the card. Until that is known, the card keeps the
/// attribute of its object. Removes a compute mode that the agent has set for MPS.
void Agent::describe(v1alpha::Card& card) {
  if (card.attributes.contains(v1alpha::keys::kComputeModeAttribute) && mps_.hasSetComputeMode(card.uuid))
    card.attributes.erase(v1alpha::keys::kComputeModeAttribute);
  const std::string name(v1alpha::keys::kMemoryLimitsAttribute);
  if (const auto support = memoryLimits_.supportOn(card); !support.empty()) {
    card.attributes[name] = support;
    return;
  }
  const auto have = cards_.store().get({"", base::lowered(card.uuid)});
  if (!have || !have->isCard()) return;
  const auto before = have->spec.card->attributes.find(name);
  if (before != have->spec.card->attributes.end()) card.attributes[name] = before->second;
}

/// Gives the plugins the right to list, create and destroy MIG instances, as far as the driver is loaded.
void Agent::grantMig() {
  const agent::MigNodesOptions nodes{options_.hostRoot.empty() ? "/" : options_.hostRoot, kProc,
                                     plugin::host::kPluginGroup, ::mknodat};
  auto missing = agent::makeMigNodes(nodes, {});
  if (missing != withoutMig_ && !missing.empty())
    base::log::warn("plugins have no access to MIG", {{"node", "/dev/nvidia-caps/" + missing.front()}});
  withoutMig_ = std::move(missing);
}

/// Updates files that were made for another driver version, for containers that restart. Restores the time slices of
/// unused cards.
void Agent::refreshFiles(const std::stop_token& stop) {
  std::string before;
  do {
    const auto status = preparer_.refresh(stop);
    const auto why = status.ok() ? std::string() : status.str();
    if (!why.empty() && why != before) base::log::warn("a CDI file can't be recreated", {{"error", why}});
    before = why;
    timeSlices_.restoreUnused();
    grantMig();
  } while (clock_.sleepFor(kRefreshInterval, stop));
}

/// Removes state on the node left by a death of the agent or of pods. Repeats until the API server has answered for
/// each claim.
void Agent::removeLeftovers(const std::stop_token& stop) {
  for (auto wait = std::chrono::seconds(1);; wait = std::min(2 * wait, std::chrono::seconds(60))) {
    const auto status = preparer_.garbageCollect(stop);
    if (status.ok()) return;
    base::log::warn("leftover prepared state could not be removed", {{"error", status.str()}});
    if (!clock_.sleepFor(wait, stop)) return;
  }
}

agent::usage::Usage Agent::attributed(const std::vector<agent::usage::Reading>& readings) {
  return agent::usage::attribute(
      readings, prepared_.shares(), [](int64_t pid) { return agent::health::podOfProcess(kProc, pid); },
      memoryLimits_.measured());
}

agent::usage::Usage Agent::learned(const std::vector<agent::usage::Reading>& readings, const std::stop_token& stop) {
  auto out = attributed(readings);
  if (const auto status = prepared_.learn(out.strangers, stop); !status.ok()) {
    base::log::debug("the pods that use the cards are not known", {{"error", status.str()}});
    return out;
  }
  return attributed(readings);
}

std::string Agent::metricsText() {
  const base::MutexLock lock(scrape_);
  const auto state = options_.pluginState.empty() ? AgentOptions().pluginState : options_.pluginState;
  series_.show(attributed(cards_.readings()), agent::usage::migInstances(state, agent::bootIdOf(kProc)));
  metrics_.set("elasticgpu_build_info", 1, {{"version", EGPU_VERSION}});
  process_.update(metrics_);
  return metrics_.text();
}

http::Response Agent::Operations::handle(const http::Request& request, std::stop_token stop) {
  if (request.path != "/metrics" || request.method != "GET") return agent_.probes_.handle(request, std::move(stop));
  http::Response response;
  response.contentType = "text/plain; version=0.0.4; charset=utf-8";
  response.body = agent_.metricsText();
  return response;
}

Status Agent::start() {
  auto ops = http::listen(options_.opsListen, operations_, server::Probes::limits());
  if (!ops) return named("--ops-listen", ops.status());
  auto probes = http::listen(options_.probesListen, probes_, server::Probes::limits());
  if (!probes) return named("--probes-listen", probes.status());
  opsListener_ = std::move(*ops);
  probesListener_ = std::move(*probes);
  if (auto s = folder_.open(); !s.ok()) return named("--cdi-root", s);
  cards_.listen([this](const auto*, const auto*) { kubelet_.healthChanged(); });
  grantMig();  // discovery needs the access
  cards_.start();
  limiter_.start();
  memoryLimits_.start();
  mps_.start();
  leftovers_ = std::jthread([this](const std::stop_token& stop) { removeLeftovers(stop); });
  refresh_ = std::jthread([this](const std::stop_token& stop) { refreshFiles(stop); });
  if (auto s = kubelet_.start(); !s.ok()) return named("--kubelet-dir", s);
  for (const auto& [flag, file, address] :
       {std::tuple{"--write-ops-address", options_.writeOpsAddress, opsAddress()},
        std::tuple{"--write-probes-address", options_.writeProbesAddress, probesAddress()}})
    if (!file.empty())
      if (auto s = base::writePrivateFile(file, address); !s.ok()) return named(flag, s);
  return Status::okay();
}

void Agent::stop() {
  stopping_ = true;
  kubelet_.stop();  // claims in progress need all parts below
  plugins_.close();
  for (auto* thread : {&leftovers_, &refresh_}) thread->request_stop();
  for (auto* thread : {&leftovers_, &refresh_})
    if (thread->joinable()) thread->join();
  limiter_.stop();
  memoryLimits_.stop();
  mps_.stop();  // its daemons continue, because containers use them
  cards_.stop();
  events_.stop();
  if (opsListener_) opsListener_->stop();
  if (probesListener_) probesListener_->stop();  // last: until here the process is alive
}

}  // namespace egpu::cmd

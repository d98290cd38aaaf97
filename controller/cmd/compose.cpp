#include "controller/cmd/compose.h"

#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "controller/base/log.h"
#include "controller/base/private_files.h"
#include "controller/base/subprocess.h"
#include "controller/http/plain.h"

namespace egpu::cmd {

namespace {

plugin::HostOptions hostOptions(const CoreOptions& options, base::Metrics& metrics) {
  plugin::HostOptions o;
  if (!options.pluginState.empty()) o.env.push_back("ELASTICGPU_STATE_DIR=" + options.pluginState);
  o.limits = options.pluginLimits;
  o.hidden = options.pluginHidden;
  if (!options.journal.empty()) o.hidden.push_back(options.journal);
  if (!options.billJournals.empty()) o.hidden.push_back(options.billJournals);
  if (!options.extender.tls.key.empty()) o.hidden.push_back(options.extender.tls.key);
  o.metrics = &metrics;
  return o;
}

reconcile::ControllerOptions controllerOptions(const CoreOptions& o, allocator::ClusterListener* listener) {
  reconcile::ControllerOptions out;
  out.listener = listener;
  out.workers = static_cast<int>(o.workers);
  out.standby = o.election.has_value();
  out.reservationLimits.after = std::chrono::duration_cast<std::chrono::seconds>(o.reservationAfter).count();
  out.reservationLimits.ttl = std::chrono::duration_cast<std::chrono::seconds>(o.reservationTtl).count();
  out.reservationLimits.freeCardPercent = o.reservedFreeCards;
  out.reconciler.timeouts = o.timeouts;
  if (!o.schedulers.empty()) out.reconciler.schedulers = {o.schedulers.begin(), o.schedulers.end()};
  out.reconciler.otherSchedulers = {o.extender.schedulers.begin(), o.extender.schedulers.end()};
  return out;
}

/// Opens the journal. Returns null if no journal is configured, or on error.
std::unique_ptr<journal::Journal> openJournal(const CoreOptions& options, const base::Clock& clock,
                                              base::Metrics& metrics, base::Status& status) {
  if (options.journal.empty()) return {};
  auto opened = journal::Journal::open(options.journal, options.journalBytes, "elastic-gpu-controller " EGPU_VERSION,
                                       clock, metrics);
  status = opened.status();
  return opened ? std::move(*opened) : nullptr;
}

using Answers = std::function<http::Response(const http::Request&, std::stop_token)>;

/// Short timeouts, for calls that a caller waits for.
kube::ClientOptions reviewOptions() {
  kube::ClientOptions o;
  o.maxAttempts = 2;
  o.requestTimeout = std::chrono::milliseconds(5'000);
  return o;
}

/// Returns the host of the operations address, with the next port.
std::string besideOperations(const std::string& opsListen) {
  const auto colon = opsListen.rfind(':');
  if (colon == std::string::npos) return opsListen;
  const int port = std::atoi(opsListen.c_str() + colon + 1);
  return opsListen.substr(0, colon + 1) + std::to_string(port == 0 ? 0 : port + 1);
}

/// Returns the authorization of callers: by the API server, or none, which allows any caller on this machine.
std::function<server::Callers::CallerVerdict(std::string_view, std::stop_token)> callersOf(const CoreOptions& options,
                                                                                           server::Callers& callers) {
  if (!options.opsAuth) return {};
  return [&callers](std::string_view authorization, std::stop_token stop) {
    return callers.check(authorization, std::move(stop));
  };
}

base::Status named(const char* flag, const base::Status& status) {
  return {status.code(), std::string(flag) + ": " + status.message()};
}

}  // namespace

Core::Core(kube::Transport& transport, base::Clock& clock, base::Random& random, const CoreOptions& options,
           kube::Transport* asCaller)
    : options_(options),
      clock_(clock),
      journal_(openJournal(options, clock, metrics_, journalOpened_)),
      plugins_({options.plugins.empty() ? defaultPluginFolder() : options.plugins}, hostOptions(options, metrics_),
               clock, random),
      client_(transport, clock, random, metrics_),
      events_(client_, "elastic-gpu-controller"),
      controller_(client_, plugins_, clock, events_, metrics_, controllerOptions(options, journal_.get())),
      feed_(controller_.stores(), controller_.cluster()),
      questions_(controller_.stores(), controller_.cluster(), clock,
                 [this](const cache::Gpu& device) { return controller_.reconciler().cannotResize(device); }),
      reviews_(transport, clock, random, metrics_, reviewOptions()),
      callers_(reviews_, clock),
      bills_(options.journal, options.billJournals),
      operations_(
          {[this](const allocator::MapPage& page) { return controller_.cluster().allocationMap().map(page); },
           [this] { return metricsText(); }, [this] { return wrong(); }, [this] { return missing(); },
           [this] { return role(); },
           [this](const http::Request& request, std::stop_token stop) {
             return questions_.answer(request, std::move(stop));
           },
           callersOf(options, callers_),
           [this](const server::AllocationMap& map) { return server::podsOf(map, controller_.stores()); },
           asCaller == nullptr ? Answers() : Answers([this](const http::Request& request, std::stop_token stop) {
             const auto why = notDeciding();
             return why.empty() ? moves_->answer(request, std::move(stop)) : http::plain(503, why + "\n");
           }),
           [this](server::ChangeFeed::StillAllowed stillAllowed) { return feed_.open(std::move(stillAllowed)); },
           [this](const http::Request& request, bool whole, std::stop_token stop) {
             return bills_.answer(request, whole, std::move(stop));
           },
           [this](std::string_view authorization, std::string_view space, std::stop_token stop) {
             return callers_.checkTenant(authorization, space, std::move(stop));
           }}),
      probes_({[this] { return wrong(); }, [this] { return missing(); }, [this] { return role(); }}),
      extender_(controller_.stores(), controller_.cluster(), controller_.reconciler(), metrics_,
                [this] { return notDeciding(); }) {
  if (asCaller != nullptr)
    moves_.emplace(
        controller_.stores(),
        [this](const http::Request& request, std::stop_token stop) {
          return questions_.answer(request, std::move(stop));
        },
        kube::Client(*asCaller, clock, random, metrics_, reviewOptions()), clock);
  if (options_.election) elector_.emplace(transport, clock, random, metrics_, *options_.election);
  for (const auto& file : plugins_.files())
    base::log::info(
        "provisioner",
        {{"file", file.path}, {"name", file.name}, {"state", file.readiness.ok() ? "ready" : file.readiness.message}});
}

Core::~Core() { stop(); }

std::string Core::wrong() const {
  if (leaseLost()) return "the lease is lost, stopping";
  const auto longest = controller_.longestStep();
  if (!longest) return {};
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(clock_.now() - longest->second);
  if (minutes < kStuck) return {};
  return "a worker is stuck: it has been at " + longest->first + " for " + std::to_string(minutes.count()) + " minutes";
}

std::string Core::missing() const {
  if (!controller_.ready()) return "the cluster's objects are not all listed yet";
  return elector_ ? elector_->refusal() : std::string();
}

/// A standby's snapshot lacks decisions of the leader that are not written yet.
std::string Core::notDeciding() const {
  if (leaseLost()) return wrong();
  if (auto what = missing(); !what.empty()) return what;
  return controller_.works() ? std::string() : "this replica is not the leader";
}

std::string ExtenderOptions::missing() const {
  const std::pair<const char*, bool> flags[] = {{"--extender-address", listen.empty()},
                                                {"--extender-cert", tls.certificate.empty()},
                                                {"--extender-key", tls.key.empty()},
                                                {"--extender-client-ca", tls.clientCa.empty()}};
  const char* given = nullptr;
  const char* absent = nullptr;
  for (const auto& [flag, empty] : flags) (empty ? absent : given) = flag;
  if (given == nullptr && !schedulers.empty()) given = "--extender-scheduler";
  if (given == nullptr && !tls.clientNames.empty()) given = "--extender-client-name";
  if (given == nullptr || absent == nullptr) return {};
  return std::string(given) + " needs " + absent + " too: the extender serves mutual TLS only";
}

std::string Core::role() const {
  if (!elector_) return {};
  return elector_->role() == kube::LeaderElector::Role::leader ? "leader" : "standby";
}

/// Publishes series for each card, or for none above kMaxCardSeries cards: each scrape would then cost as much as a
/// database of them. Builds the map only if needed.
void Core::publishCards(int64_t cards) {
  static constexpr std::array<const char*, 2> kGauges = {"elasticgpu_card_core_allocated_millicards",
                                                         "elasticgpu_card_memory_allocated_bytes"};
  const bool each = options_.cardMetrics && cards <= kMaxCardSeries;
  if (options_.cardMetrics && !each && !std::exchange(reportedTooMany_, true))
    base::log::warn("too many cards for per-card series: --card-metrics is off",
                    {{"cards", cards}, {"max", kMaxCardSeries}});
  std::set<base::MetricLabels> shown;
  const auto map = each ? controller_.cluster().allocationMap().map() : allocator::AllocationMap{};
  for (const auto& node : map.nodes)
    for (const auto& card : node.cards) {
      const base::MetricLabels labels = {{"node", node.name}, {"uuid", card.uuid}, {"model", card.model}};
      metrics_.set(kGauges[0], static_cast<double>(card.usedCore), labels);
      metrics_.set(kGauges[1], static_cast<double>(card.usedMemory), labels);
      shown.insert(labels);
    }
  for (const auto& gone : shownCards_)
    if (shown.count(gone) == 0)
      for (const char* gauge : kGauges) metrics_.forget(gauge, gone);
  shownCards_ = std::move(shown);
}

/// Reads cluster-wide gauges on a scrape, not on every change.
std::string Core::metricsText() {
  base::MutexLock lock(scrape_);
  const auto totals = controller_.cluster().allocationMap().totals();
  for (const auto& [state, count] : {std::pair{"free", totals.free},
                                     {"partly", totals.partly},
                                     {"full", totals.full},
                                     {"quarantined", totals.quarantined}})
    metrics_.set("elasticgpu_cards", static_cast<double>(count), {{"state", state}});
  publishCards(totals.cards);
  std::map<std::string, int64_t> phases = {{"Pending", 0}, {"Bound", 0}, {"Lost", 0}};
  controller_.stores().claims.forEach(
      [&](const auto& c) { ++phases[c->status.phase.empty() ? "Pending" : c->status.phase]; });
  for (const auto& [phase, count] : phases)
    metrics_.set("elasticgpu_claims", static_cast<double>(count), {{"phase", phase}});
  const auto longest = controller_.longestStep();
  const std::chrono::duration<double> step = longest ? clock_.now() - longest->second : std::chrono::seconds(0);
  metrics_.set("elasticgpu_longest_step_seconds", step.count(), {});
  if (!elector_) metrics_.set("elasticgpu_leader", 1, {});  // without elections, this process always works
  metrics_.set("elasticgpu_build_info", 1, {{"version", EGPU_VERSION}});
  process_.update(metrics_);
  if (controller_.ready()) questions_.publish(metrics_);
  return metrics_.text();
}

base::Status Core::start(std::function<void()> leaseLost) {
  if (!journalOpened_.ok()) return named("--journal", journalOpened_);
  leaseLost_ = std::move(leaseLost);
  const bool beside = options_.probesListen.empty();
  const auto probesAt = beside ? besideOperations(options_.opsListen) : options_.probesListen;
  auto listener = http::listen(options_.opsListen, operations_, server::Operations::limits());
  if (!listener) return named("--ops-listen", listener.status());
  auto probes = http::listen(probesAt, probes_, server::Probes::limits());
  if (!probes)
    return named(beside ? "--probes-listen (unless given, the port after --ops-listen's)" : "--probes-listen",
                 probes.status());
  if (auto wrong = options_.extender.missing(); !wrong.empty()) return base::Status(base::Code::invalid, wrong);
  if (!options_.extender.listen.empty()) {
    auto extender =
        http::listen(options_.extender.listen, extender_, server::Extender::limits(), options_.extender.tls);
    if (!extender)
      return extender.status().code() == base::Code::invalid
                 ? named("--extender-cert, -key, -client-ca", extender.status())
                 : named("--extender-address", extender.status());
    extenderListener_ = std::move(*extender);
  }
  listener_ = std::move(*listener);
  probesListener_ = std::move(*probes);
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
  if (!options_.writeProbesAddress.empty())
    if (auto s = base::writePrivateFile(options_.writeProbesAddress, probesAddress()); !s.ok())
      return named("--write-probes-address", s);
  if (options_.writeOpsAddress.empty()) return base::Status::okay();
  if (auto s = base::writePrivateFile(options_.writeOpsAddress, opsAddress()); !s.ok())
    return named("--write-ops-address", s);
  return base::Status::okay();
}

void Core::stop() {
  operations_.stopQuestions();
  feed_.close();
  if (extenderListener_) extenderListener_->stop();  // bindings end before the steps that they wait for
  plugins_.close();                                  // otherwise the steps would wait for the plugins' deadlines
  controller_.stop();
  if (elector_) elector_->release();  // only now, because this process worked until here
  events_.stop();
  if (listener_) listener_->stop();
  if (probesListener_) probesListener_->stop();  // last: until here the process is alive
}

}  // namespace egpu::cmd

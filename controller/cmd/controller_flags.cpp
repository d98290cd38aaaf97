#include "controller/cmd/controller_flags.h"

#include <cstdint>
#include <string>

#include "controller/cmd/flags.h"

namespace egpu::cmd {

namespace {

/// A duration of at least `min` seconds.
template <class Duration>
void addTimeout(CLI::App& app, const std::string& flag, Duration& o, const std::string& what, int64_t min = 1) {
  addDuration(app, flag, o, what);
  app.get_option(flag)->check([min](const std::string& ms) {
    if (std::stoll(ms) >= min * 1'000) return std::string();
    return "the duration is at least " + (min < 60 ? std::to_string(min) + "s" : std::to_string(min / 60) + "m");
  });
}

/// Durations that an operator may want to change. None may be so short that steps repeat without a pause. A reservation
/// must last until its owner is asked to renew it: owners are asked at intervals of reservationExpiryInterval.
void addTimeouts(CLI::App& app, CoreOptions& o) {
  addTimeout(app, "--reservation-after", o.reservationAfter,
             "Time that a claim waits for capacity before a node is reserved for it");
  addTimeout(app, "--reservation-ttl", o.reservationTtl,
             "Time after which a reservation of a node or of quota expires if its claim was not tried again; more than "
             "--provision-refusal-backoff",
             300);
  addTimeout(app, "--gang-timeout", o.timeouts.gangTimeout,
             "Time after which a gang's member releases its cards because another member has none");
  addTimeout(app, "--preemption-retry-backoff", o.timeouts.preemptionRetryBackoff,
             "Time until an eviction that a disruption budget blocked is tried again; other victims are preferred "
             "meanwhile");
  addTimeout(app, "--provision-refusal-backoff", o.timeouts.provisionRefusalBackoff,
             "Time until a claim that its provisioner refused is tried again without a change of the provisioner");
}

}  // namespace

void addController(CLI::App& app, CoreOptions& o) {
  app.add_option("--workers", o.workers, "Maximum number of concurrent reconciles")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  addPlugins(app, o.plugins, o.pluginLimits);
  app.add_option("--ops-listen", o.opsListen,
                 "Address of the page for browsers (/), /metrics, /allocation-map, /explain, /simulate, /forecast, "
                 "/defrag; [::]:PORT = all of both families; port 0 = any free one")
      ->capture_default_str();
  app.add_option("--probes-listen", o.probesListen,
                 "Address of /healthz, /livez and /readyz, and nothing else (default: the host of --ops-listen and the "
                 "port after its, 127.0.0.1:9441; any free one if that is 0)");
  app.add_option("--schedulers", o.schedulers,
                 "Comma-separated names (spec.schedulerName) of the schedulers that place pods here; those of "
                 "--extender-scheduler are served too. Pods of any other scheduler get no cards (default: "
                 "default-scheduler)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--reserved-free-cards", o.reservedFreeCards,
                 "Maximum percentage of the free cards that a node reserved for a long-pending claim may withhold, in "
                 "a cluster of fewer than 50 nodes with cards; 100 = no limit")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  addTimeouts(app, o);
  app.add_flag(
      "--card-metrics", o.cardMetrics,
      "Per-card series in /metrics; turned off automatically above " + std::to_string(kMaxCardSeries) + " cards");
  app.add_option(
      "--journal", o.journal,
      "Folder for a journal of all decisions, for its owner alone; `journal` reads it (default: none is kept)");
  app.add_option("--journal-size", o.journalBytes,
                 "Maximum total size of its files; the oldest are deleted: 256MiB, 2GiB")
      ->transform(CLI::AsSizeValue(false).description("SIZE"))
      ->default_str("256MiB");
  app.add_option("--bill-journals", o.billJournals,
                 "Folder with the journal folders of all replicas, which /bill of the operations address adds up "
                 "(default: the folder of --journal alone)");
  app.add_option("--write-ops-address", o.writeOpsAddress, "Write the real operations address to this file once ready");
  app.add_option("--write-probes-address", o.writeProbesAddress, "Write the real probes address to this file");
}

void addExtender(CLI::App& app, ExtenderOptions& o) {
  app.add_option("--extender-address", o.listen,
                 "Address of /extender/filter, prioritize, bind and preempt for a scheduler that chooses nodes itself, "
                 "with mutual TLS; [::]:PORT = all of both families (default: there is none)");
  app.add_option("--extender-cert", o.tls.certificate,
                 "Its certificate in PEM, with its chain; read again when it changes");
  app.add_option("--extender-key", o.tls.key,
                 "The certificate's key in PEM, without a passphrase; read again when it changes");
  app.add_option("--extender-client-ca", o.tls.clientCa,
                 "The CA, in PEM, that must have issued a scheduler's certificate; read again when it changes");
  app.add_option("--extender-client-name", o.tls.clientNames,
                 "Name that a scheduler's certificate must have, as its common name or an alternative one; repeatable "
                 "(default: any certificate of that CA)")
      ->allow_extra_args(false);
  app.add_option("--extender-scheduler", o.schedulers,
                 "schedulerName of pods whose nodes that scheduler chooses by the extender; repeatable")
      ->allow_extra_args(false);
}

}  // namespace egpu::cmd

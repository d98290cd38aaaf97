#include "controller/agent/sharing/mps_supervisor.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/size.h"
#include "controller/base/log.h"
#include "controller/base/text.h"

namespace egpu::agent::sharing {

namespace {

using base::Code;
using base::MutexLock;
using base::Status;
namespace keys = v1alpha::keys;
namespace log = base::log;

bool isCard(const std::string& a, const std::string& b) { return base::lowered(a) == base::lowered(b); }

/// True if containers with this file are clients of the MPS daemon with this pipe folder. They have a mount of the
/// folder, or of a namespace in it.
bool isClientOf(const cdi::Spec& spec, const std::string& pipe) {
  return std::any_of(spec.edits.mounts.begin(), spec.edits.mounts.end(), [&](const auto& mount) {
    return mount.hostPath == pipe || mount.hostPath.compare(0, pipe.size() + 1, pipe + "/") == 0;
  });
}

bool usesCard(const cdi::Spec& spec, const std::string& card) {
  return std::any_of(spec.cards.begin(), spec.cards.end(), [&](const auto& share) { return isCard(share.uuid, card); });
}

}  // namespace

MpsSupervisor::MpsSupervisor(HostPrograms& programs, base::Clock& clock, cdi::Folder& folder,
                             const cache::Store<Gpu>& cards, AccessLosses& losses, kube::Client& client,
                             kube::EventSink& events, MpsSupervisorOptions options)
    : programs_(programs),
      clock_(clock),
      folder_(folder),
      cards_(cards),
      losses_(losses),
      client_(client.brief()),
      events_(events),
      options_(std::move(options)),
      commands_(programs, options_.commands),
      limits_(commands_),
      records_(options_.commands.state + "/mps-daemons"),
      backoff_(clock, options_.firstBackoff, options_.maxBackoff) {}

MpsSupervisor::~MpsSupervisor() { stop(); }

void MpsSupervisor::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    do round(stop);
    while (clock_.sleepFor(options_.interval, stop));
  });
}

void MpsSupervisor::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

MpsSupervisor::MpsCard& MpsSupervisor::stateOf(const std::string& card) {
  const MutexLock lock(mutex_);
  auto& state = states_[card];
  if (!state)
    state = std::make_unique<MpsCard>(MpsDaemon(card, programs_, commands_, records_, clock_, options_.daemon));
  return *state;
}

bool MpsSupervisor::hasSetComputeMode(const std::string& card) const {
  const auto record = records_.read(card);
  return record && *record && !(*record)->computeMode.empty();
}

Status MpsSupervisor::requireFor(const Gpu& device, const std::stop_token& stop) {
  if (!device.status.isolation || device.status.isolation->mode != kMps) return Status::okay();
  for (const auto& share : v1alpha::cardsInForce(device))
    if (auto s = require(share.uuid, stop); !s.ok()) return s;
  return Status::okay();
}

Status MpsSupervisor::require(const std::string& card, const std::stop_token& stop) {
  if (!isCardName(card)) return {Code::unavailable, "the uuid " + base::quoted(card) + " can't name a folder"};
  auto& state = stateOf(card);
  const MutexLock lock(state.mutex);
  state.unusedSince.reset();
  if (auto s = serve(card, state, stop); !s.ok()) return s;
  return setLimits(card, state);
}

/// Starts the daemon if none serves the card. Reports a daemon that has ended.
Status MpsSupervisor::serve(const std::string& card, MpsCard& state, const std::stop_token& stop) {
  if (auto s = state.daemon.read(); !s.ok()) return {Code::unavailable, s.message()};
  if (!state.daemon.isRunning() && backoff_.inBackoff(card)) return state.lastError;
  auto status = state.daemon.ensure(stop);
  if (status.code() == Code::cancelled) return status;
  if (!status.ok()) {
    backoff_.next(card);
    state.lastError = {Code::unavailable, "card " + card + " on node " + options_.node +
                                              " has no MPS daemon, and the agent can't start one: " + status.message()};
  }
  if (state.daemon.endedPid() > 0) reportEnded(card, state, status, stop);
  return status.ok() ? status : state.lastError;
}

/// restarted: result of the attempt to start the next daemon.
void MpsSupervisor::reportEnded(const std::string& card, MpsCard& state, const Status& restarted,
                                const std::stop_token& stop) {
  losses_.setBlocked(card, !restarted.ok());
  if (!restarted.ok())
    return report(card, state, keys::reason::kMpsDaemonFailed,
                  state.lastError.message() + "; programs that used the card have lost it, and new ones can't use it",
                  stop);
  const std::string what = "the MPS daemon of card " + card + " on node " + options_.node + " ended (process " +
                           std::to_string(state.daemon.endedPid()) + ") and was started again";
  // If the daemon ends again at once, the backoff applies, and grows.
  backoff_.next(card);
  state.lastError = {Code::unavailable, what};
  report(card, state, keys::reason::kMpsDaemonRestarted,
         what + ": programs that used the card have lost it; restart them", stop);
  // The record keeps the end for the next agent until the claims report it.
  auto s = losses_.publish(card, stop);
  if (s.ok()) s = state.daemon.forgetEnded(stop);
  if (!s.ok()) log::warn("the end of an MPS daemon may be reported again", {{"card", card}, {"why", s.str()}});
}

/// Sets the limits of the card's devices in a daemon of the agent, if they have changed. With version 2, an error is
/// only logged, because the variables of the containers have the limits, too.
Status MpsSupervisor::setLimits(const std::string& card, MpsCard& state) {
  if (!state.daemon.isRunning()) return Status::okay();
  const auto limits = limitsOn(card);
  if (!limits) return {Code::unavailable, limits.status().message()};
  if (state.limitedPid == state.daemon.pid() && state.limits == *limits) return Status::okay();
  auto status = limits_.set(card, state.daemon.version(), *limits);
  const bool isOptional = state.daemon.version() != 3;
  state.limitedPid = status.ok() || isOptional ? state.daemon.pid() : 0;
  state.limits = *limits;
  if (status.ok()) {
    state.limitError.clear();
    return status;
  }
  Status error{Code::unavailable, "the limits of the MPS clients of card " + card + " on node " + options_.node +
                                      " can't be set: " + status.message()};
  if (std::exchange(state.limitError, error.message()) != error.message()) log::warn(error.message());
  return isOptional ? Status::okay() : error;
}

/// Reports a fault of a client, after which the server rejects new clients until all clients with the fault have ended.
void MpsSupervisor::checkFaults(const std::string& card, MpsCard& state, const std::stop_token& stop) {
  if (!state.daemon.isRunning() || clock_.now() < state.nextFaultCheck) return;
  const auto begin = clock_.now();
  const auto isFaulty = limits_.isFaulty(card, state.daemon.version());
  const auto end = clock_.now();
  // A container that has replaced the daemon's socket can delay the answer. The other cards have most of the time.
  state.nextFaultCheck = end + std::max<base::Clock::Steady::duration>(options_.faultInterval, (end - begin) * 10);
  if (!isFaulty) return;
  losses_.setBlocked(card, *isFaulty);
  if (std::exchange(state.isFaulty, *isFaulty) == *isFaulty) return;
  if (*isFaulty)
    report(card, state, keys::reason::kMpsServerFault,
           "a program caused a fatal fault on card " + card + " on node " + options_.node +
               ": all programs that used the card with MPS have lost it, and new ones are rejected until these have "
               "ended; restart them",
           stop);
  else
    log::info("the MPS server accepts programs again", {{"card", card}});
  if (!*isFaulty) state.reported.clear();
}

void MpsSupervisor::round(const std::stop_token& stop) {
  for (const auto& card : records_.cards()) {
    if (stop.stop_requested()) return;
    check(card, stateOf(card), stop);
  }
  losses_.publishAll(stop);
  backoff_.collectGarbage();
}

void MpsSupervisor::check(const std::string& card, MpsCard& state, const std::stop_token& stop) {
  const MutexLock lock(state.mutex);
  if (const auto loaded = state.daemon.read(); !loaded.ok()) {
    if (std::exchange(state.reported, loaded.message()) != loaded.message())
      log::warn("the record of an MPS daemon can't be read", {{"card", card}, {"why", loaded.str()}});
    return;
  }
  if (!state.daemon.hasRecord()) return;
  if (!usersOf(card).keepsDaemon) return endUnused(card, state, stop);
  state.unusedSince.reset();
  const bool isServed = state.daemon.isRunning() || state.daemon.isServedByOperator();
  if (!isServed || state.daemon.endedPid() > 0) (void)serve(card, state, stop);
  (void)setLimits(card, state);
  checkFaults(card, state, stop);
}

/// Returns the limits of all devices with a CDI file. Devices without a share, such as those with admin access, have
/// none.
base::Result<LimitsByDevice> MpsSupervisor::limitsOn(const std::string& card) {
  const auto entries = folder_.list();
  if (!entries) return entries.status();
  LimitsByDevice out;
  for (const auto& entry : *entries) {
    const auto& spec = entry.coming && entry.coming->ok() ? *entry.coming : entry.spec;
    if (!spec) continue;
    for (const auto& share : spec->cards)
      if (isCard(share.uuid, card))
        if (const auto limits = limitsOf(share); limits != ClientLimits{}) out[entry.deviceUid] = limits;
  }
  return out;
}

/// A card keeps its daemon while its object has the mode mps, or a CDI file may belong to a client. What can't be read
/// keeps the daemon, too: an error must not end the programs of containers.
MpsSupervisor::CardUsers MpsSupervisor::usersOf(const std::string& card) {
  CardUsers out;
  const auto pipe = commands_.foldersOf(card).pipe;
  const auto entries = folder_.list();
  if (!entries) return out;
  bool mayUse = false, isKnown = false;
  for (const auto& entry : *entries) {
    if (!entry.spec) {
      mayUse = true;
      continue;
    }
    const bool isClient = isClientOf(*entry.spec, pipe);
    if (isClient) out.devices.push_back(*entry.spec);
    mayUse = mayUse || isClient || (entry.part && usesCard(*entry.spec, card));
  }
  cards_.forEach([&](const auto& object) {
    if (!object->isCard() || !isCard(object->spec.card->uuid, card)) return;
    isKnown = true;
    mayUse = mayUse || object->spec.mode == kMps;
  });
  out.keepsDaemon = mayUse || !isKnown;
  return out;
}

void MpsSupervisor::endUnused(const std::string& card, MpsCard& state, const std::stop_token& stop) {
  const auto now = clock_.now();
  if (!state.unusedSince) state.unusedSince = now;
  if (now - *state.unusedSince < options_.idle || backoff_.inBackoff(card)) return;
  const auto status = state.daemon.end([&] { return !usersOf(card).keepsDaemon; }, stop);
  if (status.ok()) {
    if (state.daemon.hasRecord()) return;  // a claim came meanwhile
    backoff_.reset(card);
    state.reported.clear();
    losses_.setBlocked(card, false);
    log::info("the MPS daemon was ended, as no claim uses it", {{"card", card}});
    return;
  }
  if (status.code() == Code::cancelled) return;
  backoff_.next(card);
  state.lastError = {Code::unavailable, status.message()};
  if (std::exchange(state.reported, status.message()) != status.message())
    log::warn("a card is not restored after its last claim with isolation mps",
              {{"card", card}, {"why", status.str()}});
}

/// Sends an event about the card and about each claim on it, and begins their losses. The same event is not sent again.
void MpsSupervisor::report(const std::string& card, MpsCard& state, std::string_view reason, const std::string& message,
                           const std::stop_token& stop) {
  if (std::exchange(state.reported, message) == message) return;
  log::warn("an MPS daemon ended", {{"card", card}, {"why", message}});
  cards_.forEach([&](const auto& object) {
    if (object->isCard() && isCard(object->spec.card->uuid, card))
      events_.event(kube::referenceTo(*object), "Warning", reason, message);
  });
  const auto& kind = core::kindOf<v1alpha::ElasticGPUClaim>;
  const auto devices = usersOf(card).devices;
  std::vector<std::string> uids;
  uids.reserve(devices.size());
  for (const auto& spec : devices) uids.push_back(spec.deviceUid);
  losses_.begin(card, uids, reason, message);
  for (const auto& spec : devices) {
    const auto device = client_.get<Gpu>({"", spec.device}, stop);
    if (!device || device->metadata.uid != spec.deviceUid || !device->spec.claimRef) continue;
    const auto& claim = *device->spec.claimRef;
    events_.event({kind.apiVersion(), std::string(kind.kind), claim.namespace_, claim.name, claim.uid, {}}, "Warning",
                  reason, message);
  }
}

}  // namespace egpu::agent::sharing

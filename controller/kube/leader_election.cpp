#include "controller/kube/leader_election.h"

#include <algorithm>
#include <utility>

#include "controller/base/log.h"
#include "controller/codec/patch.h"

namespace egpu::kube {

using base::Code;
using base::Status;
using std::chrono::milliseconds;
namespace log = base::log;

namespace {

constexpr double kJitter = 1.2;

/// Compares the lease records; a change of other metadata does not show that the holder is alive.
bool sameRecord(const core::Lease& a, const core::Lease& b) {
  return a.metadata.uid == b.metadata.uid && a.holderIdentity == b.holderIdentity &&
         a.leaseDurationSeconds == b.leaseDurationSeconds && a.acquireTime == b.acquireTime &&
         a.renewTime == b.renewTime && a.leaseTransitions == b.leaseTransitions;
}

int64_t wholeSeconds(milliseconds d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

}  // namespace

Status LeaderElectionOptions::check() const {
  const auto refuse = [](std::string why) { return Status(Code::invalid, "leader election: " + std::move(why)); };
  if (namespace_.empty()) return refuse("the Lease's namespace is empty");
  if (name.empty()) return refuse("the Lease's name is empty");
  if (identity.empty()) return refuse("the identity is empty");
  if (leaseDuration < std::chrono::seconds(1) || leaseDuration % std::chrono::seconds(1) != milliseconds(0))
    return refuse("the lease duration must be whole seconds, at least 1");
  if (leaseDuration <= renewDeadline) return refuse("the lease duration must be longer than the renew deadline");
  if (retryPeriod <= milliseconds(0)) return refuse("the retry period must be longer than 0");
  if (static_cast<double>(renewDeadline.count()) <= kJitter * static_cast<double>(retryPeriod.count()))
    return refuse("the renew deadline must be longer than 1.2 times the retry period");
  return {};
}

std::string electionIdentity(std::string_view host, base::Random& random) {
  return std::string(host) + "_" + random.uuid();
}

LeaderElector::LeaderElector(Transport& transport, base::Clock& clock, base::Random& random, base::Metrics& metrics,
                             LeaderElectionOptions options)
    : transport_(transport), clock_(clock), random_(random), metrics_(metrics), options_(std::move(options)) {
  metrics_.set("elasticgpu_leader", 0, {});
}

LeaderElector::~LeaderElector() = default;

void LeaderElector::start(std::function<void()> leading, std::function<void(const Status&)> lost) {
  leading_ = std::move(leading);
  lost_ = std::move(lost);
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void LeaderElector::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const auto next = step(stop);
    if (role() == Role::lost || !clock_.sleepUntil(next, stop)) return;
  }
}

LeaderElector::Role LeaderElector::role() const {
  base::MutexLock lock(mutex_);
  return role_;
}

std::string LeaderElector::holder() const {
  base::MutexLock lock(mutex_);
  return holder_;
}

std::string LeaderElector::refusal() const {
  base::MutexLock lock(mutex_);
  return refusal_;
}

void LeaderElector::noteRefusal(Attempt outcome) {
  const bool refused =
      outcome == Attempt::failed && (lastWhy_.code() == Code::forbidden || lastWhy_.code() == Code::unauthorized);
  const auto lease = options_.namespace_ + "/" + options_.name;
  std::string why;
  if (refused)
    why = "Lease " + lease +
          " is not accessible: verbs get, create and patch on leases of group coordination.k8s.io in " + "namespace " +
          options_.namespace_ + " are needed; the API server says: " + lastWhy_.message();
  {
    base::MutexLock lock(mutex_);
    if (refusal_ == why) return;
    refusal_ = why;
  }
  if (refused) log::error("this replica can't lead", {{"lease", lease}, {"why", why}});
}

void LeaderElector::become(Role role) {
  {
    base::MutexLock lock(mutex_);
    role_ = role;
  }
  metrics_.set("elasticgpu_leader", role == Role::leader ? 1 : 0, {});
}

LeaderElector::Steady LeaderElector::step(std::stop_token stop) {
  const bool leads = role() == Role::leader;
  const auto begin = clock_.now();  // before the request is sent, hence before any process can observe it
  Attempt outcome = Attempt::failed;
  if (!leads || begin < renewBy_) {
    outcome = attempt(stop);
    metrics_.add("elasticgpu_lease_attempts_total", 1,
                 {{"result", outcome == Attempt::held        ? "ok"
                             : outcome == Attempt::byAnother ? "held"
                                                             : "failed"}});
  }
  const auto now = clock_.now();
  if (stop.stop_requested()) return now;
  if (outcome != Attempt::failed) lastWhy_ = {};
  noteRefusal(outcome);
  if (outcome == Attempt::held) renewBy_ = begin + options_.renewDeadline;

  if (leads) {
    if (outcome == Attempt::byAnother || now >= renewBy_) {
      const Status why = outcome == Attempt::byAnother
                             ? Status(Code::conflict, "the lease is held by " + observed_.holderIdentity)
                             : Status(Code::deadline, "the lease could not be renewed in time: " + lastWhy_.str());
      become(Role::lost);
      log::error("lost the lease", {{"lease", options_.namespace_ + "/" + options_.name}, {"why", why.message()}});
      if (lost_) lost_(why);
      return now;
    }
    return std::min(now + options_.retryPeriod, renewBy_);
  }
  if (outcome == Attempt::held && now < renewBy_) {
    become(Role::leader);
    log::info("leading", {{"lease", options_.namespace_ + "/" + options_.name}, {"identity", options_.identity}});
    if (leading_) leading_();
    return now + options_.retryPeriod;
  }
  const auto jitter = static_cast<uint64_t>(kJitter * static_cast<double>(options_.retryPeriod.count()));
  return now + options_.retryPeriod + milliseconds(random_.below(jitter + 1));
}

milliseconds LeaderElector::patience() const {
  milliseconds timeout = options_.renewDeadline / 2;
  if (role() == Role::leader)
    timeout = std::min(timeout, std::chrono::duration_cast<milliseconds>(renewBy_ - clock_.now()));
  return std::max(timeout, milliseconds(1));
}

Client LeaderElector::client(milliseconds timeout) {
  ClientOptions options;
  options.maxAttempts = 1;  // step() is the retry
  options.requestTimeout = timeout;
  options.freshConnections = lastWhy_.code() == Code::deadline || lastWhy_.code() == Code::unknownOutcome;
  return Client(transport_, clock_, random_, metrics_, std::move(options));
}

LeaderElector::Attempt LeaderElector::attempt(std::stop_token stop) {
  const auto failed = [this](Status why) {
    log::debug("no lease", {{"why", why.str()}});
    lastWhy_ = std::move(why);
    return Attempt::failed;
  };
  if (role() == Role::leader && current_ && observed_.holderIdentity == options_.identity) {
    Status renewed = take(observed_, stop);
    if (renewed.ok()) return Attempt::held;
    // Another process wrote or deleted the lease: read it before giving up.
    if (renewed.code() != Code::conflict && renewed.code() != Code::notFound) return failed(std::move(renewed));
  }
  auto got = client(patience()).get<core::Lease>({options_.namespace_, options_.name}, stop);
  if (!got && got.status().code() == Code::notFound) {
    Status made = create(stop);
    return made.ok() ? Attempt::held : failed(std::move(made));
  }
  if (!got) return failed(got.status());
  observe(*got);
  if (heldByAnother(clock_.now())) return Attempt::byAnother;
  Status taken = take(observed_, stop);
  return taken.ok() ? Attempt::held : failed(std::move(taken));
}

bool LeaderElector::heldByAnother(Steady now) const {
  if (observed_.holderIdentity.empty() || observed_.holderIdentity == options_.identity) return false;
  if (role() == Role::leader) return true;  // even if it has expired: another process took it
  const milliseconds stated = std::chrono::seconds(std::clamp<int64_t>(observed_.leaseDurationSeconds, 0, 86'400));
  return now < observedAt_ + (stated > milliseconds(0) ? stated : options_.leaseDuration);
}

Status LeaderElector::take(const core::Lease& current, std::stop_token stop) {
  core::Lease next = current;
  next.renewTime = base::rfc3339Micro(clock_.wall());
  next.leaseDurationSeconds = wholeSeconds(options_.leaseDuration);
  if (current.holderIdentity != options_.identity) {
    next.holderIdentity = options_.identity;
    next.acquireTime.clear();
    ++next.leaseTransitions;
  }
  if (next.acquireTime.empty()) next.acquireTime = next.renewTime;
  auto answer = client(patience())
                    .patch<core::Lease>({options_.namespace_, options_.name}, PatchType::merge,
                                        codec::patch::lease(next), {}, stop);
  if (answer)
    observe(*answer);
  else
    current_ = false;
  return answer.status();
}

Status LeaderElector::create(std::stop_token stop) {
  core::Lease first;
  first.metadata.namespace_ = options_.namespace_;
  first.metadata.name = options_.name;
  first.holderIdentity = options_.identity;
  first.leaseDurationSeconds = wholeSeconds(options_.leaseDuration);
  first.acquireTime = first.renewTime = base::rfc3339Micro(clock_.wall());
  auto answer = client(patience()).create(first, stop);
  if (answer)
    observe(*answer);
  else
    current_ = false;
  return answer.status();
}

void LeaderElector::observe(const core::Lease& lease) {
  if (observedAt_ == Steady{} || !sameRecord(lease, observed_)) observedAt_ = clock_.now();
  observed_ = lease;
  current_ = true;
  if (announced_ != lease.holderIdentity && !lease.holderIdentity.empty()) {
    announced_ = lease.holderIdentity;
    if (announced_ != options_.identity)
      log::info("another replica leads",
                {{"lease", options_.namespace_ + "/" + options_.name}, {"holder", lease.holderIdentity}});
  }
  base::MutexLock lock(mutex_);
  holder_ = lease.holderIdentity;
}

void LeaderElector::release() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  // Also releases a lease that was acquired while the stop arrived.
  if (role() == Role::lost || observed_.holderIdentity != options_.identity) return;
  Status given = current_ ? give() : Status(Code::conflict, "not known");
  if (given.code() == Code::conflict || given.code() == Code::unknownOutcome) {
    // A renewal or this release may have been applied although its answer was lost.
    auto got = client(options_.renewDeadline / 2).get<core::Lease>({options_.namespace_, options_.name});
    if (got) observe(*got);
    given = !got ? got.status()
            : observed_.holderIdentity == options_.identity
                ? give()
                : Status(Code::conflict, "it is held by \"" + observed_.holderIdentity + "\"");
  }
  become(Role::released);
  if (given.ok())
    log::info("released the lease", {{"lease", options_.namespace_ + "/" + options_.name}});
  else
    log::warn("the lease was not released", {{"why", given.str()}});
}

Status LeaderElector::give() {
  core::Lease next = observed_;
  next.holderIdentity.clear();
  next.leaseDurationSeconds = 1;
  next.acquireTime = next.renewTime = base::rfc3339Micro(clock_.wall());
  auto answer =
      client(options_.renewDeadline / 2)
          .patch<core::Lease>({options_.namespace_, options_.name}, PatchType::merge, codec::patch::lease(next));
  if (answer) observe(*answer);
  return answer.status();
}

}  // namespace egpu::kube

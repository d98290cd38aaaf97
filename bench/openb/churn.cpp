#include "bench/openb/churn.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <deque>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <tuple>

#include "controller/base/text.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/preempt.h"
#include "controller/scheduler/queue_order.h"

namespace egpu::bench::openb {
namespace {

constexpr int64_t kSearchInterval = 900;  // seconds between two searches for reservations and moves
constexpr int64_t kMovesAfter = 600;      // seconds that a pod waits before other pods are moved for it
constexpr int64_t kMaxDecisions =
    2'000;  // per preemption or plan of moves; the product allows more, because it runs asynchronously

struct Arrival {
  int64_t at = 0;
  std::size_t pod = 0;
  int64_t life = 0;
};

/// Arrivals of all copies of a trace. A copy that reaches the end of the trace begins again.
struct RepeatedTrace {
  int64_t duration = 0;
  int64_t copies = 0;
  std::vector<Arrival> arrivals;  // until the end of the measured time; pods that exist at 0 come first
};

double milliOf(const TracePod& pod) { return static_cast<double>(pod.cards * pod.milli); }

RepeatedTrace repeatTrace(const Trace& trace, double capacity, const ChurnOptions& options) {
  int64_t first = trace.pods.front().creation, last = 0;
  double asked = 0;
  for (const TracePod& pod : trace.pods) {
    first = std::min(first, pod.creation);
    last = std::max(last, pod.deletion);
    asked += milliOf(pod) * static_cast<double>(pod.deletion - pod.creation);
  }
  if (asked <= 0) throw BadTrace("the pods of this trace have no creation_time and deletion_time, or need no cards");
  RepeatedTrace repeated;
  repeated.duration = last - first + 1;
  const double copies = options.load * capacity * static_cast<double>(repeated.duration) / asked;
  repeated.copies = std::max<int64_t>(1, std::llround(copies));
  std::seed_seq seed(trace.arrivals.begin(), trace.arrivals.end());
  std::mt19937_64 random(seed);
  const int64_t end = options.warmUp + options.measured;
  std::vector<Arrival> there;  // `at` is negative: before 0
  for (int64_t copy = 0; copy < repeated.copies; ++copy) {
    const double part = static_cast<double>(random() >> 11) * 0x1p-53;
    const auto begin = static_cast<int64_t>((static_cast<double>(copy) + part) / static_cast<double>(repeated.copies) *
                                            static_cast<double>(repeated.duration));
    for (std::size_t i = 0; i < trace.pods.size(); ++i) {
      const TracePod& pod = trace.pods[i];
      const int64_t at = (pod.creation - first + begin) % repeated.duration;
      const int64_t life = std::max<int64_t>(1, pod.deletion - pod.creation);
      for (int64_t round = at; round < end; round += repeated.duration) repeated.arrivals.push_back({round, i, life});
      if (at + life > repeated.duration) there.push_back({at - repeated.duration, i, life});
    }
  }
  const auto earlier = [](const Arrival& a, const Arrival& b) { return std::tie(a.at, a.pod) < std::tie(b.at, b.pod); };
  std::stable_sort(there.begin(), there.end(), earlier);
  std::stable_sort(repeated.arrivals.begin(), repeated.arrivals.end(), earlier);
  for (Arrival& each : there) each = {0, each.pod, each.life + each.at};
  repeated.arrivals.insert(repeated.arrivals.begin(), there.begin(), there.end());
  return repeated;
}

class Churning {
 public:
  Churning(const Trace& trace, Scheduled& ledger, Placer& placer, const ChurnOptions& options)
      : trace_(trace), ledger_(ledger), placer_(placer), options_(options), end_(options.warmUp + options.measured) {
    using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, bool, std::vector<std::string>>;
    std::map<Key, std::size_t> kinds;
    for (const TracePod& pod : trace.pods)
      kindOf_.push_back(kinds
                            .try_emplace({pod.cpuMilli, pod.memoryMib, pod.cards, pod.milli,
                                          options.preempts && pod.bestEffort, pod.models},
                                         kinds.size())
                            .first->second);
    waiting_.resize(kinds.size());
    for (const TraceNode& node : trace.nodes) capacity_ += 1000 * static_cast<double>(node.cards);
    result_.hourly.assign(static_cast<std::size_t>((options.measured + 3599) / 3600), 0);
  }

  ChurnResult run() {
    // processor time of this process: other work on the machine does not count
    const std::clock_t start = std::clock();
    const RepeatedTrace repeated = repeatTrace(trace_, capacity_, options_);
    result_.copies = repeated.copies;
    for (const Arrival& each : repeated.arrivals) {
      offer(each);
      advance(each.at);
      arrive(each);
    }
    advance(end_);
    countWaits();
    result_.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    return std::move(result_);
  }

 private:
  struct Job {
    const TracePod* pod = nullptr;
    int64_t at = 0;
    int64_t life = 0;
    int64_t waited = -1;  // until the first placement
    int64_t began = -1;   // −1: the pod waits or was evicted
    Seat seat;
  };
  /// The order in which pods are tried: higher priority first, then older pods first. Ids increase in the order of
  /// arrival.
  using QueueOrder = std::pair<int64_t, uint64_t>;
  struct Departure {
    int64_t at = 0;
    uint64_t id = 0;
    bool operator>(const Departure& other) const { return std::tie(at, id) > std::tie(other.at, other.id); }
  };

  std::size_t kindOf(uint64_t id) const {
    return kindOf_[static_cast<std::size_t>(jobs_[id].pod - trace_.pods.data())];
  }
  int64_t priorityOf(uint64_t id) const { return options_.preempts && !jobs_[id].pod->bestEffort ? 1 : 0; }
  QueueOrder orderOf(uint64_t id) const { return {-priorityOf(id), id}; }
  /// Returns the seconds of [from, to) that are in the measured time.
  int64_t measuredOf(int64_t from, int64_t to) const {
    return std::max<int64_t>(0, std::min(to, end_) - std::max(from, options_.warmUp));
  }

  void offer(const Arrival& each) {
    result_.offered += 100 * milliOf(trace_.pods[each.pod]) / capacity_ *
                       static_cast<double>(measuredOf(each.at, each.at + each.life)) /
                       static_cast<double>(options_.measured);
  }

  /// Processes all events up to `until`.
  void advance(int64_t until) {
    while (true) {
      const int64_t departure = departures_.empty() ? end_ + 1 : departures_.top().at;
      const int64_t next = std::min(departure, nextSearch_);
      if (next > until) break;
      pass(next);
      if (departure == next) {
        leave(departures_.top().id);
      } else {
        nextSearch_ += kSearchInterval;
        evictVictims();
        reserve();
      }
    }
    pass(until);
  }

  void pass(int64_t to) {
    for (int64_t from = std::max(now_, options_.warmUp); from < to;) {
      const int64_t hour = (from - options_.warmUp) / 3600;
      const int64_t until = std::min(to, options_.warmUp + (hour + 1) * 3600);
      const double part = 100 * used_ / capacity_ * static_cast<double>(until - from);
      result_.hourly[static_cast<std::size_t>(hour)] += part / 3600;
      result_.allocated += part / static_cast<double>(options_.measured);
      from = until;
    }
    now_ = to;
  }

  void arrive(const Arrival& each) {
    const uint64_t id = jobs_.size();
    const TracePod& pod = trace_.pods[each.pod];
    jobs_.push_back({&pod, each.at, each.life, -1, -1, {}});
    ledger_.arrives(pod);
    if (&placer_ != static_cast<Placer*>(&ledger_)) placer_.arrives(pod);
    std::deque<uint64_t>& alike = waiting_[kindOf(id)];
    if (alike.empty()) {  // if an equal pod waits, this one does not fit either
      Where where;
      if (!reservedFor_.empty()) where.open = [&](std::size_t node) { return mayUse(node, id); };
      if (const auto seat = placer_.choose(pod, where)) return begin(id, *seat);
      if (preempt(id)) return;
      heads_.insert(orderOf(id));
    }
    alike.push_back(id);
  }

  void begin(uint64_t id, const Seat& seat) {
    Job& job = jobs_[id];
    if (job.waited < 0) job.waited = now_ - job.at;
    job.began = now_;
    job.seat = seat;
    used_ += milliOf(*job.pod);
    ledger_.take(*job.pod, id, seat);
    if (&placer_ != static_cast<Placer*>(&ledger_)) placer_.take(*job.pod, id, seat);
    departures_.push({now_ + job.life, id});
  }

  void leave(uint64_t id) {
    const int64_t at = departures_.top().at;
    departures_.pop();
    if (jobs_[id].began < 0 || jobs_[id].began + jobs_[id].life != at) return;  // it was evicted or moved meanwhile
    free(id);
    serve(jobs_[id].seat.node);
  }

  void free(uint64_t id) {
    const Job& job = jobs_[id];
    used_ -= milliOf(*job.pod);
    ledger_.giveBack(*job.pod, id, job.seat);
    if (&placer_ != static_cast<Placer*>(&ledger_)) placer_.giveBack(*job.pod, id, job.seat);
  }

  /// The pod loses its work.
  void interrupt(uint64_t id) {
    Job& job = jobs_[id];
    free(id);
    result_.lost += 100 * milliOf(*job.pod) / capacity_ * static_cast<double>(measuredOf(job.began, now_)) /
                    static_cast<double>(options_.measured);
    job.began = -1;
  }

  void leftWaiting(uint64_t id) {
    std::deque<uint64_t>& alike = waiting_[kindOf(id)];
    alike.pop_front();
    heads_.erase(orderOf(id));
    if (!alike.empty()) heads_.insert(orderOf(alike.front()));
  }

  /// Evicts pods of lower priority for a pod that fits nowhere. The victims arrive again at once as new pods.
  bool preempt(uint64_t id) {
    if (!options_.preempts || priorityOf(id) == 0) return false;
    const auto holder = [](std::string_view device) { return Scheduled::idOf(device); };
    const auto found = scheduler::preempt(
        ledger_.cluster(), ledger_.requestOf(*jobs_[id].pod),
        [&](std::string_view node) { return mayUse(Scheduled::rankOf(node), id); },
        [&](std::string_view device) { return priorityOf(holder(device)) == 0; }, kMaxDecisions, {}, {},
        [&](std::string_view device) {
          return scheduler::EvictionRank{0, jobs_[holder(device)].began};
        });
    if (!found.possible) return false;
    std::vector<uint64_t> gone;
    for (const auto& victim : found.victims) gone.push_back(holder(victim.device));
    for (const uint64_t each : gone) interrupt(each);
    begin(id, ledger_.seatOf(found.decision));
    for (const uint64_t each : gone) {
      const Job job = jobs_[each];
      result_.evicted += now_ >= options_.warmUp ? 1 : 0;
      arrive({now_, static_cast<std::size_t>(job.pod - trace_.pods.data()), job.life});
    }
    serve(jobs_[id].seat.node);
    return true;
  }

  /// Frees capacity for waiting pods: by preemption for the first pod of each kind, by moves for the first pod in the
  /// order that has waited long enough.
  void evictVictims() {
    if (!options_.preempts && !options_.moves) return;
    const std::vector<QueueOrder> heads(heads_.begin(), heads_.end());
    for (const auto& order : heads)
      if (heads_.count(order) != 0 && preempt(order.second)) leftWaiting(order.second);
    if (!options_.moves) return;
    const auto first = std::find_if(heads_.begin(), heads_.end(), [&](const QueueOrder& order) {
      return now_ - jobs_[order.second].at >= kMovesAfter;
    });
    if (first != heads_.end()) letIn(first->second);
  }

  scheduler::Movers movers() const {
    scheduler::Movers all;
    for (uint64_t id = 0; id < jobs_.size(); ++id) {
      const Job& job = jobs_[id];
      const bool there = job.began >= 0 && job.began + job.life > now_;
      if (there && job.pod->bestEffort && job.pod->cards == 1)
        all[Scheduled::deviceOf(id)] = {ledger_.requestOf(*job.pod), [this, id](std::string_view node) {
                                          return mayUse(Scheduled::rankOf(node), id);
                                        }};
    }
    return all;
  }

  void letIn(uint64_t id) {
    const auto suits = [&](std::string_view node) { return mayUse(Scheduled::rankOf(node), id); };
    const auto plan =
        scheduler::movesToLetIn(ledger_.cluster(), ledger_.requestOf(*jobs_[id].pod), suits, movers(), kMaxDecisions);
    if (!plan.possible) return;
    for (const auto& move : plan.moves) {
      const uint64_t moved = Scheduled::idOf(move.device);
      interrupt(moved);
      begin(moved, ledger_.seatOf(move.to));
      result_.moved += now_ >= options_.warmUp ? 1 : 0;
    }
    leftWaiting(id);
    begin(id, ledger_.seatOf(plan.decision));
    serve(jobs_[id].seat.node);
  }

  bool mayUse(std::size_t node, uint64_t id) const {
    const auto reserved = reservedFor_.find(node);
    return reserved == reservedFor_.end() || orderOf(id) <= orderOf(reserved->second);
  }

  /// Capacity of the node was freed, presumably of no other one: tries the waiting pods there, in order.
  void serve(std::size_t node) {
    std::vector<std::size_t> nodes = {node};
    while (!nodes.empty()) {
      const std::size_t at = nodes.back();
      nodes.pop_back();
      for (auto it = heads_.begin(); it != heads_.end() && mayUse(at, it->second);) {
        const auto [priority, id] = *it;
        const auto seat = placer_.choose(*jobs_[id].pod, {at, {}});
        if (!seat) {
          ++it;
          continue;
        }
        leftWaiting(id);
        it = heads_.upper_bound({priority, id});  // the next pod of its kind is younger
        begin(id, *seat);
        const auto reserved = std::find_if(reservedFor_.begin(), reservedFor_.end(),
                                           [owner = id](const auto& each) { return each.second == owner; });
        if (reserved == reservedFor_.end()) continue;
        nodes.push_back(reserved->first);
        reservedFor_.erase(reserved);
      }
    }
  }

  void reserve() {
    if (options_.reserveAfter < 0 || heads_.empty()) return;
    std::vector<uint64_t> ids;
    for (const std::deque<uint64_t>& alike : waiting_)
      for (const uint64_t id : alike)
        if (now_ - jobs_[id].at >= options_.reserveAfter) ids.push_back(id);
    std::sort(ids.begin(), ids.end(), [this](uint64_t a, uint64_t b) { return orderOf(a) < orderOf(b); });
    std::vector<scheduler::PendingRequest> waiting;
    for (const uint64_t id : ids)
      waiting.push_back(
          {Scheduled::deviceOf(id), priorityOf(id), jobs_[id].at, &ledger_.requestOf(*jobs_[id].pod), {}});
    scheduler::ReservationLimits limits;
    limits.after = options_.reserveAfter;
    reserved_ = scheduler::reserveNodes(
        ledger_.cluster(), waiting, now_,
        [this](std::string_view device) { return jobs_[Scheduled::idOf(device)].began; }, reserved_, limits);
    const std::map<std::size_t, uint64_t> before = std::move(reservedFor_);
    reservedFor_.clear();
    for (const scheduler::ReservedNode& each : reserved_)
      reservedFor_[Scheduled::rankOf(each.node)] = Scheduled::idOf(each.name);
    for (const auto& [node, id] : before)
      if (reservedFor_.count(node) == 0) serve(node);
  }

  void countWaits() {
    std::array<std::vector<int64_t>, kSizes.size()> waits;
    for (const Job& job : jobs_) {
      if (job.at < options_.warmUp) continue;
      const std::size_t size = sizeOf(*job.pod);
      ChurnResult::OfSize& of = result_.sizes[size];
      const int64_t wait = job.waited < 0 ? end_ - job.at : job.waited;
      of.waiting += job.waited < 0 ? 1 : 0;
      of.starved += wait > ChurnResult::kStarved ? 1 : 0;
      waits[size].push_back(wait);
    }
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      ChurnResult::OfSize& of = result_.sizes[i];
      std::vector<int64_t>& all = waits[i];
      of.pods = static_cast<int64_t>(all.size());
      if (all.empty()) continue;
      std::sort(all.begin(), all.end());
      for (const int64_t wait : all) of.mean += static_cast<double>(wait) / static_cast<double>(all.size());
      of.p99 = static_cast<double>(all[(all.size() * 99 + 99) / 100 - 1]);
    }
  }

  const Trace& trace_;
  Scheduled& ledger_;
  Placer& placer_;
  const ChurnOptions options_;
  const int64_t end_;
  double capacity_ = 0;                   // milli-cards
  double used_ = 0;                       // milli-cards
  int64_t now_ = 0;                       // seconds
  int64_t nextSearch_ = kSearchInterval;  // next search for reservations
  std::vector<std::size_t> kindOf_;       // by pod; pods of one kind have equal requests
  std::vector<Job> jobs_;                 // by id
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures_;
  std::vector<std::deque<uint64_t>> waiting_;  // by kind, the oldest first
  std::set<QueueOrder> heads_;                 // the first of each kind
  std::vector<scheduler::ReservedNode> reserved_;
  std::map<std::size_t, uint64_t> reservedFor_;  // id of the pod, by rank of the node; as in reserved_
  ChurnResult result_;
};

}  // namespace

ChurnResult churn(const Trace& trace, Scheduled& ledger, Placer& placer, const ChurnOptions& options) {
  return Churning(trace, ledger, placer, options).run();
}

std::string toJson(const std::string& policy, const ChurnOptions& options, const ChurnResult& result) {
  const auto count = [](const char* name, int64_t n) { return std::string("\"") + name + "\": " + std::to_string(n); };
  std::string out = "{\"policy\": " + base::quoted(policy) + ", \"load\": " + jsonNumber(options.load, "%.4g") +
                    ", \"offered\": " + jsonNumber(result.offered, "%.3f") +
                    ", \"allocated\": " + jsonNumber(result.allocated, "%.3f") + ", \"waits\": {";
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const ChurnResult::OfSize& of = result.sizes[i];
    out += (i > 0 ? ", " : "") + base::quoted(kSizes[i]) + ": {" + count("pods", of.pods) +
           ", \"mean\": " + jsonNumber(of.mean, "%.1f") + ", \"p99\": " + jsonNumber(of.p99, "%.0f") + ", " +
           count("starved", of.starved) + ", " + count("waiting", of.waiting) + "}";
  }
  out += "}, " + count("copies", result.copies) + ", " + count("evicted", result.evicted) + ", " +
         count("moved", result.moved) + ", \"lost\": " + jsonNumber(result.lost, "%.3f") +
         ", \"seconds\": " + jsonNumber(result.seconds, "%.1f") + ", \"hourly\": [";
  for (std::size_t i = 0; i < result.hourly.size(); ++i)
    out += (i > 0 ? ", " : "") + jsonNumber(result.hourly[i], "%.2f");
  return out + "]}";
}

}  // namespace egpu::bench::openb

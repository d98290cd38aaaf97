// defrag: shows a plan of moves, or executes it: one eviction at a time with the caller's rights, replanned after each.
// A claim that outlives its pods is first asked to move by its annotation; its pod is evicted once the controller has
// marked the device. The process keeps no state: if it is killed, at most one pod is evicted or one claim asked to
// move, and the next run plans from the current state.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "api/v1alpha/types.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/base/printable.h"
#include "controller/cmd/fail.h"
#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"
#include "controller/codec/move_plan.h"
#include "controller/kube/client.h"
#include "controller/kube/config/credentials.h"
#include "controller/kube/config/kubeconfig.h"
#include "controller/kube/eviction.h"
#include "controller/kube/transport/curl_transport.h"

namespace egpu::cmd {

namespace {

using base::Code;
using base::Status;
using Plan = codec::MovePlanAnswer;

constexpr std::chrono::milliseconds kPollInterval{500};
constexpr std::chrono::minutes kMarkTimeout{1};
constexpr std::chrono::minutes kDeleteTimeout{10};  // a pod's grace period, and the removal of its device
constexpr std::chrono::minutes kPlaceTimeout{10};   // the pod that replaces it
constexpr std::chrono::minutes kBindTimeout{2};     // a gang, once no move is left
constexpr int kReplans = 40;                        // polls until the controller has seen the API server's state

void print(const std::string& text) {
  std::printf("%s\n", base::printable(text).c_str());
  std::fflush(stdout);
}

bool until(const std::function<bool()>& done, std::chrono::minutes within) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

/// Executes a plan. The Status contains the reason if it stops.
class Execution {
 public:
  Execution(const QuestionOptions& options, CallerOptions caller, kube::HttpRequest question,
            const kube::Client& client)
      : options_(options), caller_(std::move(caller)), question_(std::move(question)), client_(client.brief()) {}

  int run() {
    auto plan = ask();
    if (!plan) return status_;
    if (plan->isBound()) return fail("", {Code::invalid, plan->subject() + " is Bound"});
    print(plan->text);
    if (!plan->possible) return plan->ofClaim ? 1 : 0;
    for (const auto& move : plan->moves)  // dry-run all moves before the first eviction
      if (const auto s = wouldGo(move); !s.ok()) return fail("nothing is moved", s);
    for (std::size_t made = 0; !plan->moves.empty(); ++made) {
      const auto before = plan->moves.size();
      auto moved = plan->holds ? move(plan->moves.front())
                               : Status(Code::conflict, "claim " + plan->moves.front().claim +
                                                            ", recreated, would not be placed where the plan needs it");
      if (moved.ok()) moved = planAnew(before, plan);
      if (!plan) return status_;
      if (!moved.ok()) return fail("stopped, before move " + std::to_string(made + 1) + " was done", moved);
    }
    if (!plan->gang.empty() && !plan->isBound()) return awaitGang();
    print(plan->text);
    return 0;
  }

 private:
  /// Waits until all members are bound together; no move is left.
  int awaitGang() {
    std::optional<Plan> plan;
    const auto over = [&] {
      plan = ask();
      return !plan || plan->isBound() || !plan->possible || !plan->moves.empty();
    };
    const bool inTime = until(over, kBindTimeout);
    if (!plan) return status_;
    if (!plan->isBound())
      return fail("stopped",
                  {Code::conflict, inTime ? "the cluster has changed: " + plan->text
                                          : plan->subject() + " is not Bound after 2 minutes: " + plan->text});
    print(plan->subject() + " is Bound");
    return 0;
  }

  /// Requests a plan. max: maximum number of moves, if whole cards are freed. None: status_ is the exit status of the
  /// process.
  std::optional<Plan> ask(std::optional<std::size_t> max = {}) {
    auto request = question_;
    if (max) request.target = withField(request.target, "moves", std::to_string(*max));
    const auto answer = answerOf(options_.server, caller_, std::move(request), options_.file, status_);
    if (!answer) return std::nullopt;
    auto plan = codec::decodeMovePlan(answer->body);
    if (plan) return std::move(*plan);
    status_ = fail("--server", plan.status());
    return std::nullopt;
  }

  /// Plans again. The remaining moves must decrease, otherwise the cluster has changed. Polls, because the controller
  /// sees changes of the API server with a delay.
  Status planAnew(std::size_t before, std::optional<Plan>& plan) {
    for (int i = 0; i < kReplans; ++i) {
      plan = ask(plan->ofClaim ? std::nullopt : std::optional(before - 1));
      if (!plan) return Status::okay();
      if (plan->isBound()) {
        plan->moves.clear();
        plan->text = plan->subject() + " is Bound";
        return Status::okay();
      }
      const bool done = !plan->ofClaim && before == 1;
      if (done) plan->text = "done";
      if (done || (plan->possible && plan->moves.size() < before)) return Status::okay();
      std::this_thread::sleep_for(kPollInterval);
    }
    return {Code::conflict, "the cluster has changed: " + plan->text};
  }

  Status wouldGo(const Plan::Move& move) {
    if (!move.moveAnnotation.empty())
      if (auto s = annotate(move, true); !s.ok()) return s;
    return evict(move, true);
  }

  /// Moves one claim away, and waits until its device is gone and the replacement pod has a node.
  Status move(const Plan::Move& move) {
    const bool used = move.moveAnnotation.empty() || !move.pods.empty();
    if (used && move.pods.size() != 1)
      return {Code::conflict, "claim " + move.claim + " is no longer used by exactly one pod"};
    const auto device = client_.get<v1alpha::ElasticGPU>({"", move.device});
    if (!device.ok() || device->metadata.deleting())  // a pod of that name may be a different one by now
      return {Code::conflict, "device " + move.device + " of claim " + move.claim + " is being deleted already"};
    if (!move.moveAnnotation.empty())
      if (auto s = askToMove(move, *device, used); !s.ok()) return s;
    return used ? evictAndWait(move, *device) : waitUntilGone(*device);
  }

  /// Asks the claim to move. The controller ungates no pod for the device once it is marked.
  Status askToMove(const Plan::Move& move, const v1alpha::ElasticGPU& device, bool used) {
    if (!used) print("claim " + move.claim + " is scheduled again, so that it goes to node " + move.to);
    if (auto s = annotate(move, false); !s.ok()) return s;
    const auto marked = [&] {
      const auto now = client_.get<v1alpha::ElasticGPU>(core::keyOf(device.metadata));
      return now.ok() ? now->metadata.uid != device.metadata.uid || !now->status.reason.empty()
                      : now.status().code() == Code::notFound;
    };
    if (until(marked, kMarkTimeout)) return Status::okay();
    return {Code::deadline, "the controller has not marked device " + move.device + " after 1 minute"};
  }

  Status waitUntilGone(const v1alpha::ElasticGPU& device) {
    const auto gone = [&] {
      const auto now = client_.get<v1alpha::ElasticGPU>(core::keyOf(device.metadata));
      return now.ok() ? now->metadata.uid != device.metadata.uid : now.status().code() == Code::notFound;
    };
    if (until(gone, kDeleteTimeout)) return Status::okay();
    return {Code::deadline, "device " + device.metadata.name + " is still there after 10 minutes"};
  }

  Status evictAndWait(const Plan::Move& move, const v1alpha::ElasticGPU& device) {
    const auto pod = client_.get<core::Pod>(core::ObjectKey::of(move.pods.front()));
    if (!pod) return pod.status();
    const auto* maker = pod->metadata.controller();
    if (maker == nullptr) return {Code::conflict, "pod " + move.pods.front() + " has no controller"};
    const auto placed = placedOf(*pod, *maker);
    print("claim " + move.claim + ": pod " + move.pods.front() + " is evicted, so that it goes to node " + move.to);
    if (auto s = evict(move, false); !s.ok()) return s;
    if (auto s = waitUntilGone(device); !s.ok()) return s;
    if (!until([&] { return placedOf(*pod, *maker) >= placed; }, kPlaceTimeout))
      return {Code::deadline,
              "no pod of " + maker->kind + " " + maker->name + " replaced " + move.pods.front() + " within 10 minutes"};
    return Status::okay();
  }

  /// Returns the number of pods of the same controller that have a node and are not ending.
  std::size_t placedOf(const core::Pod& pod, const core::OwnerReference& maker) {
    kube::ListOptions all;
    all.namespace_ = pod.metadata.namespace_;
    const auto pods = client_.listAll<core::Pod>(all);
    if (!pods) return 0;
    return static_cast<std::size_t>(
        std::count_if(pods->begin(), pods->end(), [&](const core::Pod& each) { return each.placedBy(maker.uid); }));
  }

  Status annotate(const Plan::Move& move, bool dry) {
    const auto claim = client_.get<v1alpha::ElasticGPUClaim>(core::ObjectKey::of(move.claim));
    if (!claim) return {claim.status().code(), "claim " + move.claim + ": " + claim.status().message()};
    const auto answer = client_.call(kube::askToMove(*claim, move.moveAnnotation, dry));
    if (answer.ok()) return Status::okay();
    return {answer.status().code(), "claim " + move.claim + " may not be changed now: " + answer.status().message()};
  }

  Status evict(const Plan::Move& move, bool dry) {
    for (const auto& name : move.pods) {
      const auto pod = client_.get<core::Pod>(core::ObjectKey::of(name));
      if (!pod) return {pod.status().code(), "pod " + name + ": " + pod.status().message()};
      if (const auto answer = client_.call(kube::evictionOf(*pod, dry)); !answer.ok())
        return {answer.status().code(), "pod " + name + " may not be evicted now: " + answer.status().message()};
    }
    return Status::okay();
  }

  const QuestionOptions& options_;
  const CallerOptions caller_;
  const kube::HttpRequest question_;
  kube::Client client_;
  int status_ = 0;
};

/// Evictions use the kubeconfig. Its token, if any, is also sent to the controller.
base::Result<CallerOptions> callerOf(const CallerOptions& given, const kube::Endpoint& endpoint, base::Clock& clock) {
  CallerOptions caller = given;
  caller.kubeconfig.clear();
  caller.context.clear();
  if (!caller.token.empty() || !caller.tokenFile.empty()) return caller;
  kube::CredentialSource source(endpoint, clock);
  const auto credentials = source.current(std::chrono::steady_clock::now() + std::chrono::minutes(1), {});
  if (!credentials) return credentials.status();
  caller.token = (*credentials)->token;
  return caller;
}

int execute(const QuestionOptions& options) {
  const auto endpoint =
      kube::loadEndpoint({options.caller.kubeconfig, options.caller.context}, kube::Environment::process());
  if (!endpoint) return fail("--kubeconfig", endpoint.status(), 2);
  base::SystemClock clock;
  base::Random random;
  base::NoMetrics metrics;
  auto caller = callerOf(options.caller, *endpoint, clock);
  if (!caller) return fail("--kubeconfig", caller.status(), 2);
  auto transport = kube::curlTransport(*endpoint, clock);
  if (!transport) return fail(endpoint->origin, transport.status());
  kube::HttpRequest question;
  if (!readQuestion(options, "format=json&evictable=1", question)) return 2;
  const kube::Client client(**transport, clock, random, metrics);
  return Execution(options, std::move(*caller), std::move(question), client).run();
}

}  // namespace

int defragCommand(const DefragOptions& options) {
  if (!options.execute) return questionCommand(options.question);
  return execute(options.question);
}

}  // namespace egpu::cmd

#include "controller/server/moves.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/codec/json/text.h"
#include "controller/codec/yaml_text.h"
#include "controller/http/plain.h"
#include "controller/kube/eviction.h"

namespace egpu::server {

namespace {

using base::Code;
using base::Status;
using MovePlan = codec::MovePlanAnswer;

/// The query, split into the parameters of Moves and `rest`, which goes to the plan.
struct ResolvedClaim {
  std::string wrong, format = "json", rest = "format=json&evictable=1";
};

ResolvedClaim readQuery(const http::Request& request) {
  ResolvedClaim asked;
  std::string_view left = request.query;
  while (!left.empty()) {
    const auto part = left.substr(0, left.find('&'));
    left.remove_prefix(std::min(left.size(), part.size() + 1));
    const auto pairs = http::parseQuery(part);
    if (pairs.empty()) continue;
    const auto& [key, value] = pairs.front();
    if (key == "execute" && value != "true" && value != "1")
      asked.wrong = "execute: \"" + value + "\" is unknown; known is true\n";
    else if (key == "format" && value != "json" && value != "yaml" && value != "text")
      asked.wrong = "format: \"" + value + "\" is unknown; known are json, yaml, text\n";
    else if (key == "format")
      asked.format = value;
    else if (key != "execute" && key != "evictable")
      asked.rest.append("&").append(part);
  }
  return asked;
}

http::Response later(int status, const std::string& why, std::chrono::seconds after) {
  auto r = http::plain(status, why + "\n");
  r.headers.emplace_back("Retry-After", std::to_string(after.count()));
  return r;
}

/// Converts the API server's refusal to a response.
http::Response refused(const Status& why) {
  switch (why.code()) {
    case Code::unauthorized:
      return http::plain(401, why.message() + "\n");
    case Code::forbidden:
      return http::plain(403, why.message() +
                                  ": moves are made with the caller's permissions (create pods/eviction; for a claim "
                                  "created by hand also patch elasticgpuclaims)\n");
    case Code::throttled:
      return later(429, why.message(),
                   std::chrono::ceil<std::chrono::seconds>(why.retryAfter.value_or(std::chrono::seconds(5))));
    case Code::unavailable:
    case Code::unknownOutcome:
    case Code::deadline:
      return later(503, why.message(), std::chrono::seconds(1));
    default:
      return http::plain(409, why.message() + "\n");
  }
}

/// Returns the answer. move: the executed move; null: none.
http::Response done(const MovePlan& plan, const MovePlan::Move* move, std::size_t left, const std::string& text) {
  codec::JsonText j;
  j.beginObject();
  if (move != nullptr) {
    j.key("moved").beginObject().key("claim").value(move->claim).key("device").value(move->device);
    j.key("to").value(move->to).key("pods").beginArray();
    for (const auto& pod : move->pods) j.value(pod);
    j.endArray().endObject();
  }
  j.key("left").value(static_cast<int64_t>(left)).key("possible").value(plan.possible).key("text").value(text);
  j.endObject();
  http::Response r;
  r.body = j.take();
  return r;
}

http::Response inFormat(http::Response json, const std::string& format, const std::string& text) {
  if (json.status != 200 || format == "json") return json;
  if (format == "text") return http::plain(200, text + "\n");
  json.body = codec::jsonToYaml(json.body);
  json.contentType = "application/yaml";
  return json;
}

}  // namespace

bool Moves::serves(const http::Request& request) {
  const auto query = http::parseQuery(request.query);
  return request.path == "/defrag" &&
         std::any_of(query.begin(), query.end(), [](const auto& each) { return each.first == "execute"; });
}

http::Response Moves::answer(const http::Request& request, std::stop_token stop) {
  if (request.method != "POST") {
    auto r = http::plain(405, "execute: only a POST moves anything; without it the plan is shown\n");
    r.headers.emplace_back("Allow", "POST");
    return r;
  }
  const auto asked = readQuery(request);
  if (!asked.wrong.empty()) return http::plain(400, asked.wrong);
  if (!answering_.try_lock()) return later(409, "another move is in progress", std::chrono::seconds(1));
  const base::MutexLock lock(answering_, std::adopt_lock);
  if (auto waits = waitsFor()) return std::move(*waits);
  auto question = request;
  question.query = asked.rest;
  if (question.body.empty()) question.method = "GET";
  auto planned = plan_(question, stop);
  if (planned.status != 200) return planned;
  const auto plan = codec::decodeMovePlan(planned.body);
  if (!plan) return http::plain(400, "moves are made for one claim at a time; " + plan.status().message() + "\n");
  const bool bound = plan->isBound();
  const auto text = bound ? plan->subject() + " is Bound" : plan->text;
  if (bound || !plan->possible || plan->moves.empty())
    return inFormat(done(*plan, nullptr, 0, text), asked.format, text);
  const auto& move = plan->moves.front();
  const auto left = plan->moves.size() - 1;
  const auto moved = "claim " + move.claim + (move.pods.empty() ? ": it is scheduled again" : ": its pod is evicted") +
                     ", so that it goes to node " + move.to + "; " + std::to_string(left) +
                     (left == 1 ? " move is left" : " moves are left");
  if (auto stopped = carryOut(request, *plan, std::move(stop)); stopped.status != 200) return stopped;
  return inFormat(done(*plan, &move, left, moved), asked.format, moved);
}

std::optional<http::Response> Moves::waitsFor() {
  if (!underWay_) return std::nullopt;
  const auto& move = *underWay_;
  const auto device = stores_.devices.get({"", move.device});
  const bool there = device && device->metadata.uid == move.deviceUid;
  if (!there && placedOf(move.namespace_, move.maker) >= move.placed) {
    underWay_.reset();
    return std::nullopt;
  }
  const auto what = there ? "device " + move.device + " of claim " + move.claim + " is still there"
                          : "no pod has replaced " + move.pod;
  if (clock_.now() - move.since < kDoneTimeout)
    return later(409, "a move is under way: " + what, std::chrono::seconds(1));
  const auto stopped = "stopped: " + what + " after 20 minutes; the next request plans again\n";
  underWay_.reset();
  return http::plain(409, stopped);
}

http::Response Moves::carryOut(const http::Request& request, const MovePlan& plan, std::stop_token stop) {
  const auto& first = plan.moves.front();
  if (!plan.holds)
    return http::plain(409,
                       "stopped: claim " + first.claim + ", recreated, would not be placed where the plan needs it\n");
  for (const auto& move : plan.moves)  // dry-run all moves before the first eviction
    if (const auto s = wouldGo(request, move, stop); !s.ok()) return refused(s);
  const auto device = stores_.devices.get({"", first.device});
  const auto pod = first.pods.size() == 1 ? stores_.pods.get(core::ObjectKey::of(first.pods.front())) : nullptr;
  const auto* maker = pod ? pod->metadata.controller() : nullptr;
  const bool unused = first.pods.empty() && !first.moveAnnotation.empty();
  if (!device || device->metadata.deleting() || (!unused && (maker == nullptr || pod->metadata.deleting())))
    return later(409, "claim " + first.claim + " is being moved already, or is not used by exactly one pod",
                 std::chrono::seconds(1));
  UnderWay move{first.claim, first.device, device->metadata.uid, {}, {}, {}, 0, clock_.now()};
  if (!first.moveAnnotation.empty())
    if (const auto s = annotate(request, first, false, stop); !s.ok()) return refused(s);
  if (pod && !first.moveAnnotation.empty() && device->status.reason.empty())
    return later(409,
                 "claim " + first.claim + " is requested to leave device " + first.device +
                     ": its pod is evicted once the controller has marked the device",
                 std::chrono::seconds(1));
  if (pod) {
    move.pod = first.pods.front();
    move.namespace_ = pod->metadata.namespace_;
    move.maker = maker->uid;
    move.placed = placedOf(move.namespace_, move.maker);
  }
  const auto evicted = pod ? evict(request, *pod, false, std::move(stop)) : Status::okay();
  if (evicted.code() == Code::unknownOutcome || evicted.ok()) underWay_ = std::move(move);
  if (!evicted.ok()) return refused(evicted);
  base::log::info("a claim is moved", {{"claim", first.claim}, {"device", first.device}, {"to", first.to}});
  return {};
}

Status Moves::wouldGo(const http::Request& request, const MovePlan::Move& move, const std::stop_token& stop) {
  if (!move.moveAnnotation.empty())
    if (auto s = annotate(request, move, true, stop); !s.ok()) return s;
  for (const auto& name : move.pods) {
    const auto pod = stores_.pods.get(core::ObjectKey::of(name));
    if (!pod) return {Code::conflict, "pod " + name + " is gone: ask again"};
    if (auto s = evict(request, *pod, true, stop); !s.ok()) return s;
  }
  return Status::okay();
}

std::size_t Moves::placedOf(const std::string& namespace_, const std::string& maker) const {
  std::size_t count = 0;
  stores_.pods.forEach([&](const auto& pod) {
    if (pod->metadata.namespace_ == namespace_ && pod->placedBy(maker)) ++count;
  });
  return count;
}

Status Moves::annotate(const http::Request& request, const MovePlan::Move& move, bool dry, std::stop_token stop) {
  const auto claim = stores_.claims.get(core::ObjectKey::of(move.claim));
  if (!claim) return {Code::conflict, "claim " + move.claim + " is gone: ask again"};
  if (claim->metadata.annotation(v1alpha::keys::kMoveAnnotation) == move.moveAnnotation) return Status::okay();
  return asCaller(request, kube::askToMove(*claim, move.moveAnnotation, dry),
                  "claim " + move.claim + " may not be changed now", std::move(stop));
}

Status Moves::evict(const http::Request& request, const core::Pod& pod, bool dry, std::stop_token stop) {
  return asCaller(request, kube::evictionOf(pod, dry),
                  "pod " + core::keyOf(pod.metadata).str() + " may not be evicted now", std::move(stop));
}

Status Moves::asCaller(const http::Request& request, kube::HttpRequest write, const std::string& no,
                       std::stop_token stop) {
  if (const auto who = request.header("authorization"); !who.empty())
    write.headers.emplace_back("Authorization", std::string(who));
  const auto answer = asCaller_.call(std::move(write), std::move(stop));
  if (answer) return Status::okay();
  const auto& why = answer.status();
  Status refused(why.code(), no + ": " + why.message());
  refused.retryAfter = why.retryAfter;
  return refused;
}

}  // namespace egpu::server

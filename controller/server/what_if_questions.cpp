#include "controller/server/what_if_questions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/base/text.h"
#include "controller/codec/codec.h"
#include "controller/codec/what_if_question.h"
#include "controller/codec/yaml_text.h"
#include "controller/http/plain.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/priority/priority.h"
#include "controller/scheduler/state/holdings.h"
#include "controller/server/moves/movable_claims.h"
#include "controller/server/quota_answers.h"
#include "controller/server/snapshot.h"
#include "controller/server/text_table.h"
#include "controller/server/typical_request.h"
#include "controller/server/what_if_pod.h"
#include "controller/server/what_if_steps.h"

namespace egpu::server {

namespace {

using base::Code;
using base::Status;

constexpr std::size_t kMaxNames = 1000;
constexpr std::size_t kMaxTop = 100;
constexpr std::size_t kMaxColumns = 1000;
constexpr std::size_t kMaxMoves = 1000;  // limit of a plan that frees cards
constexpr std::size_t kUsualMoves = 100;
constexpr std::size_t kMaxFirstMoves = 16;  // maximum number of a gang's moves that are tried as the first
// maximum number of YAML syntax characters: they, not the bytes, determine the parse time
constexpr int64_t kMaxMarks = 32'768;
constexpr int64_t kForecastDecisions = 50'000;  // per class
constexpr int64_t kMetricDecisions = 10'000;    // per class
constexpr std::chrono::milliseconds kLook{50};  // poll interval of a question that waits for the previous one

/// True for JSON, YAML, no type, and the default type of clients such as curl that were given none.
bool isReadable(std::string_view contentType) {
  const auto type = base::lowered(base::trimmed(contentType.substr(0, contentType.find(';'))));
  return type.empty() || type == "application/json" || type == "application/yaml" ||
         type == "application/x-www-form-urlencoded";
}

std::vector<std::string_view> fieldsOf(std::string_view path) {
  std::vector<std::string_view> fields = {"namespace", "claim", "class",  "gpu",   "gpu-core", "gpu-memory",
                                          "tflops",    "node",  "format", "color", "columns",  "wide"};
  if (path != "/forecast") fields.push_back("card");
  if (path == "/explain" || path == "/simulate") fields.push_back("names");
  if (path == "/defrag") fields.insert(fields.end(), {"moves", "evictable"});
  if (path == "/simulate") fields.insert(fields.end(), {"top", "drain", "add", "release", "resize"});
  return fields;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// Returns the request of a subject, pinned to the requested node if there is one.
scheduler::Request requestOn(const WhatIfSubject& subject, const std::string& node) {
  auto request = *subject.request;
  if (!node.empty()) request.pinnedNode = node;
  return request;
}

base::Result<std::size_t> numberOf(const std::string& key, const std::string& value, std::size_t most) {
  std::size_t number = 0;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
  if (parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size() && number <= most) return number;
  return Status(Code::invalid, key + ": \"" + value + "\" is not a whole number from 0 to " + std::to_string(most));
}

/// Prefixes errors in the body with "body: ", so that the sender of a file can name the file.
Status inBody(const Status& status) { return {status.code(), "body: " + status.message()}; }

/// Releases the trial placement of a pending claim that fit in one of the steps, so that it is answered as pending.
void releaseTrial(scheduler::Situation& situation, const WhatIfSubject& subject) {
  const auto own = std::find_if(situation.claims.begin(), situation.claims.end(),
                                [&](const auto& claim) { return claim.name == subject.claim; });
  if (own == situation.claims.end() || !subject.device.empty() || own->device.empty()) return;
  const auto held = scheduler::holdingsOf(situation.cluster);
  if (const auto it = held.find(own->device); it != held.end())
    scheduler::release(situation.cluster, own->device, it->second);
}

/// Rejects a claim that more capacity alone would not bind: no pod is evicted for it.
void onlyForRoom(WhatIfSubject& subject) {
  const auto& waits = subject.notReady.empty() ? subject.why : subject.notReady;
  if (!subject.request || waits.empty()) return;
  subject.request.reset();
  subject.why = "more capacity alone would not bind it: " + waits;
}

void onlyForRoom(GangToLetIn& gang) {
  if (gang.why.empty() && !gang.waits.empty()) gang.why = "more capacity alone would not bind it: " + gang.waits;
}

/// Excludes these nodes for all members.
void closeNodes(GangToLetIn& gang, std::set<std::string, std::less<>> nodes) {
  if (nodes.empty()) return;
  const auto closed = std::make_shared<const std::set<std::string, std::less<>>>(std::move(nodes));
  for (auto& member : gang.members)
    member.suits = [closed, suits = std::move(member.suits)](std::string_view node) {
      return !closed->contains(node) && (!suits || suits(node));
    };
}

/// True if the message is about one of the first `before` steps: "steps[1].drain: …".
bool isAboutStep(const std::string& message, std::size_t before) {
  constexpr std::string_view kSteps = "steps[";
  if (!message.starts_with(kSteps)) return false;
  std::size_t number = 0;
  std::from_chars(message.data() + kSteps.size(), message.data() + message.size(), number);
  return number < before;
}

}  // namespace

/// A question as received: parameters and body, parsed but not yet looked up in the stores.
struct WhatIfQuestions::Asking {
  QueryFields fields;
  std::vector<codec::WhatIfStep> stepsOfQuery;
  std::vector<codec::WhatIfQuestion> documents;  ///< from the body
  std::vector<v1alpha::ElasticGPUClaim> claimsOfBody;
  codec::WhatIfQuestion question;  ///< the document being answered, followed by the steps of the query
  std::string claim, node;
  std::string space{kDefaultNamespace};  ///< namespace of claims that name none
  std::optional<std::size_t> names;
  std::size_t top = 5;
  std::optional<std::size_t> moves;  ///< maximum number of moves
  bool evictable = false;            ///< consider only claims that evictions can move
  bool text = false, yaml = false;
  TextStyle style;
  /// Number of rejected nodes and cards to name per stage: people want a few examples, programs can skip names.
  std::size_t namesShown() const { return names.value_or(text ? 5 : 20); }

  static base::Result<Asking> read(const http::Request& request) {
    Asking asking;
    const auto known = fieldsOf(request.path);
    std::set<std::string> seen;
    for (const auto& [key, value] : http::parseQuery(request.query)) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        return Status(Code::invalid, "unknown parameter \"" + key + "\"; known are " + joined(known));
      if (!isStep(key) && !seen.insert(key).second) return Status(Code::invalid, key + ": given twice");
      if (value.empty()) return Status(Code::invalid, key + ": is empty");
      if (auto s = asking.set(key, value); !s.ok()) return s;
      asking.fields.emplace_back(key, value);
    }
    if (request.method == "POST")
      if (const auto body = asking.readBody(request.path, request.body); !body.ok()) return inBody(body);
    auto steps = stepsOfFields(asking.fields);
    if (!steps) return steps.status();
    asking.stepsOfQuery = std::move(*steps);
    return asking;
  }

  Status set(const std::string& key, const std::string& value) {
    if (key == "claim") claim = value;
    if (key == "namespace") space = value;
    if (key == "node") node = value;
    if (key == "evictable") evictable = value == "1" || value == "true";
    if (key == "color") style.color = value == "1" || value == "true";
    if (key == "wide") style.wide = value == "1" || value == "true";
    if (key == "format") {
      if (value != "json" && value != "yaml" && value != "text")
        return {Code::invalid, "format: \"" + value + "\" is unknown; known are json, yaml, text"};
      text = value == "text";
      yaml = value == "yaml";
    }
    if (key != "names" && key != "top" && key != "columns" && key != "moves") return Status::okay();
    const auto number = numberOf(key, value,
                                 key == "names"   ? kMaxNames
                                 : key == "top"   ? kMaxTop
                                 : key == "moves" ? kMaxMoves
                                                  : kMaxColumns);
    if (!number) return number.status();
    if (key == "names") names = *number;
    if (key == "top") top = *number;
    if (key == "moves") moves = *number;
    if (key == "columns") style.columns = *number;
    return Status::okay();
  }

  Status readBody(std::string_view path, const std::string& body) {
    constexpr std::string_view kMarks = "\n,:[]{}-?&*!#|>%";
    const auto marks =
        std::count_if(body.begin(), body.end(), [&](char c) { return kMarks.find(c) != std::string_view::npos; });
    if (marks > kMaxMarks)
      return {Code::invalid,
              "more than " + std::to_string(kMaxMarks) + " lines, fields and values: no question needs so many"};
    auto decoded = codec::decodeQuestions(body);
    if (!decoded) return decoded.status();
    std::set<core::ObjectKey> ofPods;
    for (const auto& each : *decoded) {
      if (path != "/simulate" && !each.steps.empty()) return {Code::invalid, "steps are for /simulate only"};
      if (path != "/simulate" && each.pod) return {Code::invalid, "a Pod is for /simulate only"};
      if (each.claim) claimsOfBody.push_back(*each.claim);
      if (each.pod)
        for (auto& key : claimsOfPod(*each.pod, space)) ofPods.insert(std::move(key));
    }
    // A claim that a pod of the same body uses is answered together with the pod.
    for (auto& each : *decoded) {
      const bool used = each.claim && ofPods.count(keyOf(*each.claim)) != 0;
      if (each.otherKind.empty() && !used) documents.push_back(std::move(each));
    }
    return Status::okay();
  }
  core::ObjectKey keyOf(const v1alpha::ElasticGPUClaim& each) const { return keyOf(each.metadata); }
  core::ObjectKey keyOf(const core::ObjectMeta& each) const {
    return {each.namespace_.empty() ? space : each.namespace_, each.name};
  }
  /// Adds the position of the document being answered, and its object, to an error.
  Status inDocument(const Status& status, const char* kind = "", const core::ObjectMeta& object = {}) const {
    auto where = question.at.empty() ? std::string() : question.at + ": ";
    if (!object.name.empty()) where += kind + keyOf(object).str() + ": ";
    return inBody({status.code(), where + status.message()});
  }

  /// Selects one document of the body, or the question without a body.
  void turnTo(const codec::WhatIfQuestion& document) {
    question = document;
    question.steps.insert(question.steps.end(), stepsOfQuery.begin(), stepsOfQuery.end());
  }
  /// Adds the document's position to an error in a step that came in the body.
  Status ofStep(const Status& status) const {
    return isAboutStep(status.message(), question.steps.size() - stepsOfQuery.size()) ? inDocument(status) : status;
  }

  /// Returns the Pod that the question is about.
  base::Result<PodSubject> pod(const cache::Stores& stores) const {
    if (!claim.empty()) return Status(Code::invalid, "give one of: claim (an existing one), a Pod as the body");
    auto subject = podSubject(stores, *question.pod, claimsOfBody, claimOfFields(fields), space);
    if (!subject) return inDocument(subject.status(), "pod ", question.pod->metadata);
    return subject;
  }

  bool onlyPods() const {
    return !documents.empty() &&
           std::all_of(documents.begin(), documents.end(), [](const auto& each) { return each.pod.has_value(); });
  }

  /// Returns the namespace whose quotas apply to the subject.
  std::string spaceOf(const WhatIfSubject& subject) const {
    if (!subject.claim.empty()) return subject.claim.substr(0, subject.claim.find('/'));
    const bool named = question.claim && !question.claim->metadata.namespace_.empty();
    return named ? question.claim->metadata.namespace_ : space;
  }
  /// True if the question names a namespace, directly or by a claim: then its quotas limit the forecast.
  bool ofSpace(const WhatIfSubject& subject) const {
    const auto given = [](const auto& field) { return field.first == "namespace"; };
    return !subject.claim.empty() || std::any_of(fields.begin(), fields.end(), given);
  }

  /// Returns the claim that the question is about; none if it names no claim in any form.
  base::Result<std::optional<WhatIfSubject>> subject(const cache::Stores& stores) const {
    const auto byFields = claimOfFields(fields);
    if (int(byFields.has_value()) + int(!claim.empty()) + int(question.claim.has_value()) > 1)
      return Status(Code::invalid,
                    "give one of: claim (an existing one), class and requests as parameters, a claim as the body");
    if (!claim.empty()) return some(existingSubject(stores, claimKeyOf(claim, space)));
    if (byFields) return some(wouldBeSubject(stores, *byFields, space));
    if (!question.claim) return std::optional<WhatIfSubject>();
    auto subject = wouldBeSubject(stores, *question.claim, space);
    if (!subject) return inDocument(subject.status(), "claim ", question.claim->metadata);
    return some(std::move(subject));
  }

 private:
  static base::Result<std::optional<WhatIfSubject>> some(base::Result<WhatIfSubject> subject) {
    if (!subject) return subject.status();
    return std::optional<WhatIfSubject>(std::move(*subject));
  }
};

/// Deadline of a question, and the stop request of its caller.
struct WhatIfQuestions::Patience {
  const base::Clock& clock;
  const base::Clock::Steady until;
  const std::stop_token stop;
  struct Lost {};  ///< thrown and caught in this file only

  bool lost() const { return stop.stop_requested() || clock.now() >= until; }
  /// Returns a function that throws if the question is lost. The scheduler calls it between decisions; work on a copy
  /// can be abandoned at any point.
  scheduler::Pause pause() const {
    return [this] {
      if (lost()) throw Lost{};
    };
  }
  http::Response answer() const {
    if (stop.stop_requested())
      return http::plain(503, "stopped: the caller disconnected, or the controller is stopping\n");
    return http::plain(504,
                       "no answer within " + std::to_string(kPatience.count()) +
                           " s: ask about less (one node with node=, fewer steps or nodes, top=0), or again when fewer "
                           "questions are asked\n");
  }
};

http::Response WhatIfQuestions::answer(const http::Request& request, std::stop_token stop) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
    auto r = http::plain(405, "only GET and POST are served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD, POST");
    return r;
  }
  if (const auto type = request.header("content-type"); request.method == "POST" && !isReadable(type))
    return http::plain(
        415, "Content-Type: \"" + std::string(type) + "\" is not read; known are application/json, application/yaml\n");
  const Patience patience{clock_, clock_.now() + kPatience, std::move(stop)};
  std::unique_lock lock(one_, std::defer_lock);
  while (!lock.try_lock()) {
    if (patience.lost()) return patience.answer();
    std::this_thread::sleep_for(kLook);
  }
  const bool podsOnly = request.path == kSimulateSchedule;
  http::Request simulated;
  if (podsOnly) {
    simulated = request;
    simulated.path = "/simulate";
  }
  const http::Request& question = podsOnly ? simulated : request;
  auto asking = Asking::read(question);  // under the lock, because parsing a body is work too
  if (!asking) return http::plain(400, asking.status().message() + "\n");
  if (podsOnly && !asking->onlyPods())
    return http::plain(400, std::string(kSimulateSchedule) +
                                " takes a Pod as its body, in YAML or JSON; /simulate takes other questions\n");
  asking->style.indexOf = [this](const std::string& name) -> std::optional<int64_t> {
    const auto card = stores_.cards.get({"", name});
    return card && card->spec.card ? std::optional(card->spec.card->index) : std::nullopt;
  };
  try {
    return answerAlone(question, *asking, patience);
  } catch (const Patience::Lost&) {
    return patience.answer();
  }
}

http::Response WhatIfQuestions::answerAlone(const http::Request& request, Asking& asking,
                                            const Patience& patience) const {
  if (!asking.node.empty() && !stores_.nodes.get({"", asking.node}))
    return http::plain(404, "node: there is no node \"" + asking.node + "\"\n");
  if (asking.documents.empty()) asking.documents.emplace_back();
  std::vector<Said> said;
  for (const auto& document : asking.documents) {
    asking.turnTo(document);
    auto one = request.path == "/explain"    ? explain(asking, patience)
               : request.path == "/simulate" ? simulate(asking, patience)
               : request.path == "/defrag"   ? defrag(asking, patience)
                                             : forecast(asking, patience);
    if (!one) return http::plain(one.status().code() == Code::notFound ? 404 : 400, one.status().message() + "\n");
    said.push_back(std::move(*one));
  }
  return together(asking, said);
}

/// Joins the answers of several documents: one after the other as text, otherwise in a list.
http::Response WhatIfQuestions::together(const Asking& asking, const std::vector<Said>& said) {
  std::string body;
  bool error = false;
  for (const auto& each : said) {
    error = error || each.error;
    body += (body.empty() ? "" : asking.text ? "\n" : ",") + each.body;
  }
  if (!asking.text && said.size() > 1) body = "{\"answers\":[" + body + "]}";
  auto r = http::plain(200, asking.yaml ? codec::jsonToYaml(body) : std::move(body));
  if (!asking.text) r.contentType = asking.yaml ? "application/yaml" : "application/json";
  if (error) r.headers.emplace_back(kErrorHeader, "1");
  return r;
}

base::Result<WhatIfQuestions::Said> WhatIfQuestions::explain(const Asking& asking, const Patience& patience) const {
  auto found = asking.subject(stores_);
  if (!found) return found.status();
  if (!*found)
    return Status(
        Code::invalid,
        "the question is empty: give claim (and namespace), or class and gpu, gpu-core, gpu-memory or tflops, "
        "or POST a claim");
  ExplainAnswer answer;
  answer.subject = std::move(**found);
  if (answer.subject.request) {
    auto situation = situationFor(asking.spaceOf(answer.subject), patience);
    auto& subject = answer.subject;
    chooseAlternative(asking, patience, situation, subject);
    const auto request =
        withinQuotas(situation.cluster, situation.quotas, quotaClaimOf(subject, asking.spaceOf(subject)),
                     requestOn(subject, asking.node), subject.suits, patience.pause(), subject);
    answer.decision = scheduler::decide(situation.cluster, request, subject.suits);
    answer.explanation = scheduler::explain(situation.cluster, request, subject.suits, asking.namesShown(),
                                            patience.pause(), subject.whyUnsuited);
    if (!subject.quota.empty()) answer.explanation.remedies.clear();  // more cards would not help
  }
  return Said{asking.text ? forTerminal(toText(answer, asking.style), asking.style.color) : toJson(answer)};
}

/// Returns the cluster, with the amounts that quotas count if the namespace has quotas.
scheduler::Situation WhatIfQuestions::situationFor(const std::string& space, const Patience& patience) const {
  if (!stores_.quotasIn(space).empty()) return takeSnapshot(stores_, cluster_, patience.pause()).situation;
  scheduler::Situation situation;
  situation.cluster = cluster_.queries().copy();
  return situation;
}

/// Chooses the first alternative of the claim that fits; the answer is about that one.
void WhatIfQuestions::chooseAlternative(const Asking& asking, const Patience& patience, scheduler::Situation& situation,
                                        WhatIfSubject& subject) {
  const auto claim = quotaClaimOf(subject, asking.spaceOf(subject));
  subject.chooseFirst([&](scheduler::Request request) {
    if (!asking.node.empty()) request.pinnedNode = asking.node;
    return scheduler::decideWithin(situation.cluster, situation.quotas, claim, request, subject.suits, patience.pause())
        .fits;
  });
}

/// Updates the subject of a resize step to its new requests. It may then have no request, because a bound claim is
/// resized by the class recorded in its device.
void WhatIfQuestions::asChanged(WhatIfSubject& subject, const StepsToTry& trying) const {
  const auto changed = trying.changed.find(claimKeyOf(subject.claim, {}));
  if (changed == trying.changed.end()) return;
  auto record = recordOf(stores_, changed->second, true);
  subject.requests = changed->second.spec.requests;
  subject.request = std::move(record.request);
  subject.why = std::move(record.why);
}

ResizeLimits WhatIfQuestions::resizeLimits() const {
  return {cannotResize_, [this](const auto& claim, const auto& device, const auto& request) {
            const auto turn = reconcile::turnOf(claim, reconcile::priorityOf(stores_, claim).value, clock_.wall());
            return cluster_.queries().keptFromResize(
                {claim.metadata.uid, core::keyOf(claim.metadata).str(), request, {}, device.spec.className, turn},
                device);
          }};
}

base::Result<WhatIfQuestions::Said> WhatIfQuestions::simulate(const Asking& asking, const Patience& patience) const {
  auto about = asking.question.pod ? base::Result<std::optional<WhatIfSubject>>(std::optional<WhatIfSubject>())
                                   : asking.subject(stores_);
  if (!about) return about.status();
  if (!*about && !asking.question.pod && asking.question.steps.empty())
    return Status(
        Code::invalid,
        "the question is empty: give class and gpu, gpu-core, gpu-memory or tflops, or claim, or steps (drain, add, "
        "release, resize), or POST a claim or a Pod");
  auto trying = stepsToTry(stores_, asking.question.steps, asking.space, resizeLimits());
  if (!trying) return asking.ofStep(trying.status());
  SimulateAnswer answer;
  answer.subject = std::move(*about);
  if (answer.subject && answer.subject->exists) asChanged(*answer.subject, *trying);
  auto snapshot = takeSnapshot(stores_, cluster_, patience.pause());
  if (!trying->steps.empty()) {
    answer.asksWhatIf = true;
    auto result = scheduler::whatIf(std::move(snapshot.situation), trying->steps, patience.pause());
    if (!result) return asking.ofStep(result.status());
    snapshot.situation = std::move(result->after);
    answer.before = std::move(result->before);
    answer.steps = std::move(result->steps);
    answer.stepTexts = std::move(trying->texts);
  }
  if (answer.subject && answer.subject->request) place(asking, patience, snapshot, answer);
  if (asking.question.pod) {
    auto pod = asking.pod(stores_);
    if (!pod) return pod.status();
    for (const auto& claim : pod->claims) releaseTrial(snapshot.situation, claim);
    answer.pod = simulatePod(stores_, snapshot.situation.cluster, *pod, snapshot.situation.quotas, asking.node,
                             {asking.namesShown(), asking.top, patience.pause()});
  }
  return Said{asking.text ? forTerminal(toText(answer, asking.style), asking.style.color) : toJson(answer)};
}

/// Simulates the claim of the question after the steps.
void WhatIfQuestions::place(const Asking& asking, const Patience& patience, Snapshot& snapshot,
                            SimulateAnswer& answer) {
  auto& cluster = snapshot.situation.cluster;
  const auto own = std::find_if(snapshot.situation.claims.begin(), snapshot.situation.claims.end(),
                                [&](const auto& claim) { return claim.name == answer.subject->claim; });
  releaseTrial(snapshot.situation, *answer.subject);
  for (const auto& claim : snapshot.situation.claims)
    if (!claim.device.empty()) snapshot.holders.try_emplace(claim.device, claim.name);
  auto& subject = *answer.subject;
  chooseAlternative(asking, patience, snapshot.situation, subject);
  const auto& book = snapshot.situation.quotas;
  const auto quotaClaim = quotaClaimOf(subject, asking.spaceOf(subject));
  const auto asked = requestOn(subject, asking.node);
  const auto request = withinQuotas(cluster, book, quotaClaim, asked, subject.suits, patience.pause(), subject);
  const scheduler::SimulatedQuotas quotas{book, quotaClaim, asked};
  answer.simulation = scheduler::simulate(
      cluster, request, subject.suits, {asking.namesShown(), asking.top, patience.pause(), subject.whyUnsuited},
      [&](std::string_view device) { return own == snapshot.situation.claims.end() || device != own->device; },
      book.counts(quotaClaim.namespace_) ? &quotas : nullptr);
  if (!subject.quota.empty()) answer.simulation.filter.remedies.clear();  // more cards would not help
  for (const auto& victim : answer.simulation.preemption.victims)
    answer.victims.push_back(snapshot.holder(victim.device));
}

base::Result<WhatIfQuestions::Said> WhatIfQuestions::forecast(const Asking& asking, const Patience& patience) const {
  v1alpha::ElasticGPUClaim asked = claimOfFields(asking.fields).value_or(v1alpha::ElasticGPUClaim{});
  const bool sized = !asked.spec.requests.empty() || !asking.claim.empty() || asking.question.claim;
  std::vector<ForecastAnswer> answers;
  const auto add = [&](WhatIfSubject subject, std::string of) {
    if (subject.request && !subject.notReady.empty()) {  // there may be capacity, but the class can't serve it
      subject.request.reset();
      subject.why = subject.notReady;
    }
    answers.push_back({subject.className, std::move(subject), std::move(of), {}, {}});
  };
  if (sized && (!asked.spec.className.empty() || asked.spec.requests.empty())) {
    auto subject = asking.subject(stores_);
    if (!subject) return subject.status();
    auto of = (*subject)->exists ? "as claim " + (*subject)->claim : std::string("as requested");
    add(std::move(**subject), std::move(of));
  } else {
    const auto sizes = usualSizes(stores_);
    const auto& only = asked.spec.className;
    for (const auto& [cls, usual] : sizes) {
      if (!only.empty() && cls != only) continue;
      v1alpha::ElasticGPUClaim claim;
      claim.spec.className = cls;
      claim.spec.requests = sized ? asked.spec.requests : usual.requests;
      auto subject = wouldBeSubject(stores_, claim, {});
      // With all classes, some may not accept this size.
      WhatIfSubject refused;
      refused.className = cls;
      refused.requests = claim.spec.requests;
      if (!subject) refused.why = subject.status().message();
      add(subject ? std::move(*subject) : std::move(refused), sized ? "as requested" : usual.of);
    }
    if (answers.empty() && !only.empty()) {
      v1alpha::ElasticGPUClaim claim;
      claim.spec.className = only;
      claim.spec.requests = UsualSize::wholeCard();
      return wouldBeSubject(stores_, claim, {}).status();
    }
  }
  forecastEach(asking, patience, answers);
  const bool error =
      std::any_of(answers.begin(), answers.end(), [](const auto& answer) { return !answer.subject.request; });
  return Said{asking.text ? forTerminal(toText(answers, asking.style), asking.style.color) : toJson(answers), error};
}

void WhatIfQuestions::forecastEach(const Asking& asking, const Patience& patience,
                                   std::vector<ForecastAnswer>& answers) const {
  const auto cluster = cluster_.queries().copy();
  for (auto& answer : answers) {
    auto& subject = answer.subject;
    if (!subject.request) continue;
    // later alternatives could fit more claims than the first one
    subject.chooseFirst([&](const auto&) { return false; });
    const auto request = requestOn(subject, asking.node);
    const auto space = asking.spaceOf(subject);
    if (!asking.ofSpace(subject) || stores_.quotasIn(space).empty()) {
      answer.forecast = scheduler::forecast(cluster, request, subject.suits, kForecastDecisions, patience.pause());
      continue;
    }
    auto situation = situationFor(space, patience);
    const auto like = scheduler::quotaClaim(space + "/forecast", subject.className);
    std::optional<scheduler::QuotaExcess> excess;
    answer.forecast = scheduler::forecastWithin(std::move(situation.cluster), situation.quotas, like, request, excess,
                                                subject.suits, kForecastDecisions, patience.pause());
    if (excess) answer.quota = excess->text();
  }
}

base::Result<WhatIfQuestions::Said> WhatIfQuestions::defrag(const Asking& asking, const Patience& patience) const {
  auto about = asking.subject(stores_);
  if (!about) return about.status();
  if (*about && asking.moves)
    return Status(Code::invalid,
                  "moves: applies to freeing whole cards only; for a claim the plan is as small as possible");
  if (!*about && !asking.node.empty())
    return Status(Code::invalid,
                  "node: applies only to moves for a claim; give class and gpu, gpu-core, gpu-memory "
                  "or tflops, or claim");
  DefragAnswer answer;
  answer.subject = std::move(*about);
  if (auto gang = gangOf(answer.subject)) {
    if (!asking.node.empty())
      return Status(Code::invalid, "node: members of a gang are placed on several nodes; leave it out");
    answer.gang = std::move(gang);
    answer.subject->note.clear();  // the note says that the answer is for the claim alone
  }
  auto claims = movableClaims(stores_, asking.evictable, patience.pause());
  if (stores_.quotas.size() > 0) {
    auto now = takeSnapshot(stores_, cluster_, patience.pause()).situation;
    holdToQuotas(claims, now);
  }
  const auto kept =
      cluster_.queries().nodesKeptForOthers(answer.subject && !answer.gang ? answer.subject->claim : std::string());
  closeNodes(claims, kept);
  if (answer.gang) closeNodes(*answer.gang, cluster_.queries().nodesKeptFrom(answer.gang->asks));
  if (answer.subject && !answer.gang && !kept.empty())
    answer.subject->suits = [suits = std::move(answer.subject->suits), kept](std::string_view node) {
      return !kept.contains(node) && (!suits || suits(node));
    };
  answer.movable = claims.known.size();
  if (asking.evictable && answer.gang) onlyForRoom(*answer.gang);
  if (asking.evictable && answer.subject && !answer.gang) onlyForRoom(*answer.subject);
  if (answer.gang)
    planGang(patience, answer, claims.movers, asking.evictable);
  else
    planMoves(asking, patience, answer, claims.movers);
  for (const auto& move : answer.plan.moves) answer.moved.push_back(claims.known.find(move.device)->second);
  return Said{asking.text ? forTerminal(toText(answer, asking.style), asking.style.color) : toJson(answer)};
}

void WhatIfQuestions::planMoves(const Asking& asking, const Patience& patience, DefragAnswer& answer,
                                const scheduler::Movers& movers) const {
  constexpr auto kLimit = scheduler::kMaxMoveDecisions;
  const auto pause = patience.pause();
  scheduler::Situation situation;
  scheduler::MovePlanner planner;
  auto most = static_cast<int64_t>(asking.moves.value_or(kUsualMoves));
  if (!answer.subject) {
    situation.cluster = cluster_.queries().copy();
    planner = [&](const auto& at) { return scheduler::movesToFreeCards(at, movers, most, kLimit, pause); };
  } else {
    auto& subject = *answer.subject;
    if (!subject.request) return;
    const auto space = asking.spaceOf(subject);
    situation = situationFor(space, patience);
    chooseAlternative(asking, patience, situation, subject);
    const auto request = withinQuotas(situation.cluster, situation.quotas, quotaClaimOf(subject, space),
                                      requestOn(subject, asking.node), subject.suits, pause, subject);
    if (!subject.quota.empty()) return;  // capacity is not the obstacle
    planner = [&, request](const auto& at) {
      return scheduler::movesToLetIn(at, request, subject.suits, movers, kLimit, pause);
    };
  }
  answer.plan = planner(situation.cluster);
  // limit for the rest after the first move
  most = std::max<int64_t>(0, static_cast<int64_t>(answer.plan.moves.size()) - 1);
  if (asking.evictable) answer.holds = scheduler::firstMoveHolds(situation.cluster, answer.plan, movers, planner);
}

std::optional<GangToLetIn> WhatIfQuestions::gangOf(const std::optional<WhatIfSubject>& subject) const {
  const auto claim = subject && subject->exists ? stores_.claims.get(core::ObjectKey::of(subject->claim)) : nullptr;
  if (!claim || !reconcile::inGang(stores_, *claim)) return std::nullopt;
  auto gang = gangToLetIn(stores_, cluster_, *claim, clock_.wall());
  const bool open = std::find(gang.open.begin(), gang.open.end(), subject->claim) != gang.open.end();
  // A bound claim ignores its gang annotations, unless other members are open.
  if (!open && subject->phase == v1alpha::keys::phase::kBound && gang.open.empty() && !gang.why.empty())
    return std::nullopt;
  return gang;
}

void WhatIfQuestions::planGang(const Patience& patience, DefragAnswer& answer, const scheduler::Movers& movers,
                               bool evictable) const {
  auto& gang = *answer.gang;
  auto& plan = answer.plan;
  if (!gang.why.empty()) return;
  if (gang.open.empty()) {
    plan.possible = true;
    return;
  }
  const auto space = core::ObjectKey::of(answer.subject->claim).namespace_;
  const auto situation = situationFor(space, patience);
  if (!situation.quotas.counts(space))
    for (auto& member : gang.members) member.claim.reset();
  const auto pause = patience.pause();
  const scheduler::MovePlanner planner = [&](const auto& at) {
    return scheduler::movesToLetAllIn(at, gang.members, gang.within(), situation.quotas, movers,
                                      scheduler::kMaxMoveDecisions, pause);
  };
  plan = planner(situation.cluster);
  const auto& lacking = plan.gang->lacking;
  if (!plan.possible && lacking && lacking->excess) gang.quota = quotaText(situation.quotas, *lacking->excess);
  const auto own = std::find(gang.open.begin(), gang.open.end(), answer.subject->claim);
  if (plan.possible && own != gang.open.end())
    plan.decision = plan.gang->decisions[static_cast<std::size_t>(own - gang.open.begin())];
  if (evictable)
    answer.holds = scheduler::beginWithMoveThatHolds(situation.cluster, plan, movers, planner, kMaxFirstMoves);
}

void WhatIfQuestions::publish(base::Metrics& metrics) {
  constexpr const char* kFit = "elasticgpu_claims_that_fit";
  constexpr const char* kAge = "elasticgpu_claims_that_fit_age_seconds";
  const std::unique_lock lock(one_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // a scrape does not wait for an answer
  const auto now = clock_.now();
  if (published_ && now < publishAgain_) {
    metrics.set(kAge, std::chrono::duration<double>(now - *published_).count(), {});
    return;
  }
  const auto sizes = usualSizes(stores_);
  const auto cluster = cluster_.queries().copy();
  std::set<std::string, std::less<>> shown;
  for (const auto& [cls, usual] : sizes) {
    v1alpha::ElasticGPUClaim claim;
    claim.spec.className = cls;
    claim.spec.requests = usual.requests;
    const auto subject = wouldBeSubject(stores_, claim, {});
    if (!subject || !subject->request || !subject->notReady.empty()) continue;
    const auto fit = scheduler::forecast(cluster, *subject->request, subject->suits, kMetricDecisions);
    metrics.set(kFit, static_cast<double>(fit.count), {{"class", cls}});
    shown.insert(cls);
  }
  for (const auto& gone : shownClasses_)
    if (shown.count(gone) == 0) metrics.forget(kFit, {{"class", gone}});
  shownClasses_ = std::move(shown);
  published_ = now;
  publishAgain_ = std::max(now + kFresh, now + 100 * (clock_.now() - now));
  metrics.set(kAge, 0, {});
}

}  // namespace egpu::server

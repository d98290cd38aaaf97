#include "controller/server/questions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "api/v1alpha/keys.h"
#include "controller/codec/codec.h"
#include "controller/codec/question.h"
#include "controller/scheduler/holdings.h"
#include "controller/server/snapshot.h"
#include "controller/server/steps.h"
#include "controller/server/text_table.h"
#include "controller/server/usual_size.h"

namespace egpu::server {

namespace {

using base::Code;
using base::Status;

constexpr std::size_t kMostNames = 1000;
constexpr std::size_t kMostTop = 100;
constexpr int64_t kMostMarks = 32'768;  // what YAML gives a meaning to: reading costs by these, not by bytes
constexpr std::size_t kMostBody = std::size_t{1} << 20;  // bytes, once its aliases are written out
constexpr int64_t kForecastDecisions = 50'000;           // per class
constexpr int64_t kMetricDecisions = 10'000;             // per class
constexpr std::chrono::milliseconds kLook{50};           // whether a waiting question is still wanted

http::Response plain(int status, std::string body) {
  http::Response r;
  r.status = status;
  r.contentType = "text/plain; charset=utf-8";
  r.body = std::move(body);
  return r;
}

const std::vector<std::string_view>& fieldsOf(std::string_view path) {
  static const std::vector<std::string_view> explain = {"namespace", "claim",      "class",  "gpu",
                                                        "gpu-core",  "gpu-memory", "tflops", "card",
                                                        "node",      "names",      "format", "color"};
  static const std::vector<std::string_view> simulate = {
      "namespace", "claim", "class",   "gpu",    "gpu-core", "gpu-memory", "tflops", "card", "node",
      "drain",     "add",   "release", "resize", "names",    "top",        "format", "color"};
  static const std::vector<std::string_view> forecast = {"namespace",  "claim",  "class", "gpu",    "gpu-core",
                                                         "gpu-memory", "tflops", "node",  "format", "color"};
  return path == "/explain" ? explain : path == "/simulate" ? simulate : forecast;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// The request of a subject, on the node that was asked for.
scheduler::Request requestOn(const Subject& subject, const std::string& node) {
  auto request = *subject.request;
  if (!node.empty()) request.pinnedNode = node;
  return request;
}

}  // namespace

/// A question as it came: parameters and body, read but not yet looked up.
struct Questions::Asking {
  QueryFields fields;
  codec::Question question;
  std::string claim, node;
  std::string space{kDefaultNamespace};  ///< of claims that name none
  std::optional<std::size_t> names;
  std::size_t top = 5;
  bool text = false, color = false;
  /// Of those that fell out, per stage: a reader wants examples, a program can skip what it doesn't want.
  std::size_t namesShown() const { return names.value_or(text ? 5 : 20); }

  static base::Result<Asking> read(const http::Request& request) {
    Asking asking;
    const auto& known = fieldsOf(request.path);
    std::set<std::string> seen;
    for (const auto& [key, value] : http::parseQuery(request.query)) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        return Status(Code::invalid, "unknown parameter \"" + key + "\"; known are " + joined(known));
      if (!isStep(key) && !seen.insert(key).second) return Status(Code::invalid, key + ": given twice");
      if (value.empty()) return Status(Code::invalid, key + ": is empty");
      if (key == "claim") asking.claim = value;
      if (key == "namespace") asking.space = value;
      if (key == "node") asking.node = value;
      if (key == "color") asking.color = value == "1" || value == "true";
      if (key == "format") {
        if (value != "json" && value != "text")
          return Status(Code::invalid, "format: \"" + value + "\" is unknown; known are json, text");
        asking.text = value == "text";
      }
      if (key == "names" || key == "top") {
        const auto most = key == "names" ? kMostNames : kMostTop;
        std::size_t number = 0;
        const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
        if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size() || number > most)
          return Status(Code::invalid,
                        key + ": \"" + value + "\" is no whole number from 0 to " + std::to_string(most));
        if (key == "names")
          asking.names = number;
        else
          asking.top = number;
      }
      asking.fields.emplace_back(key, value);
    }
    if (request.method == "POST")
      if (const auto body = asking.readBody(request.path, request.body); !body.ok()) return body;
    auto steps = stepsOfFields(asking.fields);
    if (!steps) return steps.status();
    std::move(steps->begin(), steps->end(), std::back_inserter(asking.question.steps));
    return asking;
  }

  Status readBody(std::string_view path, const std::string& body) {
    if (body.find_first_not_of(" \t\r\n") == std::string::npos) return Status::okay();
    constexpr std::string_view kMarks = "\n,:[]{}-?&*!#|>%";
    const auto marks =
        std::count_if(body.begin(), body.end(), [&](char c) { return kMarks.find(c) != std::string_view::npos; });
    if (marks > kMostMarks)
      return Status(Code::invalid, "body: more than " + std::to_string(kMostMarks) +
                                       " lines, fields and values: no question needs so many");
    const auto json = codec::yamlToJson(body);
    if (!json) return Status(Code::invalid, "body: " + json.status().message());
    if (json->size() > kMostBody)
      return Status(Code::invalid, "body: its aliases expand to more than " + std::to_string(kMostBody >> 10) + " KiB");
    auto decoded = codec::decodeQuestion(*json);
    if (!decoded) return Status(Code::invalid, "body: " + decoded.status().message());
    if (path != "/simulate" && !decoded->steps.empty())
      return Status(Code::invalid, "body: steps are for /simulate only");
    question = std::move(*decoded);
    return Status::okay();
  }

  /// What it is about; nothing if it names no claim in any form.
  base::Result<std::optional<Subject>> subject(const cache::Stores& stores) const {
    const auto byFields = claimOfFields(fields);
    if (int(byFields.has_value()) + int(!claim.empty()) + int(question.claim.has_value()) > 1)
      return Status(Code::invalid,
                    "give one of: claim (one that is there), class and requests as parameters, a claim as the body");
    if (!claim.empty()) return some(existingSubject(stores, claimKeyOf(claim, space)));
    if (byFields) return some(wouldBeSubject(stores, *byFields, space));
    if (question.claim) return some(wouldBeSubject(stores, *question.claim, space));
    return std::optional<Subject>();
  }

 private:
  static base::Result<std::optional<Subject>> some(base::Result<Subject> subject) {
    if (!subject) return subject.status();
    return std::optional<Subject>(std::move(*subject));
  }
};

/// How long a question may take, and who still wants the answer.
struct Questions::Patience {
  const base::Clock& clock;
  const base::Clock::Steady until;
  const std::stop_token stop;
  struct Lost {};  ///< thrown and caught in this file only

  bool lost() const { return stop.stop_requested() || clock.now() >= until; }
  /// Called between the scheduler's decisions; what works on a copy leaves nothing behind when it throws.
  scheduler::Pause pause() const {
    return [this] {
      if (lost()) throw Lost{};
    };
  }
  http::Response answer() const {
    if (stop.stop_requested()) return plain(503, "stopped: the caller has gone, or the controller is stopping\n");
    return plain(504, "no answer within " + std::to_string(kPatience.count()) +
                          " s: ask about less (one node with node=, fewer steps or nodes, top=0), or again when fewer "
                          "questions are asked\n");
  }
};

http::Response Questions::answer(const http::Request& request, std::stop_token stop) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
    auto r = plain(405, "only GET and POST are served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD, POST");
    return r;
  }
  const Patience patience{clock_, clock_.now() + kPatience, std::move(stop)};
  std::unique_lock lock(one_, std::defer_lock);
  while (!lock.try_lock_for(kLook))
    if (patience.lost()) return patience.answer();
  const auto asking = Asking::read(request);  // with the lock: reading a body is work, too
  if (!asking) return plain(400, asking.status().message() + "\n");
  try {
    return answerAlone(request, *asking, patience);
  } catch (const Patience::Lost&) {
    return patience.answer();
  }
}

http::Response Questions::answerAlone(const http::Request& request, const Asking& asking,
                                      const Patience& patience) const {
  if (!asking.node.empty() && !stores_.nodes.get({"", asking.node}))
    return plain(404, "node: there is no node \"" + asking.node + "\"\n");
  auto body = request.path == "/explain"    ? explain(asking, patience)
              : request.path == "/simulate" ? simulate(asking, patience)
                                            : forecast(asking, patience);
  if (!body) return plain(body.status().code() == Code::notFound ? 404 : 400, body.status().message() + "\n");
  if (asking.text) return plain(200, std::move(*body));
  http::Response r;
  r.body = std::move(*body);
  return r;
}

base::Result<std::string> Questions::explain(const Asking& asking, const Patience& patience) const {
  auto subject = asking.subject(stores_);
  if (!subject) return subject.status();
  if (!*subject)
    return Status(
        Code::invalid,
        "nothing is asked about: give claim (and namespace), or class and gpu, gpu-core, gpu-memory or tflops, "
        "or POST a claim");
  ExplainAnswer answer;
  answer.subject = std::move(**subject);
  if (answer.subject.request) {
    const auto cluster = cluster_.copy();
    const auto request = requestOn(answer.subject, asking.node);
    answer.decision = scheduler::decide(cluster, request, answer.subject.suits);
    answer.explanation =
        scheduler::explain(cluster, request, answer.subject.suits, asking.namesShown(), patience.pause());
  }
  return asking.text ? forTerminal(toText(answer, asking.color), asking.color) : toJson(answer);
}

base::Result<std::string> Questions::simulate(const Asking& asking, const Patience& patience) const {
  auto subject = asking.subject(stores_);
  if (!subject) return subject.status();
  if (!*subject && asking.question.steps.empty())
    return Status(
        Code::invalid,
        "nothing is asked: give class and gpu, gpu-core, gpu-memory or tflops, or claim, or steps (drain, add, "
        "release, resize), or POST a claim");
  auto steps = schedulerSteps(stores_, asking.question.steps, asking.space);
  if (!steps) return steps.status();
  SimulateAnswer answer;
  answer.subject = std::move(*subject);
  auto snapshot = takeSnapshot(stores_, cluster_, patience.pause());
  if (!steps->empty()) {
    answer.asksWhatIf = true;
    auto result = scheduler::whatIf(std::move(snapshot.situation), *steps, patience.pause());
    if (!result) return result.status();
    snapshot.situation = std::move(result->after);
    answer.before = std::move(result->before);
    answer.steps = std::move(result->steps);
    for (const auto& step : asking.question.steps) answer.stepTexts.push_back(stepText(step, asking.space));
  }
  if (answer.subject && answer.subject->request) {
    auto& cluster = snapshot.situation.cluster;
    const auto own = std::find_if(snapshot.situation.claims.begin(), snapshot.situation.claims.end(),
                                  [&](const auto& claim) { return claim.name == answer.subject->claim; });
    // A claim that waits and found room in one of the steps is asked about as if it still waited.
    if (own != snapshot.situation.claims.end() && answer.subject->device.empty() && !own->device.empty()) {
      const auto held = scheduler::holdingsOf(cluster);
      if (const auto it = held.find(own->device); it != held.end())
        scheduler::release(cluster, own->device, it->second);
    }
    for (const auto& claim : snapshot.situation.claims)
      if (!claim.device.empty()) snapshot.holders.try_emplace(claim.device, claim.name);
    answer.simulation = scheduler::simulate(
        cluster, requestOn(*answer.subject, asking.node), answer.subject->suits,
        {asking.namesShown(), asking.top, patience.pause()},
        [&](std::string_view device) { return own == snapshot.situation.claims.end() || device != own->device; });
    for (const auto& victim : answer.simulation.preemption.victims)
      answer.victims.push_back(snapshot.holder(victim.device));
  }
  return asking.text ? forTerminal(toText(answer, asking.color), asking.color) : toJson(answer);
}

base::Result<std::string> Questions::forecast(const Asking& asking, const Patience& patience) const {
  v1alpha::ElasticGPUClaim asked = claimOfFields(asking.fields).value_or(v1alpha::ElasticGPUClaim{});
  const bool sized = !asked.spec.requests.empty() || !asking.claim.empty() || asking.question.claim;
  std::vector<ForecastAnswer> answers;
  const auto add = [&](Subject subject, std::string of) {
    ForecastAnswer answer;
    answer.className = subject.className;
    answer.of = std::move(of);
    answer.subject = std::move(subject);
    answers.push_back(std::move(answer));
  };
  if (sized && (!asked.spec.className.empty() || asked.spec.requests.empty())) {
    auto subject = asking.subject(stores_);
    if (!subject) return subject.status();
    auto of = (*subject)->exists ? "as claim " + (*subject)->claim : std::string("as asked");
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
      // Of all classes some may not take this size.
      Subject refused;
      refused.className = cls;
      refused.requests = claim.spec.requests;
      if (!subject) refused.why = subject.status().message();
      add(subject ? std::move(*subject) : std::move(refused), sized ? "as asked" : usual.of);
    }
    if (answers.empty() && !only.empty()) {
      v1alpha::ElasticGPUClaim claim;
      claim.spec.className = only;
      claim.spec.requests = UsualSize::wholeCard();
      return wouldBeSubject(stores_, claim, {}).status();
    }
  }
  const auto cluster = cluster_.copy();
  for (auto& answer : answers)
    if (answer.subject.request)
      answer.forecast = scheduler::forecast(cluster, requestOn(answer.subject, asking.node), answer.subject.suits,
                                            kForecastDecisions, patience.pause());
  return asking.text ? forTerminal(toText(answers, asking.color), asking.color) : toJson(answers);
}

void Questions::publish(base::Metrics& metrics) {
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
  const auto cluster = cluster_.copy();
  std::set<std::string, std::less<>> shown;
  for (const auto& [cls, usual] : sizes) {
    v1alpha::ElasticGPUClaim claim;
    claim.spec.className = cls;
    claim.spec.requests = usual.requests;
    const auto subject = wouldBeSubject(stores_, claim, {});
    if (!subject || !subject->request) continue;
    const auto fit = scheduler::forecast(cluster, *subject->request, {}, kMetricDecisions);
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

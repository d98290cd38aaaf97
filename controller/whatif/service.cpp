#include "controller/whatif/service.h"

#include <thread>

#include "controller/base/text.h"
#include "controller/codec/yaml_text.h"
#include "controller/http/plain.h"
#include "controller/scheduler/forecast.h"
#include "controller/whatif/answer/typical_request.h"
#include "controller/whatif/render/render.h"

namespace egpu::whatif {

namespace {

using base::Code;

constexpr int64_t kMetricDecisions = 10'000;            // per class
constexpr std::chrono::milliseconds kPollInterval{50};  // while another question is answered

/// True for JSON, YAML, no type, and the default type of clients such as curl that were given none.
bool isReadable(std::string_view contentType) {
  const auto type = base::lowered(base::trimmed(contentType.substr(0, contentType.find(';'))));
  return type.empty() || type == "application/json" || type == "application/yaml" ||
         type == "application/x-www-form-urlencoded";
}

http::Response passed(const Deadline& deadline) {
  if (deadline.isStopped())
    return http::plain(503, "stopped: the caller disconnected, or the controller is stopping\n");
  return http::plain(504,
                     "no answer within " + std::to_string(QuestionService::kPatience.count()) +
                         " s: ask about less (one node with node=, fewer steps or nodes, top=0), or again when fewer "
                         "questions are asked\n");
}

/// Joins the answers of several documents: one after the other as text, otherwise in a list.
http::Response joined(const Question& question, const std::vector<Answer>& answers) {
  std::string body;
  bool error = false;
  for (const auto& each : answers) {
    error = error || hasError(each);
    body += body.empty() ? "" : question.text ? "\n" : ",";
    body += question.text ? forTerminal(toText(each, question.style), question.style.color) : toJson(each);
  }
  if (!question.text && answers.size() > 1) body = "{\"answers\":[" + body + "]}";
  auto r = http::plain(200, question.yaml ? codec::jsonToYaml(body) : std::move(body));
  if (!question.text) r.contentType = question.yaml ? "application/yaml" : "application/json";
  if (error) r.headers.emplace_back(QuestionService::kErrorHeader, "1");
  return r;
}

}  // namespace

http::Response QuestionService::answer(const http::Request& request, std::stop_token stop) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
    auto r = http::plain(405, "only GET and POST are served here\n");
    r.headers.emplace_back("Allow", "GET, HEAD, POST");
    return r;
  }
  if (const auto type = request.header("content-type"); request.method == "POST" && !isReadable(type))
    return http::plain(
        415, "Content-Type: \"" + std::string(type) + "\" is not read; known are application/json, application/yaml\n");
  const Deadline deadline(clock_, kPatience, std::move(stop));
  while (!answering_.try_lock()) {
    if (deadline.hasPassed()) return passed(deadline);
    std::this_thread::sleep_for(kPollInterval);
  }
  const base::MutexLock lock(answering_, std::adopt_lock);
  const bool podsOnly = request.path == kSimulateSchedule;
  http::Request simulated;
  if (podsOnly) {
    simulated = request;
    simulated.path = "/simulate";
  }
  const http::Request& asked = podsOnly ? simulated : request;
  auto question = Question::read(asked);  // under the lock, because parsing a body is work too
  if (!question) return http::plain(400, question.status().message() + "\n");
  if (podsOnly && !question->onlyPods())
    return http::plain(400, std::string(kSimulateSchedule) +
                                " takes a Pod as its body, in YAML or JSON; /simulate takes other questions\n");
  question->style.indexOf = [this](const std::string& name) -> std::optional<int64_t> {
    const auto card = stores_.cards.get({"", name});
    return card && card->spec.card ? std::optional(card->spec.card->index) : std::nullopt;
  };
  try {
    return answerEach(asked.path, *question, deadline);
  } catch (const Deadline::Passed&) {
    return passed(deadline);
  }
}

http::Response QuestionService::answerEach(std::string_view path, Question& question, const Deadline& deadline) const {
  if (!question.node.empty() && !stores_.nodes.get({"", question.node}))
    return http::plain(404, "node: there is no node \"" + question.node + "\"\n");
  if (question.documents.empty()) question.documents.emplace_back();
  std::vector<Answer> answers;
  for (const auto& document : question.documents) {
    question.select(document);
    auto one = path == "/explain"    ? answerer_.explain(question, deadline)
               : path == "/simulate" ? answerer_.simulate(question, deadline)
               : path == "/defrag"   ? answerer_.defrag(question, deadline)
                                     : answerer_.forecast(question, deadline);
    if (!one) return http::plain(one.status().code() == Code::notFound ? 404 : 400, one.status().message() + "\n");
    answers.push_back(std::move(*one));
  }
  return joined(question, answers);
}

void QuestionService::publish(base::Metrics& metrics) {
  constexpr const char* kFit = "elasticgpu_claims_that_fit";
  constexpr const char* kAge = "elasticgpu_claims_that_fit_age_seconds";
  if (!answering_.try_lock()) return;  // a scrape does not wait for an answer
  const base::MutexLock lock(answering_, std::adopt_lock);
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

}  // namespace egpu::whatif

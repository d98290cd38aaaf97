#include "controller/whatif/question/question.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace egpu::whatif {

namespace {

using base::Code;
using base::Status;

constexpr std::size_t kMaxNames = 1000;
constexpr std::size_t kMaxTop = 100;
constexpr std::size_t kMaxColumns = 1000;
constexpr std::size_t kMaxMoves = 1000;  // limit of a plan that frees cards
// maximum number of YAML syntax characters: they, not the bytes, determine the parse time
constexpr int64_t kMaxMarks = 32'768;

std::vector<std::string_view> fieldsOf(std::string_view path) {
  std::vector<std::string_view> fields = {"namespace", "claim", "class",  "gpu",   "gpu-core", "gpu-memory", "tflops",
                                          "mig",       "node",  "format", "color", "columns",  "wide"};
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

base::Result<std::size_t> numberOf(const std::string& key, const std::string& value, std::size_t max) {
  std::size_t number = 0;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
  if (parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size() && number <= max) return number;
  return Status(Code::invalid, key + ": \"" + value + "\" is not a whole number from 0 to " + std::to_string(max));
}

/// Prefixes errors in the body with "body: ", so that the sender of a file can name the file.
Status inBody(const Status& status) { return {status.code(), "body: " + status.message()}; }

/// True if the message is about one of the first `before` steps: "steps[1].drain: …".
bool isAboutStep(const std::string& message, std::size_t before) {
  constexpr std::string_view kSteps = "steps[";
  if (!message.starts_with(kSteps)) return false;
  std::size_t number = 0;
  std::from_chars(message.data() + kSteps.size(), message.data() + message.size(), number);
  return number < before;
}

base::Result<std::optional<Subject>> some(base::Result<Subject> subject) {
  if (!subject) return subject.status();
  return std::optional<Subject>(std::move(*subject));
}

}  // namespace

base::Result<Question> Question::read(const http::Request& request) {
  Question question;
  const auto known = fieldsOf(request.path);
  std::set<std::string> seen;
  for (const auto& [key, value] : http::parseQuery(request.query)) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return Status(Code::invalid, "unknown parameter \"" + key + "\"; known are " + joined(known));
    if (!isStep(key) && !seen.insert(key).second) return Status(Code::invalid, key + ": given twice");
    if (value.empty()) return Status(Code::invalid, key + ": is empty");
    if (auto s = question.set(key, value); !s.ok()) return s;
    question.fields.emplace_back(key, value);
  }
  if (request.method == "POST")
    if (const auto body = question.readBody(request.path, request.body); !body.ok()) return inBody(body);
  auto steps = stepsOfFields(question.fields);
  if (!steps) return steps.status();
  question.stepsOfQuery = std::move(*steps);
  return question;
}

Status Question::set(const std::string& key, const std::string& value) {
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

Status Question::readBody(std::string_view path, const std::string& body) {
  constexpr std::string_view kMarks = "\n,:[]{}-?&*!#|>%";
  const auto marks =
      std::count_if(body.begin(), body.end(), [&](char c) { return kMarks.find(c) != std::string_view::npos; });
  if (marks > kMaxMarks)
    return {Code::invalid,
            "more than " + std::to_string(kMaxMarks) + " lines, fields and values: no question needs so many"};
  auto decoded = decodeQuestions(body);
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
    const bool used = each.claim && ofPods.count(keyOf(each.claim->metadata)) != 0;
    if (each.otherKind.empty() && !used) documents.push_back(std::move(each));
  }
  return Status::okay();
}

base::Result<PodSubject> Question::pod(const cache::Stores& stores) const {
  if (!claim.empty()) return Status(Code::invalid, "give one of: claim (an existing one), a Pod as the body");
  auto subject = podSubject(stores, *document.pod, claimsOfBody, claimOfFields(fields), space);
  if (!subject) return inDocument(subject.status(), "pod ", document.pod->metadata);
  return subject;
}

bool Question::onlyPods() const {
  return !documents.empty() &&
         std::all_of(documents.begin(), documents.end(), [](const auto& each) { return each.pod.has_value(); });
}

std::string Question::spaceOf(const Subject& subject) const {
  if (!subject.claim.empty()) return subject.claim.substr(0, subject.claim.find('/'));
  const bool named = document.claim && !document.claim->metadata.namespace_.empty();
  return named ? document.claim->metadata.namespace_ : space;
}

bool Question::ofSpace(const Subject& subject) const {
  const auto given = [](const auto& field) { return field.first == "namespace"; };
  return !subject.claim.empty() || std::any_of(fields.begin(), fields.end(), given);
}

base::Result<std::optional<Subject>> Question::subject(const cache::Stores& stores) const {
  const auto byFields = claimOfFields(fields);
  if (int(byFields.has_value()) + int(!claim.empty()) + int(document.claim.has_value()) > 1)
    return Status(Code::invalid,
                  "give one of: claim (an existing one), class and requests as parameters, a claim as the body");
  if (!claim.empty()) return some(existingSubject(stores, claimKeyOf(claim, space)));
  if (byFields) return some(wouldBeSubject(stores, *byFields, space));
  if (!document.claim) return std::optional<Subject>();
  auto subject = wouldBeSubject(stores, *document.claim, space);
  if (!subject) return inDocument(subject.status(), "claim ", document.claim->metadata);
  return some(std::move(subject));
}

scheduler::Request Question::requestOf(const Subject& subject) const {
  auto request = *subject.request;
  if (!node.empty()) request.pinnedNode = node;
  return request;
}

void Question::select(const Document& one) {
  document = one;
  document.steps.insert(document.steps.end(), stepsOfQuery.begin(), stepsOfQuery.end());
}

core::ObjectKey Question::keyOf(const core::ObjectMeta& object) const {
  return {object.namespace_.empty() ? space : object.namespace_, object.name};
}

Status Question::inDocument(const Status& status, const char* kind, const core::ObjectMeta& object) const {
  auto where = document.at.empty() ? std::string() : document.at + ": ";
  if (!object.name.empty()) where += kind + keyOf(object).str() + ": ";
  return inBody({status.code(), where + status.message()});
}

Status Question::ofStep(const Status& status) const {
  return isAboutStep(status.message(), document.steps.size() - stepsOfQuery.size()) ? inDocument(status) : status;
}

}  // namespace egpu::whatif

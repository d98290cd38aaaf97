#include "controller/server/steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "controller/codec/json_text.h"

namespace egpu::server {

namespace {

using base::Code;
using base::Status;
using codec::QuestionStep;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (;;) {
    const auto end = text.find(',', at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) return parts;
    at = end + 1;
  }
}

/// A number as a number, so that the question's decoder can judge it.
void amount(codec::JsonText& j, const std::string& text) {
  int64_t n = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), n);
  if (parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size())
    j.value(n);
  else
    j.value(text);
}

using Options = std::vector<std::pair<std::string, std::string>>;

base::Result<Options> optionsOf(const std::string& field, const std::vector<std::string>& parts) {
  Options options;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    if (equals == std::string::npos)
      return Status(Code::invalid, field + ": \"" + parts[i] + "\" is not of the form name=value");
    options.emplace_back(parts[i].substr(0, equals), parts[i].substr(equals + 1));
  }
  return options;
}

base::Result<std::string> addJson(const std::string& value) {
  static constexpr auto kOfNode = std::to_array<std::string_view>({"like", "count"});
  static constexpr auto kOfCards = std::to_array<std::string_view>({"model", "cards", "memory", "tflops"});
  const auto parts = split(value);
  auto options = optionsOf("add", parts);
  if (!options) return options.status();
  codec::JsonText j;
  j.beginObject().key("name").value(parts.front());
  bool cards = false;
  for (const auto& [key, text] : *options) {
    if (std::find(kOfCards.begin(), kOfCards.end(), key) != kOfCards.end()) {
      cards = true;
    } else if (std::find(kOfNode.begin(), kOfNode.end(), key) != kOfNode.end()) {
      j.key(key);
      key == "count" ? amount(j, text) : static_cast<void>(j.value(text));
    } else {
      return Status(Code::invalid,
                    "add: \"" + key + "\" is unknown; known are like, count, model, cards, memory, tflops");
    }
  }
  if (cards) {
    j.key("cards").beginArray().beginObject();
    for (const auto& [key, text] : *options) {
      if (std::find(kOfCards.begin(), kOfCards.end(), key) == kOfCards.end()) continue;
      j.key(key == "cards" ? "count" : key);
      key == "cards" || key == "tflops" ? amount(j, text) : static_cast<void>(j.value(text));
    }
    j.endObject().endArray();
  }
  return j.endObject().take();
}

base::Result<std::string> resizeJson(const std::string& value) {
  const auto parts = split(value);
  auto options = optionsOf("resize", parts);
  if (!options) return options.status();
  codec::JsonText j;
  j.beginObject().key("claim").value(parts.front()).key("requests").beginObject();
  for (const auto& [key, text] : *options) j.key(key).value(text);
  return j.endObject().endObject().take();
}

}  // namespace

bool isStep(const std::string& field) {
  return field == "drain" || field == "add" || field == "release" || field == "resize";
}

base::Result<std::vector<QuestionStep>> stepsOfFields(const QueryFields& fields) {
  codec::JsonText j;
  j.beginObject().key("steps").beginArray();
  for (const auto& [key, value] : fields) {
    if (!isStep(key)) continue;
    j.beginObject().key(key);
    if (key == "add" || key == "resize") {
      const auto json = key == "add" ? addJson(value) : resizeJson(value);
      if (!json) return json.status();
      j.raw(*json);
    } else {
      j.value(value);
    }
    j.endObject();
  }
  auto question = codec::decodeQuestion(j.endArray().endObject().take());
  if (!question) return question.status();
  return std::move(question->steps);
}

base::Result<std::vector<scheduler::Step>> schedulerSteps(const cache::Stores& stores,
                                                          const std::vector<QuestionStep>& steps,
                                                          const std::string& space) {
  using Kind = QuestionStep::Kind;
  std::vector<scheduler::Step> out;
  int64_t unnamed = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    const auto at = "steps[" + std::to_string(i) + "].";
    switch (step.kind) {
      case Kind::drain:
        out.emplace_back(scheduler::DrainNode{step.name});
        break;
      case Kind::add:
        out.emplace_back(scheduler::AddNodes{step.name, step.count, step.like, step.cards, {}});
        break;
      case Kind::release:
        out.emplace_back(scheduler::ReleaseClaim{claimKeyOf(step.name, space).str()});
        break;
      case Kind::resize: {
        const auto key = claimKeyOf(step.name, space);
        auto request = resizedRequest(stores, key, step.requests);
        if (!request) return Status(request.status().code(), at + "resize: " + request.status().message());
        out.emplace_back(scheduler::ResizeClaim{key.str(), std::move(*request)});
        break;
      }
      case Kind::create: {
        auto subject = wouldBeSubject(stores, *step.claim, space);
        if (!subject) return Status(subject.status().code(), at + "create: " + subject.status().message());
        auto name = subject->claim.empty() ? "new-" + std::to_string(++unnamed) : subject->claim;
        out.emplace_back(scheduler::CreateClaim{{std::move(name), {}, std::move(subject->request), {}, {}}});
        break;
      }
    }
  }
  return out;
}

std::string stepText(const QuestionStep& step, const std::string& space) {
  using Kind = QuestionStep::Kind;
  switch (step.kind) {
    case Kind::drain:
      return "drain " + step.name;
    case Kind::add: {
      std::string text = "add " + (step.count > 1 ? std::to_string(step.count) + " nodes " : "node ") + step.name;
      if (!step.like.empty()) return text + " like " + step.like;
      return text + " with " + std::to_string(step.cards.size()) + (step.cards.size() == 1 ? " card" : " cards");
    }
    case Kind::release:
      return "release " + claimKeyOf(step.name, space).str();
    case Kind::resize: {
      Subject changed;
      changed.requests = step.requests;
      return "resize " + claimKeyOf(step.name, space).str() + " to " + changed.requestText();
    }
    case Kind::create:
      return "create " +
             (step.claim->metadata.name.empty() ? std::string("a claim") : core::keyOf(step.claim->metadata).str());
  }
  return {};
}

}  // namespace egpu::server

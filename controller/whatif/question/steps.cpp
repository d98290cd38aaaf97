#include "controller/whatif/question/steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <variant>

#include "api/v1alpha/remote.h"
#include "controller/codec/json/text.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/device/users.h"
#include "controller/whatif/answer/snapshot.h"

namespace egpu::whatif {

namespace {

using base::Code;
using base::Status;

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

/// Writes a number as a number and anything else as a string, so that the question's decoder can validate it.
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

base::Result<std::vector<AskedStep>> stepsOfFields(const QueryFields& fields) {
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
  auto question = decodeQuestion(j.endArray().endObject().take());
  if (!question) return question.status();
  return std::move(question->steps);
}

namespace {

/// Reads the request as the controller does for a claim with a device: by the class recorded in the device.
base::Result<scheduler::Request> resizeRequest(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim,
                                               const cache::Gpu* device) {
  if (device == nullptr) return requestOf(stores, claim);
  auto made = scheduler::makeRequest(claim, reconcile::classOfDevice(*device));
  if (const auto* no = std::get_if<scheduler::Refusal>(&made))
    return Status(Code::invalid, (no->field.empty() ? "" : no->field + ": ") + no->message);
  return std::get<scheduler::Request>(std::move(made));
}

bool runs(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim) {
  const auto key = core::keyOf(claim.metadata);
  for (const auto& pods : {stores.podsOfClaim(key), stores.podsAnnotatedWith(key)})
    if (std::any_of(pods.begin(), pods.end(), [](const auto& pod) { return reconcile::running(*pod); })) return true;
  return false;
}

/// Reads steps in order; each step sees the claims as the earlier steps left them.
class StepReader {
 public:
  StepReader(const cache::Stores& stores, const std::string& space, const ResizeLimits& limits)
      : stores_(stores), space_(space), limits_(limits) {}

  Status read(const AskedStep& step) {
    using Kind = AskedStep::Kind;
    switch (step.kind) {
      case Kind::drain:
        return add(scheduler::DrainNode{step.name}, "drain " + step.name);
      case Kind::add:
        return addNodes(step);
      case Kind::release: {
        auto key = claimKeyOf(step.name, space_).str();
        return add(scheduler::ReleaseClaim{key}, "release " + key);
      }
      case Kind::resize:
        return resize(step);
      case Kind::create:
        return create(step);
    }
    return Status::okay();
  }
  StepsToTry take() { return std::move(out_); }

 private:
  Status add(scheduler::Step step, std::string text) {
    out_.steps.push_back(std::move(step));
    out_.texts.push_back(std::move(text));
    return Status::okay();
  }

  Status addNodes(const AskedStep& step) {
    std::string text = "add " + (step.count > 1 ? std::to_string(step.count) + " nodes " : "node ") + step.name;
    if (!step.like.empty())
      text += " like " + step.like;
    else
      text += " with " + std::to_string(step.cards.size()) + (step.cards.size() == 1 ? " card" : " cards");
    return add(scheduler::AddNodes{step.name, step.count, step.like, step.cards, {}}, std::move(text));
  }

  Status resize(const AskedStep& step) {
    const auto key = claimKeyOf(step.name, space_);
    const auto known = out_.changed.find(key);
    const auto there = known == out_.changed.end() ? stores_.claims.get(key) : nullptr;
    if (known == out_.changed.end() && !there)
      return {Code::notFound, "resize: there is no claim \"" + key.str() + "\""};
    auto claim = known != out_.changed.end() ? known->second : *there;
    claim.spec.requests = changedRequests(claim.spec.requests, step.requests);
    const auto device = deviceOf(stores_, claim);
    if (device && v1alpha::isRemote(*device))
      return {Code::invalid,
              "resize: " + key.str() + " has a remote GPU, which can't be resized; create another claim"};
    auto request = resizeRequest(stores_, claim, device.get());
    if (!request) return {request.status().code(), "resize: " + request.status().message()};
    auto text = "resize " + key.str() + " to " + requestsText(claim.spec.requests);
    scheduler::ResizeClaim resized{key.str(), *std::move(request)};
    if (device) limit(claim, *device, resized);
    resized.runs = runs(stores_, claim);
    if (stores_.claims.get(key)) resized.undecided = whyUndecided(claim);
    out_.changed.insert_or_assign(key, std::move(claim));
    return add(std::move(resized), std::move(text));
  }

  /// Applies the controller's checks of a resize, in its order.
  void limit(const v1alpha::ElasticGPUClaim& claim, const cache::Gpu& device, scheduler::ResizeClaim& resized) const {
    if (!reconcile::mayResize(claim, device))
      resized.refused = "class " + device.spec.className + " does not set resizable for its device";
    else if (limits_.cannot)
      resized.refused = limits_.cannot(device);
    const auto cls = stores_.classes.get({"", device.spec.className});
    if (const auto no = cls ? reconcile::accessRefusal(stores_, *cls, claim.metadata.namespace_) : std::nullopt)
      resized.refusedToGrow = no->message;
    if (!limits_.withheld) return;
    auto withheld = limits_.withheld(claim, device, resized.request);
    resized.holdings = std::move(withheld.cards);
    if (withheld.node) resized.nodeReservedText = allocator::reservedNodeText(device.spec.nodeName);
  }

  /// Returns why the snapshot does not place the claim; invalid requests are not a reason, because they were read
  /// before.
  std::string whyUndecided(const v1alpha::ElasticGPUClaim& claim) const {
    auto record = recordOf(stores_, claim);
    return record.request ? std::string() : std::move(record.why);
  }

  Status create(const AskedStep& step) {
    auto subject = wouldBeSubject(stores_, *step.claim, space_);
    if (!subject) return {subject.status().code(), "create: " + subject.status().message()};
    const bool named = !subject->claim.empty();
    auto name = named ? subject->claim : freshName(*step.claim);
    if (named) {
      auto claim = *step.claim;
      claim.metadata.namespace_ = claimKeyOf(name, space_).namespace_;
      out_.changed.insert_or_assign(claimKeyOf(name, space_), std::move(claim));
    }
    auto text = "create " + (named ? name : std::string("a claim"));
    return add(scheduler::CreateClaim{{std::move(name),
                                       {},
                                       std::move(subject->request),
                                       {},
                                       std::move(subject->suits),
                                       std::move(subject->className),
                                       std::move(subject->alternatives),
                                       std::move(subject->whyUnsuited)}},
               std::move(text));
  }

  /// Returns an unused name in the claim's own namespace, because the quotas of that namespace apply.
  std::string freshName(const v1alpha::ElasticGPUClaim& claim) {
    const auto& space = claim.metadata.namespace_.empty() ? space_ : claim.metadata.namespace_;
    for (;;) {
      const core::ObjectKey key{space, "new-" + std::to_string(++unnamed_)};
      if (!stores_.claims.get(key) && !out_.changed.contains(key)) return key.str();
    }
  }

  const cache::Stores& stores_;
  const std::string& space_;
  const ResizeLimits& limits_;
  StepsToTry out_;
  int64_t unnamed_ = 0;
};

}  // namespace

base::Result<StepsToTry> stepsToTry(const cache::Stores& stores, const std::vector<AskedStep>& steps,
                                    const std::string& space, const ResizeLimits& limits) {
  StepReader reader(stores, space, limits);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (const auto s = reader.read(steps[i]); !s.ok())
      return Status(s.code(), "steps[" + std::to_string(i) + "]." + s.message());
  return reader.take();
}

}  // namespace egpu::whatif

#include "controller/whatif/question/question_body.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/v1alpha/quantity.h"
#include "controller/codec/claim_spec.h"
#include "controller/codec/codec.h"
#include "controller/codec/yaml_text.h"

namespace egpu::whatif {

namespace {

using base::Code;
using base::Status;
using Json = nlohmann::json;

constexpr int64_t kMaxCards = 1024;                 // per node
constexpr int64_t kMaxMilliTflops = 1'000'000'000;  // per card, the limit in the CRD
constexpr int64_t kMaxMemory = int64_t{1} << 50;    // bytes per card, the limit for requests
constexpr std::size_t kMaxSteps = 100;
constexpr std::size_t kMaxDocuments = 100;
constexpr std::size_t kMaxExpanded = std::size_t{1} << 20;  // bytes of a body after aliases are expanded

Status invalid(const std::string& field, const std::string& what) {
  return {Code::invalid, (field.empty() ? std::string("the question") : field) + ": " + what};
}

std::string under(const std::string& path, std::string_view field) {
  return path.empty() ? std::string(field) : path + "." + std::string(field);
}

/// Returns an error if the object has a field that is not in `known`, otherwise nullopt.
std::optional<Status> unknownField(const Json& object, const std::string& path, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    bool found = false;
    std::string all;
    for (const auto& each : known) {
      found = found || key == each;
      all += (all.empty() ? "" : ", ") + each;
    }
    if (!found) return invalid(under(path, key), "unknown; known are " + all);
  }
  return std::nullopt;
}

base::Result<std::string> text(const Json& object, const char* key, const std::string& path) {
  const auto it = object.find(key);
  if (it == object.end()) return std::string();
  if (!it->is_string()) return invalid(under(path, key), "must be a string");
  return it->get<std::string>();
}

base::Result<int64_t> count(const Json& object, const char* key, const std::string& path, int64_t least, int64_t max,
                            int64_t absent) {
  const auto it = object.find(key);
  if (it == object.end()) return absent;
  const bool within = it->is_number_integer() && !(it->is_number_unsigned() && it->get<uint64_t>() > INT64_MAX) &&
                      it->get<int64_t>() >= least && it->get<int64_t>() <= max;
  if (!within)
    return invalid(under(path, key),
                   "must be a whole number from " + std::to_string(least) + " to " + std::to_string(max));
  return it->get<int64_t>();
}

/// Returns the quantity in the field, a string or a number. Returns nullopt if it is missing or not a quantity.
std::optional<v1alpha::Quantity> quantityOf(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || (!it->is_string() && !it->is_number())) return std::nullopt;
  return v1alpha::parseQuantity(it->is_string() ? it->get<std::string>() : it->dump());
}

/// Decodes a mapping of quantities. As in a claim, each is a string or a number.
base::Result<core::StringMap> quantities(const Json& value, const std::string& path) {
  if (!value.is_object()) return invalid(path, "must be a mapping such as {gpu-core: 40, gpu-memory: 8Gi}");
  core::StringMap out;
  for (const auto& [key, amount] : value.items()) {
    if (!amount.is_string() && !amount.is_number()) return invalid(under(path, key), "must be a quantity");
    out[key] = amount.is_string() ? amount.get<std::string>() : amount.dump();
  }
  return out;
}

base::Result<v1alpha::ElasticGPUClaim> claimOf(const Json& value, const std::string& path) {
  if (!value.is_object()) return invalid(path, "must be an ElasticGPUClaim");
  if (auto wrong = unknownField(value, path, {"apiVersion", "kind", "metadata", "spec", "status"})) return *wrong;
  if (const auto version = value.find("apiVersion"); version != value.end())
    if (*version != "elasticgpu.io/v1alpha" && *version != "elasticgpu.io/v1alpha1")
      return invalid(under(path, "apiVersion"), "must be elasticgpu.io/v1alpha or elasticgpu.io/v1alpha1");
  if (const auto kind = value.find("kind"); kind != value.end() && *kind != "ElasticGPUClaim")
    return invalid(under(path, "kind"), "must be ElasticGPUClaim");
  const auto spec = value.find("spec");
  if (spec == value.end() || !spec->is_object()) return invalid(under(path, "spec"), "is missing");
  const auto specPath = under(path, "spec");
  if (auto wrong = unknownField(*spec, specPath, codec::claimSpecFields())) return *wrong;
  if (const auto resources = spec->find("resources"); resources != spec->end() && resources->is_object())
    if (auto wrong = unknownField(*resources, under(specPath, "resources"), {"requests"})) return *wrong;
  if (const auto all = spec->find("firstAvailable"); all != spec->end() && all->is_array())
    for (std::size_t i = 0; i < all->size(); ++i)
      if ((*all)[i].is_object())
        if (auto wrong = unknownField((*all)[i], under(specPath, "firstAvailable[" + std::to_string(i) + "]"),
                                      codec::alternativeFields()))
          return *wrong;
  auto claim = codec::decode<v1alpha::ElasticGPUClaim>(value.dump());
  if (!claim) return invalid(path.empty() ? "claim" : path, claim.status().message());
  return claim;
}

base::Result<std::vector<v1alpha::Card>> cardsOf(const Json& value, const std::string& path) {
  if (!value.is_array() || value.empty())
    return invalid(path, "must be a list such as [{model: T4, count: 4, memory: 16Gi}]");
  std::vector<v1alpha::Card> cards;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto at = path + "[" + std::to_string(i) + "]";
    const Json& each = value[i];
    if (!each.is_object()) return invalid(at, "must be a mapping");
    if (auto wrong = unknownField(each, at, {"model", "count", "memory", "tflops"})) return *wrong;
    v1alpha::Card card;
    auto model = text(each, "model", at);
    if (!model) return model.status();
    card.model = std::move(*model);
    const auto many = count(each, "count", at, 1, kMaxCards, 1);
    if (!many) return many.status();
    if (each.contains("tflops")) {
      const auto rating = quantityOf(each, "tflops");
      const auto milli = rating ? rating->asMilli() : std::nullopt;
      if (!milli || *milli < 0 || *milli > kMaxMilliTflops)
        return invalid(under(at, "tflops"), "must be a rating such as 65 or 19.5, at most 1000000, to three decimals");
      card.milliTflops = *milli;
    }
    const auto memory = quantityOf(each, "memory");
    const auto bytes = memory ? memory->asInteger() : std::nullopt;
    if (!bytes || *bytes < 1 || *bytes > kMaxMemory)
      return invalid(under(at, "memory"), "must be an amount of memory such as 16Gi, at most 1Pi");
    card.memory = *bytes;
    for (int64_t n = 0; n < *many; ++n) {
      card.index = static_cast<int64_t>(cards.size());
      cards.push_back(card);
    }
    if (static_cast<int64_t>(cards.size()) > kMaxCards)
      return invalid(path, "more than " + std::to_string(kMaxCards) + " cards on one node");
  }
  return cards;
}

base::Result<AskedStep> addOf(const Json& value, const std::string& path) {
  AskedStep step;
  step.kind = AskedStep::Kind::add;
  if (!value.is_object()) return invalid(path, "must be a mapping such as {name: new, like: node-1}");
  if (auto wrong = unknownField(value, path, {"name", "count", "like", "cards"})) return *wrong;
  auto name = text(value, "name", path), like = text(value, "like", path);
  if (!name) return name.status();
  if (!like) return like.status();
  step.name = name->empty() ? "new" : std::move(*name);
  step.like = std::move(*like);
  const auto many = count(value, "count", path, 1, 100'000, 1);
  if (!many) return many.status();
  step.count = *many;
  const auto cards = value.find("cards");
  if (step.like.empty() == (cards == value.end()))
    return invalid(path, "give one of like (a node to copy) and cards (a list)");
  if (cards != value.end()) {
    auto list = cardsOf(*cards, under(path, "cards"));
    if (!list) return list.status();
    step.cards = std::move(*list);
  }
  return step;
}

base::Result<AskedStep> stepOf(const Json& value, const std::string& path) {
  using Kind = AskedStep::Kind;
  static constexpr auto kKinds = std::to_array<std::pair<std::string_view, Kind>>({{"drain", Kind::drain},
                                                                                   {"add", Kind::add},
                                                                                   {"release", Kind::release},
                                                                                   {"resize", Kind::resize},
                                                                                   {"create", Kind::create}});
  if (!value.is_object() || value.size() != 1)
    return invalid(path, "must have one of drain, add, release, resize, create");
  if (auto wrong = unknownField(value, path, {"drain", "add", "release", "resize", "create"})) return *wrong;
  const std::string key = value.begin().key();
  const Json& what = value.begin().value();
  const auto at = under(path, key);
  AskedStep step;
  for (const auto& [name, kind] : kKinds)
    if (key == name) step.kind = kind;
  switch (step.kind) {
    case Kind::drain:
    case Kind::release:
      if (!what.is_string() || what.get<std::string>().empty())
        return invalid(at,
                       step.kind == Kind::drain ? "must be the name of a node" : "must be a claim's namespace/name");
      step.name = what.get<std::string>();
      return step;
    case Kind::add:
      return addOf(what, at);
    case Kind::resize: {
      if (!what.is_object()) return invalid(at, "must be a mapping {claim: NAMESPACE/NAME, requests: {…}}");
      if (auto wrong = unknownField(what, at, {"claim", "requests"})) return *wrong;
      auto name = text(what, "claim", at);
      if (!name) return name.status();
      if (name->empty()) return invalid(under(at, "claim"), "is missing: a claim's namespace/name");
      step.name = std::move(*name);
      if (!what.contains("requests")) return invalid(under(at, "requests"), "is missing");
      auto requests = quantities(what["requests"], under(at, "requests"));
      if (!requests) return requests.status();
      step.requests = std::move(*requests);
      return step;
    }
    case Kind::create: {
      auto claim = claimOf(what, at);
      if (!claim) return claim.status();
      step.claim = std::move(*claim);
      return step;
    }
  }
  return step;
}

base::Result<core::Pod> podOf(const Json& value, const std::string& path) {
  if (!value.is_object()) return invalid(path, "must be a Pod");
  const auto spec = value.find("spec");
  if (spec == value.end() || !spec->is_object()) return invalid(under(path, "spec"), "is missing");
  auto pod = codec::decode<core::Pod>(value.dump());
  if (!pod) return invalid(path.empty() ? "pod" : path, pod.status().message());
  return pod;
}

/// Decodes a question that is an object as for `kubectl apply`.
base::Result<Document> ofObject(const Json& root) {
  Document question;
  const auto kind = root.find("kind");
  const bool pod = kind != root.end() && *kind == "Pod";
  if (kind != root.end() && kind->is_string() && !pod && *kind != "ElasticGPUClaim") {
    question.otherKind = kind->get<std::string>();
    return question;
  }
  if (pod) {
    auto read = podOf(root, "");
    if (!read) return read.status();
    question.pod = std::move(*read);
    return question;
  }
  auto claim = claimOf(root, "");
  if (!claim) return claim.status();
  question.claim = std::move(*claim);
  return question;
}

}  // namespace

base::Result<Document> decodeQuestion(std::string_view json) {
  const auto root = Json::parse(json, nullptr, false);
  if (root.is_discarded()) return invalid("", "is not JSON");
  Document question;
  if (root.is_null()) return question;
  if (!root.is_object()) return invalid("", "must be an ElasticGPUClaim, a Pod, or a mapping of claim and steps");
  if (root.contains("kind") || root.contains("spec")) return ofObject(root);
  if (auto wrong = unknownField(root, "", {"claim", "pod", "steps"})) return *wrong;
  if (const auto it = root.find("pod"); it != root.end() && !it->is_null()) {
    auto pod = podOf(*it, "pod");
    if (!pod) return pod.status();
    question.pod = std::move(*pod);
  }
  if (const auto it = root.find("claim"); it != root.end() && !it->is_null()) {
    auto claim = claimOf(*it, "claim");
    if (!claim) return claim.status();
    if (question.pod) return invalid("claim", "give one of claim and pod");
    question.claim = std::move(*claim);
  }
  const auto steps = root.find("steps");
  if (steps == root.end() || steps->is_null()) return question;
  if (!steps->is_array()) return invalid("steps", "must be a list");
  if (steps->size() > kMaxSteps) return invalid("steps", "more than " + std::to_string(kMaxSteps));
  for (std::size_t i = 0; i < steps->size(); ++i) {
    auto step = stepOf((*steps)[i], "steps[" + std::to_string(i) + "]");
    if (!step) return step.status();
    question.steps.push_back(std::move(*step));
  }
  return question;
}

namespace {

/// Returns the documents of a body as JSON, with each List replaced by its items.
base::Result<std::vector<std::string>> documentsOf(std::string_view body) {
  auto documents = codec::yamlDocuments(body, kMaxExpanded);
  if (!documents) return documents;
  std::vector<std::string> out;
  for (auto& document : *documents) {
    const auto root = Json::parse(document, nullptr, false);
    const bool list = root.is_object() && root.contains("items") && root["items"].is_array() && root.contains("kind");
    if (!list) {
      out.push_back(std::move(document));
      continue;
    }
    for (const Json& item : root["items"]) out.push_back(item.dump());
  }
  return out;
}

}  // namespace

base::Result<std::vector<Document>> decodeQuestions(std::string_view body) {
  const auto documents = documentsOf(body);
  if (!documents) return documents.status();
  if (documents->size() > kMaxDocuments)
    return Status(Code::invalid, "more than " + std::to_string(kMaxDocuments) + " documents");
  std::vector<Document> out;
  bool any = false;
  for (std::size_t i = 0; i < documents->size(); ++i) {
    const auto at = documents->size() > 1 ? "document " + std::to_string(i + 1) : std::string();
    auto question = decodeQuestion((*documents)[i]);
    if (!question) return Status(question.status().code(), (at.empty() ? at : at + ": ") + question.status().message());
    question->at = at;
    any = any || question->otherKind.empty();
    out.push_back(std::move(*question));
  }
  if (!any && !out.empty())
    return invalid("kind", "must be ElasticGPUClaim or Pod; no question is possible about a " + out.front().otherKind);
  return out;
}

}  // namespace egpu::whatif

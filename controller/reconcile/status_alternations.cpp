#include "controller/reconcile/status_alternations.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <utility>

#include "controller/base/backoff.h"
#include "controller/base/log.h"

namespace egpu::reconcile {

using std::chrono::milliseconds;

namespace {

constexpr std::size_t kMaxObjects = 4096;
constexpr std::size_t kMaxContents = 4;  ///< per object; a longer cycle is not detected
constexpr std::size_t kMaxLogged = 400;
/// Returns the body without values that differ in each write of the same contents.
std::string contentsOf(std::string_view body) {
  constexpr std::array<std::string_view, 3> kLeftOut{R"("resourceVersion":")", R"("lastTransitionTime":")",
                                                     R"("time":")"};
  std::string text;
  text.reserve(body.size());
  for (std::size_t at = 0; at < body.size();) {
    const auto rest = body.substr(at);
    const auto left = std::find_if(kLeftOut.begin(), kLeftOut.end(), [&](auto key) { return rest.starts_with(key); });
    if (left == kLeftOut.end()) {
      text += body[at++];
      continue;
    }
    const auto end = body.find('"', at + left->size());  // no such value has an escaped quote
    at = end == std::string_view::npos ? body.size() : end + 1;
    if (at < body.size() && body[at] == ',') ++at;
  }
  return text;
}

/// Returns the hash of the contents without their numbers. Digits in names (node-1) and amounts (16Gi) stay.
std::size_t shapeOf(std::string_view contents) {
  const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  const auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  std::string text;
  for (std::size_t at = 0; at < contents.size();) {
    auto end = at;
    while (end < contents.size() && isDigit(contents[end])) ++end;
    const bool isNumber =
        end > at && (at == 0 || !isWord(contents[at - 1])) && (end == contents.size() || !isWord(contents[end]));
    if (end == at) ++end;
    if (!isNumber) text += contents.substr(at, end - at);
    at = end;
  }
  return std::hash<std::string>{}(text);
}

/// Returns the part of `text` between the head and the tail that it shares with `other`, with a little of the head.
std::string differing(std::string_view text, std::string_view other) {
  const auto shorter = std::min(text.size(), other.size());
  std::size_t head = 0, tail = 0;
  while (head < shorter && text[head] == other[head]) ++head;
  while (tail < shorter - head && text[text.size() - 1 - tail] == other[other.size() - 1 - tail]) ++tail;
  constexpr std::size_t kAround = 40;  // context that shows the field
  const auto from = head - std::min(head, kAround);
  return std::string(text.substr(from, std::min(kMaxLogged, text.size() - tail - from)));
}

}  // namespace

milliseconds StatusAlternations::backoffAfter(int alternations) const {
  return base::exponentialBackoff(timeouts_.firstAlternationBackoff, alternations, timeouts_.maxAlternationBackoff);
}

milliseconds StatusAlternations::backoff(const core::ObjectMeta& object, std::string_view body) const {
  const base::MutexLock lock(mutex_);
  const auto known = byUid_.find(object.uid);
  if (known == byUid_.end()) return milliseconds(0);
  const auto& history = *known->second;
  const auto now = clock_.now();
  if (history.until <= now || history.generation != object.generation) return milliseconds(0);
  const auto hash = std::hash<std::string>{}(contentsOf(body));
  const bool alternates = std::any_of(history.contents.begin(), history.contents.end(), [&](const auto& contents) {
    return contents.hash == hash && contents.excess() >= 0;
  });
  return alternates ? std::chrono::ceil<milliseconds>(history.until - now) : milliseconds(0);
}

StatusAlternations::History& StatusAlternations::historyOf(const core::ObjectMeta& object) {
  if (const auto known = byUid_.find(object.uid); known != byUid_.end()) {
    histories_.splice(histories_.begin(), histories_, known->second);
  } else {
    if (histories_.size() == kMaxObjects) {
      byUid_.erase(histories_.back().uid);
      histories_.pop_back();
    }
    histories_.push_front({object.uid, object.generation, {}, 0, {}, {}});
    byUid_.emplace(histories_.front().uid, histories_.begin());
  }
  auto& history = histories_.front();
  if (history.generation != object.generation) {
    history.generation = object.generation;
    history.contents.clear();
    history.alternations = 0;
    history.until = {};
  }
  return history;
}

void StatusAlternations::wrote(std::string_view kind, const core::ObjectMeta& object, std::string_view body) {
  auto text = contentsOf(body);
  const auto hash = std::hash<std::string>{}(text);
  const auto now = clock_.now();
  const base::MutexLock lock(mutex_);
  auto& history = historyOf(object);
  auto& all = history.contents;
  const auto soon = std::max(timeouts_.alternationTimeout, 4 * backoffAfter(history.alternations));
  auto known = std::find_if(all.begin(), all.end(), [&](const auto& contents) { return contents.hash == hash; });
  if (known == all.end()) {
    if (all.size() == kMaxContents) all.erase(all.begin());
    all.push_back({.hash = hash, .shape = shapeOf(text), .text = {}, .last = now});
    return;
  }
  const bool numbersOnly = known->hash != all.back().hash && known->shape == all.back().shape;
  std::rotate(known, known + 1, all.end());
  auto& contents = all.back();
  if (now - contents.last > soon) {
    contents.returns = contents.numberReturns = 1;
    history.alternations = 0;
  } else {
    ++(numbersOnly ? contents.numberReturns : contents.returns);
  }
  contents.last = now;
  contents.text = std::move(text);
  if (contents.excess() <= 0) return;
  ++history.alternations;
  history.until = now + backoffAfter(history.alternations);
  metrics_.add("elasticgpu_status_alternations_total", 1, {{"kind", std::string(kind)}});
  report(history, kind, object);
}

void StatusAlternations::report(History& history, std::string_view kind, const core::ObjectMeta& object) {
  const auto now = clock_.now();
  if (history.logged != base::Clock::Steady{} && now - history.logged < timeouts_.alternationLogInterval) return;
  history.logged = now;
  const auto& is = history.contents.back().text;
  const auto& was = history.contents.size() > 1 ? history.contents[history.contents.size() - 2].text : std::string();
  base::log::warn("a status alternates although its object's spec does not change; its writes are delayed",
                  {{"kind", kind},
                   {"namespace", object.namespace_},
                   {"name", object.name},
                   {"before", differing(was, is)},
                   {"now", differing(is, was)}});
}

std::size_t StatusAlternations::size() const {
  const base::MutexLock lock(mutex_);
  return histories_.size();
}

}  // namespace egpu::reconcile

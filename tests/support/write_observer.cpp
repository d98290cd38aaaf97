#include "tests/support/write_observer.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace egpu::support {

namespace {

using Json = nlohmann::json;

bool isTime(const std::string& key) { return key == "time" || key.ends_with("Time") || key.ends_with("Timestamp"); }

void dropTimes(Json& value) {
  if (value.is_array())
    for (auto& each : value) dropTimes(each);
  if (!value.is_object()) return;
  for (auto it = value.begin(); it != value.end();) {
    // The fact of the deletion is part of the contents, its time is not.
    if (it.key() == "deletionTimestamp") it.value() = true;
    if (isTime(it.key()) && it.key() != "deletionTimestamp") {
      it = value.erase(it);
      continue;
    }
    dropTimes(it.value());
    ++it;
  }
}

std::string contentsOf(Json object) {
  if (auto meta = object.find("metadata"); meta != object.end())
    for (const auto* key : {"uid", "resourceVersion", "generation", "managedFields"}) meta->erase(key);
  dropTimes(object);
  return object.dump();
}

std::string nameOf(const Json& object) {
  const auto meta = object.value("metadata", Json::object());
  return object.value("kind", "") + " " + meta.value("namespace", "") + "/" + meta.value("name", "");
}

}  // namespace

base::Result<kube::HttpResponse> WriteObserver::perform(const kube::HttpRequest& request, std::stop_token stop) {
  if (request.method == kube::Method::get) return ForwardingTransport::perform(request, std::move(stop));
  forgetIfOthersWrote();
  auto answer = ForwardingTransport::perform(request, std::move(stop));
  if (answer.ok() && answer->status < 300 && request.method != kube::Method::del) wrote(request, answer->body);
  const std::lock_guard lock(mutex_);
  ownVersion_ = lastVersion_();
  return answer;
}

void WriteObserver::forgetIfOthersWrote() {
  {
    const std::lock_guard lock(mutex_);
    if (lastVersion_() == ownVersion_) return;
  }
  inputsChanged();
}

void WriteObserver::inputsChanged() {
  const std::lock_guard lock(mutex_);
  times_.clear();
  last_.clear();
}

void WriteObserver::wrote(const kube::HttpRequest& request, const std::string& answer) {
  if (request.target.find("dryRun=") != std::string::npos) return;
  const auto object = Json::parse(answer, nullptr, false);
  if (!object.is_object() || object.value("kind", "Status") == "Status") return;
  const auto name = nameOf(object);
  const auto contents = contentsOf(object);
  const std::lock_guard lock(mutex_);
  const bool unchanged = std::exchange(last_[name], contents) == contents;
  if (unchanged && request.method != kube::Method::post) return;
  if (++times_[name][contents] <= kMaxReturns + 1) return;
  auto& report = found_[name];
  report = name + " was written " + std::to_string(times_[name][contents]) +
           " times to the same contents although no other client wrote anything: " + contents;
  for (const auto& [other, times] : times_[name])
    if (other != contents && times > 1) report += "\n  and in between: " + other;
}

std::string WriteObserver::oscillations() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const auto& [name, report] : found_) all += report + "\n";
  return all;
}

}  // namespace egpu::support

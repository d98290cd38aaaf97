#include "controller/cache/optional_informer.h"

#include <array>
#include <utility>
#include <vector>

#include "controller/base/log.h"
#include "controller/kube/query.h"

namespace egpu::cache {

using base::Code;

namespace {

/// Newest version first.
template <class T>
constexpr std::array<std::string_view, 0> kVersions{};
template <>
constexpr std::array<std::string_view, 2> kVersions<core::DeviceTaintRule>{"v1", "v1beta2"};
template <>
constexpr std::array<std::string_view, 3> kVersions<core::PodGroup>{"v1beta1", "v1alpha3", "v1alpha2"};

kube::Client askingOnce(kube::Client& client) {
  auto options = client.options();
  options.maxAttempts = 1;
  return {client.transport(), client.clock(), client.random(), client.metrics(), std::move(options)};
}

}  // namespace

template <class T>
OptionalMirror<T>::OptionalMirror(kube::Client& client, Store<T>& store, OptionalMirrorOptions options)
    : client_(askingOnce(client)),
      mirrored_(client),
      store_(store),
      options_(std::move(options)),
      sink_(store, *this) {}

template <class T>
void OptionalMirror<T>::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

template <class T>
void OptionalMirror<T>::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

template <class T>
bool OptionalMirror<T>::waitForSync(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  return changed_.wait(lock, std::move(stop), [this]() EGPU_REQUIRES(mutex_) { return synced_; });
}

template <class T>
void OptionalMirror<T>::setSynced() {
  const base::MutexLock lock(mutex_);
  synced_ = true;
  changed_.notify_all();
}

template <class T>
void OptionalMirror<T>::Sink::endList(const std::string& resourceVersion) {
  StoreSink<T>::endList(resourceVersion);
  mirror_.setSynced();
}

template <class T>
void OptionalMirror<T>::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto now = served(stop);
    if (now && *now != version_) follow(*now);
    if (!client_.clock().sleepFor(now ? options_.checkInterval : options_.checkBackoff, stop)) break;
  }
  reflector_.reset();
}

template <class T>
base::Result<std::string_view> OptionalMirror<T>::served(const std::stop_token& stop) {
  for (const auto version : kVersions<T>) {
    kube::HttpRequest request;
    request.target = kube::Client::path(kube::Client::inVersion(core::kindOf<T>, version), std::string_view());
    kube::addQuery(request.target, "limit", "1");
    const auto answer = client_.call(std::move(request), stop);
    if (answer) return version;
    const auto& status = answer.status();
    if (status.code() == Code::notFound) continue;
    if (status.code() != Code::forbidden) return status;
    if (!version_ || !version_->empty())
      base::log::warn("not permitted to list a kind: its objects are ignored",
                      {{"kind", core::kindOf<T>.plural}, {"error", status.str()}});
    return std::string_view();
  }
  if (!version_ || !version_->empty())
    base::log::info("the API server does not serve a kind", {{"kind", core::kindOf<T>.plural}});
  return std::string_view();
}

template <class T>
void OptionalMirror<T>::follow(std::string_view version) {
  reflector_.reset();
  version_ = version;
  if (options_.served) options_.served(!version.empty());
  if (version.empty()) {
    clear();
    setSynced();
    return;
  }
  auto options = options_.reflector;
  options.version = version;
  reflector_.emplace(mirrored_, sink_, std::move(options));
  reflector_->start();
}

template <class T>
void OptionalMirror<T>::clear() {
  std::vector<core::ObjectMeta> all;
  store_.forEach([&](const auto& each) { all.push_back(each->metadata); });
  for (const auto& meta : all) store_.observedGone(core::keyOf(meta), meta.uid);
}

template class OptionalMirror<core::DeviceTaintRule>;
template class OptionalMirror<core::PodGroup>;

}  // namespace egpu::cache

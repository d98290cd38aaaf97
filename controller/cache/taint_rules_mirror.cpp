#include "controller/cache/taint_rules_mirror.h"

#include <array>
#include <utility>
#include <vector>

#include "controller/base/log.h"
#include "controller/kube/query.h"

namespace egpu::cache {

using base::Code;

namespace {

constexpr std::array<std::string_view, 2> kVersions = {"v1", "v1beta2"};

kube::Client askingOnce(kube::Client& client) {
  auto options = client.options();
  options.maxAttempts = 1;
  return {client.transport(), client.clock(), client.random(), client.metrics(), std::move(options)};
}

}  // namespace

TaintRulesMirror::TaintRulesMirror(kube::Client& client, Store<core::DeviceTaintRule>& store, TaintRulesOptions options)
    : client_(askingOnce(client)),
      mirrored_(client),
      store_(store),
      options_(std::move(options)),
      sink_(store, *this) {}

void TaintRulesMirror::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void TaintRulesMirror::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

bool TaintRulesMirror::waitForSync(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, std::move(stop), [this] { return synced_; });
}

void TaintRulesMirror::setSynced() {
  const std::lock_guard lock(mutex_);
  synced_ = true;
  changed_.notify_all();
}

void TaintRulesMirror::Sink::endList(const std::string& resourceVersion) {
  StoreSink::endList(resourceVersion);
  mirror_.setSynced();
}

void TaintRulesMirror::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto now = served(stop);
    if (now && *now != version_) follow(*now);
    if (!client_.clock().sleepFor(now ? options_.lookEvery : options_.lookAgain, stop)) break;
  }
  reflector_.reset();
}

base::Result<std::string_view> TaintRulesMirror::served(const std::stop_token& stop) {
  for (const auto version : kVersions) {
    kube::HttpRequest request;
    request.target =
        kube::Client::path(kube::Client::inVersion(core::kindOf<core::DeviceTaintRule>, version), std::string_view());
    kube::addQuery(request.target, "limit", "1");
    const auto answer = client_.call(std::move(request), stop);
    if (answer) return version;
    const auto& status = answer.status();
    if (status.code() == Code::notFound) continue;
    if (status.code() != Code::forbidden) return status;
    if (!version_ || !version_->empty())
      base::log::warn("not permitted to list DeviceTaintRules: none is respected", {{"error", status.str()}});
    return std::string_view();
  }
  if (!version_ || !version_->empty()) base::log::info("the API server has no DeviceTaintRules");
  return std::string_view();
}

void TaintRulesMirror::follow(std::string_view version) {
  reflector_.reset();
  version_ = version;
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

void TaintRulesMirror::clear() {
  std::vector<core::ObjectMeta> all;
  store_.forEach([&](const auto& rule) { all.push_back(rule->metadata); });
  for (const auto& meta : all) store_.observedGone(core::keyOf(meta), meta.uid);
}

}  // namespace egpu::cache

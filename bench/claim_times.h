// Wrappers that record where the time of a claim goes on a node.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "bench/measure.h"
#include "controller/agent/cdi/folder.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/plugin/hosted_registry.h"

namespace egpu::bench {

/// Time of one claim by part, in seconds. Reads that other threads make for the claim are not in any part except
/// `total`.
struct Split {
  double worker = 0;  ///< wait until a worker took the claim
  double api = 0, plugin = 0, lock = 0, disk = 0;
  double total = 0;  ///< `worker` included
};
inline thread_local Split* split = nullptr;  ///< the claim that this thread works on

/// Adds its own lifetime to a part of `split`.
class Watched {
 public:
  explicit Watched(double Split::*part) : part_(part) {}
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() {
    if (split) split->*part_ += secondsSince(from_);
  }

 private:
  double Split::*part_;
  const std::chrono::steady_clock::time_point from_ = std::chrono::steady_clock::now();
};

class WatchedTransport final : public kube::Transport {
 public:
  explicit WatchedTransport(kube::Transport& real) : real_(real) {}
  base::Result<kube::HttpResponse> perform(const kube::HttpRequest& request, std::stop_token stop) override {
    const Watched watched(&Split::api);
    return real_.perform(request, std::move(stop));
  }
  base::Result<kube::HttpResponse> stream(const kube::HttpRequest& request,
                                          const std::function<bool(std::string_view)>& data,
                                          std::stop_token stop) override {
    return real_.stream(request, data, std::move(stop));
  }

 private:
  kube::Transport& real_;
};

class WatchedPlugin final : public plugin::Provisioner {
 public:
  explicit WatchedPlugin(plugin::Provisioner& real) : real_(real) {}
  const plugin::Description& description() const override { return real_.description(); }
  plugin::Reply validate(const core::StringMap& parameters) override { return real_.validate(parameters); }
  plugin::Reply provision(const plugin::DeviceRequest& request) override { return real_.provision(request); }
  plugin::Reply deprovision(const std::string& key) override { return real_.deprovision(key); }
  plugin::ListReply list() override { return real_.list(); }
  plugin::Reply stage(const plugin::DeviceRequest& request) override {
    const Watched watched(&Split::plugin);
    return real_.stage(request);
  }
  plugin::MountReply mount(const plugin::DeviceRequest& request, const std::string& pod,
                           const std::string& container) override {
    const Watched watched(&Split::plugin);
    return real_.mount(request, pod, container);
  }
  plugin::Reply unmount(const std::string& key, const std::string& pod, const std::string& container) override {
    const Watched watched(&Split::plugin);
    return real_.unmount(key, pod, container);
  }
  plugin::Reply unstage(const std::string& key) override {
    const Watched watched(&Split::plugin);
    return real_.unstage(key);
  }

 private:
  plugin::Provisioner& real_;
};

class WatchedFolder final : public agent::cdi::Folder {
 public:
  using Folder::Folder;
  base::Result<Held> hold() override {
    const Watched watched(&Split::lock);
    return Folder::hold();
  }
  base::Result<agent::cdi::Draft> draft(const agent::cdi::Spec& spec) const override {
    const Watched watched(&Split::disk);
    return Folder::draft(spec);
  }
  using Folder::write;
  base::Status write(agent::cdi::Draft draft) override {
    const Watched watched(&Split::disk);
    return Folder::write(std::move(draft));
  }
  base::Status publish(const std::string& uid) override {
    const Watched watched(&Split::disk);
    return Folder::publish(uid);
  }
  base::Status withdraw(const std::string& uid) override {
    const Watched watched(&Split::disk);
    return Folder::withdraw(uid);
  }
  base::Status removePart(const std::string& uid) override {
    const Watched watched(&Split::disk);
    return Folder::removePart(uid);
  }
};

}  // namespace egpu::bench

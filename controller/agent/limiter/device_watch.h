// Objects of this node's devices. The watch begins with the first question, so that nodes without limited containers
// have none.
#pragma once

#include <atomic>
#include <string>

#include "controller/cache/sinks.h"
#include "controller/cache/store.h"
#include "controller/kube/client.h"
#include "controller/kube/reflector.h"

namespace egpu::agent::limiter {

/// Thread-safe; all calls have ended when the destructor runs. The client must outlive it.
class DeviceWatch {
 public:
  DeviceWatch(kube::Client& client, const std::string& node) : reflector_(client, sink_, ofNode(node)) {}
  ~DeviceWatch() { reflector_.stop(); }
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Returns null for a device that is unknown, or not known yet.
  cache::Store<v1alpha::ElasticGPU>::Ptr find(const std::string& device) {
    if (!started_.exchange(true)) reflector_.start();
    return store_.get({"", device});
  }

 private:
  static kube::ReflectorOptions ofNode(const std::string& node) {
    kube::ReflectorOptions out;
    out.fieldSelector = "spec.nodeName=" + node;
    return out;
  }

  cache::Store<v1alpha::ElasticGPU> store_;
  cache::StoreSink<v1alpha::ElasticGPU> sink_{store_};
  kube::Reflector<v1alpha::ElasticGPU> reflector_;
  std::atomic<bool> started_{false};
};

}  // namespace egpu::agent::limiter

// Sinks of the reflectors: they fill the stores.
#pragma once

#include <string>

#include "controller/cache/stores.h"
#include "controller/kube/reflector.h"

namespace egpu::cache {

/// Fills the store of T from a reflector, for the kinds that sinks.cpp names. Keeps a reference to its store.
template <class T>
class StoreSink : public kube::Sink<T> {
 public:
  explicit StoreSink(Store<T>& store) : store_(store) {}
  void beginList() override { store_.listBegins(); }
  void listed(const T& object) override { store_.listed(object); }
  void unlisted(const T& object) override { store_.unlisted(object); }
  void endList(const std::string& resourceVersion) override { store_.listEnds(resourceVersion); }
  void apply(codec::WatchEvent<T>&& event) override;

 private:
  Store<T>& store_;
};

/// Fills the stores of cards and devices from one watch of ElasticGPUs.
class GpuSink final : public kube::Sink<Gpu> {
 public:
  explicit GpuSink(Stores& stores) : stores_(stores) {}
  void beginList() override;
  void listed(const Gpu& object) override { stores_.storeOf(object).listed(object); }
  void unlisted(const Gpu& object) override { stores_.storeOf(object).unlisted(object); }
  void endList(const std::string& resourceVersion) override;
  void apply(codec::WatchEvent<Gpu>&& event) override;

 private:
  Stores& stores_;
};

/// Stores the pods that isStored() accepts. Of all other pods, only the requests to their nodes are kept.
class PodSink final : public kube::Sink<core::Pod> {
 public:
  explicit PodSink(Stores& stores) : usage_(stores.usage), pods_(stores.pods), inner_(stores.pods) {}
  void beginList() override;
  void listed(const core::Pod& pod) override;
  void unlisted(const core::Pod& pod) override;
  void endList(const std::string& resourceVersion) override;
  void apply(codec::WatchEvent<core::Pod>&& event) override;

 private:
  NodeUsage& usage_;
  Store<core::Pod>& pods_;
  StoreSink<core::Pod> inner_;
};

}  // namespace egpu::cache

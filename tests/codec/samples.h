// Sample objects for tests of codec and its readers: one of every kind with every field set, and random ones.
#pragma once

#include <random>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"

namespace egpu::testing {

/// Every field has a value that is not its default. Strings hold quotes, control characters and non-ASCII text.
template <class T>
T fullSample();

/// Sets each field or not at random; texts have any bytes that are UTF-8. Seeded: the sequence is reproducible.
class RandomObjects {
 public:
  explicit RandomObjects(uint64_t seed) : random_(seed) {}
  template <class T>
  T next();

  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

/// Compares the fields that codec transports. Kinds whose structs have an operator== use it.
bool same(const v1alpha::ElasticGPU& a, const v1alpha::ElasticGPU& b);
bool same(const v1alpha::ElasticGPUClaim& a, const v1alpha::ElasticGPUClaim& b);
bool same(const v1alpha::ElasticGPUClaimTemplate& a, const v1alpha::ElasticGPUClaimTemplate& b);
bool same(const core::ResourceClaimTemplate& a, const core::ResourceClaimTemplate& b);
bool same(const v1alpha::ElasticGPUClass& a, const v1alpha::ElasticGPUClass& b);
bool same(const v1alpha::ElasticGPUQuota& a, const v1alpha::ElasticGPUQuota& b);
bool same(const core::Namespace& a, const core::Namespace& b);
bool same(const core::Node& a, const core::Node& b);
bool same(const core::Pod& a, const core::Pod& b);
bool same(const core::PersistentVolumeClaim& a, const core::PersistentVolumeClaim& b);
bool same(const core::PersistentVolume& a, const core::PersistentVolume& b);
bool same(const core::ResourceClaim& a, const core::ResourceClaim& b);
bool same(const core::DeviceClass& a, const core::DeviceClass& b);
bool same(const core::DeviceTaintRule& a, const core::DeviceTaintRule& b);
bool same(const core::PodGroup& a, const core::PodGroup& b);
bool same(const core::PriorityClass& a, const core::PriorityClass& b);
bool same(const core::Event& a, const core::Event& b);
bool same(const core::Lease& a, const core::Lease& b);

}  // namespace egpu::testing

// What a store keeps is exactly what it was given.
#include "controller/cache/packed.h"

#include <gtest/gtest.h>

#include "tests/codec/samples.h"

namespace egpu::cache {
namespace {

template <class T>
class EveryPackedKind : public ::testing::Test {};
using Kinds = ::testing::Types<v1alpha::ElasticGPU, v1alpha::ElasticGPUClaim, v1alpha::ElasticGPUClass, core::Node,
                               core::Pod, core::ResourceClaim>;
TYPED_TEST_SUITE(EveryPackedKind, Kinds);

TYPED_TEST(EveryPackedKind, ComesBackWithEveryField) {
  const auto object = testing::fullSample<TypeParam>();
  EXPECT_TRUE(testing::same(unpack<TypeParam>(pack(object)), object));
  testing::RandomObjects random(3);
  for (int i = 0; i < 200; ++i) {
    const auto one = random.next<TypeParam>();
    const auto packed = pack(one);
    ASSERT_TRUE(testing::same(unpack<TypeParam>(packed), one));
    ASSERT_EQ(packedUid(packed), one.metadata.uid);
  }
}

}  // namespace
}  // namespace egpu::cache

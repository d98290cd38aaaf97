// Memory returns: after objects of a kind are deleted and their retention has passed, a threaded controller keeps
// nothing of them. The test compares the sizes that the controller counts itself. With EGPU_OBJECTS it also compares
// live bytes, which do not depend on the allocator's rounding or caching. That takes minutes, because caches with a
// bounded number of objects must be filled first.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "api/v1alpha/keys.h"
#include "tests/reconcile/properties/trial.h"
#include "tests/support/history_length.h"

namespace {

std::atomic<int64_t> liveBytes{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  liveBytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}
void uncounted(void* memory) noexcept {
  liveBytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  void* memory = std::malloc(size == 0 ? 1 : size);
  return memory == nullptr ? nullptr : counted(memory);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(to, (size + to - 1) / to * to));
}
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { uncounted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { uncounted(memory); }

namespace egpu::reconcile {
namespace {

using support::World;

constexpr int kRemembered = 4'096;  ///< objects, by the stores and StatusAlternations
constexpr int kAllowedBytes = 100;  ///< per object: a leaked entry has a uid or a key, and a node of its container

bool countsBytes() { return std::getenv("EGPU_OBJECTS") != nullptr; }
/// Number of objects of each kind and round.
int objects() { return countsBytes() ? std::atoi(std::getenv("EGPU_OBJECTS")) : 8; }

class Busy : public Trial {
 public:
  Busy() : Trial(1, Runs::threaded) {
    world.addClass("share");
    world.addClass("late", "Delete", "WaitForFirstConsumer");
    world.addClass("keep", "Retain");
    world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
    world.addClass("absent", "Delete", "Immediate", {}, "absent.example.com");
    addPriorityClass("high", 1000);
    for (int i = 0; i < 4; ++i) addNode("n" + std::to_string(i), 4);
    start();
    if (countsBytes()) fillMemoriesOfGoneObjects();
  }
  std::string fresh(const std::string& what) { return what + "-" + std::to_string(++names_); }
  /// Lets `time` pass in small parts, and waits in each part until no key is ready.
  void quiet(std::chrono::milliseconds time) {
    const auto part = std::chrono::milliseconds(5'000);
    for (auto passed = std::chrono::milliseconds(0); passed < time; passed += part) {
      ASSERT_TRUE(comesTrue([] { return true; }));
      world.clock.advance(part);
    }
    ASSERT_TRUE(comesTrue([] { return true; }));
  }
  std::vector<std::string> contents() {
    const auto& s = stores();
    std::vector<std::string> sizes;
    const auto add = [&sizes](const char* what, std::size_t n) { sizes.push_back(what + (" " + std::to_string(n))); };
    add("claims", s.claims.size());
    add("devices", s.devices.size());
    add("cards", s.cards.size());
    add("pods", s.pods.size());
    add("nodes", s.nodes.size());
    add("classes", s.classes.size());
    add("quotas", s.quotas.size());
    add("resourceClaims", s.resourceClaims.size());
    add("namespaces", s.namespaces.size());
    add("templates", s.templates.size());
    add("resourceClaimTemplates", s.resourceClaimTemplates.size());
    add("priorityClasses", s.priorityClasses.size());
    add("waitingForCapacity", reconciler().waitingForCapacity());
    add("remembered", reconciler().remembered());
    add("assumed", cluster().assumptions().size());
    add("nodeReservations", cluster().queries().nodeReservations().size());
    return sizes;
  }
  template <class T>
  void removeAll() {
    for (const auto& each : World::must(world.client.listAll<T>({})))
      (void)world.client.remove<T>(core::keyOf(each.metadata), R"({"gracePeriodSeconds":0})");
  }
  /// Waits until `n` claims are bound or report why not.
  void seen(int n) {
    ASSERT_TRUE(comesTrue([&] {
      int reported = 0;
      stores().claims.forEach([&](const auto& each) { reported += !each->status.conditions.empty(); });
      return reported >= n;
    }));
  }

 private:
  /// Fills the bounded caches of deleted objects: from here on each deleted object replaces an earlier one.
  void fillMemoriesOfGoneObjects() {
    auto& s = const_cast<cache::Stores&>(stores());
    base::Random random(1);
    const auto fill = [&random](auto&... all) {
      for (int i = 0; i < kRemembered; ++i) (all.observedGone({"a", "gone"}, random.uuid()), ...);
    };
    fill(s.claims, s.devices, s.cards, s.pods, s.nodes, s.classes, s.quotas, s.resourceClaims, s.namespaces,
         s.templates, s.resourceClaimTemplates, s.priorityClasses, s.podGroups);
  }

  int names_ = 0;
};

struct MemoryCase {
  const char* name;
  std::function<void(Busy&, int)> make;  ///< creates `n` of them
};
void PrintTo(const MemoryCase& kind, std::ostream* out) { *out << kind.name; }

void claims(Busy& b, int n, const Trial::ClaimWish& wish) {
  for (int i = 0; i < n; ++i) (void)b.claim(wish);
  b.seen(n);
}

const std::vector<MemoryCase>& kinds() {
  static const std::vector<MemoryCase> all{
      {"BoundClaims",
       [](Busy& b, int n) {
         claims(b, n, {"a", "share", {}, {{"gpu-core", "1"}}, {}, {}, {}});
       }},
      {"ClaimsWithoutRoom",
       [](Busy& b, int n) {
         claims(b, n, {"a", "share", {}, {{"gpu", "64"}}, {}, {}, {}});
       }},
      {"ClaimsOverQuota",
       [](Busy& b, int n) {
         b.setQuota("b", {{"gpu", "0"}});
         claims(b, n, {"b", "share", {}, {{"gpu", "1"}}, {}, {}, {}});
       }},
      {"ClaimsWithoutProvisioner",
       [](Busy& b, int n) {
         claims(b, n, {"a", "absent", {}, {{"gpu", "1"}}, {}, {}, {}});
       }},
      {"ClaimsWithoutClass",
       [](Busy& b, int n) {
         claims(b, n, {"a", "none", {}, {{"gpu", "1"}}, {}, {}, {}});
       }},
      {"ClaimsThatAreKept",
       [](Busy& b, int n) {
         claims(b, n, {"a", "keep", {}, {{"gpu-core", "1"}}, {}, {}, {}});
       }},
      {"ClaimsByName",
       [](Busy& b, int n) {
         claims(b, n, {"a", "share", {}, {}, {}, "no-such-gpu", {}});
       }},
      {"Alternatives",
       [](Busy& b, int n) {
         Trial::ClaimWish wish{"a", "share", {}, {}, {}, {}, {}};
         for (const auto* count : {"64", "32"})
           wish.firstAvailable.push_back({std::string("cards-") + count, {}, {{"elasticgpu.io/gpu", count}}});
         claims(b, n, wish);
       }},
      {"Preemption",
       [](Busy& b, int n) {
         claims(b, std::min(n, 16), {"a", "spare", {}, {{"gpu", "1"}}, {}, {}, {}});
         claims(b, std::min(n, 16), {"c", "share", "high", {{"gpu", "1"}}, {}, {}, {}});
         ASSERT_TRUE(b.comesTrue([&] {
           int bound = 0;
           b.stores().claims.forEach(
               [&](const auto& each) { bound += each->status.phase == "Bound" && each->metadata.namespace_ == "c"; });
           return bound == std::min(n, 16);
         }));
       }},
      {"Gangs",
       [](Busy& b, int n) {
         for (int i = 0; i < n; i += 3) {
           const auto name = b.fresh("gang");
           for (int member = 0; member < 3; ++member)
             if (member < 2 || i % 2 == 0)
               (void)b.claim({"a",
                              "share",
                              {},
                              {{"gpu-core", "1"}},
                              {{std::string(v1alpha::keys::kGangAnnotation), name},
                               {std::string(v1alpha::keys::kGangSizeAnnotation), "3"}},
                              {},
                              {}});
         }
         b.seen(n / 3);
       }},
      {"PodsWithTheirClaims",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i)
           (void)b.pod(
               "a", {b.claim({"a", i % 2 == 0 ? "late" : "share", {}, {{"gpu-core", "1"}}, {}, {}, {}}).metadata.name});
         b.seen(n);
       }},
      {"PodsThatShareAClaim",
       [](Busy& b, int n) {
         const auto shared = b.claim({"a", "late", {}, {{"gpu", "64"}}, {}, {}, {}}).metadata.name;
         for (int i = 0; i < n; ++i) (void)b.pod("a", {shared});
         b.seen(1);
       }},
      {"PodsWithAmounts",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           auto pod = World::podOf(b.fresh("amounts"), {}, true);
           pod.resourceClaims.push_back(
               {"egpu", "", "egpu-amounts.core-" + std::to_string(i % 100 + 1) + ".class-share"});
           pod.containers[0].resourceClaims.push_back("egpu");
           (void)World::must(b.world.client.create(pod));
         }
         ASSERT_TRUE(b.comesTrue([&] { return b.stores().resourceClaimTemplates.size() > 0; }));
       }},
      {"Templates",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           cache::ClaimTemplate made;
           made.metadata.name = b.fresh("template");
           made.metadata.namespace_ = "a";
           made.spec.className = "share";
           made.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
           (void)World::must(b.world.client.create(made));
         }
         ASSERT_TRUE(b.comesTrue([&] { return static_cast<int>(b.stores().resourceClaimTemplates.size()) == n; }));
       }},
      {"ResourceClaims",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           core::ResourceClaim made;
           made.metadata.name = b.fresh("stock");
           made.metadata.namespace_ = "default";
           made.deviceClassName = "elasticgpu.io";
           made.requestName = "gpu";
           made.config.push_back(
               {{},
                "elasticgpu.io",
                R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":1}}})"});
           (void)World::must(b.world.client.create(made));
         }
         b.seen(n);
       }},
      {"PodGroups",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           core::PodGroup made;
           made.metadata.name = b.fresh("group");
           made.metadata.namespace_ = "default";
           made.minCount = 2;
           (void)World::must(b.world.client.create(made));
         }
       }},
      {"Classes",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           const auto name = b.fresh("class");
           b.world.addClass(name);
           (void)b.claim({"a", name, {}, {{"gpu-core", "1"}}, {}, {}, {}});
         }
         b.seen(n);
       }},
      {"Quotas",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           cache::Quota made;
           made.metadata.name = b.fresh("quota");
           made.metadata.namespace_ = "a";
           made.spec.hard = {{"gpu", "4"}};
           (void)World::must(b.world.client.create(made));
         }
         claims(b, n, {"a", "share", {}, {{"gpu", "1"}}, {}, {}, {}});
       }},
      {"NodesWithCards",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) b.addNode(b.fresh("extra"), 1);
         claims(b, n, {"a", "share", {}, {{"gpu", "1"}}, {}, {}, {}});
       }},
      {"PriorityClasses",
       [](Busy& b, int n) {
         for (int i = 0; i < n; ++i) {
           const auto name = b.fresh("priority");
           b.addPriorityClass(name, i);
           (void)b.claim({"a", "share", name, {{"gpu-core", "1"}}, {}, {}, {}});
         }
         b.seen(n);
       }},
  };
  return all;
}

/// Removes all objects that a kind may have created.
void clean(Busy& b) {
  b.removeAll<core::Pod>();
  b.removeAll<cache::Claim>();
  b.removeAll<core::ResourceClaim>();
  b.removeAll<cache::ClaimTemplate>();
  b.removeAll<core::PodGroup>();
  b.removeAll<cache::Quota>();
  ASSERT_TRUE(b.comesTrue([&] { return b.stores().claims.size() == 0 && b.stores().pods.size() == 0; }));
  for (const auto& each : World::must(b.world.client.listAll<cache::Gpu>({})))
    if (each.isDevice()) (void)b.world.client.remove<cache::Gpu>(core::keyOf(each.metadata));
  ASSERT_TRUE(b.comesTrue([&] { return b.stores().devices.size() == 0 && b.stores().resourceClaims.size() == 0; }));
  const auto removeExtra = [&]<class T>(const T&, const std::string& prefix) {
    for (const auto& each : World::must(b.world.client.listAll<T>({})))
      if (each.metadata.name.rfind(prefix, 0) == 0) (void)b.world.client.remove<T>(core::keyOf(each.metadata));
  };
  removeExtra(cache::Gpu(), "gpu-extra-");
  removeExtra(core::Node(), "extra-");
  removeExtra(cache::Class(), "class-");
  removeExtra(core::PriorityClass(), "priority-");
}

class MemoryReturnsTest : public ::testing::TestWithParam<MemoryCase> {};

TEST_P(MemoryReturnsTest, NothingIsStoredOfObjectsThatAreGone) {
  support::historyLength = 50;
  Busy b;
  b.quiet(std::chrono::minutes(1));
  const auto contents = b.contents();
  const auto round = [&](const MemoryCase& kind, int n) {
    kind.make(b, n);
    if (!HasFatalFailure()) clean(b);
    if (!HasFatalFailure()) b.quiet(std::chrono::minutes(20));
    // A thread that is late with an event starts a time to live only when the 20 minutes have passed.
    for (int i = 0; i < 1'000 && !HasFatalFailure() && b.contents() != contents; ++i) {
      base::SystemClock().sleepFor(std::chrono::milliseconds(5), {});
      b.quiet(std::chrono::minutes(1));
    }
    ASSERT_EQ(b.contents(), contents);
  };
  if (countsBytes()) {
    const MemoryCase cheap{"", [](Busy& busy, int n) {
                             claims(busy, n, {"a", "none", {}, {{"gpu", "1"}}, {}, {}, {}});
                           }};
    ASSERT_NO_FATAL_FAILURE(round(cheap, kRemembered));
  }
  std::vector<int64_t> live;
  for (int i = 0; i < (countsBytes() ? 3 : 2); ++i) {
    ASSERT_NO_FATAL_FAILURE(round(GetParam(), objects())) << "round " << i;
    live.push_back(liveBytes.load());
  }
  if (countsBytes()) {
    EXPECT_LE((live[2] - live[1]) / objects(), kAllowedBytes) << live[0] << " " << live[1] << " " << live[2];
    RecordProperty("bytes", std::to_string(live[2] - live[1]));
  }
}

INSTANTIATE_TEST_SUITE_P(, MemoryReturnsTest, ::testing::ValuesIn(kinds()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace egpu::reconcile

#include "controller/cache/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include "controller/cache/stores.h"

namespace egpu::cache {
namespace {

Claim claim(const std::string& name, const std::string& uid, int version, const std::string& phase = {}) {
  Claim c;
  c.metadata.name = name;
  c.metadata.namespace_ = "ns";
  c.metadata.uid = uid;
  c.metadata.resourceVersion = std::to_string(version);
  c.status.phase = phase;
  return c;
}

TEST(StoreTest, TheNewerOfInformerAndOwnWriteIsShown) {
  Store<Claim> store;
  store.informed(claim("a", "u", 7, "Pending"));
  store.observed(claim("a", "u", 9, "Bound"));
  store.informed(claim("a", "u", 8, "Lost"));  // late
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Bound");
  store.informed(claim("a", "u", 10, "Lost"));
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Lost");
  store.observed(claim("a", "u", 9, "Bound"));
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Lost");
}

TEST(StoreTest, AnObjectThatWasHandedOutStaysAsItIs) {
  Store<Claim> store;
  store.informed(claim("a", "u", 7, "Pending"));
  const auto before = store.get({"ns", "a"});
  EXPECT_EQ(store.get({"ns", "a"}), before);
  store.informed(claim("a", "u", 8, "Bound"));
  EXPECT_EQ(before->status.phase, "Pending");
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Bound");
  store.observedGone({"ns", "a"}, "u");
  EXPECT_EQ(before->metadata.resourceVersion, "7");
}

TEST(StoreTest, AVersionIsANumberOrNothing) {
  EXPECT_EQ(versionOf("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(versionOf("18446744073709551616"), 0u);
  EXPECT_EQ(versionOf("7 "), 0u);
  EXPECT_EQ(versionOf("-7"), 0u);
  EXPECT_EQ(versionOf(""), 0u);
  Store<Claim> store;
  auto unversioned = claim("a", "u", 1, "Pending");
  unversioned.metadata.resourceVersion = "";
  store.observed(unversioned);
  unversioned.status.phase = "Bound";
  store.observed(unversioned);  // cannot be recognised as older
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Bound");
}

TEST(StoreTest, AGoneUidNeverComesBack) {
  Store<Claim> store;
  store.informed(claim("a", "u1", 5));
  store.observedGone({"ns", "a"}, "u1");
  EXPECT_EQ(store.get({"ns", "a"}), nullptr);
  store.informed(claim("a", "u1", 6));  // a delayed event
  EXPECT_EQ(store.get({"ns", "a"}), nullptr);
  store.observed(claim("a", "u2", 8));
  store.informedGone(claim("a", "u1", 7));
  ASSERT_NE(store.get({"ns", "a"}), nullptr);
  EXPECT_EQ(store.get({"ns", "a"})->metadata.uid, "u2");
}

TEST(StoreTest, AListTakesAwayWhatItLacksUnlessThatIsYounger) {
  Store<Claim> store;
  store.informed(claim("old", "u1", 5));
  store.observed(claim("young", "u2", 20));
  store.listBegins();
  store.listed(claim("other", "u3", 9));
  EXPECT_NE(store.get({"ns", "old"}), nullptr);
  EXPECT_NE(store.get({"ns", "other"}), nullptr);  // visible as soon as it is listed
  EXPECT_FALSE(store.synced());
  EXPECT_EQ(store.version(), 5u);  // the store's version does not change yet
  store.listEnds("10");
  EXPECT_EQ(store.get({"ns", "old"}), nullptr);
  EXPECT_NE(store.get({"ns", "young"}), nullptr);
  EXPECT_NE(store.get({"ns", "other"}), nullptr);
  EXPECT_TRUE(store.synced());
  EXPECT_EQ(store.version(), 10u);
}

TEST(StoreTest, AListThatBreaksOffReportsNothing) {
  Store<Claim> store;
  store.listBegins();
  store.listed(claim("a", "u1", 5));
  store.listed(claim("b", "u2", 6));
  store.listBegins();
  store.listed(claim("b", "u2", 6));
  store.listEnds("10");
  EXPECT_EQ(store.get({"ns", "a"}), nullptr);
  EXPECT_NE(store.get({"ns", "b"}), nullptr);
}

TEST(StoreTest, WhatGoesWhileAListIsDeliveredIsGone) {
  Store<Claim> store;
  store.listBegins();
  store.listed(claim("a", "u1", 5));
  store.unlisted(claim("a", "u1", 8));
  EXPECT_EQ(store.get({"ns", "a"}), nullptr);
  store.listed(claim("b", "u2", 6));
  store.observedGone({"ns", "b"}, "u2");
  store.listed(claim("b", "u2", 6));        // listed again, as the server sent it earlier
  store.observed(claim("stale", "u3", 4));  // in place of a listed object
  store.listEnds("10");
  EXPECT_EQ(store.get({"ns", "b"}), nullptr);
  EXPECT_EQ(store.get({"ns", "stale"}), nullptr);
  EXPECT_EQ(store.size(), 0u);
}

TEST(StoreTest, AListOfARestoredServerReplacesWhatIsThere) {
  Store<Claim> store;
  store.listBegins();
  store.listed(claim("kept", "u1", 5, "Pending"));
  store.listed(claim("dropped", "u2", 6));
  store.listEnds("10");
  store.informed(claim("kept", "u1", 20, "Bound"));
  store.informed(claim("ghost", "u3", 21));
  store.informedGone(claim("dropped", "u2", 22));
  store.informed(claim("same", "u4", 8, "Bound"));
  store.observed(claim("ours", "u5", 25));
  store.informed(claim("ours", "u5", 25));
  store.listBegins();  // the server's state at version 10, plus two writes
  store.listed(claim("kept", "u1", 5, "Pending"));
  store.listed(claim("dropped", "u2", 6));
  store.listed(claim("same", "u4", 8, "Lost"));
  store.listEnds("12");
  EXPECT_EQ(store.get({"ns", "kept"})->status.phase, "Pending");
  EXPECT_NE(store.get({"ns", "dropped"}), nullptr);
  EXPECT_EQ(store.get({"ns", "same"})->status.phase, "Lost");
  EXPECT_EQ(store.get({"ns", "ghost"}), nullptr);
  EXPECT_EQ(store.get({"ns", "ours"}), nullptr);
  EXPECT_EQ(store.version(), 12u);
  store.informed(claim("kept", "u1", 13, "Lost"));  // later events count as new
  store.informed(claim("new", "u6", 14));
  EXPECT_EQ(store.get({"ns", "kept"})->status.phase, "Lost");
  EXPECT_NE(store.get({"ns", "new"}), nullptr);
  store.informedGone(claim("dropped", "u2", 15));
  EXPECT_EQ(store.get({"ns", "dropped"}), nullptr);
}

TEST(StoreTest, ARestoredServerWhoseVersionsWentOnIsReplacedToo) {
  Store<Claim> store;
  store.informed(claim("a", "u1", 20, "Bound"));
  store.informedGone(claim("b", "u2", 21));
  store.informed(claim("c", "u3", 22));
  store.listBegins();  // restored to the state at version 10, with versions raised above all that were seen
  store.listed(claim("a", "u1", 5, "Pending"));
  store.listed(claim("b", "u2", 6));
  store.listEnds("1000");
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Pending");
  EXPECT_NE(store.get({"ns", "b"}), nullptr);
  EXPECT_EQ(store.get({"ns", "c"}), nullptr);
}

TEST(StoreTest, OwnWritesMadeWhileAListIsDeliveredAreNotUndone) {
  Store<Claim> store;
  store.informed(claim("a", "u1", 5, "Pending"));
  store.informed(claim("c", "u3", 6));
  store.listBegins();
  store.observed(claim("a", "u1", 11, "Bound"));
  store.observed(claim("b", "u2", 12));
  store.observedGone({"ns", "c"}, "u3");
  store.listed(claim("a", "u1", 5, "Pending"));
  store.listed(claim("c", "u3", 6));
  store.listEnds("10");
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Bound");
  EXPECT_NE(store.get({"ns", "b"}), nullptr);
  EXPECT_EQ(store.get({"ns", "c"}), nullptr);
}

TEST(StoreTest, OwnWritesToARestoredServerMadeWhileItsListIsDeliveredAreNotUndone) {
  Store<Claim> store;
  store.informed(claim("a", "u1", 50, "Bound"));
  store.listBegins();
  store.listed(claim("a", "u1", 5, "Pending"));
  store.observed(claim("a", "u1", 11, "Lost"));
  store.observed(claim("b", "u2", 12));
  store.listed(claim("a", "u1", 5, "Pending"));  // listed again
  store.listEnds("10");
  EXPECT_EQ(store.get({"ns", "a"})->status.phase, "Lost");
  EXPECT_NE(store.get({"ns", "b"}), nullptr);
}

TEST(StoreTest, ANameThatARestoreGaveBackToAnotherObjectIsThatObjects) {
  Store<Claim> store;
  const int byPhase = store.addIndex([](const Claim& c, const Emit& emit) { emit(c.status.phase); });
  std::vector<std::string> heard;
  store.listen([&](const auto& before, const auto& after) {
    heard.push_back((before ? before->metadata.uid : "") + ">" + (after ? after->metadata.uid : ""));
  });
  store.informed(claim("a", "new", 50, "Bound"));
  store.listBegins();
  store.listed(claim("a", "old", 5, "Pending"));
  store.listEnds("10");
  EXPECT_EQ(store.get({"ns", "a"})->metadata.uid, "old");
  EXPECT_TRUE(store.find(byPhase, "Bound").empty());
  EXPECT_EQ(heard, (std::vector<std::string>{">new", "new>old"}));
  store.observed(claim("a", "new", 51));  // a delayed answer
  EXPECT_EQ(store.get({"ns", "a"})->metadata.uid, "old");
}

TEST(StoreTest, AListOfWhatIsKnownNotifiesNobody) {
  Store<Claim> store;
  int heard = 0;
  store.listen([&](const auto&, const auto&) { ++heard; });
  for (int round = 0; round < 3; ++round) {
    store.listBegins();
    for (int i = 0; i < 10; ++i) store.listed(claim("c" + std::to_string(i), "u" + std::to_string(i), 5, "Bound"));
    store.listEnds("10");
    if (round == 0) heard = 0;
  }
  EXPECT_EQ(heard, 0);
}

TEST(StoreTest, ListenersHearEachChangeOnce) {
  Store<Claim> store;
  std::vector<std::string> heard;
  store.listen([&](const auto& before, const auto& after) {
    heard.push_back(!before ? "new" : !after ? "gone" : "changed");
  });
  store.informed(claim("a", "u", 1));
  store.informed(claim("a", "u", 1));
  store.observed(claim("a", "u", 2));
  store.informed(claim("a", "u", 2));
  store.informedGone(claim("a", "u", 3));
  store.informedGone(claim("a", "u", 3));
  EXPECT_EQ(heard, (std::vector<std::string>{"new", "changed", "gone"}));
}

TEST(StoreTest, IndexesFollow) {
  Store<Claim> store;
  const int byPhase = store.addIndex([](const Claim& c, const Emit& emit) { emit(c.status.phase); });
  store.informed(claim("b", "u2", 1, "Pending"));
  store.informed(claim("a", "u1", 2, "Pending"));
  ASSERT_EQ(store.find(byPhase, "Pending").size(), 2u);
  EXPECT_EQ(store.find(byPhase, "Pending")[0]->metadata.name, "a");  // by key
  store.informed(claim("a", "u1", 3, "Bound"));
  EXPECT_EQ(store.find(byPhase, "Pending").size(), 1u);
  store.informedGone(claim("b", "u2", 4));
  EXPECT_FALSE(store.any(byPhase, "Pending"));
}

TEST(StoreTest, First_VisitsInOrderOfValuesAndKeysWithinThePrefix) {
  Store<Claim> store;
  const int index = store.addIndex([](const Claim& c, const Emit& emit) { emit(c.status.phase); });
  store.informed(claim("d", "u4", 1, "x/2"));
  store.informed(claim("c", "u3", 2, "x/1"));
  store.informed(claim("b", "u2", 3, "x/2"));
  store.informed(claim("a", "u1", 4, "y/0"));
  std::vector<std::string> seen;
  const auto visit = [&](const Claim& c) {
    seen.push_back(c.metadata.name);
    return false;
  };
  EXPECT_EQ(store.first(index, "x/", visit), nullptr);
  EXPECT_EQ(seen, (std::vector<std::string>{"c", "b", "d"}));
  EXPECT_EQ(store.first(index, "x/", [](const Claim& c) { return c.metadata.name != "c"; })->metadata.name, "b");
  EXPECT_EQ(store.first(index, "z/", visit), nullptr);
}

TEST(StoreTest, First_SeesChangesMadeDuringAVisit) {
  Store<Claim> store;
  const int index = store.addIndex([](const Claim& c, const Emit& emit) { emit(c.status.phase); });
  for (const auto* name : {"a", "b", "c"}) store.informed(claim(name, name, 1, "x"));
  std::vector<std::string> seen;
  store.first(index, "x", [&](const Claim& c) {
    seen.push_back(c.metadata.name);
    if (seen.size() > 1) return false;
    store.observedGone({"ns", "a"}, "a");
    store.informed(claim("b", "b", 2, "y"));
    store.informed(claim("d", "d", 3, "xx"));
    return false;
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "c", "d"}));
}

TEST(StoreTest, AnObjectIsFoundUnderEachOfItsValuesAndUnderNoOther) {
  Store<Gpu> store;
  const int byCard = store.addIndex([](const Gpu& d, const Emit& emit) {
    for (const auto& card : d.spec.cards) emit(card.name);
  });
  Gpu device;
  device.metadata = claim("d", "u", 1).metadata;
  device.metadata.namespace_.clear();
  for (const auto* name : {"c1", "c2", "c1"}) device.spec.cards.emplace_back().name = name;
  store.informed(device);
  EXPECT_EQ(store.find(byCard, "c1").size(), 1u);
  EXPECT_EQ(store.find(byCard, "c2").size(), 1u);
  EXPECT_FALSE(store.any(byCard, "c3"));
  device.metadata.resourceVersion = "2";
  device.spec.cards.erase(device.spec.cards.begin(), device.spec.cards.begin() + 2);  // only c1 remains
  store.informed(device);
  EXPECT_TRUE(store.any(byCard, "c1"));
  EXPECT_FALSE(store.any(byCard, "c2"));
}

TEST(StoreTest, AVisitSeesWhatHappenedDuringTheOneBefore) {
  Store<Claim> store;
  for (const auto* name : {"a", "b", "c"}) store.informed(claim(name, name, 1, "Pending"));
  std::vector<std::string> seen;
  store.forEach([&](const auto& c) {
    if (seen.empty()) {
      store.observedGone({"ns", "a"}, "a");
      store.observedGone({"ns", "b"}, "b");
      store.informed(claim("c", "c", 2, "Bound"));
    }
    seen.push_back(c->metadata.name + " " + c->status.phase);
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"a Pending", "c Bound"}));
}

TEST(StoreTest, AnotherObjectMayTakeTheNameOfOneThatWent) {
  Store<Claim> store;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i)
      store.informed(claim("c" + std::to_string(i), "u" + std::to_string(round * 100 + i), round * 1000 + i));
    ASSERT_EQ(store.size(), 100u);
    for (int i = 0; i < 100; i += 2)
      store.informedGone(claim("c" + std::to_string(i), "u" + std::to_string(round * 100 + i), round * 1000 + 500 + i));
    ASSERT_EQ(store.size(), 50u);
    int visited = 0;
    store.forEach([&](const auto& c) {
      ++visited;
      EXPECT_EQ(c->metadata.uid, store.get(core::keyOf(c->metadata))->metadata.uid);
    });
    EXPECT_EQ(visited, 50);
  }
}

TEST(StoreTest, ReadersSeeWholeObjectsWhileOthersWrite) {
  Store<Claim> store;
  const int byClass = store.addIndex([](const Claim& c, const Emit& emit) { emit(c.spec.className); });
  std::atomic<int> heard{0};
  store.listen([&](const Claim* before, const Claim* after) {
    if (before != nullptr && after != nullptr && before->metadata.name == after->metadata.name) ++heard;
  });
  // Class and phase of an object follow from its version.
  const auto state = [](int name, int version) {
    auto c = claim("c" + std::to_string(name), "u" + std::to_string(name), version, "p" + std::to_string(version % 3));
    c.spec.className = "class-" + std::to_string(version % 3);
    return c;
  };
  const auto whole = [](const Claim& c) {
    const auto third = std::to_string(versionOf(c.metadata.resourceVersion) % 3);
    return c.spec.className == "class-" + third && c.status.phase == "p" + third &&
           c.metadata.uid.substr(1) == c.metadata.name.substr(1);
  };
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  std::vector<std::jthread> threads;
  for (int reader = 0; reader < 2; ++reader)
    threads.emplace_back([&] {
      while (!done) {
        if (auto one = store.get({"ns", "c1"}); one && !whole(*one)) ++torn;
        for (const auto& one : store.find(byClass, "class-1"))
          if (!whole(*one) || one->spec.className != "class-1") ++torn;
        store.forEach([&](const auto& one) { torn += whole(*one) ? 0 : 1; });
      }
    });
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 2; ++writer)
      writers.emplace_back([&, writer] {
        for (int version = 1; version <= 300; ++version)
          for (int name = 0; name < 8; ++name)
            if (writer == 0)
              store.informed(state(name, version));
            else
              store.observed(state(name, version + version % 2));
      });
  }
  done = true;
  threads.clear();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(heard, 0);
  EXPECT_EQ(store.size(), 8u);
  store.forEach([&](const auto& one) { EXPECT_EQ(versionOf(one->metadata.resourceVersion), 300u); });
}

TEST(StoresTest, AClaimsDevicesAreFoundUnderWhateverName) {
  Stores stores;
  const auto add = [&](const std::string& name, const std::string& claimUid) {
    Gpu device;
    device.metadata = claim(name, "uid of " + name, 1).metadata;
    device.metadata.namespace_.clear();
    device.spec.claimRef = v1alpha::ClaimRef{"ns", "a", claimUid};
    stores.devices.informed(device);
  };
  add("egpu-u1", "u1");
  add("by-hand", "u1");
  add("egpu-u2", "u3");  // u2 is gone, and its device was given to u3
  std::set<std::string> names;
  for (const auto& device : stores.devicesOfClaim("u1")) names.insert(device->metadata.name);
  EXPECT_EQ(names, (std::set<std::string>{"by-hand", "egpu-u1"}));
  EXPECT_TRUE(stores.devicesOfClaim("u2").empty());
  ASSERT_EQ(stores.devicesOfClaim("u3").size(), 1u);
  EXPECT_EQ(stores.devicesOfClaim("u3").front()->metadata.name, "egpu-u2");
}

TEST(StoresTest, FirstPodOfAClaim_ByPriorityOrAge) {
  Stores stores;
  const auto add = [&](const std::string& name, int64_t priority, const std::string& created,
                       const std::string& claims) {
    core::Pod pod;
    pod.metadata.namespace_ = "ns";
    pod.metadata.name = name;
    pod.metadata.uid = "uid-" + name;
    pod.metadata.resourceVersion = "1";
    pod.metadata.creationTimestamp = "2026-01-01T00:00:" + created + "Z";
    pod.metadata.annotations["egpuc.elasticgpu.io/gpu"] = claims;
    pod.priority = priority;
    core::PodResourceClaim entry;
    entry.name = "gpu";
    entry.resourceClaimName = claims;
    pod.resourceClaims.push_back(entry);
    stores.observed(pod);
  };
  add("a", -5, "01", "c");
  add("b", 2'000'000'000, "03", "c");
  add("d", 7, "02", "c");
  add("e", 2'000'000'001, "00", "c2");  // of another claim whose name begins alike
  const auto any = [](const core::Pod&) { return true; };
  const auto names = [&](auto first) {
    std::vector<std::string> seen;
    (stores.*first)({"ns", "c"}, [&](const core::Pod& pod) {
      seen.push_back(pod.metadata.name);
      return false;
    });
    return seen;
  };
  EXPECT_EQ(names(&Stores::firstPodByPriority), (std::vector<std::string>{"b", "d", "a"}));
  EXPECT_EQ(names(&Stores::firstPodByAge), (std::vector<std::string>{"a", "d", "b"}));
  EXPECT_EQ(stores.firstPodByAge({"ns", "absent"}, any), nullptr);
}

TEST(StoresTest, OpenClaimsAreThoseThatAreNotBound) {
  Stores stores;
  auto c = claim("a", "u", 1, "Pending");
  c.spec.className = "share";
  stores.claims.informed(c);
  EXPECT_EQ(stores.openClaimsOfClass("share").size(), 1u);
  c.metadata.resourceVersion = "2";
  c.status.phase = "Bound";
  stores.claims.informed(c);
  EXPECT_TRUE(stores.openClaimsOfClass("share").empty());
}

TEST(StoresTest, WhatNobodyReadsIsLeftOut) {
  Stores stores;
  int notified = 0;
  stores.claims.listen([&](const Claim*, const Claim*) { ++notified; });
  auto c = claim("a", "u", 1, "Bound");
  c.metadata.labels = {{"team", "x"}};
  c.status.capacity = {{"core", "10%"}};
  for (int list = 0; list < 2; ++list) {
    stores.claims.listBegins();
    stores.claims.listed(c);
    stores.claims.listEnds("5");
  }
  EXPECT_EQ(notified, 1);  // a change of ignored fields is no change
  const auto stored = stores.claims.get({"ns", "a"});
  EXPECT_TRUE(stored->metadata.labels.empty());
  EXPECT_EQ(stored->status, c.status);
}

}  // namespace
}  // namespace egpu::cache

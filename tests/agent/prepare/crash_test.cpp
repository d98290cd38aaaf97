// The agent dies before and after every step of preparer.h, and a new agent takes over.
#include "tests/agent/prepare/fixture.h"

namespace egpu::agent {
namespace {

struct Died {};

/// Counts steps; the process dies at the chosen one.
class DeathPoint {
 public:
  int at = -1;         ///< number of the step, from 0; -1 = immortal
  bool after = false;  ///< the step is still done
  int count = 0;
  bool dead = false;
  std::vector<std::string> names;

  template <class F>
  auto pass(const std::string& name, const F& effect) -> decltype(effect()) {
    begin(name);
    auto out = effect();
    end();
    return out;
  }
  void begin(const std::string& name) {
    if (dead) throw Died();
    names.push_back(name);
    if (count == at && !after) die();
  }
  void end() {
    if (count == at && after) die();
    ++count;
  }

 private:
  void die() {
    dead = true;
    throw Died();
  }
};

class MortalFolder final : public cdi::Folder {
 public:
  MortalFolder(std::string path, DeathPoint& death) : Folder(std::move(path)), death_(death) {}
  using Folder::write;
  base::Status write(cdi::Draft draft) override {
    return death_.pass("write", [&] { return Folder::write(std::move(draft)); });
  }
  base::Status publish(const std::string& uid) override {
    return death_.pass("publish", [&] { return Folder::publish(uid); });
  }
  base::Status withdraw(const std::string& uid) override {
    return death_.pass("withdraw", [&] { return Folder::withdraw(uid); });
  }
  base::Status removePart(const std::string& uid) override {
    return death_.pass("remove", [&] { return Folder::removePart(uid); });
  }

 private:
  DeathPoint& death_;
};

class CrashTest : public PrepareTest {
 protected:
  CrashTest() {
    plugin.around = [this](const std::string& call, bool after) {
      if (after)
        death.end();
      else
        death.begin(call);
    };
  }
  /// Runs `life` in a process that dies at that step.
  void dyingAt(int step, bool after, const std::function<void(ClaimPreparer&)>& life) {
    death = {};
    death.at = step;
    death.after = after;
    MortalFolder mortal(folder.path(), death);
    ClaimPreparer dying(client, registry, events, mortal, options);
    EXPECT_THROW(life(dying), Died);
    death = {};
  }
  /// Runs `life` in the next process.
  void next(const std::function<void(ClaimPreparer&)>& life) {
    cdi::Folder again(folder.path());
    ASSERT_TRUE(again.open().ok());
    ClaimPreparer fresh(client, registry, events, again, options);
    life(fresh);
  }
  std::vector<std::string> stepsOf(const std::function<void(ClaimPreparer&)>& life) {
    death = {};
    MortalFolder counted(folder.path(), death);
    ClaimPreparer living(client, registry, events, counted, options);
    life(living);
    return death.names;
  }
  void expectNothing() {
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(plugin.staged(), 0U);
  }
  void expectPrepared(const ClaimRef& claim) {
    EXPECT_EQ(files(), Calls{fileOf(uidOf(claim))});
    EXPECT_EQ(plugin.staged(), 1U);
    EXPECT_EQ(folder.find(uidOf(claim))->value().spec->edits.deviceNodes.size(), 1U);
  }
  /// Dies right after that step of prepare, leaving `file` and `staged`. Every possible continuation repairs the state.
  void prepareDiesAfter(int step, const std::string& suffix, std::size_t staged) {
    const auto claim = claimed("a");
    const auto prepare = [&](ClaimPreparer& p) { EXPECT_TRUE(p.prepare(claim, {}).ok()); };
    const auto leaves = [&] {
      EXPECT_EQ(files(), Calls{fileOf(uidOf(claim)) + suffix});
      EXPECT_EQ(plugin.staged(), staged);
    };
    dyingAt(step, true, prepare);
    leaves();
    next(prepare);  // the kubelet calls again
    expectPrepared(claim);
    setState("a", "terminated");
    next([&](ClaimPreparer& p) { EXPECT_TRUE(p.unprepare(claim, {}).ok()); });
    expectNothing();

    dyingAt(step, true, prepare);
    leaves();
    next([&](ClaimPreparer& p) { EXPECT_TRUE(p.unprepare(claim, {}).ok()); });  // its pod was deleted meanwhile
    expectNothing();

    dyingAt(step, true, prepare);
    world.removePod("a");  // and the kubelet has forgotten it
    next([&](ClaimPreparer& p) { EXPECT_TRUE(p.garbageCollect({}).ok()); });
    expectNothing();
  }
  void unprepareDiesAfter(int step, const Calls& left, std::size_t staged) {
    const auto claim = claimed("a");
    const auto unprepare = [&](ClaimPreparer& p) { EXPECT_TRUE(p.unprepare(claim, {}).ok()); };
    const std::string uid = uidOf(claim);
    const auto die = [&] {
      next([&](ClaimPreparer& p) { EXPECT_TRUE(p.prepare(claim, {}).ok()); });
      dyingAt(step, true, unprepare);
      EXPECT_EQ(files(), left.empty() ? Calls{} : Calls{fileOf(uid) + left[0]});
      EXPECT_EQ(plugin.staged(), staged);
    };
    die();
    next(unprepare);  // the kubelet calls again
    expectNothing();
    die();
    next([&](ClaimPreparer& p) { EXPECT_TRUE(p.prepare(claim, {}).ok()); });  // for another pod
    expectPrepared(claim);
    next(unprepare);
    die();
    world.removePod("a");
    next([&](ClaimPreparer& p) { EXPECT_TRUE(p.garbageCollect({}).ok()); });
    expectNothing();
  }

  DeathPoint death;
};

TEST_F(CrashTest, TheStepsAreThoseOfTheTable) {
  const auto claim = claimed("a");
  EXPECT_EQ(stepsOf([&](ClaimPreparer& p) { (void)p.prepare(claim, {}); }),
            (Calls{"write", "stage", "mount", "write", "publish"}));
  EXPECT_EQ(stepsOf([&](ClaimPreparer& p) { (void)p.prepare(claim, {}); }), Calls{}) << "(P5)";
  EXPECT_EQ(stepsOf([&](ClaimPreparer& p) { (void)p.unprepare(claim, {}); }),
            (Calls{"withdraw", "unmount", "unstage", "remove"}));
}

TEST_F(CrashTest, P1_DiesWithThePartWritten) { prepareDiesAfter(0, ".part", 0); }
TEST_F(CrashTest, P2_DiesWithTheDeviceStaged) { prepareDiesAfter(1, ".part", 1); }
TEST_F(CrashTest, P3_DiesWithTheEditsAsked) { prepareDiesAfter(2, ".part", 1); }
TEST_F(CrashTest, P3_DiesWithTheEditsWritten) { prepareDiesAfter(3, ".part", 1); }
TEST_F(CrashTest, P4_DiesBeforeItAnswers) { prepareDiesAfter(4, "", 1); }
TEST_F(CrashTest, U1_DiesWithTheFileTakenAway) { unprepareDiesAfter(0, {".part"}, 1); }
TEST_F(CrashTest, U2_DiesUnmounted) { unprepareDiesAfter(1, {".part"}, 1); }
TEST_F(CrashTest, U3_DiesUnstaged) { unprepareDiesAfter(2, {".part"}, 0); }
TEST_F(CrashTest, U4_DiesBeforeItAnswers) { unprepareDiesAfter(3, {}, 0); }

TEST_F(CrashTest, AtEveryStepBeforeAndAfterTheKubeletsRepetitionMendsIt) {
  const auto a = claimed("a"), b = claimed("b");
  const auto life = [&](ClaimPreparer& p) {
    for (const auto& claim : {a, b}) EXPECT_TRUE(p.prepare(claim, {}).ok());
    EXPECT_TRUE(p.unprepare(a, {}).ok());
    EXPECT_TRUE(p.prepare(a, {}).ok());
    EXPECT_TRUE(p.unprepare(b, {}).ok());
    EXPECT_TRUE(p.unprepare(a, {}).ok());
  };
  const int steps = static_cast<int>(stepsOf(life).size());
  ASSERT_EQ(steps, 3 * 5 + 3 * 4);
  for (int step = 0; step < steps; ++step)
    for (const bool after : {false, true}) {
      SCOPED_TRACE(std::to_string(step) + (after ? " after" : " before"));
      dyingAt(step, after, life);
      next(life);
      expectNothing();
    }
}

TEST_F(CrashTest, AtEveryStepTheFenceCountsWhatMayBeStaged) {
  const auto large = claimed("a", "60");
  for (int step = 0; step < 5; ++step) {
    dyingAt(step, true, [&](ClaimPreparer& p) { (void)p.prepare(large, {}); });
    const auto entries = folder.list();
    ASSERT_TRUE(entries.ok());
    int64_t held = 0;
    for (const auto& entry : *entries)
      for (const auto& share : entry.spec->cards) held += share.chargedCore;
    EXPECT_EQ(held, 600) << step;
  }
}

}  // namespace
}  // namespace egpu::agent

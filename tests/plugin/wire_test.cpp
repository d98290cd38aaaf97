#include "controller/plugin/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace egpu::plugin::wire {
namespace {

Call someCall() {
  Call c;
  c.slot = Slot::mount;
  c.key = "key";
  c.deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(123456789012345));
  c.device = {"key",
              "egpu-key",
              "ns/claim",
              "node",
              {{"GPU-0", "m", 3, 100, -1, int64_t{1} << 40, "0000:3b:00.0", "1g.5gb+me", {0x181}}},
              {{"a", "b"}, {"c", ""}}};
  c.parameters = {{"isolation", "none"}};
  c.pod = "ns/pod";
  c.container = "main";
  c.device.resizeNumber = 7;
  c.device.source = {"q0", {"/dev/q0", "/dev/q1"}, ""};
  c.device.capacity = {{"gpu", "2"}};
  c.wish = {"ns/claim", {{"n0", c.device.cards}, {"n1", {}}}, {{"a", "b"}}};
  return c;
}

Answer someAnswer() {
  Answer a;
  a.outcome = ReplyCode::reschedule;
  a.message = "grüße";
  a.description = {"a.b", "1", "mig", "Enforced", true, true};
  a.keys = {"k1", "k2"};
  a.edits = {{{"A", "1"}}, {{"/dev/x", "/dev/y", "rwm"}}, {{"/h", "/c", {"ro", "bind"}}}, {"v/c=n"}};
  a.gpus = {{"GPU-0",
             "m",
             1,
             2,
             3,
             -1,
             "0000:01:00.0",
             19500,
             {{"GPU-1", "nvlink", 2}},
             {{"driverVersion", "1"}},
             {{"1g.5gb", 5 << 20, 1, 1, {0x7f}, false}, {"7g.40gb", 40 << 20, 7, 8, {1}, true}}},
            {"GPU-1", "", -1, 0, 0, -1, ""}};
  a.health = {{"GPU-0", false, "xid 79"}};
  a.processes = {{"GPU-0", 4711, 1 << 20, 35}, {"GPU-0", 12, -1, -1}};
  a.use = {{"GPU-0", int64_t{3} << 30, 100, 2}, {"GPU-1", -1, -1, -1}};
  a.order = {2, 0};
  a.vetoes = {{1, "not there"}};
  a.isolation = {"mps", "Soft", "Soft", "None", "None"};
  a.source = {"", {"/dev/q0"}, "10.0.0.1:7000"};
  return a;
}

/// Parses bytes that hold exactly one frame.
Frame only(FrameBuffer& buffer, const std::string& bytes) {
  buffer.append(bytes);
  const auto frame = buffer.next();
  EXPECT_TRUE(frame.has_value());
  return frame.value_or(Frame{});
}

TEST(WireTest, CallsComeBackAsTheyWere) {
  FrameBuffer buffer;
  const Frame frame = only(buffer, encodeCall(42, someCall()));
  EXPECT_EQ(frame.type, Type::call);
  EXPECT_EQ(frame.id, 42u);
  Call c;
  ASSERT_TRUE(decode(frame.body, c));
  const Call want = someCall();
  EXPECT_EQ(c.slot, want.slot);
  EXPECT_EQ(c.key, want.key);
  EXPECT_EQ(c.deadline, want.deadline);
  EXPECT_EQ(c.device.cards, want.device.cards);
  EXPECT_EQ(c.device.parameters, want.device.parameters);
  EXPECT_EQ(c.device.node, want.device.node);
  EXPECT_EQ(c.device.resizeNumber, want.device.resizeNumber);
  EXPECT_EQ(c.device.source, want.device.source);
  EXPECT_EQ(c.device.capacity, want.device.capacity);
  EXPECT_EQ(c.parameters, want.parameters);
  EXPECT_EQ(c.pod, want.pod);
  EXPECT_EQ(c.container, want.container);
  EXPECT_EQ(c.wish.claim, want.wish.claim);
  EXPECT_EQ(c.wish.candidates, want.wish.candidates);
  EXPECT_EQ(c.wish.parameters, want.wish.parameters);
}

TEST(WireTest, AnswersComeBackAsTheyWere) {
  FrameBuffer buffer;
  const Frame frame = only(buffer, encodeAnswer(7, someAnswer()));
  Answer a;
  ASSERT_TRUE(decode(frame.body, a));
  const Answer want = someAnswer();
  EXPECT_EQ(a.outcome, want.outcome);
  EXPECT_EQ(a.message, want.message);
  EXPECT_EQ(a.description, want.description);
  EXPECT_EQ(a.keys, want.keys);
  EXPECT_EQ(a.edits, want.edits);
  EXPECT_EQ(a.gpus, want.gpus);
  EXPECT_EQ(a.health, want.health);
  EXPECT_EQ(a.processes, want.processes);
  EXPECT_EQ(a.use, want.use);
  EXPECT_EQ(a.order, want.order);
  EXPECT_EQ(a.vetoes, want.vetoes);
  EXPECT_EQ(a.isolation, want.isolation);
  EXPECT_EQ(a.source, want.source);
}

TEST(WireTest, ConfinedComesBackAsItWas) {
  FrameBuffer buffer;
  const Frame frame = only(buffer, encodeConfined({7, "it could use the network"}));
  EXPECT_EQ(frame.type, Type::confined);
  Confined got;
  ASSERT_TRUE(decode(frame.body, got));
  EXPECT_EQ(got.version, 7u);
  EXPECT_EQ(got.gaps, "it could use the network");
  EXPECT_FALSE(decode(frame.body.substr(1), got));
}

TEST(WireTest, HelloComesBackAsItWas) {
  Hello h;
  h.error = "it was built for ABI version 2";
  FrameBuffer buffer;
  const Frame frame = only(buffer, encodeHello(h));
  Hello got;
  ASSERT_TRUE(decode(frame.body, got));
  EXPECT_FALSE(got.loaded);
  EXPECT_EQ(got.error, h.error);
}

TEST(WireTest, FramesAreCutAtAnyByte) {
  const std::string stream = encodeCall(1, someCall()) + encodeCancel(1) + encodeAnswer(2, someAnswer());
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameBuffer buffer;
    std::vector<uint64_t> ids;
    for (const std::string& part : {stream.substr(0, cut), stream.substr(cut)}) {
      buffer.append(part);
      while (const auto frame = buffer.next()) ids.push_back(frame->id);
    }
    EXPECT_EQ(ids, (std::vector<uint64_t>{1, 1, 2})) << "cut at " << cut;
    EXPECT_FALSE(buffer.broken());
  }
}

TEST(WireTest, ATruncatedOrPaddedBodyIsRefused) {
  FrameBuffer buffer;
  const std::string bytes = encodeAnswer(7, someAnswer());
  const std::string body(only(buffer, bytes).body);
  Answer a;
  for (std::size_t n = 0; n < body.size(); ++n) EXPECT_FALSE(decode(body.substr(0, n), a)) << n;
  EXPECT_FALSE(decode(body + "x", a));
  Call c;
  EXPECT_FALSE(decode(body, c));
}

TEST(WireTest, ABadLengthOrTypeBreaksTheStream) {
  for (const std::string& bad : {std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4),
                                 std::string("\x09\0\0\0\x09\0\0\0\0\0\0\0\0", 13)}) {
    FrameBuffer buffer;
    buffer.append(bad);
    EXPECT_FALSE(buffer.next().has_value());
    EXPECT_TRUE(buffer.broken());
    buffer.append(encodeCancel(1));
    EXPECT_FALSE(buffer.next().has_value()) << "a broken stream stays broken";
  }
}

TEST(WireTest, ANulInATextIsRefused) {
  Call c = someCall();
  c.key = std::string("a\0b", 3);
  FrameBuffer buffer;
  Call got;
  EXPECT_FALSE(decode(only(buffer, encodeCall(1, c)).body, got));
}

TEST(WireTest, NoiseIsSurvived) {
  std::mt19937 random(1);
  const std::string good = encodeAnswer(7, someAnswer()) + encodeCall(1, someCall());
  std::size_t decoded = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      bytes[4 + random() % (bytes.size() - 4)] = static_cast<char>(random());
    FrameBuffer buffer;
    buffer.append(bytes);
    while (const auto frame = buffer.next()) {
      Answer a;
      Call c;
      Hello h;
      Confined s;
      decoded += decode(frame->body, a) + decode(frame->body, c) + decode(frame->body, h) + decode(frame->body, s);
    }
  }
  EXPECT_GT(decoded, 0u) << "the noise spoils everything: it tries nothing";
}

}  // namespace
}  // namespace egpu::plugin::wire

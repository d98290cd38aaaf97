// The frames between the controller and egpu-plugin-host: little-endian, length-prefixed, bounded. Both sides validate
// all lengths.
//
//   frame  = u32 length of the rest, u8 type, u64 request id, body
//   text   = u32 length, bytes;  list = u32 count, items
//
// host → controller: confined (once, first), hello (once, next), answer.   controller → host: call, cancel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "controller/plugin/call.h"

namespace egpu::plugin::wire {

inline constexpr uint32_t kVersion = 11;
inline constexpr std::size_t kMaxFrame = 16u << 20;

enum class Type : uint8_t { hello = 1, call = 2, answer = 3, cancel = 4, confined = 5 };

struct Frame {
  Type type = Type::hello;
  uint64_t id = 0;
  std::string_view body;  ///< points into the FrameBuffer; valid until its next append
};

/// First message of the host, sent before the plugin's code can write to the same socket.
struct Confined {
  uint32_t version = kVersion;
  std::string gaps;  ///< gaps of the sandbox; empty = none
};

/// Result of loading the plugin.
struct Hello {
  bool loaded = false;
  std::string error;  ///< why the plugin was not loaded
  Description description;
};

/// Encode complete frames, ready to be sent.
std::string encodeConfined(const Confined& confined);
std::string encodeHello(const Hello& hello);
std::string encodeCall(uint64_t id, const Call& call);
std::string encodeAnswer(uint64_t id, const Answer& answer);
std::string encodeCancel(uint64_t id);

/// False if the body is not exactly one such value; `out` is then unspecified.
bool decode(std::string_view body, Confined& out);
bool decode(std::string_view body, Hello& out);
bool decode(std::string_view body, Call& out);
bool decode(std::string_view body, Answer& out);

/// Splits a byte stream into frames. Not thread-safe.
class FrameBuffer {
 public:
  void append(std::string_view bytes);
  /// Returns the next complete frame; nullopt if more bytes are needed or the stream is broken.
  std::optional<Frame> next();
  /// True after an invalid length or type; no further frame can be read.
  bool broken() const { return broken_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
  bool broken_ = false;
};

}  // namespace egpu::plugin::wire

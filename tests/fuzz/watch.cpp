#include "controller/codec/codec.h"
#include "controller/kube/line_framer.h"
#include "tests/fuzz/targets.h"

namespace egpu::testing {

namespace {

template <class T>
void oneEvent(std::string_view line) {
  const auto event = codec::decodeWatchEvent<T>(line);
  static codec::WatchEvent<T> used;  // holds the previous line
  promise(codec::decodeWatchEvent(line, used).ok() == event.ok(), "what came before doesn't decide");
  if (!event) {
    promise(event.status().code() == base::Code::malformed, "what is no event is malformed");
    return;
  }
  promise((event->type == codec::EventType::error) == !event->error.ok(), "an error, and only that, has a status");
  if (event->type == codec::EventType::error) return;
  const std::string json = codec::encode(event->object);
  promise(codec::encode(used.object) == json, "nothing is left of what came before");
  const auto again = codec::decode<T>(json);
  promise(again.ok(), "what encode writes decodes");
  promise(codec::encode(*again) == json, "encode after decode is the same text");
}

template <class T>
void oneList(std::string_view json) {
  std::size_t count = 0;
  const auto meta = codec::decodeList<T>(json, [&](T&&) { ++count; });
  promise(meta.ok() || meta.status().code() == base::Code::malformed, "what is no list is malformed");
}

}  // namespace

void fuzzWatch(std::string_view bytes) {
  if (bytes.empty()) return;
  // The first byte determines the chunk size; every chunk size must give the same lines.
  const std::size_t step = static_cast<unsigned char>(bytes[0]) % 32 + 1;
  const std::string_view stream = bytes.substr(1);
  constexpr std::size_t cap = 4096;
  std::string whole;
  std::string pieces;
  kube::LineFramer once(cap);
  const bool wholeGood = once.feed(stream, [&](std::string_view line) {
    whole.append(line).append("\n");
    oneEvent<v1alpha::ElasticGPUClaim>(line);
    oneEvent<v1alpha::ElasticGPU>(line);
    oneEvent<v1alpha::ElasticGPUClaimTemplate>(line);
    oneEvent<v1alpha::ElasticGPUQuota>(line);
    oneEvent<core::ResourceClaimTemplate>(line);
    oneEvent<core::Pod>(line);
    oneEvent<core::ResourceClaim>(line);
    return true;
  });
  kube::LineFramer cut(cap);
  bool cutGood = true;
  for (std::size_t at = 0; cutGood && at < stream.size(); at += step)
    cutGood = cut.feed(stream.substr(at, step), [&](std::string_view line) {
      pieces.append(line).append("\n");
      return true;
    });
  promise(wholeGood == cutGood && whole == pieces, "lines do not depend on how the stream is cut");
  promise(once.overflowed() == !wholeGood, "only a line too long ends the framing");

  oneList<v1alpha::ElasticGPUClass>(stream);
  oneList<v1alpha::ElasticGPUClaimTemplate>(stream);
  oneList<v1alpha::ElasticGPUQuota>(stream);
  oneList<core::Node>(stream);
  const auto status = codec::decodeStatus(200 + static_cast<int>(step) * 10, stream);
  promise(!status.ok(), "a server's refusal is never a success");
}

}  // namespace egpu::testing

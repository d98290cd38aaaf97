#include "controller/kubectl/bundle/archive.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace egpu::kubectl {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kName = 99;
// Offsets and lengths of the fields of a ustar header.
constexpr std::size_t kMode = 100, kOwner = 108, kGroup = 116, kSize = 124, kTime = 136, kSum = 148, kType = 156,
                      kMagic = 257;

void put(std::array<char, kBlock>& header, std::size_t at, const char* format, unsigned long long value) {
  std::array<char, 16> text{};
  const int length = std::snprintf(text.data(), text.size(), format, value);
  std::copy_n(text.begin(), length, header.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

void Archive::add(const std::string& name, const std::string& content) {
  std::array<char, kBlock> header{};
  std::copy_n(name.begin(), std::min(name.size(), kName), header.begin());
  put(header, kMode, "%07llo", 0644);
  put(header, kOwner, "%07llo", 0);
  put(header, kGroup, "%07llo", 0);
  put(header, kSize, "%011llo", content.size());
  put(header, kTime, "%011llo", static_cast<unsigned long long>(std::max<int64_t>(0, time_)));
  header[kType] = '0';
  const std::string magic("ustar\00000", 8);
  std::copy(magic.begin(), magic.end(), header.begin() + kMagic);
  std::fill_n(header.begin() + kSum, 8, ' ');
  unsigned long long sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(header, kSum, "%06llo", sum);
  header[kSum + 6] = '\0';
  tar_.append(header.data(), header.size());
  tar_ += content;
  tar_.append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

base::Result<std::string> Archive::finish() {
  constexpr int kGzip = 15 + 16, kMemory = 8;
  tar_.append(2 * kBlock, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    return base::Status(base::Code::internal, "zlib: out of memory");
  std::string out(deflateBound(&stream, tar_.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar_.data());
  stream.avail_in = static_cast<uInt>(tar_.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return base::Status(base::Code::internal, "zlib: the archive is not complete");
  return out;
}

}  // namespace egpu::kubectl

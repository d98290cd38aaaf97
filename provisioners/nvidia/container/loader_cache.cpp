#include "provisioners/nvidia/container/loader_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace egpu::nvidia {
namespace {

// Format of glibc 2.2 and later. The older format may precede it; its entries contain the same libraries.
constexpr std::string_view kOldMagic = "ld.so-1.7.0", kMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kOldHeader = 16, kOldEntry = 12, kHeader = 48, kEntry = 24, kAlignment = 8;
constexpr std::size_t kMaxLength = 4096;  // maximum length of a text

/// Flags of an entry: ELF for glibc 2, and the architecture of the 64-bit programs.
#if defined(__aarch64__)
constexpr uint32_t kFlags = 0x0a03;
#else
constexpr uint32_t kFlags = 0x0303;
#endif

/// Reads a number. The caller must ensure that it is within `bytes`.
uint32_t numberAt(std::string_view bytes, std::size_t at) {
  uint32_t out = 0;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

/// Reads a NUL-terminated text; empty if its end is not within `bytes`.
std::string textAt(std::string_view bytes, std::size_t at) {
  if (at >= bytes.size()) return {};
  const std::string_view text = bytes.substr(at, kMaxLength);
  const std::size_t end = text.find('\0');
  return std::string(end == std::string_view::npos ? "" : text.substr(0, end));
}

bool can(const NamedLibrary& library) {
  const auto printable = [](unsigned char c) { return c > ' ' && c != 0x7f; };
  return !library.name.empty() && library.name.find('/') == std::string::npos && library.path.substr(0, 1) == "/" &&
         std::all_of(library.name.begin(), library.name.end(), printable) &&
         std::all_of(library.path.begin(), library.path.end(), printable);
}

}  // namespace

std::vector<NamedLibrary> readLoaderCache(std::string_view bytes) {
  std::vector<NamedLibrary> out;
  if (bytes.size() >= kOldHeader && bytes.substr(0, kOldMagic.size()) == kOldMagic) {
    const std::size_t old = kOldHeader + std::size_t{numberAt(bytes, kOldHeader - 4)} * kOldEntry;
    bytes.remove_prefix(std::min(bytes.size(), (old + kAlignment - 1) / kAlignment * kAlignment));
  }
  if (bytes.size() < kHeader || bytes.substr(0, kMagic.size()) != kMagic) return out;
  const std::size_t count = std::min<std::size_t>(numberAt(bytes, kMagic.size()), (bytes.size() - kHeader) / kEntry);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = kHeader + i * kEntry;
    if (numberAt(bytes, at) != kFlags) continue;
    NamedLibrary library{textAt(bytes, numberAt(bytes, at + 4)), textAt(bytes, numberAt(bytes, at + 8))};
    if (can(library)) out.push_back(std::move(library));
  }
  return out;
}

}  // namespace egpu::nvidia

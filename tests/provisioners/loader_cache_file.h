// Writes /etc/ld.so.cache for a simulated machine, as ldconfig would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace egpu::plugin::testing {

#if defined(__aarch64__)
inline constexpr uint32_t kHere = 0x0a03;
#define EGPU_MULTIARCH "aarch64-linux-gnu"
#else
inline constexpr uint32_t kHere = 0x0303;
#define EGPU_MULTIARCH "x86_64-linux-gnu"
#endif

struct CachedLibrary {
  std::string name, path;
  uint32_t flags = kHere;
};

inline void addNumber(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xff);
}

/// Returns a cache in glibc's format 1.1, which exists since glibc 2.2. `old`: preceded by a cache in the earlier
/// format, as ldconfig wrote it until 2.31.
inline std::string loaderCache(const std::vector<CachedLibrary>& libraries, bool old = false) {
  constexpr uint32_t kHeader = 48, kEntry = 24;
  std::string entries, texts;
  const auto text = [&](const std::string& what) {
    const auto at = kHeader + kEntry * libraries.size() + texts.size();
    texts += what + '\0';
    return static_cast<uint32_t>(at);
  };
  for (const auto& library : libraries) {
    addNumber(entries, library.flags);
    addNumber(entries, text(library.name));
    addNumber(entries, text(library.path));
    entries.append(12, '\0');  // OS version, hardware
  }
  std::string out;
  if (old) {
    out = std::string("ld.so-1.7.0") + '\0';
    addNumber(out, 1);
    out.append(12 + 4, 'o');  // one entry, and padding to a multiple of eight
  }
  out += "glibc-ld.so.cache1.1";
  addNumber(out, static_cast<uint32_t>(libraries.size()));
  addNumber(out, static_cast<uint32_t>(texts.size()));
  return out.append(20, '\0') + entries + texts;
}

}  // namespace egpu::plugin::testing

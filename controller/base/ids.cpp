#include "controller/base/ids.h"

#include <random>

namespace egpu::base {

struct Random::Twister : std::mt19937_64 {};

Random::Random() : twister_(std::make_unique<Twister>()) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  twister_->seed(seed);
}
Random::Random(uint64_t seed) : twister_(std::make_unique<Twister>()) { twister_->seed(seed); }
Random::~Random() = default;

uint64_t Random::below(uint64_t bound) {
  if (bound == 0) return 0;
  MutexLock lock(mutex_);
  return std::uniform_int_distribution<uint64_t>(0, bound - 1)(*twister_);
}

double Random::unit() {
  MutexLock lock(mutex_);
  return std::uniform_real_distribution<double>(0.0, 1.0)(*twister_);
}

std::string Random::uuid() {
  uint64_t hi = 0, lo = 0;
  {
    MutexLock lock(mutex_);
    hi = (*twister_)();
    lo = (*twister_)();
  }
  hi = (hi & 0xffffffffffff0fffULL) | 0x4000ULL;
  lo = (lo & 0x3fffffffffffffffULL) | 0x8000000000000000ULL;
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) out += '-';
    const uint64_t word = i < 16 ? hi : lo;
    out += hex[(word >> (60 - 4 * (i % 16))) & 0xf];
  }
  return out;
}

std::string Random::suffix(std::size_t n) {
  static constexpr std::string_view alphabet = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  while (out.size() < n) out += alphabet[below(alphabet.size())];
  return out;
}

std::string hexDigest(std::string_view text) {
  uint64_t h = 14695981039346656037ULL;
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ULL;
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (int i = 60; i >= 0; i -= 4) out += hex[(h >> i) & 0xf];
  return out;
}

}  // namespace egpu::base

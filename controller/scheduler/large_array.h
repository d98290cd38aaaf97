// Arrays of millions of records. Internal to scheduler/.
//
// A decision's time is mostly waiting for memory, and with pages of 4 KiB a good part of that is finding out where a
// page is: a large cluster has more of them than the processor remembers. Large arrays therefore ask for pages of 2
// MiB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace egpu::scheduler {

/// Allocates as std::allocator does, and asks the kernel to back whatever large pages lie within by such. It may
/// decline: nothing but the speed depends on it. Stateless.
template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor): allocators convert

  T* allocate(std::size_t n) {
    T* at = std::allocator<T>().allocate(n);
    const auto begin = reinterpret_cast<uintptr_t>(at);
    const uintptr_t first = (begin + kPage - 1) / kPage * kPage, end = (begin + n * sizeof(T)) / kPage * kPage;
    if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
    return at;
  }
  void deallocate(T* at, std::size_t n) noexcept { std::allocator<T>().deallocate(at, n); }

  template <class U>
  bool operator==(const LargePages<U>& /*other*/) const {
    return true;
  }

 private:
  static constexpr uintptr_t kPage = uintptr_t{2} << 20;
};

template <class T>
using LargeArray = std::vector<T, LargePages<T>>;

}  // namespace egpu::scheduler

// Arrays of millions of records. Internal to scheduler/.
//
// A decision's time is mostly waiting for memory, and with pages of 4 KiB a good part of that is finding out where a
// page is: a large cluster has more of them than the processor remembers. Large arrays therefore ask for pages of 2
// MiB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
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
    void* first = at;
    std::size_t room = n * sizeof(T);  // NOLINT(bugprone-sizeof-expression): of pointers, too
    if (std::align(kPage, kPage, first, room) != nullptr) ::madvise(first, room / kPage * kPage, MADV_HUGEPAGE);
    return at;
  }
  void deallocate(T* at, std::size_t n) noexcept { std::allocator<T>().deallocate(at, n); }

  template <class U>
  bool operator==(const LargePages<U>& /*other*/) const {
    return true;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
};

template <class T>
using LargeArray = std::vector<T, LargePages<T>>;

}  // namespace egpu::scheduler

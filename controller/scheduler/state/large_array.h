// Arrays of millions of records. Internal to scheduler/.
//
// Decisions spend most of their time on memory accesses, and with pages of 4 KiB a large part of that on address
// translation: a large cluster has more pages than the processor's translation cache holds. Therefore large arrays
// request pages of 2 MiB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace egpu::scheduler {

/// Allocates like std::allocator, and asks the kernel to use large pages where possible. The kernel may decline; this
/// affects only the speed. Stateless.
template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor): allocators convert

  T* allocate(std::size_t n) {
    T* at = std::allocator<T>().allocate(n);
    void* first = at;
    std::size_t size = n * sizeof(T);  // NOLINT(bugprone-sizeof-expression): of pointers, too
    if (std::align(kPage, kPage, first, size) != nullptr) ::madvise(first, size / kPage * kPage, MADV_HUGEPAGE);
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

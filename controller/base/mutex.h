// Mutexes that clang's thread-safety analysis understands: a field says which mutex guards it, a function says which
// mutex its caller must hold, and `make lint` refuses an access without it. The standard library's own types carry no
// such annotations with libstdc++. Other compilers ignore the annotations.
//
//   class Counter {
//    public:
//     void add() {
//       const MutexLock lock(mutex_);
//       addLocked();
//     }
//    private:
//     void addLocked() EGPU_REQUIRES(mutex_);
//     Mutex mutex_;
//     int value_ EGPU_GUARDED_BY(mutex_) = 0;
//   };
//
// Waiting: MutexLock is a lock for std::condition_variable_any, and so is the Mutex itself in a function that requires
// it. The analysis does not look into a predicate given to wait(), so such a lambda carries EGPU_REQUIRES too:
// [this]() EGPU_REQUIRES(mutex_) { return ready_; }.
// Reference: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define EGPU_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define EGPU_THREAD_ANNOTATION(x)
#endif

/// The field may be used only while this mutex is held; read with a shared hold, too.
#define EGPU_GUARDED_BY(...) EGPU_THREAD_ANNOTATION(guarded_by(__VA_ARGS__))
/// The object behind the pointer may be used only while this mutex is held.
#define EGPU_PT_GUARDED_BY(...) EGPU_THREAD_ANNOTATION(pt_guarded_by(__VA_ARGS__))
/// The caller holds the mutex exclusively.
#define EGPU_REQUIRES(...) EGPU_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// The caller holds the mutex, at least shared.
#define EGPU_REQUIRES_SHARED(...) EGPU_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
/// The caller does not hold the mutex: the function takes it.
#define EGPU_EXCLUDES(...) EGPU_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace egpu::base {

/// std::mutex with annotations.
class EGPU_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() EGPU_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() EGPU_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  bool try_lock() EGPU_THREAD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// std::shared_mutex with annotations.
class EGPU_THREAD_ANNOTATION(capability("mutex")) SharedMutex {
 public:
  void lock() EGPU_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() EGPU_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  void lock_shared() EGPU_THREAD_ANNOTATION(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() EGPU_THREAD_ANNOTATION(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

/// Holds a Mutex until its scope ends, or until unlock(). lock() takes it again.
class EGPU_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EGPU_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  /// For a mutex that try_lock() has taken.
  MutexLock(Mutex& mutex, std::adopt_lock_t) EGPU_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() EGPU_THREAD_ANNOTATION(release_capability()) {
    if (isHeld_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() EGPU_THREAD_ANNOTATION(acquire_capability()) {
    mutex_.lock();
    isHeld_ = true;
  }
  void unlock() EGPU_THREAD_ANNOTATION(release_capability()) {
    isHeld_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool isHeld_ = true;
};

/// Releases a held Mutex until its scope ends, then takes it again. For functions whose caller has the MutexLock. The
/// destructor's annotation means the end of the scoped release.
class EGPU_THREAD_ANNOTATION(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) EGPU_THREAD_ANNOTATION(release_capability(mutex)) : mutex_(mutex) {
    mutex_.unlock();
  }
  ~MutexUnlock() EGPU_THREAD_ANNOTATION(release_capability()) { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// Holds a SharedMutex exclusively until its scope ends.
class EGPU_THREAD_ANNOTATION(scoped_lockable) ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex& mutex) EGPU_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~ExclusiveLock() EGPU_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;

 private:
  SharedMutex& mutex_;
};

/// Holds a SharedMutex together with other readers until its scope ends. lock() and unlock() are for
/// std::condition_variable_any.
class EGPU_THREAD_ANNOTATION(scoped_lockable) SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) EGPU_THREAD_ANNOTATION(acquire_shared_capability(mutex)) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~SharedLock() EGPU_THREAD_ANNOTATION(release_capability()) {
    if (isHeld_) mutex_.unlock_shared();
  }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

  void lock() EGPU_THREAD_ANNOTATION(acquire_shared_capability()) {
    mutex_.lock_shared();
    isHeld_ = true;
  }
  void unlock() EGPU_THREAD_ANNOTATION(release_capability()) {
    isHeld_ = false;
    mutex_.unlock_shared();
  }

 private:
  SharedMutex& mutex_;
  bool isHeld_ = true;
};

}  // namespace egpu::base

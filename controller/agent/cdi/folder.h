// Folder of CDI files, one per device. These files are the node's only record of prepared devices.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/base/subprocess.h"
#include "controller/codec/cdi_spec.h"

namespace egpu::agent::cdi {

using Spec = codec::CdiSpec;

/// Returns the qualified CDI name, "elasticgpu.io/device=<uid>", that kubelet and runtime use.
std::string qualified(std::string_view deviceUid);

/// True if `text` may be part of a file name: 1 to 63 letters, digits and '-', not beginning with '-'.
bool isUid(std::string_view text);

/// Contents of a CDI file, or the reason why it can't be read. Copies are cheap: they share the contents.
class Read {
 public:
  Read(base::Result<Spec> read)  // NOLINT(google-explicit-constructor): as a Result is made
      : read_(std::make_shared<const base::Result<Spec>>(std::move(read))) {}
  Read(Spec spec) : Read(base::Result<Spec>(std::move(spec))) {}        // NOLINT(google-explicit-constructor)
  Read(base::Status why) : Read(base::Result<Spec>(std::move(why))) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return read_->ok(); }
  explicit operator bool() const { return ok(); }
  const Spec& operator*() const { return **read_; }
  const Spec* operator->() const { return &**read_; }
  base::Status status() const { return read_->status(); }

 private:
  std::shared_ptr<const base::Result<Spec>> read_;
};

/// Complete temporary file on disk that can become a part file. The destructor removes an unused draft.
class Draft {
 public:
  Draft(Read spec, std::string path) : spec_(std::move(spec)), path_(std::move(path)) {}
  Draft(Draft&& other) noexcept : spec_(std::move(other.spec_)), path_(std::exchange(other.path_, {})) {}
  Draft& operator=(Draft&&) = delete;
  ~Draft();
  const std::string& deviceUid() const { return spec_->deviceUid; }

 private:
  friend class Folder;
  Read spec_;  ///< contents of the file
  std::string path_;
};

/// Each device has a ready file that runtimes read, elasticgpu.io-device_<uid>.json, or, during prepare and unprepare,
/// a part file that they ignore, with the suffix ".part". It briefly has both while the ready file is being replaced.
/// Every change is one rename or unlink. After a power loss, each file is complete or absent, and published files
/// exist. Other files are not touched.
/// Thread-safe, but callers must serialize calls about one device. Errors name the file. Code::unavailable: the system
/// refuses, for example because the disk is full.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  virtual ~Folder() = default;
  const std::string& path() const { return path_; }

  /// Creates the folder if it is missing, and removes temporary files left by a crash. Must be called first.
  base::Status open();

  struct StoredSpec {
    std::string deviceUid;
    bool ready = false;            ///< the ready file exists
    bool part = false;             ///< the part file exists
    Read spec;                     ///< contents of the ready file, if readable, otherwise of the part; else an error
    std::optional<Read> coming{};  ///< contents of the part, if both files are readable
  };
  /// Returns all devices, sorted by uid. Reads only files that have changed since they were last read.
  base::Result<std::vector<StoredSpec>> list();
  /// Returns nullopt if the device has neither file.
  base::Result<std::optional<StoredSpec>> find(std::string_view deviceUid);

  /// Exclusive lock of the folder, against other threads and other processes.
  class Held {
   public:
    Held(std::unique_lock<base::Mutex> threadLock, base::UniqueFd processLock)
        : threadLock_(std::move(threadLock)), processLock_(std::move(processLock)) {}

   private:
    std::unique_lock<base::Mutex> threadLock_;
    base::UniqueFd processLock_;  ///< last member: released first
  };
  /// Locks the folder for an atomic read and change, since two agents run while an agent is being replaced. Blocks.
  /// Returns Code::unavailable if another process has held the lock for ten seconds. The lock file is never removed.
  virtual base::Result<Held> hold();

  /// Slow half of writing a part; needs no lock. After a crash, open() removes the temporary.
  virtual base::Result<Draft> draft(const Spec& spec) const;
  base::Status write(const Spec& spec);  ///< does both halves

  // Steps that change a device's files (preparer.h). withdraw() and removePart() are idempotent.
  virtual base::Status write(Draft draft);                        ///< the draft becomes the part
  virtual base::Status publish(const std::string& deviceUid);     ///< the part becomes the ready file
  virtual base::Status withdraw(const std::string& deviceUid);    ///< the ready file becomes the part
  virtual base::Status removePart(const std::string& deviceUid);  ///< removes the part

 private:
  /// Identifies a version of a file by its stat(2) fields. Equal stamps mean that the file was not written.
  struct Stamp {
    ino_t inode = 0;
    off_t size = 0;
    int64_t changed = 0;  ///< time of the last change, ns
    bool operator==(const Stamp&) const = default;
  };
  struct File {
    std::string name;
    std::optional<Stamp> stamp;  ///< nullopt: the file was removed after its name was read
  };
  struct CachedSpec {
    Stamp stamp;
    Read spec;
  };
  // stampFile() and files() see a consistent state only with mutex_ held, or in open().
  static std::string nameOf(std::string_view deviceUid);
  std::string fileOf(std::string_view deviceUid) const;
  static std::optional<Stamp> stampAt(int folder, const std::string& name);
  File stampFile(std::string name) const;
  base::Result<std::vector<File>> files() const;
  Read read(const File& file) EGPU_REQUIRES(mutex_);
  base::Status rename(const std::string& from, const std::string& to) EGPU_REQUIRES(mutex_);
  StoredSpec entry(const std::string& uid, const File* ready, const File* part) EGPU_REQUIRES(mutex_);
  base::Status sync() const;

  const std::string path_;
  base::Mutex holding_;  ///< excludes other threads in hold()
  base::Mutex mutex_;    ///< held during each change and read: a listing during a rename may miss both names
  std::map<std::string, CachedSpec> cache_ EGPU_GUARDED_BY(mutex_);  ///< by file name
};

}  // namespace egpu::agent::cdi

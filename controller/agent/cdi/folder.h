// The folder of CDI files, one file per device. What these files say is all that the node knows of what is prepared.
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

#include "controller/base/status.h"
#include "controller/base/subprocess.h"
#include "controller/codec/cdi_spec.h"

namespace egpu::agent::cdi {

using Spec = codec::CdiSpec;

/// "elasticgpu.io/device=<uid>", as kubelet and runtime spell it.
std::string qualified(std::string_view deviceUid);

/// Whether the text may be part of a file's name: 1 to 63 letters, digits and '-', the first no '-'.
bool isUid(std::string_view text);

/// What a file says, or why it can't be read. Copies share it: a list of many costs little.
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

/// A part that lies beside its place, whole and on the disk; goes if it is not written.
class Draft {
 public:
  Draft(Read spec, std::string path) : spec_(std::move(spec)), path_(std::move(path)) {}
  Draft(Draft&& other) noexcept : spec_(std::move(other.spec_)), path_(std::exchange(other.path_, {})) {}
  Draft& operator=(Draft&&) = delete;
  ~Draft();
  const std::string& deviceUid() const { return spec_->deviceUid; }

 private:
  friend class Folder;
  Read spec_;  ///< what it says
  std::string path_;
};

/// A device has a file that runtimes read, elasticgpu.io-device_<uid>.json, or one that they don't, the same name with
/// ".part" behind it: it is being prepared or unprepared. Or for a moment both, where a file is made anew. Every change
/// is one rename or unlink. A loss of power leaves each file whole or not at all, and what was published. Other files of
/// the folder are left alone.
/// Thread-safe; of two calls about one device the caller sees to it that they don't overlap.
/// Errors name the file: Code::unavailable for what the system refuses, such as a full disk.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  virtual ~Folder() = default;
  const std::string& path() const { return path_; }

  /// Makes the folder if it is missing and removes what a crash left half written. Call it before any other.
  base::Status open();

  struct Entry {
    std::string deviceUid;
    bool ready = false;            ///< there is a file that runtimes read
    bool part = false;             ///< there is one that is being made or taken away
    Read spec;                     ///< of the first if it can be read, else of the other; else why neither can
    std::optional<Read> coming{};  ///< of the part, where the file and it can both be read
  };
  /// By uid. Files that did not change since they were last read are not read again.
  base::Result<std::vector<Entry>> list();
  /// No value: there is neither file.
  base::Result<std::optional<Entry>> find(std::string_view deviceUid);

  /// While it lives no other thread and no other process holds the folder.
  class Held {
   public:
    Held(std::unique_lock<std::mutex> here, base::UniqueFd everywhere)
        : here_(std::move(here)), everywhere_(std::move(everywhere)) {}

   private:
    std::unique_lock<std::mutex> here_;
    base::UniqueFd everywhere_;  ///< goes first
  };
  /// For a look and a change that belong together: two agents stand beside each other for a while when one is exchanged.
  /// Waits for its turn; Code::unavailable: another process has held it for ten seconds. The file that is locked stays.
  virtual base::Result<Held> hold();

  /// The slow half of writing a part, which nobody has to wait for. A death leaves a temporary, which open() removes.
  virtual base::Result<Draft> draft(const Spec& spec) const;
  base::Status write(const Spec& spec);  ///< both halves

  // The steps. Each may be repeated.
  virtual base::Status write(Draft draft);                        ///< it becomes the part
  virtual base::Status publish(const std::string& deviceUid);     ///< the part becomes the file
  virtual base::Status withdraw(const std::string& deviceUid);    ///< the file becomes the part
  virtual base::Status removePart(const std::string& deviceUid);  ///< the part goes

 private:
  /// What stat says of a file; equal: it was not written since.
  struct Stamp {
    ino_t inode = 0;
    off_t size = 0;
    int64_t changed = 0;  ///< ns
    bool operator==(const Stamp&) const = default;
  };
  struct File {
    std::string name;
    std::optional<Stamp> stamp;  ///< none: it has gone since its name was read
  };
  struct Known {
    Stamp stamp;
    Read spec;
  };
  // With mutex_ held, but for open().
  static std::string nameOf(std::string_view deviceUid);
  std::string fileOf(std::string_view deviceUid) const;
  static std::optional<Stamp> stampAt(int folder, const std::string& name);
  File look(std::string name) const;
  base::Result<std::vector<File>> files() const;
  Read read(const File& file);
  base::Status rename(const std::string& from, const std::string& to);
  Entry entry(const std::string& uid, const File* ready, const File* part);
  base::Status sync() const;

  const std::string path_;
  std::mutex holding_;  ///< hold()'s, within this process
  std::mutex mutex_;    ///< held through each change and each look: who reads a folder while names change may miss both
  std::map<std::string, Known> known_;  ///< by file name; protected by mutex_
};

}  // namespace egpu::agent::cdi

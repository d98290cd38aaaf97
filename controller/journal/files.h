// Files of the journal: numbered files in one folder. The oldest ones are deleted to keep the total size within its
// limit. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::journal {

/// Returns numbers and paths of the journal files in a folder, the oldest first. Fails with Code::notFound if the
/// folder can't be read.
base::Result<std::vector<std::pair<int64_t, std::string>>> journalFiles(const std::string& folder);

class Files {
 public:
  static constexpr int64_t kMin = 1 << 20;  ///< minimum size limit of a journal, in bytes
  static constexpr int64_t kParts = 8;      ///< a file gets about 1/kParts of the size limit

  /// Opens the folder, which only its owner may access. Creates it if necessary. bytes: size limit of all files.
  static base::Result<Files> open(const std::string& folder, int64_t bytes, std::string program);

  /// Begins the next file. continues: no record is missing between the previous file and this one. time: milliseconds
  /// since 1970.
  base::Status begin(bool continues, int64_t time);
  /// Appends lines to the current file. After a failure the file must not be used again; the caller begins another one.
  /// Fails with Code::tooLarge if the lines exceed the size limit even without the older files.
  base::Status append(std::string_view lines);
  /// Ends the snapshot at the beginning of the file. Fails with Code::tooLarge if it has more than a quarter of the
  /// size limit, because the rest would hold too few changes.
  base::Status endSnapshot();
  /// True if the current file has reached its size and the caller should begin another one.
  bool full() const { return size_ >= full_; }

 private:
  Files(std::string folder, int64_t bytes, std::string program)
      : folder_(std::move(folder)), bytes_(bytes), program_(std::move(program)) {}
  base::Status freeSpace(int64_t size);

  std::string folder_;
  int64_t bytes_ = 0;
  std::string program_;
  base::UniqueFd lock_, file_;
  std::string path_;
  int64_t last_ = 0;                                 ///< number of the newest file
  int64_t size_ = 0, full_ = 0;                      ///< newest file: its bytes, and the bytes from which it is full
  std::deque<std::pair<std::string, int64_t>> old_;  ///< path and size, the oldest first
  int64_t oldBytes_ = 0;
};

}  // namespace egpu::journal

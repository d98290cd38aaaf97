// The journal's files: one after the other in a folder, the oldest going when there is no room. Not thread-safe.
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

/// The paths of a folder's files by number, the oldest first. Code::notFound: no such folder.
base::Result<std::vector<std::pair<int64_t, std::string>>> journalFiles(const std::string& folder);

class Files {
 public:
  static constexpr int64_t kLeast = 1 << 20;  ///< bytes that a journal must be allowed
  static constexpr int64_t kParts = 8;        ///< a file has about this part of the bytes

  /// bytes: what all files together may have. The folder is for its owner alone.
  static base::Result<Files> open(const std::string& folder, int64_t bytes, std::string program);

  /// Begins the next file. continues: nothing is missing between it and the one before. time: milliseconds since 1970.
  base::Status begin(bool continues, int64_t time);
  /// Appends lines to the file that was begun. After a failure it is no longer to be used: begin() another one.
  /// Code::tooLarge: there is no room even without the older files.
  base::Status append(std::string_view lines);
  /// What was appended so far is the picture. Code::tooLarge if it has more than a quarter of the bytes: what
  /// is left would be of little use.
  base::Status pictured();
  /// It has its part, and another one should be begun.
  bool full() const { return size_ >= full_; }

 private:
  Files(std::string folder, int64_t bytes, std::string program)
      : folder_(std::move(folder)), bytes_(bytes), program_(std::move(program)) {}
  base::Status makeRoom(int64_t size);

  std::string folder_;
  int64_t bytes_ = 0;
  std::string program_;
  base::UniqueFd lock_, file_;
  std::string path_;
  int64_t last_ = 0;                                 ///< number of the newest file
  int64_t size_ = 0, full_ = 0;                      ///< of the newest
  std::deque<std::pair<std::string, int64_t>> old_;  ///< path and size, the oldest first
  int64_t oldBytes_ = 0;
};

}  // namespace egpu::journal

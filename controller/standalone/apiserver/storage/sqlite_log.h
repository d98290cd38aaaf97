// Journal of the store in one SQLite file: the current objects and the version counter. A write is durable before it
// becomes visible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "controller/base/subprocess.h"
#include "controller/standalone/apiserver/storage/store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace egpu::apiserver {

/// Uses WAL with synchronous=FULL: records survive kill -9 and power loss once append() has returned. One process at a
/// time per folder. Only the owner may read the files.
class SqliteLog final : public Journal {
 public:
  /// Opens or creates the folder and the file. Fails with Code::unavailable if they can't be used or another process
  /// uses them, with Code::malformed if the file is damaged, of another schema version, or another database.
  static base::Result<std::unique_ptr<SqliteLog>> open(const std::string& folder);
  ~SqliteLog() override;
  SqliteLog(const SqliteLog&) = delete;
  SqliteLog& operator=(const SqliteLog&) = delete;

  /// Calls `each` for every stored object. Objects of kinds that `table` does not serve stay in the file and cause a
  /// warning in the log.
  base::Status load(const ResourceTable& table,
                    const std::function<void(const Resource&, std::string_view text, uint64_t version)>& each);
  /// Returns the last version that was stored.
  uint64_t version() const { return version_; }

  base::Status append(const std::vector<Record>& records, uint64_t version) override;

 private:
  explicit SqliteLog(std::string path) : path_(std::move(path)) {}
  base::Status prepareFile();
  base::Status run(const char* sql);
  base::Status failure(std::string_view doing) const;

  const std::string path_;
  base::UniqueFd lock_;  ///< file with a flock, so that a second process fails immediately with a clear message
  sqlite3* db_ = nullptr;
  sqlite3_stmt* upsert_ = nullptr;
  sqlite3_stmt* erase_ = nullptr;
  sqlite3_stmt* count_ = nullptr;
  uint64_t version_ = 0;
};

}  // namespace egpu::apiserver

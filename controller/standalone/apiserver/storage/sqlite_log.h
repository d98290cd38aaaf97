// The store's journal in one SQLite file: the current objects and the version counter, durable before anyone hears of a
// write.
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

/// WAL with synchronous=FULL: what append() returned for survives kill -9 and power loss. One process at a time per
/// folder; nobody else may read it.
class SqliteLog final : public Journal {
 public:
  /// Makes the folder and file if need be. Code::unavailable: can't be used, or another process holds it;
  /// Code::malformed: not ours, of a later schema version, or damaged.
  static base::Result<std::unique_ptr<SqliteLog>> open(const std::string& folder);
  ~SqliteLog() override;
  SqliteLog(const SqliteLog&) = delete;
  SqliteLog& operator=(const SqliteLog&) = delete;

  /// Gives every kept object to `each`. Objects of kinds that `table` does not serve stay in the file, with a warning
  /// in the log.
  base::Status load(const ResourceTable& table,
                    const std::function<void(const Resource&, std::string_view text, uint64_t version)>& each);
  /// The last version that was kept.
  uint64_t version() const { return version_; }

  base::Status append(const std::vector<Record>& records, uint64_t version) override;

 private:
  explicit SqliteLog(std::string path) : path_(std::move(path)) {}
  base::Status prepareFile();
  base::Status run(const char* sql);
  base::Status failure(std::string_view doing) const;

  const std::string path_;
  base::UniqueFd lock_;  ///< flock'd file: tells two processes apart at once and clearly
  sqlite3* db_ = nullptr;
  sqlite3_stmt* upsert_ = nullptr;
  sqlite3_stmt* erase_ = nullptr;
  sqlite3_stmt* count_ = nullptr;
  uint64_t version_ = 0;
};

}  // namespace egpu::apiserver

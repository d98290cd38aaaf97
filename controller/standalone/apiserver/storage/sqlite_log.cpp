#include "controller/standalone/apiserver/storage/sqlite_log.h"

#include <sqlite3.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "controller/base/log.h"
#include "controller/base/private_files.h"

namespace egpu::apiserver {
namespace {

constexpr int kApplicationId = 0x65677075;  // "egpu": distinguishes this server's files from other SQLite files
constexpr int kSchemaVersion = 1;
constexpr const char* kSchema =
    "CREATE TABLE objects(resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT "
    "NULL,"
    " body TEXT NOT NULL, PRIMARY KEY(resource, namespace, name)) WITHOUT ROWID;"
    "CREATE TABLE counter(id INTEGER PRIMARY KEY CHECK(id = 1), version INTEGER NOT NULL);"
    "INSERT INTO counter VALUES(1, 1);";

void bindText(sqlite3_stmt* s, int at, std::string_view text) {
  sqlite3_bind_text64(s, at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

std::string_view columnText(sqlite3_stmt* s, int at) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, at));
  return text ? std::string_view(text, static_cast<std::size_t>(sqlite3_column_bytes(s, at))) : std::string_view();
}

}  // namespace

base::Result<std::unique_ptr<SqliteLog>> SqliteLog::open(const std::string& folder) {
  using base::Code;
  if (auto s = base::makePrivateFolder(folder, "state.db"); !s.ok())
    return base::Status(Code::unavailable, "the data folder can't be made: " + s.message());
  std::unique_ptr<SqliteLog> log(new SqliteLog(folder + "/state.db"));
  const std::string lockPath = folder + "/lock";
  auto lock = base::openPrivateFile(lockPath);
  if (!lock) return base::Status(Code::unavailable, lock.status().message());
  log->lock_ = std::move(*lock);
  if (::flock(log->lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return base::Status(Code::unavailable, errno == EWOULDBLOCK
                                               ? "the data folder " + folder + " is in use by another process"
                                               : lockPath + ": " + std::strerror(errno));
  // Create the database file with mode 0600; SQLite gives its WAL files the same mode. NOFOLLOW also refuses symbolic
  // links in parent folders, so resolve those.
  if (auto made = base::openPrivateFile(log->path_); !made)
    return base::Status(Code::unavailable, made.status().message());
  std::error_code error;
  const auto real = std::filesystem::canonical(folder, error).string() + "/state.db";
  if (sqlite3_open_v2(real.c_str(), &log->db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK)
    return base::Status(Code::unavailable, log->path_ + ": " + (log->db_ ? sqlite3_errmsg(log->db_) : "out of memory"));
  base::Status prepared = log->prepareFile();
  if (!prepared.ok()) return prepared;
  return log;
}

SqliteLog::~SqliteLog() {
  for (sqlite3_stmt* s : {upsert_, erase_, count_}) sqlite3_finalize(s);
  if (db_) sqlite3_close(db_);
}

base::Status SqliteLog::failure(std::string_view doing) const {
  const int code = sqlite3_errcode(db_) & 0xff;
  const bool damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_FORMAT;
  return {damaged ? base::Code::malformed : base::Code::unavailable,
          path_ + ": " + std::string(doing) + ": " + sqlite3_errmsg(db_)};
}

base::Status SqliteLog::run(const char* sql) {
  return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? base::Status() : failure(sql);
}

base::Status SqliteLog::prepareFile() {
  using base::Code;
  sqlite3_busy_timeout(db_, 2000);
  std::string text;
  auto ask = [&](const char* sql) -> base::Status {
    sqlite3_stmt* s = nullptr;
    if (sqlite3_prepare_v2(db_, sql, -1, &s, nullptr) != SQLITE_OK) return failure("reading");
    text.clear();
    const int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) text = columnText(s, 0);
    base::Status status = rc == SQLITE_ROW || rc == SQLITE_DONE ? base::Status() : failure("reading");
    sqlite3_finalize(s);
    return status;
  };
  // Check the file before writing to it, so that another application's file stays unchanged.
  if (auto s = ask("PRAGMA application_id"); !s.ok()) return s;
  const std::string application = text;
  if (auto s = ask("SELECT count(*) FROM sqlite_master"); !s.ok()) return s;
  const bool fresh = text == "0" && application == "0";
  if (!fresh && application != std::to_string(kApplicationId))
    return {Code::malformed, path_ + " is a SQLite file, but not one of this server"};
  if (!fresh) {
    if (auto s = ask("PRAGMA user_version"); !s.ok()) return s;
    if (text != std::to_string(kSchemaVersion))
      return {Code::malformed,
              path_ + " has schema version " + text + ", this server knows " + std::to_string(kSchemaVersion)};
    if (auto s = ask("PRAGMA quick_check(1)"); !s.ok()) return s;
    if (text != "ok") return {Code::malformed, path_ + " is damaged: " + text};
  }
  for (const char* sql : {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"})
    if (auto s = run(sql); !s.ok()) return s;
  if (fresh) {
    const std::string make = "BEGIN;" + std::string(kSchema) +
                             "PRAGMA application_id=" + std::to_string(kApplicationId) +
                             ";PRAGMA user_version=" + std::to_string(kSchemaVersion) + ";COMMIT;";
    if (auto s = run(make.c_str()); !s.ok()) return s;
  }
  if (auto s = ask("SELECT version FROM counter WHERE id = 1"); !s.ok()) return s;
  if (text.empty()) return {Code::malformed, path_ + " is damaged: it has lost its version"};
  version_ = std::strtoull(text.c_str(), nullptr, 10);
  auto prepare = [&](const char* sql, sqlite3_stmt** s) {
    return sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, s, nullptr) == SQLITE_OK ? base::Status()
                                                                                                : failure("preparing");
  };
  if (auto s = prepare("INSERT OR REPLACE INTO objects VALUES(?1, ?2, ?3, ?4, ?5)", &upsert_); !s.ok()) return s;
  if (auto s = prepare("DELETE FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3", &erase_); !s.ok())
    return s;
  return prepare("UPDATE counter SET version = ?1 WHERE id = 1", &count_);
}

base::Status SqliteLog::load(
    const ResourceTable& table,
    const std::function<void(const Resource&, std::string_view text, uint64_t version)>& each) {
  std::map<std::string, const Resource*, std::less<>> known;
  for (const auto& r : table.all()) known.emplace(r->qualified(), r.get());
  std::map<std::string, int> skipped;
  sqlite3_stmt* s = nullptr;
  if (sqlite3_prepare_v2(db_, "SELECT resource, version, body, name FROM objects", -1, &s, nullptr) != SQLITE_OK)
    return failure("reading");
  base::Status status;
  int rc;
  while (status.ok() && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    auto it = known.find(columnText(s, 0));
    if (it == known.end()) {
      ++skipped[std::string(columnText(s, 0))];
      continue;
    }
    try {
      each(*it->second, columnText(s, 2), static_cast<uint64_t>(sqlite3_column_int64(s, 1)));
    } catch (const Json::exception& e) {
      status = {base::Code::malformed,
                path_ + " is damaged: " + it->first + " " + std::string(columnText(s, 3)) + ": " + e.what()};
    }
  }
  if (status.ok() && rc != SQLITE_DONE) status = failure("reading");
  sqlite3_finalize(s);
  for (const auto& [resource, n] : skipped)
    base::log::warn("stored objects are of a kind that is not served", {{"resource", resource}, {"objects", n}});
  return status;
}

base::Status SqliteLog::append(const std::vector<Record>& records, uint64_t version) {
  base::Status status = run("BEGIN");
  auto step = [&](sqlite3_stmt* s) {
    if (status.ok() && sqlite3_step(s) != SQLITE_DONE) status = failure("writing");
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
  };
  for (const Record& r : records) {
    if (!status.ok()) break;
    const std::string resource = r.resource->qualified();
    sqlite3_stmt* s = r.removed ? erase_ : upsert_;
    bindText(s, 1, resource);
    bindText(s, 2, r.object->key.ns);
    bindText(s, 3, r.object->key.name);
    if (!r.removed) {
      sqlite3_bind_int64(s, 4, static_cast<sqlite3_int64>(r.object->version));
      bindText(s, 5, r.object->text);
    }
    step(s);
  }
  if (status.ok()) {
    sqlite3_bind_int64(count_, 1, static_cast<sqlite3_int64>(version));
    step(count_);
  }
  if (status.ok()) status = run("COMMIT");
  if (!status.ok()) {
    base::log::error("a write could not be stored", {{"error", status.message()}});
    if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    return status;
  }
  version_ = version;
  return {};
}

}  // namespace egpu::apiserver

// State in a folder: restarts, kill -9, foreign and damaged files, two processes.
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::HasSubstr;

class PersistenceTest : public ApiTest {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "egpu-data-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override {
    server.reset();
    std::filesystem::remove_all(folder);
  }
  Options options() const {
    Options o;
    o.dataDirectory = folder;
    return o;
  }
  base::Status open() {
    auto made = Server::create(options(), clock, random);
    if (!made) return made.status();
    server = std::move(*made);
    return {};
  }
  /// Edits the database file without the server.
  void sql(const std::string& statements) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder + "/state.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  std::string folder;
};

TEST_F(PersistenceTest, EverythingIsThereAfterARestart) {
  ASSERT_TRUE(open().ok());
  make(kClaims, claim("a", {{"finalizers", {"elasticgpu.io/claim"}}}));
  make(kClaims, claim("b"));
  make(kGpus, card("g"));
  merge(kClaims + "/a/status", {{"status", {{"phase", "Bound"}, {"elasticGPUName", "x"}}}});
  call("DELETE", kClaims + "/a");
  call("DELETE", kClaims + "/b");
  const Json a = get(kClaims + "/a").body, g = get(kGpus + "/g").body;
  const uint64_t version = server->resourceVersion();
  server.reset();
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(server->resourceVersion(), version) << "the last write was a deletion, its version must not be given twice";
  EXPECT_EQ(get(kClaims + "/a").body, a);
  EXPECT_EQ(get(kGpus + "/g").body, g);
  EXPECT_EQ(get(kClaims + "/b").status, 404);
  WatchClient old = watch(kClaims + "?watch=true&resourceVersion=" + std::to_string(version - 1));
  EXPECT_EQ(old.word(), "ERROR");
  WatchClient now = watch(kClaims + "?watch=true&resourceVersion=" + std::to_string(version));
  EXPECT_GT(std::stoull(make(kClaims, claim("c")).version()), version);
  EXPECT_EQ(now.word(), "ADDED c");
}

// A child process acknowledges each write through a pipe and is killed while it works.
TEST_F(PersistenceTest, NothingAcknowledgedIsLostByKill9) {
  uint64_t lastVersion = 0;
  for (int round = 0; round < 3; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[0]);
      if (!open().ok()) ::_exit(3);
      std::vector<std::jthread> writers;
      for (int t = 0; t < 4; ++t)
        writers.emplace_back([&, t] {
          for (int i = 0;; ++i) {
            const std::string name = "r" + std::to_string(round) + "-" + std::to_string(t) + "-" + std::to_string(i);
            Reply r = ask(*server, "POST", kClaims, claim(name).dump());
            if (r.status != 201) ::_exit(4);
            const std::string line = name + " " + r.version() + "\n";
            if (::write(pipe[1], line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(5);
          }
        });
      writers.clear();
      ::_exit(6);
    }
    ::close(pipe[1]);
    std::string acknowledged;
    char part[4096];
    std::size_t lines = 0;
    while (lines < 60) {
      ssize_t n = ::read(pipe[0], part, sizeof part);
      if (n <= 0) break;
      acknowledged.append(part, static_cast<size_t>(n));
      lines += static_cast<std::size_t>(std::count(part, part + n, '\n'));
    }
    ::kill(child, SIGKILL);
    for (ssize_t n; (n = ::read(pipe[0], part, sizeof part)) > 0;) acknowledged.append(part, static_cast<size_t>(n));
    ::close(pipe[0]);
    int how = 0;
    ::waitpid(child, &how, 0);
    ASSERT_TRUE(WIFSIGNALED(how)) << "the child ended by itself: " << WEXITSTATUS(how);

    base::Status opened = open();
    ASSERT_TRUE(opened.ok()) << opened.str();
    std::istringstream in(acknowledged);
    std::string name;
    uint64_t version = 0;
    int checked = 0;
    while (in >> name >> version) {
      Reply r = get(kClaims + "/" + name);
      ASSERT_EQ(r.status, 200) << name;
      EXPECT_EQ(r.version(), std::to_string(version));
      EXPECT_GT(version, lastVersion) << "versions went backwards over a restart";
      ++checked;
    }
    EXPECT_GE(checked, 60);
    lastVersion = server->resourceVersion();
    server.reset();
  }
}

TEST_F(PersistenceTest, ConsequencesCutShortAreCompletedAtTheNextStart) {
  ASSERT_TRUE(open().ok());
  Reply owner = make(kClaims, claim("a"));
  make(kPods, pod("p", {{"ownerReferences",
                         {{{"apiVersion", "elasticgpu.io/v1alpha"},
                           {"kind", "ElasticGPUClaim"},
                           {"name", "a"},
                           {"uid", owner.uid()}}}}}));
  server.reset();
  // As if the process had died between the deletions of the owner and its dependent.
  sql("DELETE FROM objects WHERE name = 'a'");
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(get(kPods + "/p").status, 404);
}

TEST_F(PersistenceTest, OneServerAtATime) {
  ASSERT_TRUE(open().ok());
  base::Status second = Server::create(options(), clock, random).status();
  EXPECT_EQ(second.code(), base::Code::unavailable);
  EXPECT_THAT(second.message(), HasSubstr("in use by another process"));
}

TEST_F(PersistenceTest, NobodyElseMayReadTheState) {
  const auto modeOf = [](const std::string& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  const mode_t before = ::umask(0);
  folder += "/deeper";
  ASSERT_TRUE(open().ok());
  ::umask(before);
  EXPECT_EQ(modeOf(folder), 0700U);
  for (const auto& file : std::filesystem::directory_iterator(folder))
    EXPECT_EQ(modeOf(file.path()), 0600U) << file.path();
  server.reset();
  // File modes that an earlier version of the program used.
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  std::filesystem::permissions(folder + "/state.db", std::filesystem::perms(0644));
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(modeOf(folder), 0700U);
  EXPECT_EQ(modeOf(folder + "/state.db"), 0600U);
}

TEST_F(PersistenceTest, LinksToOtherFilesAreNotFollowed) {
  const std::string victim = folder + "/victim";
  { std::ofstream(victim) << "precious"; }
  for (const std::string file : {"/lock", "/state.db"}) {
    std::filesystem::create_directory(folder + "/data");
    std::filesystem::create_symlink(victim, folder + "/data" + file);
    Options o;
    o.dataDirectory = folder + "/data";
    EXPECT_THAT(Server::create(o, clock, random).status().message(), HasSubstr("symbolic link"));
    std::filesystem::remove_all(folder + "/data");
  }
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
  // A link to the folder is allowed: the user created it.
  std::filesystem::create_directory(folder + "/real");
  std::filesystem::create_directory_symlink(folder + "/real", folder + "/link");
  Options o;
  o.dataDirectory = folder + "/link";
  EXPECT_TRUE(Server::create(o, clock, random));
}

TEST_F(PersistenceTest, ForeignAndDamagedFilesAreNamed) {
  { std::ofstream(folder + "/state.db") << std::string(5000, 'x'); }
  base::Status s = open();
  EXPECT_EQ(s.code(), base::Code::malformed) << s.str();
  EXPECT_THAT(s.message(), HasSubstr(folder + "/state.db"));
  std::filesystem::remove(folder + "/state.db");
  sql("CREATE TABLE t(x)");
  EXPECT_THAT(open().message(), HasSubstr("not one of this server"));
  std::filesystem::remove(folder + "/state.db");
  ASSERT_TRUE(open().ok());
  server.reset();
  sql("PRAGMA user_version=99");
  EXPECT_THAT(open().message(), HasSubstr("schema version 99"));
  sql("PRAGMA user_version=1; UPDATE objects SET body = 5");
  EXPECT_EQ(open().code(), base::Code::malformed);
  EXPECT_EQ(
      [&] {
        Options o;
        o.dataDirectory = "/proc/no";
        return Server::create(o, clock, random).status().code();
      }(),
      base::Code::unavailable);
}

}  // namespace
}  // namespace egpu::apiserver

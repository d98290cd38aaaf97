// Every export is forwarded, and no look-up gives a program the driver's own version of a limited function.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "tests/gpu/limited_process.h"

namespace egpu::gpu::testing {
namespace {

const std::set<std::string>& limitedNames() {
  static const std::set<std::string> kNames = {
#define EGPU_LIMITED_NAME(name) name,
#include "limited_names.inc"
#undef EGPU_LIMITED_NAME
  };
  return kNames;
}

/// Runs in a process of its own, because a process has one stand-in. Returns the result of `check`, at most 255.
template <class Check>
int inChild(const Check& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

struct Export {
  const char* name;
  int place;
  const char* drivers;
};

constexpr Export kExports[] = {
#define EGPU_ECHO(name, place, drivers) {name, place, drivers},
#include "echo_names.inc"
#undef EGPU_ECHO
};

/// Calls an export with arguments in registers and on the stack. Returns true if the library got them all.
bool forwards(Cuda& standIn, const uint64_t* echoed, const Export& entry) {
  using Function = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, uint64_t);
  const auto call = reinterpret_cast<Function>(standIn.address(entry.name));
  const uint64_t base = 1 + 100 * static_cast<uint64_t>(entry.place);
  const double real = 0.5 + entry.place;
  if (call == nullptr ||
      call(base, base + 1, base + 2, base + 3, base + 4, base + 5, real, base + 6) != 1000 + entry.place)
    return false;
  for (uint64_t i = 0; i < 7; ++i)
    if (echoed[i] != base + i) return false;
  return std::memcmp(&echoed[7], &real, sizeof real) == 0;
}

int checkForwarding(const std::string& driver) {
  SharedFiles files(fakePath("echo_" + driver), "", "");
  files.limit(kMiB);
  Cuda standIn(standInPath()), echo(fakePath("echo_" + driver));
  const auto* echoed = reinterpret_cast<const uint64_t* (*)()>(echo.address("egpuEcho"))();
  int wrong = 0, forwarded = 0;
  for (int round = 0; round < 2; ++round)  // the first call resolves
    for (const auto& entry : kExports) {
      if (limitedNames().contains(entry.name)) {
        if (standIn.address(entry.name) == nullptr) ++wrong;
        continue;
      }
      const bool has = std::strstr(entry.drivers, driver.c_str()) != nullptr;
      // A driver without the function: CUDA_ERROR_NOT_FOUND.
      if (has ? !forwards(standIn, echoed, entry) : standIn(entry.name) != 500) {
        std::fprintf(stderr, "%s of driver %s is not forwarded\n", entry.name, driver.c_str());
        ++wrong;
      }
      if (has && round == 0) ++forwarded;
    }
  return wrong > 0 || forwarded < 400 ? 1 : 0;
}

class LimiterForwardTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LimiterForwardTest, EveryExportGetsItsArguments) {
  EXPECT_EQ(inChild([&] { return checkForwarding(GetParam()); }), 0);
}

INSTANTIATE_TEST_SUITE_P(Drivers, LimiterForwardTest, ::testing::Values("470", "535", "550", "555", "580", "cuda13"));

// ---- look-ups

using Query1 = int (*)(const char*, void**, int, uint64_t);
using Query2 = int (*)(const char*, void**, int, uint64_t, int*);

struct QueryAnswer {
  void* function = nullptr;
  int result = 0, status = -1;
};

struct Generation {
  Query1 first = nullptr;
  Query2 second = nullptr;
  QueryAnswer ask(const char* name, int version, uint64_t flags) const {
    QueryAnswer out;
    out.result = second != nullptr ? second(name, &out.function, version, flags, &out.status)
                                   : first(name, &out.function, version, flags);
    return out;
  }
};

constexpr const char* kNames[] = {
#define EGPU_ROW(name, perThread, version, symbol) name,
#include "fake_versions.inc"
#undef EGPU_ROW
};

constexpr int kVersions[] = {2000,  3020,  4000,  7000,  8000,  9000,  10010, 11000, 11020, 11030, 11040, 11060, 11070,
                             11080, 12000, 12020, 12040, 12060, 12080, 12090, 13000, 13010, 13020, 13050, 90000, 99999};

struct Symbol {
  bool limited = false;    ///< it has the name of a limited function
  bool ofStandIn = false;  ///< the stand-in contains it
};

/// The symbol at an address.
const Symbol& symbolAt(void* address) {
  static std::map<void*, Symbol> known;
  const auto [at, isNew] = known.try_emplace(address);
  Dl_info info{};
  if (!isNew || dladdr(address, &info) == 0) return at->second;
  at->second.limited = info.dli_sname != nullptr && limitedNames().contains(info.dli_sname);
  at->second.ofStandIn = std::strstr(info.dli_fname, "limiter_test") != nullptr;
  return at->second;
}

struct Counts {
  long queries = 0, ofLimited = 0, leaks = 0, differences = 0;
};

/// One look-up by the stand-in and by the driver.
void compare(const Generation& standIn, const Generation& plain, const char* name, int version, uint64_t flags,
             Counts* counts) {
  const QueryAnswer ours = standIn.ask(name, version, flags), theirs = plain.ask(name, version, flags);
  ++counts->queries;
  if (ours.result != theirs.result || ours.status != theirs.status || !ours.function != !theirs.function) {
    if (counts->differences++ < 5)
      std::fprintf(stderr, "%s version %d flags %d: %d, not %d\n", name, version, static_cast<int>(flags), ours.result,
                   theirs.result);
    return;
  }
  if (ours.function == nullptr || !symbolAt(theirs.function).limited) return;
  ++counts->ofLimited;
  if (!symbolAt(ours.function).ofStandIn && counts->leaks++ < 5)
    std::fprintf(stderr, "%s version %d flags %d leads to the driver\n", name, version, static_cast<int>(flags));
}

/// All names, versions and flags, by both generations of the look-up as exported and as looked up themselves.
int checkQueries(int cuda, const std::string& variant, int flags) {
  std::string node = twoCards();
  node.replace(node.find("cuda: 13050"), 11, "cuda: " + std::to_string(cuda));
  SharedFiles files(fakePath(variant), "", node);
  files.limit(kMiB);
  Cuda standIn(standInPath(), flags), driver(fakePath(variant));
  Generation ours[4], plain[2];
  plain[0].first = reinterpret_cast<Query1>(driver.address("cuGetProcAddress"));
  plain[1].second = reinterpret_cast<Query2>(driver.address("cuGetProcAddress_v2"));
  ours[0].first = reinterpret_cast<Query1>(standIn.address("cuGetProcAddress"));
  ours[1].second = reinterpret_cast<Query2>(standIn.address("cuGetProcAddress_v2"));
  ours[2].first = reinterpret_cast<Query1>(ours[0].ask("cuGetProcAddress", 11030, 0).function);
  if (cuda >= 12000)  // older drivers look up the first generation only
    ours[3].second = reinterpret_cast<Query2>(ours[1].ask("cuGetProcAddress", 12000, 0).function);
  Counts counts;
  for (const char* name : kNames)
    for (const int version : kVersions)
      for (uint64_t flag = 0; flag < 4; ++flag)
        for (int way = 0; way < 4; ++way)
          if (way != 3 || ours[3].second != nullptr) compare(ours[way], plain[way % 2], name, version, flag, &counts);
  std::printf("CUDA %d, %s: %ld look-ups, %ld of limited functions, %ld leaks, %ld answers that differ\n", cuda,
              variant.c_str(), counts.queries, counts.ofLimited, counts.leaks, counts.differences);
  std::fflush(stdout);
  return counts.leaks == 0 && counts.differences == 0 && counts.ofLimited > 10000 ? 0 : 1;
}

TEST(LimiterLookupTest, NoVersionRowLeaksALimitedFunction) {
  EXPECT_EQ(inChild([] { return checkQueries(13050, "gpu", RTLD_LOCAL); }), 0);
  EXPECT_EQ(inChild([] { return checkQueries(12020, "gpu", RTLD_GLOBAL); }), 0);
}

TEST(LimiterLookupTest, ADriverWithoutBsymbolicFindsTheStandIn) {
  EXPECT_EQ(inChild([] { return checkQueries(12080, "gpu_plain", RTLD_GLOBAL); }), 0);
  EXPECT_EQ(inChild([] { return checkQueries(11040, "gpu_plain", RTLD_LOCAL); }), 0);
}

/// A driver with versions that are newer than the tables.
int checkNewer() {
  std::string node = twoCards();
  node.replace(node.find("cuda: 13050"), 11, "cuda: 99000");
  SharedFiles files(fakePath(), "", node + "newerFunctions: [cuMemAlloc, cuLaunchKernel, cuFunctionOfTheFuture]\n");
  files.limit(kMiB);
  Cuda standIn(standInPath());
  Generation ours;
  ours.second = reinterpret_cast<Query2>(standIn.address("cuGetProcAddress_v2"));
  int wrong = 0;
  for (const char* name : {"cuMemAlloc", "cuLaunchKernel"})
    for (const int version : {12000, 90000, 99999}) {
      const QueryAnswer found = ours.ask(name, version, 0);
      if (found.result != 0 || !symbolAt(found.function).ofStandIn) ++wrong;
    }
  const QueryAnswer other = ours.ask("cuFunctionOfTheFuture", 90000, 0);
  if (other.result != 0 || other.function == nullptr) ++wrong;
  return wrong;
}

TEST(LimiterLookupTest, ANewerVersionIsClampedToTheNewestKnown) { EXPECT_EQ(inChild(checkNewer), 0); }

/// Without valid limits nothing can be used.
int checkRefused(void (*damage)(SharedFiles&)) {
  SharedFiles files(fakePath(), "", twoCards());
  files.limit(kMiB);
  damage(files);
  Cuda standIn(standInPath());
  uint64_t address;
  return standIn("cuInit", 0U) == 802 && standIn("cuMemAlloc_v2", &address, std::size_t{1}) != 0 ? 0 : 1;
}

TEST(LimiterLookupTest, WithoutValidFilesCudaIsRefused) {
  EXPECT_EQ(inChild([] { return checkRefused([](SharedFiles& f) { unlink((f.folder() + "/limits").c_str()); }); }), 0);
  EXPECT_EQ(inChild([] { return checkRefused([](SharedFiles& f) { unlink((f.folder() + "/usage").c_str()); }); }), 0);
  EXPECT_EQ(inChild([] { return checkRefused([](SharedFiles& f) { f.limits->bank[1].checksum ^= 1; }); }), 0);
  EXPECT_EQ(inChild([] { return checkRefused([](SharedFiles& f) { f.limits->cuda[0] ^= 1; }); }), 0);
  EXPECT_EQ(inChild([] { return checkRefused([](SharedFiles& f) { f.limits->size += 8; }); }), 0);
}

}  // namespace
}  // namespace egpu::gpu::testing

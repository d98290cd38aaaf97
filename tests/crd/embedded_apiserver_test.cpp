// Runs tests/crd/cases.yaml, the samples and the race for a card on the embedded API server, which must answer like the
// real one.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/http/http.h"
#include "controller/standalone/apiserver/server.h"

namespace egpu {
namespace {

/// Runs a shell command and stores its output in `output`. Returns the exit status, or -1 if it can't be run.
int run(const std::string& command, std::string& output) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  std::array<char, 4096> chunk{};
  while (const auto n = std::fread(chunk.data(), 1, chunk.size(), pipe)) output.append(chunk.data(), n);
  return ::pclose(pipe);
}

TEST(EmbeddedApiServer, AnswersTheTableAsTheRealOne) {
  base::SystemClock clock;
  base::Random random(1);

  auto server = apiserver::Server::create({}, clock, random);
  ASSERT_TRUE(server.ok()) << server.status().str();
  auto listener = http::listen("127.0.0.1:0", **server);
  ASSERT_TRUE(listener.ok()) << listener.status().str();

  std::string output;
  const int status = run(EGPU_PYTHON " " EGPU_SOURCE_DIR "/tests/crd/real_apiserver_test.py --server http://" +
                             (*listener)->address() + " 2>&1",
                         output);
  EXPECT_EQ(status, 0) << output;
  EXPECT_NE(output.find(" 0 failed"), std::string::npos) << output;
  (*listener)->stop();
}

}  // namespace
}  // namespace egpu

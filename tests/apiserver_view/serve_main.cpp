// Runs the embedded API server alone, for scripts that test kubectl with it. Prints "http://127.0.0.1:PORT" and serves
// until its standard input ends, so that it never outlives the script.
#include <cstdio>
#include <string>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/http/http.h"
#include "controller/standalone/apiserver/loopback_guard.h"
#include "controller/standalone/apiserver/server.h"

int main(int argc, char** argv) {
  using namespace egpu;
  base::SystemClock clock;
  base::Random random;
  apiserver::Options options;
  auto server = apiserver::Server::create(options, clock, random);
  if (!server.ok()) {
    std::fprintf(stderr, "error: %s\n", server.status().str().c_str());
    return 1;
  }
  apiserver::LoopbackGuard guard(**server);
  auto listener = http::listen(argc > 1 ? argv[1] : "127.0.0.1:0", guard);
  if (!listener.ok()) {
    std::fprintf(stderr, "error: %s\n", listener.status().str().c_str());
    return 1;
  }
  std::printf("http://%s\n", (*listener)->address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  (*listener)->stop();
  return 0;
}

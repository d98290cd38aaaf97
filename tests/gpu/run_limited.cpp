// Runs a command in which both cards of nodes/two-cards.yaml are limited:  run_limited BYTES COMMAND…
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/gpu/limited_process.h"

int main(int argc, char** argv) {
  using namespace egpu::gpu::testing;
  const uint64_t bytes = argc > 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (bytes == 0) {
    std::fprintf(stderr, "usage: run_limited BYTES COMMAND…\n");
    return 2;
  }
  SharedFiles files(fakePath(), EGPU_LIB_DIR "/nvml/libnvidia-ml.so.1", twoCards());
  files.limit(bytes, bytes);
  setenv("LD_LIBRARY_PATH", EGPU_LIB_DIR "/limiter_test", 1);
  const pid_t child = fork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    std::perror(argv[2]);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

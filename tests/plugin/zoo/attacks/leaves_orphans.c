/* provision leaves orphaned grandchildren behind, which end without a parent in the plugin to reap them. */
#define NAME "leaves-orphans.example.com"
#define HAVE_PROVISION
#include <sys/wait.h>
#include <unistd.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child < 0) return EGPU_INTERNAL;
    if (child == 0) _exit(fork() < 0);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return EGPU_INTERNAL;
  }
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"

/* provision leaves a child process behind and crashes. */
#define NAME "forks.example.com"
#define HAVE_PROVISION
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  const pid_t child = fork();
  (void)call;
  if (child == 0)
    for (;;) sleep(3600);
  FILE* out = fopen(device->node, "w"); /* the test passes a file's name here */
  if (!out) return EGPU_INTERNAL;
  fprintf(out, "%d\n", (int)child);
  fclose(out);
  _exit(1);
}
#include "tests/plugin/zoo/good.h"

/* Describes itself differently in every process. */
#define HAVE_DESCRIBE
#include <stdio.h>
#include <unistd.h>

#include "api/plugin/provisioner.h"
static const egpu_host* host;
static int describe(const egpu_call* call) {
  char version[32];
  egpu_description d = {sizeof(egpu_description), "changing.example.com", version, "gpuShare", "Advisory"};
  snprintf(version, sizeof version, "%d", (int)getpid());
  return host->reply_description(call, &d);
}
#include "tests/plugin/zoo/good.h"

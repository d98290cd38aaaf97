/* provision writes through a null pointer. */
#define NAME "crashes.example.com"
#define HAVE_PROVISION
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  fprintf(stderr, "about to fall\n");
  signal(SIGSEGV, SIG_DFL); /* whatever a sanitizer made of it */
  raise(SIGSEGV);
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"

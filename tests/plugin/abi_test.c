/* Checks that provisioner.h compiles as C11 and keeps the layout of version 1. */
#include <stdio.h>

#include "api/plugin/provisioner.h"

_Static_assert(offsetof(egpu_provisioner, struct_size) == 0, "tables begin with their size");
_Static_assert(offsetof(egpu_host, struct_size) == 0, "tables begin with their size");
_Static_assert(offsetof(egpu_provisioner, abi_version) == sizeof(size_t), "then the version");
_Static_assert(offsetof(egpu_host, abi_version) == sizeof(size_t), "then the version");

/* Append-only: a slot never changes its place. */
#define SLOT(member, n)                                                                                   \
  _Static_assert(offsetof(egpu_provisioner, member) == 2 * sizeof(size_t) + (n) * sizeof(void (*)(void)), \
                 #member " moved")
SLOT(describe, 0);
SLOT(validate, 1);
SLOT(provision, 2);
SLOT(deprovision, 3);
SLOT(resize, 4);
SLOT(list, 5);
SLOT(discover, 6);
SLOT(stage, 7);
SLOT(mount, 8);
SLOT(unmount, 9);
SLOT(unstage, 10);
SLOT(health, 11);
SLOT(prefer, 12);

#define HOST(member, n) \
  _Static_assert(offsetof(egpu_host, member) == 2 * sizeof(size_t) + (n) * sizeof(void (*)(void)), #member " moved")
HOST(log, 0);
HOST(remaining_ms, 1);
HOST(cancelled, 2);
HOST(reply_message, 3);
HOST(reply_description, 4);
HOST(reply_key, 5);
HOST(reply_env, 6);
HOST(reply_device_node, 7);
HOST(reply_mount, 8);
HOST(reply_cdi_device, 9);
HOST(reply_gpu, 10);
HOST(reply_health, 11);
HOST(reply_process, 12);
HOST(reply_use, 13);
HOST(reply_process_use, 14);
HOST(reply_prefer, 15);
HOST(reply_veto, 16);
HOST(reply_isolation, 17);
HOST(reply_source, 18);

/* Layout of egpu_gpu for plugins built before its first addition, and the place where the additions begin. */
_Static_assert(offsetof(egpu_gpu, milli_tflops) == sizeof(size_t) + 3 * sizeof(char*) + 4 * sizeof(int64_t),
               "egpu_gpu grows at its end only");
/* Layout of egpu_card for plugins built before its first addition. */
_Static_assert(offsetof(egpu_card, pci_address) == sizeof(size_t) + 2 * sizeof(char*) + 4 * sizeof(int64_t),
               "egpu_card grows at its end only");
_Static_assert(offsetof(egpu_card, mig_profile) == offsetof(egpu_card, pci_address) + sizeof(char*), "and there again");
_Static_assert(offsetof(egpu_gpu, mig_profiles) == offsetof(egpu_gpu, attribute_count) + sizeof(size_t),
               "egpu_gpu grows at its end only");

int main(void) {
  egpu_provisioner half = {.struct_size = offsetof(egpu_provisioner, list)};
  const int values[] = {EGPU_OK,     EGPU_IN_PROGRESS, EGPU_NO_CHANGE,   EGPU_RESCHEDULE,
                        EGPU_EXISTS, EGPU_INVALID,     EGPU_UNAVAILABLE, EGPU_INTERNAL};
  int bad = 0;
  for (int i = 0; i < 8; ++i) bad += values[i] != i;
  bad += EGPU_ABI_VERSION != 1u;
  bad += !EGPU_HAS(&half, egpu_provisioner, resize);
  bad += EGPU_HAS(&half, egpu_provisioner, list) != 0;
  if (bad) fprintf(stderr, "%d promises of ABI version 1 are broken\n", bad);
  return bad ? 1 : 0;
}

/* Chooses among the proposed places: the last one first, never the node "vetoed". The class's parameter "spoil" selects
 * an error in its answer, if any. */
#define NAME "prefers.example.com"
#define HAVE_TABLE                                                                                               \
  {                                                                                                              \
    .struct_size = sizeof(egpu_provisioner), .abi_version = EGPU_ABI_VERSION, .describe = describe,              \
    .validate = validate, .provision = provision, .deprovision = deprovision, .list = list, .mount = mount_slot, \
    .prefer = prefer                                                                                             \
  }
#include "api/plugin/provisioner.h"

static int prefer(const egpu_call* call, const egpu_wish* wish);
#include "tests/plugin/zoo/good.h"

static int prefer(const egpu_call* call, const egpu_wish* wish) {
  const char* spoil = "";
  size_t i = 0;
  for (i = 0; i < wish->parameter_count; ++i)
    if (strcmp(wish->parameters[i].key, "spoil") == 0) spoil = wish->parameters[i].value;
  if (strcmp(spoil, "beyond") == 0) host->reply_prefer(call, wish->candidate_count);
  if (strcmp(spoil, "twice") == 0) host->reply_prefer(call, 0);
  if (strcmp(spoil, "null") == 0) host->reply_veto(call, 0, NULL);
  if (strcmp(spoil, "unavailable") == 0) return EGPU_UNAVAILABLE;
  for (i = wish->candidate_count; i > 0; --i)
    if (strcmp(wish->candidates[i - 1]->node, "vetoed") == 0)
      host->reply_veto(call, i - 1, wish->candidates[i - 1]->cards[0]->uuid);
    else
      host->reply_prefer(call, i - 1);
  return EGPU_OK;
}

/* Cards of another vendor: two that are linked, and one as a plugin built before the additions to egpu_gpu reports it.
 * The parameter of the last validate selects an error in them, if any. */
#define NAME "cards.example.com"
#define HAVE_VALIDATE
#define HAVE_TABLE                                                                                               \
  {                                                                                                              \
    .struct_size = sizeof(egpu_provisioner), .abi_version = EGPU_ABI_VERSION, .describe = describe,              \
    .validate = validate, .provision = provision, .deprovision = deprovision, .list = list, .mount = mount_slot, \
    .discover = discover, .health = health                                                                       \
  }
#include "api/plugin/provisioner.h"

static char spoil[32];
static int validate(const egpu_call* call, const egpu_pair* parameters, size_t count);
static int discover(const egpu_call* call);
static int health(const egpu_call* call);
#include "tests/plugin/zoo/good.h"

static int validate(const egpu_call* call, const egpu_pair* parameters, size_t count) {
  (void)call;
  spoil[0] = 0;
  if (count == 1) strncpy(spoil, parameters[0].value, sizeof spoil - 1);
  return EGPU_OK;
}

static int spoiled(const char* how) { return strcmp(spoil, how) == 0; }

static int discover(const egpu_call* call) {
  const egpu_link there = {spoiled("null-peer") ? NULL : "NPU-B", "hostbridge", 1},
                  links[] = {{"NPU-B", "system", 1}, there}, back = {"NPU-A", "hostbridge", 1};
  const egpu_pair attributes[] = {{"firmware", "7.3"}};
  const egpu_mig_profile profiles[] = {
      {spoiled("null-profile") ? NULL : "1g.10gb", 10ll << 30, 1, 1, 0x7f, 0},
      {"1g.10gb+me", 10ll << 30, 1, spoiled("no-size") ? 0 : 1, spoiled("beyond") ? 0x100 : 0x7f, 1}};
  egpu_gpu a = {sizeof a, "NPU-A", "Example-9000", 0, 64ll << 30, 96, 1, "0000:41:00.0", 256500,
                links,    2,       attributes,     1, profiles,   2};
  egpu_gpu b = {sizeof b, "NPU-B", "Example-9000", 1, 64ll << 30, 96, 1, "0000:42:00.0", 256500,
                &back,    1,       NULL,           0, NULL,       0};
  egpu_gpu old = a; /* its additions must not be read */
  old.struct_size = offsetof(egpu_gpu, milli_tflops);
  old.uuid = "NPU-OLD";
  old.link_count = old.attribute_count = old.mig_profile_count = ~(size_t)0;
  if (spoiled("twice")) b.uuid = a.uuid;
  if (spoiled("unnamed")) b.uuid = "";
  if (spoiled("negative")) b.memory = -1;
  host->reply_gpu(call, &a);
  host->reply_gpu(call, &b);
  return host->reply_gpu(call, &old);
}

static int health(const egpu_call* call) {
  egpu_use use = {sizeof use, "NPU-A", 3ll << 30, 35, 2}, unknown = {sizeof unknown, "NPU-B", -1, -1, -1};
  egpu_process_use process = {sizeof process, "NPU-A", 4711, 2ll << 30, 30};
  if (spoiled("over")) use.sm_percent = 101;
  if (spoiled("twice")) unknown.uuid = use.uuid;
  if (spoiled("negative")) process.memory = -2;
  if (spoiled("short")) process.struct_size = sizeof(size_t);
  host->reply_use(call, &use);
  host->reply_use(call, &unknown);
  host->reply_process_use(call, &process);
  host->reply_process(call, "NPU-A", 12, 1ll << 30); /* as a plugin built before reply_process_use */
  return host->reply_health(call, "NPU-LOST", 0, "it fell off the bus");
}

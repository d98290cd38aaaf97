/* Template of a provisioner in plain C: gives a container its card and a greeting, with a text that the class may set.
 *
 *   cc -std=c11 -shared -fPIC -fvisibility=hidden -I "$EGPU" -o libskeleton.so skeleton.c -pthread
 */
#include "api/plugin/sdk.h"

static const egpu_host* host;
static egpu_records records = EGPU_RECORDS_INIT;

static int describe(const egpu_call* call) {
  const egpu_description d = {sizeof d, "c-skeleton.example.com", "1.0", "gpuShare", "Advisory"};
  return host->reply_description(call, &d);
}

static int validate(const egpu_call* call, const egpu_pair* parameters, size_t count) {
  static const char* const known[] = {"greeting"};
  return egpu_refuse_unknown(host, call, parameters, count, known, 1);
}

/* Controller side, keyed by the device's uid. */
static int provision(const egpu_call* call, const egpu_device* device) {
  return egpu_records_add(&records, host, call, device);
}

static int deprovision(const egpu_call* call) { return egpu_records_remove(&records, host, call); }

static int list(const egpu_call* call) { return egpu_records_list(&records, host, call); }

/* Node side: replies the edits for a container. The result must depend only on the arguments. */
static int mount_device(const egpu_call* call, const egpu_device* device, const egpu_container* container) {
  const int complete = egpu_complete(host, call, device);
  (void)container;
  if (complete != EGPU_OK) return complete;
  host->reply_env(call, "GREETING", egpu_parameter(device, "greeting", "hello"));
  for (size_t i = 0; i < device->card_count; ++i) {
    char text[256];
    snprintf(text, sizeof text, "/dev/nvidia%lld", (long long)device->cards[i]->index);
    host->reply_device_node(call, text, "", "rw");
    snprintf(text, sizeof text, "nvidia.com/gpu=%s", device->cards[i]->uuid);
    host->reply_cdi_device(call, text);
  }
  return EGPU_OK;
}

static const egpu_provisioner table = {
    .struct_size = sizeof(egpu_provisioner),
    .abi_version = EGPU_ABI_VERSION,
    .describe = describe,
    .validate = validate,
    .provision = provision,
    .deprovision = deprovision,
    .list = list,
    .mount = mount_device,
};

EGPU_EXPORT int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  if (h->abi_version != EGPU_ABI_VERSION) return EGPU_INVALID;
  host = h;
  *out = &table;
  return EGPU_OK;
}

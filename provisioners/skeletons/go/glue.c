/* The plugin's table and the entry symbol; the slots are implemented in Go. */
#include "glue.h"

#include "_cgo_export.h"

static const egpu_host* host;

void skeletonMessage(const egpu_call* call, const char* text) { host->reply_message(call, text); }
void skeletonKey(const egpu_call* call, const char* key) { host->reply_key(call, key); }
void skeletonEnv(const egpu_call* call, const char* name, const char* value) { host->reply_env(call, name, value); }
void skeletonDeviceNode(const egpu_call* call, const char* path) { host->reply_device_node(call, path, "", "rw"); }
void skeletonCdiDevice(const egpu_call* call, const char* name) { host->reply_cdi_device(call, name); }

static int describe(const egpu_call* call) {
  const egpu_description d = {sizeof d, "go-skeleton.example.com", "1.0", "gpuShare", "Advisory"};
  return host->reply_description(call, &d);
}
/* Go has no const. */
static int validate(const egpu_call* call, const egpu_pair* parameters, size_t count) {
  return goValidate((egpu_call*)call, (egpu_pair*)parameters, count);
}
static int provision(const egpu_call* call, const egpu_device* device) {
  return goProvision((egpu_call*)call, (egpu_device*)device);
}
static int deprovision(const egpu_call* call) { return goDeprovision((egpu_call*)call); }
static int list(const egpu_call* call) { return goList((egpu_call*)call); }
static int mount_device(const egpu_call* call, const egpu_device* device, const egpu_container* container) {
  (void)container;
  return goMount((egpu_call*)call, (egpu_device*)device);
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

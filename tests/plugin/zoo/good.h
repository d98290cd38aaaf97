/* A plugin in plain C that follows the contract as far as the tests call it. The other files of this folder each break
 * one rule: they define NAME before including this file, and override slots by macros. */
#include <string.h>
#include <time.h>

#include "api/plugin/provisioner.h"

#ifndef NAME
#define NAME "zoo.example.com"
#endif

static const egpu_host* host;

#ifndef HAVE_DESCRIBE
static int describe(const egpu_call* call) {
  egpu_description d = {sizeof(egpu_description), NAME, "1", "gpuShare", "Advisory"};
  return host->reply_description(call, &d);
}
#endif
#ifndef HAVE_VALIDATE
static int validate(const egpu_call* call, const egpu_pair* parameters, size_t count) {
  (void)call, (void)parameters, (void)count;
  return EGPU_OK;
}
#endif
#ifndef HAVE_PROVISION
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  return EGPU_OK;
}
#endif
#ifndef HAVE_DEPROVISION
static int deprovision(const egpu_call* call) {
  (void)call;
  return EGPU_OK;
}
#endif
#ifndef HAVE_LIST
static int list(const egpu_call* call) {
  (void)call;
  return EGPU_OK;
}
#endif
#ifndef HAVE_MOUNT
static int mount_slot(const egpu_call* call, const egpu_device* device, const egpu_container* container) {
  (void)container;
  return host->reply_env(call, "DEVICE", device->device);
}
#endif

#ifndef HAVE_TABLE
#define HAVE_TABLE                                                                                              \
  {                                                                                                             \
    .struct_size = sizeof(egpu_provisioner), .abi_version = EGPU_ABI_VERSION, .describe = describe,             \
    .validate = validate, .provision = provision, .deprovision = deprovision, .list = list, .mount = mount_slot \
  }
#endif
static const egpu_provisioner table = HAVE_TABLE;

#ifndef HAVE_ENTRY
int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  host = h;
  *out = &table;
  return EGPU_OK;
}
#endif

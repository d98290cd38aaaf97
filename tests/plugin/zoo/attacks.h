/* Shared by the zoo's attackers: provision tries one attack and reports the result. OK: the attack succeeded, and the
 * sandbox failed. INTERNAL: it was blocked; the message is the error's name. */
#include <errno.h>
#include <string.h>

#include "api/plugin/provisioner.h"

static const egpu_host* host;

static inline const char* parameter(const egpu_device* device, const char* name) {
  for (size_t i = 0; i < device->parameter_count; ++i)
    if (strcmp(device->parameters[i].key, name) == 0) return device->parameters[i].value;
  return "";
}

static inline int outcome(const egpu_call* call, long result) {
  host->reply_message(call, result >= 0 ? "it went well" : strerrorname_np(errno));
  return result >= 0 ? EGPU_OK : EGPU_INTERNAL;
}

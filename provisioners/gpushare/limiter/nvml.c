// The stand-in for libnvidia-ml.so.1: memory of a card is its share.
#include <stdlib.h>
#include <string.h>

#include "nvml_exports.h"
#include "provisioners/gpushare/limiter/forward.h"
#include "provisioners/gpushare/limiter/old_libc.h"
#include "provisioners/gpushare/limiter/usage.h"

enum { kFunctionNotFound = 13, kNvmlSuccess = 0, kUuidText = 96 };

struct MemoryInfo {
  unsigned long long total, free, used;
};

struct MemoryInfo2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

const char* egpuRealPath(void) {
  usageOpen();
  return usageLimits() == NULL ? "" : usageLimits()->nvml;
}

void egpuAttach(void) {}

int egpuMissing(void) { return kFunctionNotFound; }

/// Reads "GPU-" and 32 hexadecimal digits with hyphens.
static int parseUuid(const char* text, uint8_t uuid[16]) {
  int digits = 0;
  if (strncmp(text, "GPU-", 4) != 0) return -1;
  for (text += 4; *text != 0 && digits < 32; text++) {
    if (*text == '-') continue;
    const char digit[2] = {*text, 0};
    char* end;
    const unsigned long value = strtoul(digit, &end, 16);
    if (end == digit) return -1;
    uuid[digits / 2] = (uint8_t)(digits % 2 == 0 ? value << 4 : uuid[digits / 2] | value);
    digits++;
  }
  return digits == 32 ? 0 : -1;
}

/// Stores the limit of a handle's card, and what all processes of the container use of it.
static void shareOf(void* device, uint64_t* limit, uint64_t* used) {
  char text[kUuidText] = {0};
  uint8_t uuid[16];
  void* function = egpuReal[kExport_nvmlDeviceGetUUID];
  *limit = EGPU_LIMITER_NO_LIMIT;
  *used = 0;
  if (function == NULL || ((int (*)(void*, char*, unsigned))function)(device, text, sizeof text - 1) != kNvmlSuccess ||
      parseUuid(text, uuid) != 0)
    return;  // an instance of MIG: the card itself reports its memory
  const int card = usageFindCard(uuid);
  *limit = usageLimit(card);
  if (card >= 0 && usagePage() != NULL) *used = egpu_limiter_used(usagePage(), (uint32_t)card);
}

int EGPU_HIDDEN limited_nvmlDeviceGetMemoryInfo(void* device, struct MemoryInfo* out) {
  const int result = ((int (*)(void*, void*))egpuReal[kExport_nvmlDeviceGetMemoryInfo])(device, out);
  uint64_t limit, used;
  if (result != kNvmlSuccess || out == NULL) return result;
  shareOf(device, &limit, &used);
  if (limit >= out->total) return result;
  out->total = limit;
  out->used = used < limit ? used : limit;
  out->free = limit - out->used;
  return result;
}

int EGPU_HIDDEN limited_nvmlDeviceGetMemoryInfo_v2(void* device, struct MemoryInfo2* out) {
  const int result = ((int (*)(void*, void*))egpuReal[kExport_nvmlDeviceGetMemoryInfo_v2])(device, out);
  uint64_t limit, used;
  if (result != kNvmlSuccess || out == NULL) return result;
  shareOf(device, &limit, &used);
  if (limit >= out->total) return result;
  out->total = limit;
  out->reserved = 0;
  out->used = used < limit ? used : limit;
  out->free = limit - out->used;
  return result;
}

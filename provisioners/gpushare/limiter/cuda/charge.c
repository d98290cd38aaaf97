#include "provisioners/gpushare/limiter/cuda/charge.h"

#include <string.h>

#include "provisioners/gpushare/limiter/old_libc.h"

int chargeCurrent(struct Charge* charge, uint64_t bytes, int kind) {
  int device;
  memset(charge, 0, sizeof *charge);
  struct Allocation* allocation = &charge->allocation;
  if (currentContext(&allocation->owner, &device) != 0) return kSuccess;
  allocation->card = (int16_t)cardOfDevice(device);
  allocation->bytes = bytes;
  allocation->kind = (int16_t)kind;
  if (!usageReserve(allocation->card, bytes)) return kOutOfMemory;
  charge->open = allocation->card >= 0;
  return kSuccess;
}

int chargeEnd(struct Charge* charge, int result, uint64_t key) {
  if (!charge->open) return result;
  charge->allocation.key = key;
  if (result != kSuccess)
    usageReturn(charge->allocation.card, charge->allocation.bytes);
  else
    allocationAdd(&charge->allocation);  // without memory for the record the bytes stay charged
  return result;
}

void releaseBegin(struct Charge* charge, uint64_t key, int kind) {
  charge->open = key != 0 && allocationTake(key, kind, &charge->allocation);
}

int releaseEnd(struct Charge* charge, int result) {
  if (!charge->open) return result;
  if (result != kSuccess)
    allocationAdd(&charge->allocation);
  else
    usageReturn(charge->allocation.card, charge->allocation.bytes);
  return result;
}

void releaseContext(Handle context) {
  uint64_t bytes[EGPU_LIMITER_CARDS] = {0};
  allocationDropOwner(context, 0, bytes);
  for (int card = 0; card < (int)EGPU_LIMITER_CARDS; card++) usageReturn(card, bytes[card]);
  forgetContext(context);
}

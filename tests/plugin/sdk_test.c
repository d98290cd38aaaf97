/* Tests the records of api/plugin/sdk.h in plain C. */
#include "api/plugin/sdk.h"

#include <stdio.h>

static char reported[512];
static int listed;
static int message(const egpu_call* call, const char* text) {
  (void)call;
  snprintf(reported, sizeof reported, "%s", text);
  return EGPU_OK;
}
static int key(const egpu_call* call, const char* text) {
  (void)call, (void)text;
  ++listed;
  return EGPU_OK;
}
static const egpu_host host = {
    .struct_size = sizeof(egpu_host), .abi_version = EGPU_ABI_VERSION, .reply_message = message, .reply_key = key};

static int failures;
static void expect(int line, int got, int wanted) {
  if (got == wanted) return;
  fprintf(stderr, "line %d: got %d, wanted %d (%s)\n", line, got, wanted, reported);
  ++failures;
}
#define EXPECT(got, wanted) expect(__LINE__, got, wanted)

int main(void) {
  static egpu_records records = EGPU_RECORDS_INIT;
  const egpu_call a = {sizeof(egpu_call), "a", 0, NULL}, b = {sizeof(egpu_call), "b", 0, NULL};
  const egpu_call none = {sizeof(egpu_call), "", 0, NULL};
  egpu_card card = {sizeof(egpu_card), "GPU-1", "", 0, 100, 4096, 0, "", "", 0};
  const egpu_card* const cards[] = {&card};
  egpu_pair pair = {"greeting", "hi"};
  egpu_device device = {sizeof(egpu_device), "a", "egpu-a", "ns/first", "n1", cards, 1, &pair, 1, 0, NULL, NULL, 0};

  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_OK);
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_NO_CHANGE);
  device.claim = "ns/next";
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_NO_CHANGE);
  card.mig_slots = 3;
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_EXISTS);
  card.mig_slots = 0;
  card.core = 200;
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_EXISTS);
  EXPECT(strstr(reported, "key a") != NULL, 1);
  EXPECT(egpu_records_replace(&records, &host, &a, &device), EGPU_OK);
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_NO_CHANGE);
  pair.value = "ho";
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_EXISTS);
  EXPECT(egpu_records_add(&records, &host, &b, &device), EGPU_OK);
  EXPECT(egpu_records_list(&records, &host, &a), EGPU_OK);
  EXPECT(listed, 2);
  EXPECT(egpu_records_remove(&records, &host, &a), EGPU_OK);
  EXPECT(egpu_records_remove(&records, &host, &a), EGPU_OK);
  EXPECT(egpu_records_has(&records, "a"), 0);
  EXPECT(egpu_records_has(&records, "b"), 1);

  EXPECT(egpu_records_add(&records, &host, &none, &device), EGPU_INVALID);
  EXPECT(egpu_records_remove(&records, &host, &none), EGPU_INVALID);
  card.uuid = "";
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_INVALID);
  device.card_count = 0;
  EXPECT(egpu_records_add(&records, &host, &a, &device), EGPU_INVALID);
  EXPECT(egpu_records_has(&records, "a"), 0);

  const char* const known[] = {"colour", "greeting"};
  EXPECT(egpu_refuse_unknown(&host, &a, &pair, 1, known, 2), EGPU_OK);
  EXPECT(egpu_refuse_unknown(&host, &a, &pair, 1, known, 1), EGPU_INVALID);
  EXPECT(strcmp(reported, "unknown parameter \"greeting\"; this provisioner knows colour"), 0);
  EXPECT(egpu_refuse_unknown(&host, &a, &pair, 1, NULL, 0), EGPU_INVALID);
  EXPECT(strcmp(egpu_parameter(&device, "greeting", "?"), "ho"), 0);
  EXPECT(strcmp(egpu_parameter(&device, "colour", "?"), "?"), 0);
  return failures == 0 ? 0 : 1;
}

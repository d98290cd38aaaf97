/* SDK for plugins in C, on top of provisioner.h: records of provisioned devices by key, and common refusals.
 * Header-only, C11 with POSIX threads.
 *
 *   static egpu_records records = EGPU_RECORDS_INIT;
 *   static int provision(const egpu_call* call, const egpu_device* device) {
 *     return egpu_records_add(&records, host, call, device);
 *   }
 *
 * All functions reply a message when they refuse, and may be called from any thread. The records end with the process;
 * after a restart, a repeated provision returns EGPU_OK again.
 */
#ifndef EGPU_API_PLUGIN_SDK_H
#define EGPU_API_PLUGIN_SDK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/plugin/provisioner.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EGPU_RECORD_LISTS 256u

/** One key and its content.
 *  OWNERSHIP: the records'. */
typedef struct egpu_record {
  struct egpu_record* next;
  char* content;
  char key[]; /**< NUL-terminated */
} egpu_record;

/** Keys and their contents. Initialize with EGPU_RECORDS_INIT; do not access the members. */
typedef struct egpu_records {
  pthread_mutex_t mutex;
  egpu_record* lists[EGPU_RECORD_LISTS];
} egpu_records;
#define EGPU_RECORDS_INIT               \
  {                                     \
    PTHREAD_MUTEX_INITIALIZER, { NULL } \
  }

/** Replies the message `text` followed by `about`; returns `code`. */
static inline int egpu_refuse(const egpu_host* host, const egpu_call* call, int code, const char* text,
                              const char* about) {
  char message[512];
  snprintf(message, sizeof message, "%s%s", text, about);
  host->reply_message(call, message);
  return code;
}

/** Returns EGPU_OK, or EGPU_INVALID if a parameter is not among the `count` known ones, and lists those. */
static inline int egpu_refuse_unknown(const egpu_host* host, const egpu_call* call, const egpu_pair* parameters,
                                      size_t parameter_count, const char* const* known, size_t count) {
  for (size_t i = 0; i < parameter_count; ++i) {
    char message[512];
    size_t k = 0;
    while (k < count && strcmp(parameters[i].key, known[k]) != 0) ++k;
    if (k < count) continue;
    snprintf(message, sizeof message, "unknown parameter \"%s\"; this provisioner knows %s", parameters[i].key,
             count == 0 ? "none of its own" : "");
    for (k = 0; k < count; ++k) {
      const size_t used = strlen(message);
      snprintf(message + used, sizeof message - used, "%s%s", k == 0 ? "" : ", ", known[k]);
    }
    host->reply_message(call, message);
    return EGPU_INVALID;
  }
  return EGPU_OK;
}

/** Returns the value of a device's parameter, or `otherwise`.
 *  OWNERSHIP: the host's, valid during the call. */
static inline const char* egpu_parameter(const egpu_device* device, const char* name, const char* otherwise) {
  for (size_t i = 0; i < device->parameter_count; ++i)
    if (strcmp(device->parameters[i].key, name) == 0) return device->parameters[i].value;
  return otherwise;
}

/** Returns EGPU_OK if the call has a key and the device (may be NULL) has cards with uuids; otherwise EGPU_INVALID. */
static inline int egpu_complete(const egpu_host* host, const egpu_call* call, const egpu_device* device) {
  if (!call->key[0]) return egpu_refuse(host, call, EGPU_INVALID, "the call has no key", "");
  if (!device) return EGPU_OK;
  if (device->card_count == 0) return egpu_refuse(host, call, EGPU_INVALID, "the device has no cards", "");
  for (size_t i = 0; i < device->card_count; ++i)
    if (!device->cards[i]->uuid[0]) return egpu_refuse(host, call, EGPU_INVALID, "a card has no uuid", "");
  return EGPU_OK;
}

/** Returns the content of convention 5 in provisioner.h as one text; NULL if out of memory.
 *  OWNERSHIP: the caller's; release it with free(). */
static inline char* egpu_content(const egpu_device* device) {
  size_t size = 64 + strlen(device->device) + strlen(device->node);
  for (size_t i = 0; i < device->card_count; ++i) {
    const egpu_card* card = device->cards[i];
    size += 96 + strlen(card->uuid) + (EGPU_HAS(card, egpu_card, mig_slots) ? strlen(card->mig_profile) : 0);
  }
  for (size_t i = 0; i < device->parameter_count; ++i)
    size += 64 + strlen(device->parameters[i].key) + strlen(device->parameters[i].value);
  char* out = (char*)malloc(size);
  if (!out) return NULL;
  /* Each text has its length in front, so that different contents never result in the same text. */
  int n =
      snprintf(out, size, "%zu:%s%zu:%s", strlen(device->device), device->device, strlen(device->node), device->node);
  for (size_t i = 0; i < device->card_count; ++i) {
    const egpu_card* card = device->cards[i];
    n += snprintf(out + n, size - (size_t)n, "%zu:%s%lld,%lld;", strlen(card->uuid), card->uuid, (long long)card->core,
                  (long long)card->memory);
    if (EGPU_HAS(card, egpu_card, mig_slots) && card->mig_slots != 0)
      n += snprintf(out + n, size - (size_t)n, "%zu:%s%u;", strlen(card->mig_profile), card->mig_profile,
                    (unsigned)card->mig_slots);
  }
  for (size_t i = 0; i < device->parameter_count; ++i) {
    const egpu_pair* pair = &device->parameters[i];
    n += snprintf(out + n, size - (size_t)n, "%zu:%s%zu:%s", strlen(pair->key), pair->key, strlen(pair->value),
                  pair->value);
  }
  return out;
}

/** Returns the position of a key's record, or the position at which to insert it. Requires the mutex. */
static inline egpu_record** egpu_records_at(egpu_records* records, const char* key) {
  unsigned hash = 2166136261u;
  for (const char* c = key; *c; ++c) hash = (hash ^ (unsigned char)*c) * 16777619u;
  egpu_record** at = &records->lists[hash % EGPU_RECORD_LISTS];
  while (*at && strcmp((*at)->key, key) != 0) at = &(*at)->next;
  return at;
}

/** Records the device; `replaces`: other content of the key is replaced. */
static inline int egpu_records_note(egpu_records* records, const egpu_host* host, const egpu_call* call,
                                    const egpu_device* device, int replaces) {
  const int code = egpu_complete(host, call, device);
  if (code != EGPU_OK) return code;
  char* content = egpu_content(device);
  const size_t length = strlen(call->key) + 1;
  egpu_record* fresh = content ? (egpu_record*)malloc(sizeof(egpu_record) + length) : NULL;
  if (!fresh) {
    free(content);
    return egpu_refuse(host, call, EGPU_UNAVAILABLE, "out of memory", "");
  }
  memcpy(fresh->key, call->key, length);
  fresh->content = content;
  int result = EGPU_OK;
  pthread_mutex_lock(&records->mutex);
  egpu_record** at = egpu_records_at(records, call->key);
  if (!*at) {
    fresh->next = NULL;
    *at = fresh;
    fresh = NULL;
  } else if (strcmp((*at)->content, content) == 0) {
    result = EGPU_NO_CHANGE;
  } else if (replaces) {
    fresh->content = (*at)->content;
    (*at)->content = content;
  } else {
    result = EGPU_EXISTS;
  }
  pthread_mutex_unlock(&records->mutex);
  if (fresh) free(fresh->content);
  free(fresh);
  if (result == EGPU_EXISTS) egpu_refuse(host, call, result, "in use with other content: key ", call->key);
  return result;
}

/** provision: EGPU_OK if new, EGPU_NO_CHANGE if known with the same content, EGPU_EXISTS if known with other content;
 *  EGPU_INVALID for a device without key, cards or uuids. */
static inline int egpu_records_add(egpu_records* records, const egpu_host* host, const egpu_call* call,
                                   const egpu_device* device) {
  return egpu_records_note(records, host, call, device, 0);
}

/** resize: like egpu_records_add, but replaces other content of the key. */
static inline int egpu_records_replace(egpu_records* records, const egpu_host* host, const egpu_call* call,
                                       const egpu_device* device) {
  return egpu_records_note(records, host, call, device, 1);
}

/** deprovision: forgets the call's key; EGPU_OK also if it is unknown. */
static inline int egpu_records_remove(egpu_records* records, const egpu_host* host, const egpu_call* call) {
  const int code = egpu_complete(host, call, NULL);
  if (code != EGPU_OK) return code;
  pthread_mutex_lock(&records->mutex);
  egpu_record** at = egpu_records_at(records, call->key);
  egpu_record* gone = *at;
  if (gone) *at = gone->next;
  pthread_mutex_unlock(&records->mutex);
  if (gone) free(gone->content);
  free(gone);
  return EGPU_OK;
}

/** Returns 1 if the key is known, otherwise 0. */
static inline int egpu_records_has(egpu_records* records, const char* key) {
  pthread_mutex_lock(&records->mutex);
  const int known = *egpu_records_at(records, key) != NULL;
  pthread_mutex_unlock(&records->mutex);
  return known;
}

/** list: replies every key. */
static inline int egpu_records_list(egpu_records* records, const egpu_host* host, const egpu_call* call) {
  pthread_mutex_lock(&records->mutex);
  for (size_t i = 0; i < EGPU_RECORD_LISTS; ++i)
    for (const egpu_record* at = records->lists[i]; at; at = at->next) host->reply_key(call, at->key);
  pthread_mutex_unlock(&records->mutex);
  return EGPU_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* EGPU_API_PLUGIN_SDK_H */

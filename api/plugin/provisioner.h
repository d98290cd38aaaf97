/* Contract between Elastic GPU and a provisioner plugin: pure C11, ABI version 1.
 *
 * A plugin is a shared object with one entry symbol, egpu_provisioner_entry. The symbol receives the host's table of
 * functions and returns the plugin's table. Five conventions apply throughout:
 *
 * 1. Tables and structs begin with struct_size and only grow at their end. Read a member only if it lies within the
 *    struct_size set by the side that filled in the struct (EGPU_HAS); call a slot only if it also is not NULL. Thus
 *    old plugins run in new hosts, and new plugins in old hosts.
 *
 * 2. Inputs are borrowed. Every pointer that a slot receives is valid until the slot returns, is not NULL unless stated
 *    otherwise, and must not be written to or freed. Text is UTF-8 and NUL-terminated; an absent text is "".
 *
 * 3. Outputs go through the host's reply functions while the slot runs; the host copies them. Neither side frees memory
 *    of the other side.
 *
 * 4. A slot returns a value of enum egpu_code; any other value counts as garbage. No exception, longjmp, exit or signal
 *    may leave a slot.
 *
 * 5. The host calls slots from several threads at once, also with the same key: after a timeout it repeats the call
 *    while the first one may still run. Every verb is idempotent by its key: a repeat succeeds, the same key with other
 *    content is EGPU_EXISTS, and removing something that does not exist is EGPU_OK. The content is the device's name,
 *    its node, its cards with their amounts, and its parameters. The claim is not part of it: a retained device passes
 *    to its next claim under the same key, and provision for that claim succeeds like a repeat. A slot must return
 *    before the call's deadline; otherwise the plugin's process is killed, at any instruction, and restarted.
 *
 * Each plugin runs in a process of its own, which is confined before the plugin is loaded. The process has no network
 * and connects to no local socket, unless a manifest beside the plugin requests that (libname.yaml beside libname.so:
 * "network: true", "unixSockets: true"). It writes only to $ELASTICGPU_STATE_DIR and temporary folders, can't read
 * credentials, and has bounded memory, files and processes. See provisioners/README.md.
 */
#ifndef EGPU_API_PLUGIN_PROVISIONER_H
#define EGPU_API_PLUGIN_PROVISIONER_H

#include <stddef.h>
#include <stdint.h>

#include "api/plugin/values.h"

#ifdef __cplusplus
extern "C" {
#endif

/** For the entry symbol: exports it even if all other symbols are hidden (-fvisibility=hidden). */
#if defined(__GNUC__)
#define EGPU_EXPORT __attribute__((visibility("default")))
#else
#define EGPU_EXPORT
#endif

/** Version of this header. A table with another abi_version is refused. Growth that struct_size covers does not change
 *  the version. */
#define EGPU_ABI_VERSION 1u

/** True if `member` lies within the part of *pointer that was filled in. */
#define EGPU_HAS(pointer, type, member) ((pointer)->struct_size >= offsetof(type, member) + sizeof((pointer)->member))

/** Return value of a slot. Values never change. With any code other than OK, NO_CHANGE and IN_PROGRESS, the plugin
 *  guarantees that the call left nothing behind. */
enum egpu_code {
  EGPU_OK = 0,
  EGPU_IN_PROGRESS = 1, /**< started, continues in the background; the host repeats the call with the same key */
  EGPU_NO_CHANGE = 2,   /**< already done; counts as success */
  EGPU_RESCHEDULE = 3,  /**< impossible on these cards or this node; the host decides again, with a new key. For a
                             remote device: its pool has no free GPU; the host repeats the call later with the same
                             key, and the claim reports the message as NoFit */
  EGPU_EXISTS = 4,      /**< the key is in use with other content: an error, reported on the claim. The host rolls
                             the device back and deprovisions its key */
  EGPU_INVALID = 5,     /**< can never succeed without a change: unknown parameter, missing field, amount out of
                             range */
  EGPU_UNAVAILABLE = 6, /**< temporary error: a daemon, driver or server is missing; the host tries again later */
  EGPU_INTERNAL = 7     /**< internal error of the plugin */
};

/** Levels of egpu_host.log. */
enum egpu_log_level { EGPU_DEBUG = 0, EGPU_INFO = 1, EGPU_WARN = 2, EGPU_ERROR = 3 };

/** Identity of a call. Every slot receives one and passes it to the reply functions.
 *  OWNERSHIP: the host's, valid until the slot returns. A background thread of the plugin must copy the members that it
 *  needs, and cannot reply.
 *  THREADING: the members never change; any thread may use the functions that take a call while the slot runs. */
typedef struct egpu_call {
  size_t struct_size;
  const char* key;     /**< idempotency key: the device's uid, never reused; "" in slots without a device */
  int64_t deadline_ns; /**< CLOCK_MONOTONIC nanoseconds by which the slot must return */
  void* host_state;    /**< private to the host; must not be used */
} egpu_call;

/** Functions of the host.
 *  OWNERSHIP: the host's; valid and unchanged from the entry call until the process ends.
 *  THREADING: all may be called from any thread; functions that take a call may be called only while its slot runs.
 *  ERRORS: the reply functions return EGPU_OK, or EGPU_INVALID for a NULL text or if the answer exceeds 8 MiB. After
 *  that the whole answer is refused, so a plugin need not check. */
typedef struct egpu_host {
  size_t struct_size;
  uint32_t abi_version;
  /** Writes a line to the host's log. */
  void (*log)(int level, const char* message);
  /** Returns the milliseconds left until the call's deadline; 0 if none. */
  int64_t (*remaining_ms)(const egpu_call* call);
  /** Returns 1 if the host no longer waits for the answer: the slot should stop and return. Otherwise returns 0. */
  int (*cancelled)(const egpu_call* call);
  /** Sets a message for people, with any code: it appears in the claim's condition. The last message counts. */
  int (*reply_message)(const egpu_call* call, const char* message);
  /** describe: call once. */
  int (*reply_description)(const egpu_call* call, const egpu_description* description);
  /** list: call once per key for which there is something. */
  int (*reply_key)(const egpu_call* call, const char* key);
  /** mount: adds an environment variable. If a name is repeated, the last value counts. */
  int (*reply_env)(const egpu_call* call, const char* name, const char* value);
  /** mount: adds a device node. host_path "" = same as path; permissions: letters of "rwm", "" = "rw". */
  int (*reply_device_node)(const egpu_call* call, const char* path, const char* host_path, const char* permissions);
  /** mount: adds a bind mount. options: comma-separated, "" = "ro,nosuid,nodev,bind". */
  int (*reply_mount)(const egpu_call* call, const char* host_path, const char* container_path, const char* options);
  /** mount: adds a device of a foreign CDI spec, such as "nvidia.com/gpu=GPU-…", which supplies driver libraries. */
  int (*reply_cdi_device)(const egpu_call* call, const char* name);
  /** discover: call once per card. */
  int (*reply_gpu)(const egpu_call* call, const egpu_gpu* gpu);
  /** health: call once per card whose state is known. healthy: 0 or 1. A message such as "Xid79: it has fallen off the
   *  bus; reboot" begins with the reason for the card's condition: a word of letters and digits with a capital first
   *  letter. A reason that ends in a digit names an event, which a later process of the plugin can't detect: the card
   *  stays unhealthy until a reboot, a change of its attribute driverVersion, or an operator's annotation. The message
   *  of a healthy card describes a problem that needs attention. A staged device without cards, such as a remote GPU,
   *  is reported by its key: healthy 0 if its programs on this node have lost it, or are about to. The claim then has
   *  the condition AccessLost with the message, until a health without such a call. */
  int (*reply_health)(const egpu_call* call, const char* uuid, int healthy, const char* message);
  /* Appended; call these only if EGPU_HAS shows that the host has them. */
  /** health: call once per process and card that it computes on. pid: as seen by the plugin's process; memory: bytes,
   *  -1 if unknown. */
  int (*reply_process)(const egpu_call* call, const char* uuid, int64_t pid, int64_t memory);
  /** health: call once per card whose usage is known. Without a call the usage is unknown. */
  int (*reply_use)(const egpu_call* call, const egpu_use* use);
  /** health, processes: replaces reply_process, with all known values of the process. */
  int (*reply_process_use)(const egpu_call* call, const egpu_process_use* process);
  /** prefer: ranks the candidate with this index, from 0, next. The first call names the best candidate. Candidates
   *  that are neither ranked nor vetoed follow in the host's order. */
  int (*reply_prefer)(const egpu_call* call, size_t candidate);
  /** prefer: excludes the candidate with this index. The claim avoids that node for two minutes, longer after each
   *  veto, or until the node changes. why: a sentence for people, which appears in the claim's condition. */
  int (*reply_veto)(const egpu_call* call, size_t candidate, const char* why);
  /** provision, resize: the isolation of the device's share, with every answer of EGPU_OK or EGPU_NO_CHANGE. Without a
   *  call it is unknown, and the objects' status.isolation is absent. */
  int (*reply_isolation)(const egpu_call* call, const egpu_isolation* isolation);
  /** provision: values for the device's object, with every answer of EGPU_OK or EGPU_NO_CHANGE; equal for equal keys.
   *  The host writes them to the ElasticGPU, and passes them to every later call for the device, also on the node.
   *  Values that the object has already are kept. */
  int (*reply_source)(const egpu_call* call, const egpu_source* source);
} egpu_host;

/** Functions of the plugin. describe, validate, provision, deprovision, list and mount are required. Any other slot may
 *  be NULL or lie beyond struct_size; its comment states the host's behaviour for that case ("Absent").
 *  OWNERSHIP: the plugin's; valid and unchanged from the entry call until the process ends, usually static const.
 *  THREADING: convention 5.
 *  ERRORS: enum egpu_code, with a reply_message that states the remedy. */
typedef struct egpu_provisioner {
  size_t struct_size;
  uint32_t abi_version;

  /* Controller and node. */
  /** Describes the plugin. The answer must not change. */
  int (*describe)(const egpu_call* call);

  /* Controller side: runs on the controller's machine, which need not have a GPU. */
  /** Validates the parameters of a class: returns EGPU_OK, or EGPU_INVALID with a message that names the invalid
   *  parameter and lists the known ones. Parameters of the core (nodePolicy, model, ...) never reach a plugin. No side
   *  effects. After EGPU_UNAVAILABLE the host repeats the call with backoff, and the class is not ready meanwhile. */
  int (*validate)(const egpu_call* call, const egpu_pair* parameters, size_t parameter_count);
  /** Creates the device. May return EGPU_IN_PROGRESS. A device without key, or without cards
   *  unless the plugin's source is remote, is EGPU_INVALID. */
  int (*provision)(const egpu_call* call, const egpu_device* device);
  /** Undoes provision, complete or not, and forgets the key. May return EGPU_IN_PROGRESS. No key: EGPU_INVALID. */
  int (*deprovision)(const egpu_call* call);
  /** Changes the amounts of a provisioned device, up or down; they are in force once this returns EGPU_OK. May return
   *  EGPU_IN_PROGRESS. A repeat with the same resize_number returns the same. A call with a lower number than a
   *  completed resize comes from an earlier host: EGPU_EXISTS, without a change. After EGPU_INVALID, EGPU_RESCHEDULE or
   *  EGPU_EXISTS the host restores the previous amounts, in a call with a higher number. Absent: the host requests no
   *  resize. */
  int (*resize)(const egpu_call* call, const egpu_device* device);
  /** Replies every key for which deprovision would remove something; none if the plugin keeps no state. */
  int (*list)(const egpu_call* call);

  /* Node side: runs on the node of the device's cards. */
  /** Replies the cards of this machine. Absent: none. */
  int (*discover)(const egpu_call* call);
  /** Prepares the node: folders, daemons. All side effects of the node side belong here. State in $ELASTICGPU_STATE_DIR
   *  for one device must have the device's key as its name, at most three folders deep: the agent uses that name to
   *  unstage devices whose claims were deleted while the machine was off. Absent: EGPU_NO_CHANGE. */
  int (*stage)(const egpu_call* call, const egpu_device* device);
  /** Replies the edits for a container. Pure: the same request results in the same edits, even in a process that has
   *  never seen the key. */
  int (*mount)(const egpu_call* call, const egpu_device* device, const egpu_container* container);
  /** Called after the container is gone. Absent: EGPU_NO_CHANGE. */
  int (*unmount)(const egpu_call* call, const egpu_container* container);
  /** Undoes stage. Files that the plugin is not permitted to remove, because a container created them as root, may be
   *  renamed to <key>.left-<anything> in the same folder: the agent removes them. Absent: EGPU_NO_CHANGE. */
  int (*unstage)(const egpu_call* call);
  /** Replies the state of this machine's cards. Absent: unknown. */
  int (*health)(const egpu_call* call);

  /* Appended. */
  /** Controller side: ranks the host's best candidates by reply_prefer and reply_veto, within a second. No side
   *  effects, and the same answer for the same wish. The host's order remains after any code other than EGPU_OK, after
   *  the deadline, and if an answer repeats an index or contains an invalid one. Absent: the host does not call it. */
  int (*prefer)(const egpu_call* call, const egpu_wish* wish);
  /** Node side: replies, by reply_process_use, every process that computes on this machine's cards. sm_percent: its
   *  part of the last second. Called four times a second while containers have a limiter, so it must be quick. Absent:
   *  such containers' compute is not corrected, and programs that evade the limiter are not detected. */
  int (*processes)(const egpu_call* call);
} egpu_provisioner;

/** Entry symbol: stores the plugin's table in *provisioner and returns EGPU_OK, or logs the reason with host->log and
 *  returns another code. Called once, on one thread, before any slot. */
EGPU_EXPORT int egpu_provisioner_entry(const egpu_host* host, const egpu_provisioner** provisioner);

#ifdef __cplusplus
}
#endif

#endif /* EGPU_API_PLUGIN_PROVISIONER_H */

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
  EGPU_RESCHEDULE = 3,  /**< impossible on these cards or this node; the host decides again, with a new key */
  EGPU_EXISTS = 4,      /**< the key is in use with other content: an error, reported on the claim. The host rolls
                             the device back and deprovisions its key */
  EGPU_INVALID = 5,     /**< can never succeed without a change: unknown parameter, missing field, amount out of
                             range */
  EGPU_UNAVAILABLE = 6, /**< temporary error: a daemon, driver or server is missing; the host tries again later */
  EGPU_INTERNAL = 7     /**< internal error of the plugin */
};

/** Levels of egpu_host.log. */
enum egpu_log_level { EGPU_DEBUG = 0, EGPU_INFO = 1, EGPU_WARN = 2, EGPU_ERROR = 3 };

/** A parameter of the class. Frozen: never grows.
 *  OWNERSHIP: the host's; both texts are valid during the call. */
typedef struct egpu_pair {
  const char* key;
  const char* value;
} egpu_pair;

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

/** A card, and the amounts of it that the device gets.
 *  OWNERSHIP: the host's, valid during the call. */
typedef struct egpu_card {
  size_t struct_size;
  const char* uuid;    /**< "GPU-…", as spelled by the driver */
  const char* model;   /**< "" if unknown */
  int64_t index;       /**< minor number on its node: /dev/nvidia<index> */
  int64_t core;        /**< granted milli-cards, 0…1000: 1000 = the whole card, 0 = no compute requested */
  int64_t memory;      /**< granted bytes; 0 with core 0: admin access, the device gets no share of the card */
  int64_t card_memory; /**< memory of the card in bytes; 0 if unknown */
  /* Appended; members beyond struct_size are unknown. */
  const char* pci_address; /**< as replied by discover; drivers number the cards that they see by it; "" if unknown */
} egpu_card;

/** A device: the GPU of one claim.
 *  OWNERSHIP: the host's, with everything it points to; valid during the call. */
typedef struct egpu_device {
  size_t struct_size;
  const char* key;    /**< the call's key */
  const char* device; /**< name of the ElasticGPU object */
  const char* claim;  /**< "namespace/name" */
  const char* node;
  const egpu_card* const*
      cards; /**< card_count pointers, so that egpu_card can grow; NULL if card_count is 0. In mount, sorted by PCI
                  address, or by index if the addresses are unknown */
  size_t card_count;
  const egpu_pair* parameters; /**< parameters of the class, as in validate; NULL if parameter_count is 0 */
  size_t parameter_count;
  /* Appended; members beyond struct_size are 0. */
  int64_t resize_number; /**< resize: number of the device's resize that these amounts belong to, from 1; 0 in other
                              slots */
} egpu_device;

/** The container of mount and unmount. Both texts are "" if the call is for every container that names the claim.
 *  OWNERSHIP: the host's, valid during the call. */
typedef struct egpu_container {
  size_t struct_size;
  const char* pod;       /**< "namespace/name" or the pod's uid: opaque, equal in mount and unmount */
  const char* container; /**< container name */
} egpu_container;

/** A place for a device: one node, and the amounts of its cards that the device would get.
 *  OWNERSHIP: the host's, with everything it points to; valid during the call. */
typedef struct egpu_candidate {
  size_t struct_size;
  const char* node;
  const egpu_card* const* cards; /**< card_count pointers, at least one */
  size_t card_count;
} egpu_candidate;

/** A claim that is about to be placed.
 *  OWNERSHIP: the host's, with everything it points to; valid during the call. */
typedef struct egpu_wish {
  size_t struct_size;
  const char* claim;                       /**< "namespace/name" */
  const egpu_candidate* const* candidates; /**< in the host's order of preference; each node at most once */
  size_t candidate_count;                  /**< 1…16 */
  const egpu_pair* parameters;             /**< parameters of the class, as in validate; NULL if parameter_count is 0 */
  size_t parameter_count;
} egpu_wish;

/** Reply of describe.
 *  OWNERSHIP: the plugin's; the host copies it before reply_description returns.
 *  ERRORS: refused if the name is not a DNS subdomain with a dot, or if source or isolation is not one of the listed
 *  values. */
typedef struct egpu_description {
  size_t struct_size;
  const char* name;      /**< value of `provisioner` in classes: "gpushare.provisioner.elasticgpu.io" */
  const char* version;   /**< version of the plugin, for people */
  const char* source;    /**< kind of its devices: physicalGPU | gpuShare | mig | qGPU | remote */
  const char* isolation; /**< Enforced: a container cannot exceed its grant. Advisory: it is asked not to */
} egpu_description;

/** A path from a card to another card of its node. Two cards may have several: their PCIe path and their NVLinks.
 *  Frozen: never grows.
 *  OWNERSHIP: the plugin's, as the egpu_gpu that contains it. */
typedef struct egpu_link {
  const char* peer; /**< uuid of the other card */
  const char* type; /**< nvlink | nvswitch | board | single | multiple | hostbridge | cpu | system */
  int64_t count;    /**< number of links; 1 for a path without a number */
} egpu_link;

/** A card of this node, found by discover.
 *  OWNERSHIP: the plugin's; the host copies it before reply_gpu returns.
 *  ERRORS: without a uuid, with a duplicate uuid or with a negative amount, the answer counts as garbage. */
typedef struct egpu_gpu {
  size_t struct_size;
  const char* uuid;
  const char* model;
  int64_t index;     /**< minor number; -1 if unknown */
  int64_t memory;    /**< bytes that claims can get; 0 if unknown */
  int64_t sm_count;  /**< 0 if unknown */
  int64_t numa_node; /**< -1 if unknown */
  const char* pci_address;
  /* Appended; members beyond struct_size are unknown or empty. */
  int64_t milli_tflops;   /**< rating in thousandths of a TFLOPS; 0 if unknown */
  const egpu_link* links; /**< NULL if link_count is 0 */
  size_t link_count;
  const egpu_pair* attributes; /**< properties without a member here, with the vendor's names; NULL if
                                    attribute_count is 0 */
  size_t attribute_count;
} egpu_gpu;

/** Usage of a card at the time of health.
 *  OWNERSHIP: the plugin's; the host copies it before reply_use returns.
 *  ERRORS: without a uuid, with a duplicate uuid, with a number below -1 or with more than 100 %, the answer counts as
 *  garbage. */
typedef struct egpu_use {
  size_t struct_size;
  const char* uuid;
  int64_t memory;     /**< bytes used by programs, without the driver's reserve; -1 if unknown */
  int64_t sm_percent; /**< 0…100: percent of a short period before now in which programs ran; -1 if unknown */
  int64_t processes;  /**< number of processes that compute on it, equal to the number of reply_process or
                           reply_process_use calls; -1 if unknown */
} egpu_use;

/** A process that computes on a card.
 *  OWNERSHIP: the plugin's; the host copies it before reply_process_use returns.
 *  ERRORS: without a uuid, with a number below -1 or with more than 100 %, the answer counts as garbage. */
typedef struct egpu_process_use {
  size_t struct_size;
  const char* uuid;   /**< uuid of the card */
  int64_t pid;        /**< as the plugin's own process sees it */
  int64_t memory;     /**< bytes; -1 if unknown */
  int64_t sm_percent; /**< 0…100: this process's part of the percentage in egpu_use; -1 if unknown */
} egpu_process_use;

/** What keeps a device's containers within its share, for status.isolation of the device and its claim. memory, compute
 *  and faults are each "Enforced": a container cannot exceed its share or stop others; "Soft": only programs that work
 *  around the mechanism can; or "None".
 *  OWNERSHIP: the plugin's; the host copies it before reply_isolation returns.
 *  ERRORS: with a mode that is not a DNS label, or another level, the answer counts as garbage. */
typedef struct egpu_isolation {
  size_t struct_size;
  const char* mode;    /**< the mechanism: "whole-card", "mig", "driver", "limiter", "mps", "hami-core", "none", … */
  const char* memory;  /**< memory beyond the grant */
  const char* compute; /**< compute time beyond the grant while others want it */
  const char* faults;  /**< a fault of one container stops containers of others */
} egpu_isolation;

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
   *  of a healthy card describes a problem that needs attention. */
  int (*reply_health)(const egpu_call* call, const char* uuid, int healthy, const char* message);
  /* Appended; call these only if EGPU_HAS shows that the host has them. */
  /** health: call once per process and card that it computes on. pid: as seen by the plugin's process; memory: bytes,
   *  -1 if unknown. */
  int (*reply_process)(const egpu_call* call, const char* uuid, int64_t pid, int64_t memory);
  /** health: call once per card whose usage is known. Without a call the usage is unknown. */
  int (*reply_use)(const egpu_call* call, const egpu_use* use);
  /** health: replaces reply_process, with all known values of the process. */
  int (*reply_process_use)(const egpu_call* call, const egpu_process_use* process);
  /** prefer: ranks the candidate with this index, from 0, next. The first call names the best candidate. Candidates
   *  that are neither ranked nor vetoed follow in the host's order. */
  int (*reply_prefer)(const egpu_call* call, size_t candidate);
  /** prefer: excludes the candidate with this index. The claim avoids that node for two minutes, longer after each
   *  veto, or until the node changes. why: a sentence for people, which appears in the claim's condition. */
  int (*reply_veto)(const egpu_call* call, size_t candidate, const char* why);
  /** provision, resize: what keeps the device's containers within its share, with every answer of EGPU_OK or
   *  EGPU_NO_CHANGE. Without a call it is unknown, and the objects' status.isolation is absent. */
  int (*reply_isolation)(const egpu_call* call, const egpu_isolation* isolation);
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
  /** Creates the device. May return EGPU_IN_PROGRESS. A device without key or cards is EGPU_INVALID. */
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
} egpu_provisioner;

/** Entry symbol: stores the plugin's table in *provisioner and returns EGPU_OK, or logs the reason with host->log and
 *  returns another code. Called once, on one thread, before any slot. */
EGPU_EXPORT int egpu_provisioner_entry(const egpu_host* host, const egpu_provisioner** provisioner);

#ifdef __cplusplus
}
#endif

#endif /* EGPU_API_PLUGIN_PROVISIONER_H */

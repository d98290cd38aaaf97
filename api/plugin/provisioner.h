/* The contract between Elastic GPU and a provisioner plugin: pure C11, ABI version 1.
 *
 * A plugin is a shared object with one entry symbol, egpu_provisioner_entry. It gets the host's table and gives its
 * own. Five conventions hold throughout:
 *
 * 1. Tables and structs begin with struct_size and only ever grow at their end. Read a member only if it lies within
 *    the struct_size that the other side gave (EGPU_HAS); call a slot only if it does and is not NULL. So old plugins
 *    run in new hosts and the other way round.
 *
 * 2. Inputs are borrowed: every pointer that a slot receives is valid until that slot returns, never NULL unless said
 *    so, and is not to be written to or freed. Text is UTF-8 and ends with NUL; an absent text is "".
 *
 * 3. Outputs go through the host's reply functions while the slot runs; the host copies what it is given. Nobody
 *    frees the other side's memory.
 *
 * 4. Slots return one of enum egpu_code; any other value counts as garbage. No exception, longjmp, exit or signal may
 *    leave a slot.
 *
 * 5. The host calls slots from several threads at once, also for one and the same key: after a timeout it repeats the
 *    key while the first call may still run. Every verb is idempotent by its key: a repeat succeeds, the same key
 *    with other content is EGPU_EXISTS, removing what is not there is EGPU_OK. Content is the device's name, its node,
 *    its cards with their amounts, and its parameters. Its claim is not: a device that was retained goes to its next
 *    claim under the same key, and provision succeeds for that one as for a repeat. A slot returns before the call's
 *    deadline; the process of a plugin that does not is killed, at any instruction, and started anew.
 *
 * Where a plugin runs: a process of its own, confined before the plugin is loaded. It has no network and connects to no
 * local socket unless a manifest beside it asks (libname.yaml beside libname.so: "network: true", "unixSockets: true"),
 * writes to $ELASTICGPU_STATE_DIR and temporary folders only, reads no credentials, and has bounded memory, files and
 * processes. See provisioners/README.md.
 */
#ifndef EGPU_API_PLUGIN_PROVISIONER_H
#define EGPU_API_PLUGIN_PROVISIONER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** On the entry symbol: it can be found also where all else is hidden (-fvisibility=hidden). */
#if defined(__GNUC__)
#define EGPU_EXPORT __attribute__((visibility("default")))
#else
#define EGPU_EXPORT
#endif

/** The version of this header. A table with another abi_version is refused. What struct_size covers leaves it as is. */
#define EGPU_ABI_VERSION 1u

/** True if `member` lies within the part of *pointer that its maker filled in. */
#define EGPU_HAS(pointer, type, member) ((pointer)->struct_size >= offsetof(type, member) + sizeof((pointer)->member))

/** What a slot returns. Values are fixed for ever.
 *  Of a code that is not OK, NO_CHANGE or IN_PROGRESS the plugin promises that the call left nothing behind. */
enum egpu_code {
  EGPU_OK = 0,
  EGPU_IN_PROGRESS = 1, /**< begun and goes on in the background: the host asks again with the same key */
  EGPU_NO_CHANGE = 2,   /**< it was so already; counts as success */
  EGPU_RESCHEDULE = 3,  /**< these cards or this node cannot do it: the host decides anew, with a new key */
  EGPU_EXISTS = 4,      /**< the key is in use with other content: a failure, of which the claim is told. The host
                             gives the device up and deprovisions its key */
  EGPU_INVALID = 5,     /**< can never succeed as it is: unknown parameter, missing field, amount out of range */
  EGPU_UNAVAILABLE = 6, /**< not now: a daemon, driver or server is away; the host tries again later */
  EGPU_INTERNAL = 7     /**< an error of the plugin's own */
};

/** Levels of egpu_host.log. */
enum egpu_log_level { EGPU_DEBUG = 0, EGPU_INFO = 1, EGPU_WARN = 2, EGPU_ERROR = 3 };

/** A class parameter. Frozen: never grows.
 *  OWNERSHIP: the host's; both texts live as long as the call. */
typedef struct egpu_pair {
  const char* key;
  const char* value;
} egpu_pair;

/** A call's identity. Every slot gets one and hands it to the reply functions.
 *  OWNERSHIP: the host's, valid until the slot returns: a background thread of the plugin must copy what it needs,
 *  and cannot reply.
 *  THREADING: its members never change; any thread may use the functions that take it while the slot runs. */
typedef struct egpu_call {
  size_t struct_size;
  const char* key;     /**< idempotency key: the device's uid, never reused; "" for slots that are about no device */
  int64_t deadline_ns; /**< CLOCK_MONOTONIC nanoseconds by which the slot must have returned */
  void* host_state;    /**< the host's own; not to be touched */
} egpu_call;

/** A card with what the device gets of it.
 *  OWNERSHIP: the host's, as long as the call. */
typedef struct egpu_card {
  size_t struct_size;
  const char* uuid;    /**< "GPU-…" as the driver spells it */
  const char* model;   /**< "" if unknown */
  int64_t index;       /**< minor number on its node: /dev/nvidia<index> */
  int64_t core;        /**< granted milli-cards, 0…1000: 1000 is the whole card, 0 = no compute was asked for */
  int64_t memory;      /**< granted bytes; 0 beside core 0: an observer's, who gets nothing of the card */
  int64_t card_memory; /**< the card's bytes; 0 if unknown */
  /* Appended; what lies beyond struct_size is unknown. */
  const char*
      pci_address; /**< as discover replied it, by which drivers number the cards that they see; "" if unknown */
} egpu_card;

/** A device: what a claim gets.
 *  OWNERSHIP: the host's, as long as the call, with everything it points to. */
typedef struct egpu_device {
  size_t struct_size;
  const char* key;    /**< the same as the call's */
  const char* device; /**< name of the ElasticGPU object */
  const char* claim;  /**< "namespace/name" */
  const char* node;
  const egpu_card* const*
      cards; /**< card_count pointers (so that egpu_card can grow); NULL if card_count is 0. For mount
                                      in the order of their PCI addresses, or of index where those are unknown */
  size_t card_count;
  const egpu_pair* parameters; /**< the class's, as for validate; NULL if parameter_count is 0 */
  size_t parameter_count;
  /* Appended; what lies beyond struct_size is 0. */
  int64_t resize_number; /**< resize: which of the device's resizes these amounts are of, 1 or more. Else 0 */
} egpu_device;

/** The container that mount and unmount are about. Both texts are "" where it is every container that names the claim.
 *  OWNERSHIP: the host's, as long as the call. */
typedef struct egpu_container {
  size_t struct_size;
  const char* pod;       /**< "namespace/name", or the pod's uid: opaque, the same for mount and unmount */
  const char* container; /**< container name */
} egpu_container;

/** A place where a device could be made: one node, and of which of its cards how much it would get.
 *  OWNERSHIP: the host's, as long as the call, with everything it points to. */
typedef struct egpu_candidate {
  size_t struct_size;
  const char* node;
  const egpu_card* const* cards; /**< card_count pointers, at least one */
  size_t card_count;
} egpu_candidate;

/** A claim that is about to be placed.
 *  OWNERSHIP: the host's, as long as the call, with everything it points to. */
typedef struct egpu_wish {
  size_t struct_size;
  const char* claim;                       /**< "namespace/name" */
  const egpu_candidate* const* candidates; /**< the host's favourite first; no node twice */
  size_t candidate_count;                  /**< 1…16 */
  const egpu_pair* parameters;             /**< the class's, as for validate; NULL if parameter_count is 0 */
  size_t parameter_count;
} egpu_wish;

/** What describe replies.
 *  OWNERSHIP: the plugin's; the host copies before reply_description returns.
 *  ERRORS: a name that is no DNS subdomain with a dot, or another source or isolation than these: refused. */
typedef struct egpu_description {
  size_t struct_size;
  const char* name;      /**< what classes say in `provisioner`: "gpushare.provisioner.elasticgpu.io" */
  const char* version;   /**< the plugin's own, for people */
  const char* source;    /**< physicalGPU | gpuShare | mig | qGPU | remote: what its devices are */
  const char* isolation; /**< Enforced: a container cannot take more than its grant. Advisory: it is asked not to */
} egpu_description;

/** How a card reaches another one of its node. A pair of cards may have several: its PCIe path and its NVLinks. Frozen:
 *  never grows.
 *  OWNERSHIP: the plugin's, as the egpu_gpu it belongs to. */
typedef struct egpu_link {
  const char* peer; /**< the other card's uuid */
  const char* type; /**< nvlink | nvswitch | board | single | multiple | hostbridge | cpu | system */
  int64_t count;    /**< links; 1 for a path that has no number */
} egpu_link;

/** A card that discover found on this node.
 *  OWNERSHIP: the plugin's; the host copies before reply_gpu returns.
 *  ERRORS: no uuid or one that is given twice, a negative amount: the answer is garbage. */
typedef struct egpu_gpu {
  size_t struct_size;
  const char* uuid;
  const char* model;
  int64_t index;     /**< minor number; -1 if unknown */
  int64_t memory;    /**< bytes that can be given out; 0 if unknown */
  int64_t sm_count;  /**< 0 if unknown */
  int64_t numa_node; /**< -1 if unknown */
  const char* pci_address;
  /* Appended; what lies beyond struct_size is unknown or none. */
  int64_t milli_tflops;   /**< the rating in thousandths of a TFLOPS; 0 if unknown */
  const egpu_link* links; /**< NULL if link_count is 0 */
  size_t link_count;
  const egpu_pair* attributes; /**< what has no member here, by the vendor's names; NULL if attribute_count is 0 */
  size_t attribute_count;
} egpu_gpu;

/** What is used of a card at the moment of health.
 *  OWNERSHIP: the plugin's; the host copies before reply_use returns.
 *  ERRORS: no uuid or one that is given twice, a number below -1, more than 100 %: the answer is garbage. */
typedef struct egpu_use {
  size_t struct_size;
  const char* uuid;
  int64_t memory;     /**< bytes that programs have, without what the driver keeps; -1 if unknown */
  int64_t sm_percent; /**< 0…100: of a short time before now, how much of it programs ran; -1 if unknown */
  int64_t processes;  /**< how many compute on it, as many as reply_process or reply_process_use tells; -1 if unknown */
} egpu_use;

/** A process that computes on a card.
 *  OWNERSHIP: the plugin's; the host copies before reply_process_use returns.
 *  ERRORS: no uuid, a number below -1, more than 100 %: the answer is garbage. */
typedef struct egpu_process_use {
  size_t struct_size;
  const char* uuid;   /**< of the card */
  int64_t pid;        /**< as the plugin's own process sees it */
  int64_t memory;     /**< bytes; -1 if unknown */
  int64_t sm_percent; /**< 0…100: its part of egpu_use's; -1 if unknown */
} egpu_process_use;

/** The host's functions.
 *  OWNERSHIP: the host's; valid and unchanged from the entry call until the process ends.
 *  THREADING: all may be called from any thread; those that take a call only while its slot runs.
 *  ERRORS: the reply functions return EGPU_OK, or EGPU_INVALID for a NULL text or more than the host's bound for
 *  one answer (8 MiB); after that the whole answer is refused, so a plugin need not check. */
typedef struct egpu_host {
  size_t struct_size;
  uint32_t abi_version;
  /** Writes a line to the host's log. */
  void (*log)(int level, const char* message);
  /** Milliseconds left of the call's deadline; 0 if none. */
  int64_t (*remaining_ms)(const egpu_call* call);
  /** 1 once nobody waits for the answer any more: stop and return; else 0. */
  int (*cancelled)(const egpu_call* call);
  /** A sentence for people, with any code: it reaches the claim's condition. The last one counts. */
  int (*reply_message)(const egpu_call* call, const char* message);
  /** describe: once. */
  int (*reply_description)(const egpu_call* call, const egpu_description* description);
  /** list: once per key that holds something. */
  int (*reply_key)(const egpu_call* call, const char* key);
  /** mount: an environment variable. A name given twice: the last one counts. */
  int (*reply_env)(const egpu_call* call, const char* name, const char* value);
  /** mount: a device node. host_path "" means the same as path; permissions of "rwm", "" means "rw". */
  int (*reply_device_node)(const egpu_call* call, const char* path, const char* host_path, const char* permissions);
  /** mount: a bind mount; options as comma-separated text, "" means "ro,nosuid,nodev,bind". */
  int (*reply_mount)(const egpu_call* call, const char* host_path, const char* container_path, const char* options);
  /** mount: a device of somebody else's CDI spec, "nvidia.com/gpu=GPU-…": it supplies driver libraries. */
  int (*reply_cdi_device)(const egpu_call* call, const char* name);
  /** discover: once per card. */
  int (*reply_gpu)(const egpu_call* call, const egpu_gpu* gpu);
  /** health: once per card that the plugin has an opinion on. healthy 0 or 1. A message such as "Xid79: it has fallen off
   *  the bus; reboot" has at its head the reason of the card's condition: a word of letters and digits that begins with a
   *  capital. One that ends in a digit names an event, which a later process of the plugin can't see any more: the card
   *  stays unhealthy until a reboot, another driverVersion among its attributes, or an operator's word. A message of a
   *  healthy card says what is to be attended to. */
  int (*reply_health)(const egpu_call* call, const char* uuid, int healthy, const char* message);
  /* Appended; to be called only if EGPU_HAS says that the host has it. */
  /** health: once per process and card that it computes on. pid as the plugin's own process sees it; memory in bytes, -1
   *  if unknown. */
  int (*reply_process)(const egpu_call* call, const char* uuid, int64_t pid, int64_t memory);
  /** health: once per card of which the plugin knows what is used. Absent: nothing is known of it. */
  int (*reply_use)(const egpu_call* call, const egpu_use* use);
  /** health: instead of reply_process, with all that is known of the process. */
  int (*reply_process_use)(const egpu_call* call, const egpu_process_use* process);
  /** prefer: the candidate of this number, from 0, comes next. The first one named is liked best; those that are neither
   *  named nor vetoed come after, in the host's order. */
  int (*reply_prefer)(const egpu_call* call, size_t candidate);
  /** prefer: not there. The claim leaves that node alone for two minutes, longer each time, or until the node changes. why is
   *  a sentence for people: it reaches the claim's condition. */
  int (*reply_veto)(const egpu_call* call, size_t candidate, const char* why);
} egpu_host;

/** The plugin's functions. describe, validate, provision, deprovision, list and mount are required; any other may be
 *  NULL or lie beyond struct_size, the host then acts as said at the slot.
 *  OWNERSHIP: the plugin's; valid and unchanged from the entry call until the process ends, usually static const.
 *  THREADING: convention 5.
 *  ERRORS: enum egpu_code, with a reply_message that says what to do about it. */
typedef struct egpu_provisioner {
  size_t struct_size;
  uint32_t abi_version;

  /* Either side. */
  /** Says who the plugin is. Always the same answer. */
  int (*describe)(const egpu_call* call);

  /* Controller side: on whichever machine the controller runs, which need not have a GPU. */
  /** Judges a class's parameters: EGPU_OK, or EGPU_INVALID with a message that names the offending one and lists
   *  those known. Those that the core evaluates itself (nodePolicy, model, ...) never reach a plugin. No effects.
   *  EGPU_UNAVAILABLE: asked again with back-off, the class is not ready meanwhile. */
  int (*validate)(const egpu_call* call, const egpu_pair* parameters, size_t parameter_count);
  /** Makes the device. May answer EGPU_IN_PROGRESS. A device without key or cards is EGPU_INVALID. */
  int (*provision)(const egpu_call* call, const egpu_device* device);
  /** Undoes provision, finished or not, and forgets the key. May answer EGPU_IN_PROGRESS. No key: EGPU_INVALID. */
  int (*deprovision)(const egpu_call* call);
  /** Gives a provisioned device these amounts, more or less than before; it is said to be so once this has answered EGPU_OK. May
   *  answer EGPU_IN_PROGRESS. Repeated with the same resize_number it answers the same; with a lower one than one that was
   *  done it comes late, from a host that is no more: EGPU_EXISTS, and nothing changes. After EGPU_INVALID, EGPU_RESCHEDULE
   *  and EGPU_EXISTS the host goes back to the amounts before, with a call of a higher number. Absent: the host asks for no
   *  resize. */
  int (*resize)(const egpu_call* call, const egpu_device* device);
  /** Replies every key for which there is something that deprovision would remove; none if it keeps nothing. */
  int (*list)(const egpu_call* call);

  /* Node side: on the node of the device's cards. */
  /** Replies the cards of this machine. Absent: none. */
  int (*discover)(const egpu_call* call);
  /** Prepares the node: folders, daemons. All side effects of the node side are here. What it leaves in
   *  $ELASTICGPU_STATE_DIR for one device is called after its key, at most three folders down: by that name the agent
   *  finds what to unstage when a claim went while the machine was off. Absent: EGPU_NO_CHANGE. */
  int (*stage)(const egpu_call* call, const egpu_device* device);
  /** Replies what a container gets. Pure: the same request gives the same edits, also in a process that never saw
   *  the key. */
  int (*mount)(const egpu_call* call, const egpu_device* device, const egpu_container* container);
  /** The container is gone. Absent: EGPU_NO_CHANGE. */
  int (*unmount)(const egpu_call* call, const egpu_container* container);
  /** Undoes stage. What it may not remove, since a container made it as root, it may rename to <key>.left-<anything> beside
   *  it: the agent removes that. Absent: EGPU_NO_CHANGE. */
  int (*unstage)(const egpu_call* call);
  /** Replies the state of this machine's cards. Absent: nothing is known. */
  int (*health)(const egpu_call* call);

  /* Appended. */
  /** Controller side: puts the host's best candidates into the plugin's order by reply_prefer and reply_veto, within a second. No
   *  effects, and the same answer for the same wish. Any code but EGPU_OK, a passed deadline, or an answer that names a
   *  candidate twice or one that is not there: the host's order stands. Absent: the host does not ask. */
  int (*prefer)(const egpu_call* call, const egpu_wish* wish);
} egpu_provisioner;

/** The entry symbol: stores the plugin's table in *provisioner and returns EGPU_OK, or another code after saying why
 * through host->log. Called once, before any slot, on one thread. */
EGPU_EXPORT int egpu_provisioner_entry(const egpu_host* host, const egpu_provisioner** provisioner);

#ifdef __cplusplus
}
#endif

#endif /* EGPU_API_PLUGIN_PROVISIONER_H */

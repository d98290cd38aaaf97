/* Values that the host and a provisioner plugin exchange: what slots receive, and what plugins reply. provisioner.h has
 * the conventions, and the functions that use these values. Pure C11.
 */
#ifndef EGPU_API_PLUGIN_VALUES_H
#define EGPU_API_PLUGIN_VALUES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A parameter of the class. Frozen: never grows.
 *  OWNERSHIP: the host's; both texts are valid during the call. */
typedef struct egpu_pair {
  const char* key;
  const char* value;
} egpu_pair;

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
  const char* mig_profile; /**< profile of the device's MIG instances, as in egpu_mig_profile; "" if it has none */
  uint32_t mig_slots;      /**< slots of the card that these instances occupy, which no other device has: bits 0…7 are
                                memory slots, bit 8 the media engines. The instances are equal and do not overlap, so
                                the first one starts at the lowest memory slot, the next at the lowest of the others */
} egpu_card;

/** The part of a device's object that only its provisioner knows: spec.qGPU or spec.remote of the ElasticGPU.
 *  OWNERSHIP: in a device, the host's, with everything it points to; valid during the call. In a reply, the plugin's;
 *  the host copies it before reply_source returns.
 *  ERRORS: without any value, or with a path that is not absolute, the answer counts as garbage. */
typedef struct egpu_source {
  size_t struct_size;
  const char* device_name;  /**< qGPU.deviceName: the device on the node; "" if unknown */
  const char* const* paths; /**< qGPU.paths: its path_count device files on the node; NULL if path_count is 0 */
  size_t path_count;
  const char* endpoint; /**< remote.endpoint: the address of the GPU; "" if unknown */
} egpu_source;

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
  /* As in the ElasticGPU: from an administrator, or from an earlier reply_source. NULL if it has none of these
     values. */
  const egpu_source* source;
  /* Quantities by resource, such as "10" and "4Gi": spec.capacity of the ElasticGPU, if the device has no cards. NULL
     if capacity_count is 0. */
  const egpu_pair* capacity;
  size_t capacity_count;
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

/** A profile of the MIG instances that a card can be divided into, as its driver reports it. Frozen: never grows.
 *  OWNERSHIP: the plugin's, as the egpu_gpu that contains it.
 *  ERRORS: with a value outside its range, the answer counts as garbage. */
typedef struct egpu_mig_profile {
  const char* name; /**< as the driver writes it: "1g.5gb", "1g.5gb+me" */
  int64_t memory;   /**< bytes of an instance, from 1 */
  int64_t compute;  /**< compute slices of an instance, 1…7; the whole card has 7 */
  int64_t size;     /**< memory slots of an instance, 1…8 */
  uint32_t starts;  /**< bits 0…7: memory slots at which an instance can start */
  int32_t media;    /**< 1: an instance has the media engines, which one instance of the card can have; otherwise 0 */
} egpu_mig_profile;

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
  const egpu_mig_profile* mig_profiles; /**< of a card in MIG mode, of which only instances can be allocated; NULL if
                                             mig_profile_count is 0 */
  size_t mig_profile_count;
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

/** Isolation of a device's share, for status.isolation of the device and its claim. memory, compute, faults and
 *  managed_memory are each "Enforced": a container cannot exceed its share or stop other containers; "Soft": only
 *  programs that work around the mechanism can; or "None".
 *  OWNERSHIP: the plugin's; the host copies it before reply_isolation returns.
 *  ERRORS: with a mode that is not a DNS label, another level, or a managed_memory that is stronger than memory, the
 *  answer counts as garbage. */
typedef struct egpu_isolation {
  size_t struct_size;
  const char* mode;    /**< the mechanism: "whole-card", "mig", "driver", "limiter", "mps", "hami-core", "none", … */
  const char* memory;  /**< memory beyond the grant */
  const char* compute; /**< compute time beyond the grant while others want it */
  const char* faults;  /**< a fault of one container stops containers of others */
  /* Appended; members beyond struct_size are unknown or empty. */
  const char* managed_memory; /**< CUDA managed memory beyond the grant; NULL or "" = as memory */
} egpu_isolation;

#ifdef __cplusplus
}
#endif

#endif /* EGPU_API_PLUGIN_VALUES_H */

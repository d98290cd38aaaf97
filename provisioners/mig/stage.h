// Creates and destroys the MIG instances of devices. Each step is recoverable: a process can end at any instruction,
// and the next call continues.
// clang-format off
//
//   STAGE holds the card's lock.                                    after a crash: state, and recovery
//   (S1) check: card in MIG mode, slots free                       nothing
//   (S2) write the record: the device's slots, no ids              record: from (S3); or from (D1)
//   for each instance, in the order of slots:
//   (S3) create the GPU instance at its slots                      instance of which the record lacks the id: it has
//                                                                  the record's profile and slots, which were free in
//                                                                  (S1): from (S4); or from (D1)
//   (S4) write its id                                              half-made instance: from (S5); or from (D1)
//   (S5) create its compute instance, with all slices              the same, without uuid: from (S6); or from (D1)
//   (S6) write the uuid                                            complete: a repeat changes nothing
//   A refusal undoes what was created, from (D1), if no earlier call had completed the device.
//
//   UNSTAGE holds the card's lock.
//   (D1) for each instance that the record names, destroy its      half-made instance, or none: from (D1); or from (S3)
//        compute instances, then the instance
//   (D2) remove the record                                         nothing
//
// After a reboot or a reset of the card the instances are gone, and the record's ids are void: stage creates them again
// at the same slots, unstage removes the record. An instance that no record names is foreign: it is never destroyed.
// The MIG mode is never changed.
// clang-format on
#pragma once

#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/mig/records.h"

namespace egpu::mig {

/// Returns the only card of a device, which has a profile and slots; otherwise sets `status` to invalid.
const sdk::Card* cardOf(const sdk::Device& device, sdk::Status& status);

/// Creates the device's instances. Returns NO_CHANGE if they exist, or if the card is not on this machine.
sdk::Status stage(sdk::Call& call, const sdk::Device& device);

/// Destroys the instances that the key's record names. NO_CHANGE if there is no record.
sdk::Status unstage(sdk::Call& call);

/// Sets the complete record of a staged device. `elsewhere`: the card is not on this machine. Returns unavailable if
/// not all of the device's instances exist.
sdk::Status readStaged(const sdk::Device& device, nvidia::InstanceRecord& record, bool& elsewhere);

}  // namespace egpu::mig

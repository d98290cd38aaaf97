// Records of the MIG instances that Elastic GPU has created on this machine: a file per device, named by its key. They
// tell its instances from foreign ones, which nothing here ever destroys.
//
//   $ELASTICGPU_STATE_DIR/mig/<key>       a record
//   $ELASTICGPU_STATE_DIR/mig/lock-<card> held while instances of the card are created or destroyed
//
// A record is written before its first instance is created, and removed after its last one is destroyed. It survives a
// reboot; the instances do not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/mig/instances.h"

namespace egpu::nvidia {

struct InstanceRecord {
  /// An instance of the device.
  struct Part {
    unsigned start = 0;
    int gpuInstance = -1;      ///< NVML's id; -1 = it is about to be created, or was, before a crash
    int computeInstance = -1;  ///< NVML's id; -1 = it is not created yet, or was, before a crash
    std::string uuid;          ///< uuid of the MIG device; empty = unknown yet
  };
  std::string key;
  std::string device, claim;  ///< names, for messages
  std::string card;           ///< uuid
  std::string boot;           ///< boot id of the machine when the ids were valid
  std::string profile;
  unsigned profileId = 0, size = 0;
  bool media = false;
  std::vector<Part> parts;
};

/// Returns $ELASTICGPU_STATE_DIR, or its default.
std::string stateFolder();

/// Returns the boot id of the machine; "" if it is unknown.
std::string bootId();

/// Reads the record of a key. Returns OK without a record if there is none; unavailable if it can't be read.
sdk::Status readRecord(const std::string& key, std::optional<InstanceRecord>& out);

/// Reads all records of a card. Returns unavailable if a record can't be read.
sdk::Status readRecords(const std::string& card, std::vector<InstanceRecord>& out);

/// Writes the record so that it is complete or not there, also after a loss of power.
sdk::Status writeRecord(const InstanceRecord& record);

/// Removes the record; OK if there is none.
sdk::Status removeRecord(const std::string& key);

/// Returns the part of a record that names the instance; null if none does. A part without an id names an instance of
/// its profile at its place, in the same boot: the place was free when the record was written.
const InstanceRecord::Part* partOf(const InstanceRecord& record, const Instance& instance, const std::string& boot);

/// Excludes other processes and threads that change instances of the card.
class CardLock {
 public:
  /// Waits until the lock is free, or `call` is cancelled; then the status is unavailable.
  CardLock(const std::string& card, sdk::Call& call);
  CardLock(const CardLock&) = delete;
  CardLock& operator=(const CardLock&) = delete;
  ~CardLock();
  const sdk::Status& status() const { return status_; }

 private:
  int fd_ = -1;
  sdk::Status status_;
};

}  // namespace egpu::nvidia

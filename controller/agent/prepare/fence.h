// The node is the last fence: what is prepared on a card never exceeds it, whatever the API says.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/cdi/folder.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// Whether `wanted` fits on its cards beside what the folder holds for other devices, in charged amounts, or takes no more
/// of them than its own file. `cards`: of wanted.cards, in their order. Code::invalid names the holders.
/// Code::unavailable names a file that can't be read, since it may hold the card. Pure.
base::Status fits(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards,
                  const std::vector<cdi::Folder::Entry>& holders);

/// The same, and what fits is written, with nobody between the look and the write: of two threads or agents one is first.
/// Those of this process who wait for their turn have it together, in the order in which they came. Thread-safe; keeps a
/// reference to the folder, which must outlive it.
class Fence {
 public:
  explicit Fence(cdi::Folder& folder) : folder_(folder) {}

  /// Writes `wanted` as the part that counts from then on. An error of the folder is passed on.
  base::Status reserve(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards);

  /// Callers that wait for another's turn, for tests.
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  struct Wish {
    const cdi::Spec& wanted;
    const std::vector<v1alpha::Card>& cards;
    cdi::Draft draft;
    base::Status answer{};
    bool answered = false;  ///< protected by mutex_
  };
  void decide(const std::vector<Wish*>& wishes);

  cdi::Folder& folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::vector<Wish*> waiting_;
  bool deciding_ = false;
};

}  // namespace egpu::agent

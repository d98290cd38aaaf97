// The node is the last fence: what is prepared on a card never exceeds it, whatever the API says.
#pragma once

#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/cdi/folder.h"
#include "controller/base/status.h"

namespace egpu::agent {

/// Whether `wanted` fits on its cards beside what the folder holds for other devices, in charged amounts. `cards`: of
/// wanted.cards, in their order. Code::invalid names the holders; Code::unavailable a file that can't be read, since it
/// may hold the card. Pure.
base::Status fits(const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards,
                  const std::vector<cdi::Folder::Entry>& holders);

/// The same, and `wanted` written as the part that counts from then on, with nobody between the look and the write: of two
/// threads or agents one is first. An error of the folder is passed on.
base::Status reserve(cdi::Folder& folder, const cdi::Spec& wanted, const std::vector<v1alpha::Card>& cards);

}  // namespace egpu::agent

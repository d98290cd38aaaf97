// Timestamps of others, read. Written they are by clock.h.
#pragma once

#include <optional>
#include <string_view>

#include "controller/base/clock.h"

namespace egpu::base {

/// RFC 3339 ("2026-01-02T03:04:05Z"), with any fraction (kept to microseconds) and offset ("+01:00"); nullopt for
/// anything else.
std::optional<Clock::Wall> parseRfc3339(std::string_view text);

}  // namespace egpu::base

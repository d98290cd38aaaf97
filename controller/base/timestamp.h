// Timestamps of others, read. Written they are by clock.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace egpu::base {

/// In microseconds, as Clock::Wall ends in the year 2262.
using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

/// RFC 3339 ("2026-01-02T03:04:05Z"), with any fraction (kept to microseconds) and offset ("+01:00"); nullopt for
/// anything else.
std::optional<Timestamp> parseRfc3339(std::string_view text);

/// Whole seconds since 1970.
int64_t unixSeconds(Timestamp at);
/// Likewise of RFC 3339; of anything else 0, which is before all others.
int64_t unixSeconds(std::string_view rfc3339);

}  // namespace egpu::base

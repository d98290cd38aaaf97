// Parses timestamps. clock.h formats them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace egpu::base {

/// Point in time in microseconds. Clock::Wall is not used because it can't represent times after the year 2262.
using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

/// Parses an RFC 3339 timestamp ("2026-01-02T03:04:05Z"). Accepts any fraction, of which microseconds are kept, and an
/// offset ("+01:00"). Returns nullopt for any other text.
std::optional<Timestamp> parseRfc3339(std::string_view text);

/// Returns whole seconds since 1970.
int64_t unixSeconds(Timestamp at);
/// Returns whole seconds since 1970 of an RFC 3339 timestamp, or 0 if it can't be parsed.
int64_t unixSeconds(std::string_view rfc3339);

}  // namespace egpu::base

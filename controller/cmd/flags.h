// Flags common to both programs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "controller/cmd/options.h"

namespace egpu::cmd {

/// Adds --plugins and the resource limits of a plugin's process.
void addPlugins(CLI::App& app, std::string& folder, plugin::Limits& limits);
/// Adds --log-level and --log-format.
void addLog(CLI::App& app, LogOptions& o);
void configureLog(const LogOptions& o);

/// Adds a duration flag: "15s", "500ms", "2m" → milliseconds.
template <class Duration>
void addDuration(CLI::App& app, const std::string& flag, Duration& o, const std::string& what) {
  app.add_option_function<int64_t>(
         flag, [&o](const int64_t& ms) { o = Duration(ms); }, what)
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, int64_t>{{"ms", 1}, {"s", 1000}, {"m", 60'000}},
                                        CLI::AsNumberWithUnit::UNIT_REQUIRED))
      ->check([](const std::string& ms) { return ms.front() == '-' ? "a duration is not below 0" : std::string(); })
      ->type_name("DURATION")
      ->default_str(std::to_string(o.count()) + "ms");
}

}  // namespace egpu::cmd

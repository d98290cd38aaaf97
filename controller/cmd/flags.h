// Flags that both programs have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "controller/cmd/options.h"

namespace egpu::cmd {

/// --plugins and what a plugin's process may use.
void addPlugins(CLI::App& app, std::string& folder, plugin::Limits& limits);
/// --log-level and --log-format.
void addLog(CLI::App& app, LogOptions& o);
void configureLog(const LogOptions& o);

}  // namespace egpu::cmd

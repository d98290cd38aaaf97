// Flags of a controller, for elastic-gpu-controller and elastic-gpu-standalone.
#pragma once

#include <CLI/CLI.hpp>

#include "controller/cmd/options.h"

namespace egpu::cmd {

/// Adds the flags of a controller that both programs have.
void addController(CLI::App& app, CoreOptions& o);
/// Adds the flags for schedulers that choose nodes themselves.
void addExtender(CLI::App& app, ExtenderOptions& o);

}  // namespace egpu::cmd

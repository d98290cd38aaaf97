#include "controller/cmd/flags.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "controller/base/log.h"

namespace egpu::cmd {

namespace {

bool pluginsIn(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".so") return true;
  return false;
}

}  // namespace

void addPlugins(CLI::App& app, std::string& folder, plugin::Limits& limits) {
  app.add_option("--plugins", folder,
                 "Folder of provisioner plugins (default: ../lib/provisioners beside the executable)")
      ->check(CLI::ExistingDirectory)
      ->each([](const std::string& given) {
        if (pluginsIn(given)) return;
        std::fprintf(stderr, "warning: --plugins: %s holds no .so: no class can be served\n", given.c_str());
      });
  app.add_option("--plugin-memory", limits.memory,
                 "Address space of a plugin's process: 2GiB, 512MiB; 0 = no limit of its own")
      ->transform(CLI::AsSizeValue(false).description("SIZE"))
      ->default_str("2GiB");
  app.add_option("--plugin-files", limits.files,
                 "Maximum number of files that it may have open; 0 = no limit of its own")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--plugin-processes", limits.processes,
                 "Maximum number of processes and threads of its user; 0 = no limit of its own")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void addLog(CLI::App& app, LogOptions& o) {
  app.add_option("--log-level", o.level, "Minimum log level")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.add_option("--log-format", o.format, "Format of log lines on standard error")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void configureLog(const LogOptions& o) {
  auto level = base::log::Level::info;
  base::log::parseLevel(o.level, level);
  base::log::configure(level, o.format == "json");
}

}  // namespace egpu::cmd

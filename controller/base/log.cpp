#include "controller/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "controller/base/printable.h"
#include "controller/base/text.h"

namespace egpu::base::log {

namespace {
std::atomic<Level> threshold{Level::info};
std::atomic<bool> asJson{false};

spdlog::logger& logger() {
  // Leaked on purpose: threads may log until the process ends.
  static auto* instance = [] {
    auto* l = new spdlog::logger("elastic-gpu", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("%v");
    l->set_level(spdlog::level::trace);
    l->flush_on(spdlog::level::trace);
    return l;
  }();
  return *instance;
}

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    case Level::error:
      return "error";
    case Level::off:
      break;
  }
  return "off";
}

std::string bareOrQuoted(std::string_view text) {
  const bool bare = !text.empty() && text.find_first_of(" \"=\\") == std::string_view::npos && !hasControls(text);
  return bare ? std::string(text) : base::quoted(text);
}
}  // namespace

void configure(Level level, bool json) {
  threshold = level;
  asJson = json;
}

bool parseLevel(std::string_view text, Level& out) {
  for (Level l : {Level::debug, Level::info, Level::warn, Level::error, Level::off})
    if (name(l) == text) {
      out = l;
      return true;
    }
  return false;
}

bool enabled(Level level) { return level >= threshold.load(std::memory_order_relaxed); }

void write(Level level, std::string_view message, Fields fields) {
  if (!enabled(level) || level == Level::off) return;
  static const spdlog::pattern_formatter pattern("%Y-%m-%dT%H:%M:%S.%eZ", spdlog::pattern_time_type::utc, "");
  thread_local auto stamp = pattern.clone();
  spdlog::memory_buf_t buffer;
  stamp->format(spdlog::details::log_msg("", spdlog::level::info, ""), buffer);
  const std::string when(buffer.data(), buffer.size());
  std::string line;
  if (asJson) {
    line = "{\"time\":\"" + when + "\",\"level\":\"" + std::string(name(level)) + "\",\"msg\":" + base::quoted(message);
    for (const auto& f : fields) line += "," + base::quoted(f.key) + ":" + base::quoted(f.value);
    line += "}";
  } else {
    line = "time=" + when + " level=" + std::string(name(level)) + " msg=" + base::quoted(message);
    for (const auto& f : fields) line += " " + std::string(f.key) + "=" + bareOrQuoted(f.value);
  }
  logger().log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace egpu::base::log

// Answers of a node's plugins about its cards, and the cards that can be published from them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/agent/usage/usage.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent::cards {

struct PluginReport {
  plugin::DiscoverReply cards;
  plugin::HealthReply health;
  /// Number of the plugin's process, unique among all plugins. A different number may mean another process, which does
  /// not know earlier events.
  uint64_t process = 0;
};
/// By plugin; contains only plugins that have answered.
using Answers = std::map<std::string, PluginReport, std::less<>>;

/// Calls discover and then health of the plugin; blocks until they return or reach the plugin's deadlines.
PluginReport ask(plugin::Provisioner& plugin);

struct FoundCard {
  v1alpha::Card card;
  std::string plugin;
};
struct MergedCards {
  std::map<std::string, FoundCard, std::less<>> cards;  ///< by object name
  std::vector<std::string> remarks;   ///< cards and details that were refused or omitted, with the reason; bounded
  std::vector<std::string> warnings;  ///< messages of plugins in addition to their cards, without duplicates; bounded
};

/// Maximum number of cards of a node, equal to the maximum of a device.
inline constexpr std::size_t kMaxCards = 128;

/// Returns "<plugin>: <words>", made printable and shortened.
std::string warningOf(const std::string& plugin, std::string_view words);

/// Returns the cards of all plugins whose discovery succeeded. If two plugins report the same card, the plugin whose
/// name sorts first gets it; if one plugin reports it twice, the first report counts. Only cards that the API can't
/// represent are refused.
MergedCards merge(const Answers& answers, const std::string& node);

/// Returns the usage of the found cards, as far as their plugins report it.
std::vector<usage::Reading> readingsOf(const MergedCards& found, const Answers& answers);

}  // namespace egpu::agent::cards

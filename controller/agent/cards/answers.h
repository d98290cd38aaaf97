// What a node's plugins say of its cards, and what of that can be published.
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

struct Answer {
  plugin::DiscoverReply cards;
  plugin::HealthReply health;
  /// Number of the plugin's process, unlike those of other plugins. Another number may be another process, without
  /// memory of earlier events.
  uint64_t process = 0;
};
/// By plugin. One that has not answered yet is not in it.
using Answers = std::map<std::string, Answer, std::less<>>;

/// Both questions, one after the other; blocks until the plugin's deadlines.
Answer ask(plugin::Provisioner& plugin);

struct FoundCard {
  v1alpha::Card card;
  std::string plugin;
};
struct Found {
  std::map<std::string, FoundCard, std::less<>> cards;  ///< by object name
  std::vector<std::string> remarks;  ///< what is refused or left out and why, a sentence each; bounded
  std::vector<std::string> said;     ///< what plugins say beside their cards, the same words once; bounded
};

/// Most cards of a node, as many as a device can name.
inline constexpr std::size_t kMostCards = 128;

/// What a plugin says, as one of Found::said.
std::string saidBy(const std::string& plugin, std::string_view words);

/// The cards of all that answered well. Of two plugins with the same card the first by name has it; of one plugin the
/// first it gave. A card that the API could not hold is refused, alone.
Found merge(const Answers& answers, const std::string& node);

/// What is used of the cards that were found, as far as their plugins answer and say so.
std::vector<usage::Reading> readingsOf(const Found& found, const Answers& answers);

}  // namespace egpu::agent::cards

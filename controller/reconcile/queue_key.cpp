#include "controller/reconcile/queue_key.h"

#include <array>
#include <utility>

namespace egpu::reconcile {
namespace {

constexpr std::array<std::pair<std::string_view, Concern>, 18> kConcerns{{{"claim", Concern::claim},
                                                                          {"gang", Concern::gang},
                                                                          {"device", Concern::device},
                                                                          {"card", Concern::card},
                                                                          {"resourceclaim", Concern::resourceClaim},
                                                                          {"pod", Concern::pod},
                                                                          {"node", Concern::node},
                                                                          {"class", Concern::cls},
                                                                          {"plugin", Concern::plugin},
                                                                          {"calls", Concern::calls},
                                                                          {"assumed", Concern::assumed},
                                                                          {"reservations", Concern::reservations},
                                                                          {"capacity", Concern::capacity},
                                                                          {"plans", Concern::plans},
                                                                          {"explain", Concern::explain},
                                                                          {"usage", Concern::usage},
                                                                          {"quota", Concern::quota},
                                                                          {"template", Concern::claimTemplate}}};
bool namespaced(Concern c) {
  return c == Concern::claim || c == Concern::gang || c == Concern::resourceClaim || c == Concern::pod ||
         c == Concern::usage || c == Concern::quota || c == Concern::claimTemplate;
}

}  // namespace

std::string_view nameOf(Concern concern) {
  for (const auto& [name, value] : kConcerns)
    if (value == concern) return name;
  return {};
}

std::string QueueKey::str() const { return std::string(nameOf(concern)) + "/" + object.str(); }

std::optional<QueueKey> QueueKey::parse(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  for (const auto& [name, concern] : kConcerns) {
    if (text.substr(0, slash) != name) continue;
    auto rest = text.substr(slash + 1);
    if (!namespaced(concern)) return QueueKey{concern, {"", std::string(rest)}};
    const auto second = rest.find('/');
    if (second == std::string_view::npos) return std::nullopt;
    return QueueKey{concern, {std::string(rest.substr(0, second)), std::string(rest.substr(second + 1))}};
  }
  return std::nullopt;
}

}  // namespace egpu::reconcile

#include "controller/scheduler/quota/parts_on.h"

#include <tuple>
#include <utility>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/mig/instances.h"

namespace egpu::scheduler {

QuotaPart quotaPartOf(const CardView& card, const Amount& charged) {
  QuotaPart part{std::string(card.model), charged, card.capacity.core, card.milliTflops, card.known};
  if (card.mig != nullptr) part.mig = mig::findInstances(*card.mig, card.capacity.core, charged);
  return part;
}

std::optional<std::vector<QuotaPart>> partsOn(const CardType& type, const Request& request) {
  auto free = request;
  free.quota.clear();
  const Need need = needOn(type, free);
  if (!need.possible()) return std::nullopt;
  QuotaPart part{std::string(type.model), need.charged, type.core, type.milliTflops, true, request.mig};
  if (!divides(request)) return std::vector<QuotaPart>(static_cast<std::size_t>(request.cards), part);
  const SplitTotal total(request);
  part.charged = chargedFor(total.maxAmount(type, total.steps()), request);
  return std::vector<QuotaPart>{part};
}

std::vector<QuotaAsked> leastAsked(const Cluster& cluster, const std::vector<QuotaClaim>& claims,
                                   const std::vector<Request>& requests, const std::vector<std::string>& models) {
  std::vector<QuotaAsked> asked;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (requests[i].adminAccess || requests[i].cards == 0) continue;
    std::optional<std::vector<QuotaPart>> least;
    const auto rank = [&models](const std::vector<QuotaPart>& parts) {
      const QuotaPart& part = parts.front();
      return std::tuple(!anyOf(models, part.model), part.charged.memory, part.charged.core);
    };
    for (const CardType& type : cluster.state().types)
      if (auto parts = partsOn(type, requests[i]); parts && (!least || rank(*parts) < rank(*least)))
        least = std::move(parts);
    if (least) asked.push_back({claims[i], *std::move(least)});
  }
  return asked;
}

}  // namespace egpu::scheduler

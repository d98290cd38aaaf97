#include "controller/scheduler/quota/on_a_copy.h"

#include <set>
#include <utility>

#include "controller/scheduler/quota/parts_on.h"

namespace egpu::scheduler {

namespace {

QuotaPart partOf(const Cluster& cluster, const std::string& card, const Amount& charged) {
  return quotaPartOf(cluster.findCard(card), charged);
}

/// Returns the models of one decision in forecast()'s form, "A|B".
std::string modelsOf(const Cluster& cluster, const Decision& decision) {
  std::set<std::string> models;
  for (const auto& placement : decision.placements) models.emplace(cluster.findCard(placement.card).model);
  std::string text;
  for (const auto& model : models) text += (text.empty() ? "" : "|") + model;
  return text;
}

}  // namespace

QuotaClaim quotaClaim(const std::string& name, const std::string& className) {
  return {name.substr(0, name.find('/')), name, name, className};
}

Decision decideWithin(Cluster& cluster, const QuotaBook& book, const QuotaClaim& claim, const Request& request,
                      const NodePredicate& suits, const Pause& pause) {
  if (!book.counts(claim.namespace_)) return decide(cluster, request, suits);
  auto together = decideWithin(cluster, book, std::vector<QuotaClaim>{claim}, {request}, suits, pause);
  if (!together.decisions.empty()) return std::move(together.decisions.front());
  Decision none;
  none.excess = std::move(together.excess);
  return none;
}

void count(QuotaBook& book, const Cluster& cluster, const std::string& holder, const QuotaClaim& claim,
           const std::vector<Holding>& holdings) {
  for (const auto& each : holdings) book.put(holder, claim, each.card, partOf(cluster, each.card, each.charged));
}

void count(QuotaBook& book, const Cluster& cluster, const std::string& holder, const QuotaClaim& claim,
           const Decision& decision) {
  for (const auto& each : decision.placements)
    book.put(holder, claim, each.card, partOf(cluster, each.card, each.charged));
}

std::optional<QuotaExcess> excessAnew(QuotaBook& book, const Cluster& cluster, const std::string& holder,
                                      const QuotaClaim& claim, const std::vector<Holding>& holdings) {
  if (!book.counts(claim.namespace_)) return std::nullopt;
  book.drop(holder);
  QuotaAsked asked{claim, {}};
  for (const auto& each : holdings) asked.parts.push_back(partOf(cluster, each.card, each.charged));
  auto excess = book.excess({asked});
  count(book, cluster, holder, claim, holdings);
  return excess;
}

Forecast forecastWithin(Cluster cluster, QuotaBook book, const QuotaClaim& like, const Request& request,
                        std::optional<QuotaExcess>& excess, const NodePredicate& suits, int64_t limit,
                        const Pause& pause) {
  Forecast forecast;
  for (;; ++forecast.count) {
    if (pause) pause();
    if (forecast.count == limit) {
      forecast.more = true;
      return forecast;
    }
    auto claim = like;
    claim.name = claim.id = like.name + "/" + std::to_string(forecast.count);
    const auto decision = decideWithin(cluster, book, claim, request, suits, pause);
    if (!decision.fits) {
      excess = decision.excess;
      return forecast;
    }
    ++forecast.byModel[modelsOf(cluster, decision)];
    const auto holder = "forecast/" + std::to_string(forecast.count);
    count(book, cluster, holder, claim, decision);
    hold(cluster, holder, decision);
  }
}

}  // namespace egpu::scheduler

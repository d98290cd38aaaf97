#include <algorithm>

#include "api/v1alpha/quantity.h"
#include "controller/whatif/render/render.h"
#include "controller/whatif/render/text_table.h"

namespace egpu::whatif {

namespace {

using scheduler::Decision;
using scheduler::Explanation;
using scheduler::Placed;
using Cell = TextTable::Cell;

Cell number(int64_t n) { return {std::to_string(n), Tint::none, true}; }
Cell head(const char* text) { return {text}; }
Cell headOfNumber(const char* text) { return {text, Tint::none, true}; }

/// Formats a fill of 0 … 2,000,000 as a percentage: "35%".
Cell fill(int64_t fill) { return {v1alpha::formatMilliCards((fill + 1000) / 2000), Tint::none, true}; }

std::string amountText(const scheduler::Amount& amount) {
  return v1alpha::formatMilliCards(amount.core) + " " + v1alpha::readableBytes(amount.memory);
}

std::string subjectLine(const Subject& subject, const TextStyle& style) {
  std::string line = subject.claim.empty() ? "a claim" : "claim " + tinted(subject.claim, Tint::bold, style);
  line += " of class " + subject.className + ": " + subject.requestText() + "\n";
  if (subject.exists) {
    line += subject.phase;
    if (!subject.node.empty()) line += " on node " + subject.node + ", device " + subject.device;
    if (!subject.problem.empty()) line += " (" + subject.problem + ")";
    line += "\n";
  }
  if (!subject.note.empty()) line += "note: " + subject.note + "\n";
  if (!subject.quota.empty()) line += tinted(subject.quota, Tint::bad, style) + "\n";
  return line;
}

/// "gpu-0a1b [3]": name of a card and its index on the node.
std::string cardText(const std::string& card, const TextStyle& style) {
  const auto index = style.indexOf ? style.indexOf(card) : std::nullopt;
  return index ? card + " [" + std::to_string(*index) + "]" : card;
}

std::string cardsText(const Decision& decision, const TextStyle& style) {
  std::string text;
  for (const auto& placement : decision.placements)
    text += (text.empty() ? "" : ", ") + cardText(placement.card, style);
  return text;
}

/// Lists a decision card by card.
std::string decisionText(const Decision& decision, const char* lead, const TextStyle& style) {
  std::string out = tinted(std::string(lead) + " node " + decision.node, Tint::good, style) + "\n";
  TextTable table({head("CARD"), head("GRANTED"), head("CHARGED")});
  for (const auto& placement : decision.placements)
    table.add({{cardText(placement.card, style)}, {amountText(placement.granted)}, {amountText(placement.charged)}});
  return out + table.render(2, style);
}

std::string stagesText(const Explanation& explanation, const TextStyle& style) {
  TextTable stages({head("STAGE"), headOfNumber("BEFORE"), headOfNumber("AFTER"), head("REJECTED")});
  TextTable names({head("STAGE"), head("NODE"), head("CARD"), head("WHY")});
  int64_t unnamed = 0;
  for (const auto& stage : explanation.stages) {
    std::string reasons;
    for (const auto& [reason, count] : stage.reasons)
      reasons += (reasons.empty() ? "" : ", ") + std::to_string(count) + " " + reason;
    const bool last = stage.before > 0 && stage.after == 0;
    stages.add({{stage.stage},
                number(stage.before),
                {std::to_string(stage.after), last ? Tint::bad : Tint::none, true},
                {reasons}});
    for (const auto& dropped : stage.dropped)
      names.add({{stage.stage},
                 {dropped.node},
                 {dropped.card.empty() ? "-" : cardText(dropped.card, style)},
                 {dropped.reason}});
    unnamed += stage.before - stage.after - static_cast<int64_t>(stage.dropped.size());
  }
  std::string out = stages.render(2, style);
  if (!names.empty()) out += "rejected:\n" + names.render(2, style);
  if (!names.empty() && unnamed > 0) out += "  and " + std::to_string(unnamed) + " more (--names shows more)\n";
  return out;
}

std::string remediesText(const Explanation& explanation, const TextStyle& style) {
  if (explanation.remedies.empty()) return {};
  std::string out = "smallest change, either of:\n";
  if (explanation.remedies.size() == 1) out = "smallest change:\n";
  for (const auto& remedy : explanation.remedies) out += "  " + tinted(remedy.text, Tint::bold, style) + "\n";
  return out;
}

/// Returns "0/9 nodes fit" without the reasons, because the table shows them.
std::string verdict(const Explanation& explanation) {
  const auto line = explanation.text();
  return line.substr(0, std::min(line.find(':'), line.find(';')));
}

void addPlaced(TextTable& table, const Placed& placed, const char* what, const TextStyle& style) {
  table.add({{what},
             {placed.claim},
             {placed.from.empty() ? "-" : placed.from},
             {placed.to.fits ? placed.to.node : "nowhere", placed.to.fits ? Tint::good : Tint::bad},
             {placed.to.fits ? cardsText(placed.to, style) : placed.why}});
}

TextTable placedTable() { return TextTable({head(""), head("CLAIM"), head("FROM"), head("TO"), head("CARDS")}); }

std::string whyNotInPlace(const scheduler::Resizing& resizing) {
  return resizing.excess ? resizing.excess->text() : resizing.why;
}

std::string resizingText(const scheduler::Resizing& resizing, const TextStyle& style) {
  if (resizing.cards.empty())
    return "  " + resizing.claim + " has no device yet: it requests the new size from now on" +
           (resizing.why.empty() ? "" : ", and is not placed: " + resizing.why) + "\n";
  std::string out = "  " + resizing.claim + " on node " + resizing.node + ": " +
                    (resizing.inPlace ? tinted("fits in place", Tint::good, style)
                                      : tinted("does not fit in place", Tint::bad, style)) +
                    "\n";
  TextTable table({head("CARD"), head("AVAILABLE"), head("HAS"), head("WANTS"), head("LEFT")});
  for (const auto& card : resizing.cards)
    table.add({{cardText(card.card, style)},
               {amountText(card.available)},
               {amountText(card.old)},
               {card.wanted ? amountText(*card.wanted) : "other cards"},
               {card.wanted ? amountText(card.left()) : "-"}});
  out += table.render(4, style);
  if (!resizing.refused.empty()) out += "  " + tinted("refused", Tint::bad, style) + ": " + resizing.refused + "\n";
  if (resizing.inPlace) return out;
  if (const auto why = whyNotInPlace(resizing); !why.empty()) out += "  why: " + why + "\n";
  if (!resizing.smallestChange.empty()) out += "  smallest change: " + resizing.smallestChange + "\n";
  return out + "  as a new claim, after releasing this one: " +
         (resizing.elsewhere.fits ? "node " + resizing.elsewhere.node : std::string("fits nowhere")) + "\n";
}

std::string stepText(const scheduler::StepReport& report, const TextStyle& style) {
  std::string out;
  auto table = placedTable();
  for (const auto& placed : report.moved) addPlaced(table, placed, "moves", style);
  if (report.created) addPlaced(table, *report.created, "created", style);
  for (const auto& placed : report.bound) addPlaced(table, placed, "now fits", style);
  if (report.released)
    out += "  " + report.released->claim +
           (report.released->from.empty() ? " had no device\n" : " leaves node " + report.released->from + "\n");
  if (report.resized) out += resizingText(*report.resized, style);
  out += table.render(2, style);
  if (out.empty()) out = "  nothing moves, nothing more fits\n";
  if (report.waiting > 0) out += "  " + std::to_string(report.waiting) + " still pending\n";
  return out;
}

Cell score(const scheduler::PolicyScores& scores, const std::string& policy) {
  const auto it = scores.find(policy);
  return {it == scores.end() ? "-" : std::to_string(it->second), Tint::none, true};
}

/// Lists nodes and cards by score, best first: the scores of the request's own policies, in wide tables those of all
/// policies.
std::string rankingText(const scheduler::Request& request, const std::vector<scheduler::RankedNode>& ranking,
                        const TextStyle& style) {
  if (ranking.empty()) return {};
  std::vector<Cell> nodeHead = {headOfNumber("#"), head("NODE"), headOfNumber("SCORE"), headOfNumber("FILL"),
                                headOfNumber("AFTER")};
  std::vector<Cell> cardHead = {head("NODE"),          head("CARD"),         head("GIVEN"),
                                headOfNumber("SCORE"), headOfNumber("FILL"), headOfNumber("AFTER")};
  const auto everyPolicy = [&](std::vector<Cell>& cells, const scheduler::PolicyScores& scores, bool names) {
    if (!style.wide) return;
    for (const auto& [policy, value] : scores)
      cells.push_back({names ? policy : std::to_string(value), Tint::none, true});
  };
  everyPolicy(nodeHead, ranking.front().scores, true);
  if (!ranking.front().cards.empty()) everyPolicy(cardHead, ranking.front().cards.front().scores, true);
  TextTable nodes(std::move(nodeHead)), cards(std::move(cardHead));
  int64_t place = 0;
  for (const auto& node : ranking) {
    std::vector<Cell> row = {number(++place),
                             {node.decision.node},
                             score(node.scores, request.nodePolicy),
                             fill(node.fill),
                             fill(node.fillAfter)};
    everyPolicy(row, node.scores, false);
    nodes.add(std::move(row));
    for (const auto& card : node.cards) {
      std::vector<Cell> of = {{node.decision.node},
                              {cardText(card.card, style)},
                              {card.given     ? "yes"
                               : card.healthy ? "-"
                                              : "unhealthy"},
                              score(card.scores, request.cardPolicy),
                              fill(card.fill),
                              fill(card.fillAfter)};
      everyPolicy(of, card.scores, false);
      cards.add(std::move(of));
    }
  }
  return "\nscore of nodes by " + request.nodePolicy + ", best first:\n" + nodes.render(2, style) +
         "score of their cards by " + request.cardPolicy + ":\n" + cards.render(2, style);
}

/// Shows the claim's place, the rejected nodes and cards, and the ranking of the remaining ones.
std::string placingText(const Subject& subject, const scheduler::Simulation& simulation, const TextStyle& style) {
  std::string out = subjectLine(subject, style);
  if (!subject.request) return out + "not decided: " + subject.why + "\n";
  if (simulation.decision.fits)
    out += decisionText(simulation.decision, "would go to", style);
  else
    out += tinted("fits nowhere: " + verdict(simulation.filter), Tint::bad, style) + "\n";
  return out + "\nfilter:\n" + stagesText(simulation.filter, style) +
         rankingText(*subject.request, simulation.ranking, style);
}

std::string simulationText(const SimulateAnswer& answer, const TextStyle& style) {
  const auto& simulation = answer.simulation;
  std::string out = placingText(*answer.subject, simulation, style);
  if (!answer.subject->request || simulation.decision.fits) return out;
  out += "\n" + remediesText(simulation.filter, style);
  const auto& preemption = simulation.preemption;
  if (!preemption.possible) return out + "releasing other claims would not make it fit\n";
  TextTable victims({head("CLAIM"), head("CARD"), head("HOLDS")});
  for (std::size_t i = 0; i < preemption.victims.size(); ++i)
    for (const auto& holding : preemption.victims[i].holdings)
      victims.add({{answer.victims[i]}, {cardText(holding.card, style)}, {amountText(holding.charged)}});
  out += "smallest set to evict, on node " + preemption.node +
         (preemption.exact ? "" : " (the search was cut short: a smaller set may exist elsewhere)") + ":\n";
  return out + victims.render(2, style);
}

std::string podText(const PodSimulation& pod, const TextStyle& style) {
  std::string out = "pod " + tinted(pod.pod, Tint::bold, style) + ": " + std::to_string(pod.claims.size()) +
                    (pod.claims.size() == 1 ? " claim\n" : " claims\n");
  if (!pod.note.empty()) out += "note: " + pod.note + "\n";
  const auto where = pod.node.empty() ? std::string("any node with an agent") : "node " + pod.node;
  out +=
      pod.fits ? tinted("would go to " + where, Tint::good, style) : tinted("would wait: " + pod.why, Tint::bad, style);
  out += "\n";
  for (const auto& claim : pod.claims) {
    out +=
        "\n" + (claim.bound ? subjectLine(claim.subject, style) : placingText(claim.subject, claim.simulation, style));
    if (!claim.bound && !claim.simulation.decision.fits && claim.subject.request)
      out += "\n" + remediesText(claim.simulation.filter, style);
  }
  return out;
}

/// Lists the places of the members after the moves.
std::string membersText(const DefragAnswer& answer, const TextStyle& style) {
  const auto& decisions = answer.plan.gang->decisions;
  TextTable table({head("MEMBER"), head("TO"), head("CARDS")});
  for (std::size_t i = 0; i < decisions.size(); ++i)
    table.add({{answer.gang->open[i]}, {decisions[i].node, Tint::good}, {cardsText(decisions[i], style)}});
  const auto& group = answer.plan.gang->group;
  return "\n" + std::string(answer.plan.moves.empty() ? "would go to" : "after that they would go to") +
         (group.empty() ? "" : " " + answer.gang->gang.topology + " " + group) + ":\n" + table.render(2, style);
}

std::string textOf(const ExplainAnswer& answer, const TextStyle& style) {
  const auto& subject = answer.subject;
  std::string out = subjectLine(subject, style);
  if (!subject.request) return fitted(out + "not decided: " + subject.why + "\n", style);
  const bool more = subject.exists && !subject.device.empty();
  if (answer.decision.fits)
    out += decisionText(answer.decision, more ? "one more like it would go to" : "fits: would go to", style);
  else
    out += tinted((more ? "one more like it fits nowhere: " : "fits nowhere: ") + verdict(answer.explanation),
                  Tint::bad, style) +
           "\n";
  out += "\n" + stagesText(answer.explanation, style) + remediesText(answer.explanation, style);
  return fitted(out, style);
}

/// Lists the moved claims in the order in which they find their new places.
std::string movesText(const DefragAnswer& answer, const TextStyle& style) {
  TextTable table(
      {headOfNumber("#"), head("CLAIM"), head("FROM"), head("CARDS"), head("TO"), head("CARDS"), head("PODS")});
  for (std::size_t i = 0; i < answer.moved.size(); ++i) {
    const auto& who = answer.moved[i];
    std::string cards, pods;
    for (const auto& holding : answer.plan.moves[i].from)
      cards += (cards.empty() ? "" : ", ") + cardText(holding.card, style);
    for (const auto& pod : who.pods) pods += (pods.empty() ? "" : ", ") + pod;
    table.add({number(static_cast<int64_t>(i) + 1),
               {who.claim},
               {who.node},
               {cards},
               {answer.plan.moves[i].to.node, Tint::good},
               {cardsText(answer.plan.moves[i].to, style)},
               {pods.empty() ? "-" : pods}});
  }
  return table.render(2, style);
}

std::string textOf(const DefragAnswer& answer, const TextStyle& style) {
  const auto& plan = answer.plan;
  std::string out = answer.subject ? subjectLine(*answer.subject, style) : "";
  const char* better =
      answer.gang ? " (fewer moves may be enough)" : " (the search was cut short: there may be a better way)";
  out += tinted(answer.text(), plan.possible ? Tint::good : Tint::bad, style) +
         (plan.possible && !plan.exact ? better : "") + "\n";
  out += movesText(answer, style);
  if (answer.gang && plan.gang && !plan.gang->decisions.empty()) out += membersText(answer, style);
  if (answer.subject && !answer.gang && plan.possible)
    out += "\n" + decisionText(plan.decision, plan.moves.empty() ? "would go to" : "after that it would go to", style);
  return fitted(out, style);
}

std::string textOf(const SimulateAnswer& answer, const TextStyle& style) {
  std::string out;
  if (!answer.before.empty()) {
    auto table = placedTable();
    for (const auto& placed : answer.before) addPlaced(table, placed, "fits", style);
    out += "before any step:\n" + table.render(2, style);
  }
  for (std::size_t i = 0; i < answer.steps.size(); ++i)
    out += tinted("step " + std::to_string(i + 1) + ": " + answer.stepTexts[i], Tint::bold, style) + "\n" +
           stepText(answer.steps[i], style);
  if (!out.empty() && (answer.subject || answer.pod)) out += "\nafter that:\n";
  if (answer.subject) out += simulationText(answer, style);
  if (answer.pod) out += podText(*answer.pod, style);
  return fitted(out, style);
}

std::string textOf(const ForecastAnswers& answers, const TextStyle& style) {
  TextTable table({head("CLASS"), headOfNumber("FIT"), head("BY MODEL"), head("EACH"), head("SIZE")});
  for (const auto& each : answers) {
    std::string models;
    for (const auto& [model, count] : each.forecast.byModel)
      models += (models.empty() ? "" : ", ") + std::to_string(count) + " " + model;
    if (!each.subject.request) {
      table.add({{each.className, Tint::bold}, {"-", Tint::none, true}, {"-"}, {"-"}, {each.subject.why, Tint::bad}});
      continue;
    }
    const std::string count = (each.forecast.more ? ">=" : "") + std::to_string(each.forecast.count);
    table.add({{each.className, Tint::bold},
               {count, each.forecast.count > 0 ? Tint::good : Tint::bad, true},
               {models.empty() ? "-" : models},
               {each.subject.requestText()},
               {each.of}});
  }
  std::string quotas;
  for (const auto& each : answers)
    if (!each.quota.empty()) quotas += "class " + each.className + ": after these, " + each.quota + "\n";
  return table.empty() ? "there are no classes\n" : table.render(0, style) + quotas;
}

}  // namespace

std::string toText(const Answer& answer, const TextStyle& style) {
  return std::visit([&](const auto& one) { return textOf(one, style); }, answer);
}

}  // namespace egpu::whatif

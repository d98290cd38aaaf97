#include <algorithm>

#include "api/v1alpha/quantity.h"
#include "controller/server/answers.h"
#include "controller/server/text_table.h"

namespace egpu::server {

namespace {

using scheduler::Decision;
using scheduler::Explanation;
using scheduler::Placed;
using Cell = TextTable::Cell;

Cell number(int64_t n) { return {std::to_string(n), Tint::none, true}; }
Cell head(const char* text) { return {text}; }
Cell headOfNumber(const char* text) { return {text, Tint::none, true}; }

/// 0 … 2,000,000 → "35%".
Cell fill(int64_t fill) { return {v1alpha::formatMilliCards((fill + 1000) / 2000), Tint::none, true}; }

std::string amountText(const scheduler::Amount& amount) {
  return v1alpha::formatMilliCards(amount.core) + " " + v1alpha::readableBytes(amount.memory);
}

std::string subjectLine(const Subject& subject, bool color) {
  std::string line = subject.claim.empty() ? "a claim" : "claim " + tinted(subject.claim, Tint::bold, color);
  line += " of class " + subject.className + ": " + subject.requestText() + "\n";
  if (subject.exists) {
    line += subject.phase;
    if (!subject.node.empty()) line += " on node " + subject.node + ", device " + subject.device;
    if (!subject.said.empty()) line += " (" + subject.said + ")";
    line += "\n";
  }
  if (!subject.note.empty()) line += "note: " + subject.note + "\n";
  return line;
}

std::string cardsText(const Decision& decision) {
  std::string text;
  for (const auto& placement : decision.placements) text += (text.empty() ? "" : ", ") + placement.card;
  return text;
}

/// What would be decided, card by card.
std::string decisionText(const Decision& decision, const char* lead, bool color) {
  std::string out = tinted(std::string(lead) + " node " + decision.node, Tint::good, color) + "\n";
  TextTable table({head("CARD"), head("GRANTED"), head("CHARGED")});
  for (const auto& placement : decision.placements)
    table.add({{placement.card}, {amountText(placement.granted)}, {amountText(placement.charged)}});
  return out + table.render(2, color);
}

std::string stagesText(const Explanation& explanation, bool color) {
  TextTable stages({head("STAGE"), headOfNumber("BEFORE"), headOfNumber("AFTER"), head("FELL OUT")});
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
      names.add({{stage.stage}, {dropped.node}, {dropped.card.empty() ? "-" : dropped.card}, {dropped.reason}});
    unnamed += stage.before - stage.after - static_cast<int64_t>(stage.dropped.size());
  }
  std::string out = stages.render(2, color);
  if (!names.empty()) out += "fell out:\n" + names.render(2, color);
  if (!names.empty() && unnamed > 0) out += "  and " + std::to_string(unnamed) + " more (--names shows more)\n";
  return out;
}

std::string remediesText(const Explanation& explanation, bool color) {
  if (explanation.remedies.empty()) return {};
  std::string out = "smallest change, either of:\n";
  if (explanation.remedies.size() == 1) out = "smallest change:\n";
  for (const auto& remedy : explanation.remedies) out += "  " + tinted(remedy.text, Tint::bold, color) + "\n";
  return out;
}

/// "0/9 nodes fit" without the reasons, which the table shows.
std::string verdict(const Explanation& explanation) {
  const auto line = explanation.text();
  return line.substr(0, std::min(line.find(':'), line.find(';')));
}

void addPlaced(TextTable& table, const Placed& placed, const char* what) {
  table.add({{what},
             {placed.claim},
             {placed.from.empty() ? "-" : placed.from},
             {placed.to.fits ? placed.to.node : "nowhere", placed.to.fits ? Tint::good : Tint::bad},
             {placed.to.fits ? cardsText(placed.to) : placed.why}});
}

TextTable placedTable() { return TextTable({head(""), head("CLAIM"), head("FROM"), head("TO"), head("CARDS")}); }

std::string resizingText(const scheduler::Resizing& resizing, bool color) {
  if (resizing.cards.empty())
    return "  " + resizing.claim + " has no device yet: it asks for the new size from now on\n";
  std::string out = "  " + resizing.claim + " on node " + resizing.node + ": " +
                    (resizing.inPlace ? tinted("fits in place", Tint::good, color)
                                      : tinted("does not fit in place", Tint::bad, color)) +
                    "\n";
  TextTable table({head("CARD"), head("AVAILABLE"), head("HAS"), head("WANTS"), head("LEFT")});
  for (const auto& card : resizing.cards)
    table.add({{card.card},
               {amountText(card.available)},
               {amountText(card.old)},
               {card.wanted ? amountText(*card.wanted) : "other cards"},
               {card.wanted ? amountText(card.left()) : "-"}});
  out += table.render(4, color);
  if (resizing.inPlace) return out;
  if (!resizing.smallestChange.empty()) out += "  smallest change: " + resizing.smallestChange + "\n";
  return out + "  as a new claim, given up first: " +
         (resizing.elsewhere.fits ? "node " + resizing.elsewhere.node : std::string("fits nowhere")) + "\n";
}

std::string stepText(const scheduler::StepReport& report, bool color) {
  std::string out;
  auto table = placedTable();
  for (const auto& placed : report.moved) addPlaced(table, placed, "moves");
  if (report.created) addPlaced(table, *report.created, "created");
  for (const auto& placed : report.bound) addPlaced(table, placed, "now fits");
  if (report.released)
    out += "  " + report.released->claim +
           (report.released->from.empty() ? " had no device\n" : " leaves node " + report.released->from + "\n");
  if (report.resized) out += resizingText(*report.resized, color);
  out += table.render(2, color);
  if (out.empty()) out = "  nothing moves, nothing more fits\n";
  if (report.waiting > 0) out += "  " + std::to_string(report.waiting) + " still waiting for room\n";
  return out;
}

std::string simulationText(const SimulateAnswer& answer, bool color) {
  const auto& simulation = answer.simulation;
  std::string out = subjectLine(*answer.subject, color);
  if (!answer.subject->request) return out + "not decided: " + answer.subject->why + "\n";
  if (simulation.decision.fits)
    out += decisionText(simulation.decision, "would go to", color);
  else
    out += tinted("fits nowhere: " + verdict(simulation.filter), Tint::bad, color) + "\n";
  out += "\nfilter:\n" + stagesText(simulation.filter, color);
  if (!simulation.ranking.empty()) {
    TextTable ranking({headOfNumber("#"), head("NODE"), headOfNumber("FILL"), headOfNumber("AFTER"), head("CARDS")});
    int64_t place = 0;
    for (const auto& node : simulation.ranking)
      ranking.add(
          {number(++place), {node.decision.node}, fill(node.fill), fill(node.fillAfter), {cardsText(node.decision)}});
    out += "\nscore, best first:\n" + ranking.render(2, color);
  }
  if (simulation.decision.fits) return out;
  out += "\n" + remediesText(simulation.filter, color);
  const auto& preemption = simulation.preemption;
  if (!preemption.possible) return out + "no other claim's release would let it in\n";
  TextTable victims({head("CLAIM"), head("CARD"), head("HOLDS")});
  for (std::size_t i = 0; i < preemption.victims.size(); ++i)
    for (const auto& holding : preemption.victims[i].holdings)
      victims.add({{answer.victims[i]}, {holding.card}, {amountText(holding.charged)}});
  out += "fewest that would have to go, on node " + preemption.node +
         (preemption.exact ? "" : " (the search was cut short: fewer may do elsewhere)") + ":\n";
  return out + victims.render(2, color);
}

}  // namespace

std::string toText(const ExplainAnswer& answer, bool color) {
  const auto& subject = answer.subject;
  std::string out = subjectLine(subject, color);
  if (!subject.request) return out + "not decided: " + subject.why + "\n";
  const bool more = subject.exists && !subject.device.empty();
  if (answer.decision.fits)
    out += decisionText(answer.decision, more ? "one more like it would go to" : "fits: would go to", color);
  else
    out += tinted((more ? "one more like it fits nowhere: " : "fits nowhere: ") + verdict(answer.explanation),
                  Tint::bad, color) +
           "\n";
  return out + "\n" + stagesText(answer.explanation, color) + remediesText(answer.explanation, color);
}

std::string toText(const SimulateAnswer& answer, bool color) {
  std::string out;
  if (!answer.before.empty()) {
    auto table = placedTable();
    for (const auto& placed : answer.before) addPlaced(table, placed, "fits");
    out += "before any step:\n" + table.render(2, color);
  }
  for (std::size_t i = 0; i < answer.steps.size(); ++i)
    out += tinted("step " + std::to_string(i + 1) + ": " + answer.stepTexts[i], Tint::bold, color) + "\n" +
           stepText(answer.steps[i], color);
  if (!answer.subject) return out;
  if (!out.empty()) out += "\nafter that:\n";
  return out + simulationText(answer, color);
}

std::string toText(const std::vector<ForecastAnswer>& answers, bool color) {
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
  return table.empty() ? "there are no classes\n" : table.render(0, color);
}

}  // namespace egpu::server

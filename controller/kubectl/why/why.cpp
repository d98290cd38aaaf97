#include <algorithm>
#include <string>
#include <vector>

#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"
#include "controller/kubectl/why/chain.h"

namespace egpu::kubectl {

namespace {

constexpr std::size_t kMessageWidth = 72;  ///< bytes in a table that is not wide; the full message follows the table

int64_t secondsOf(const base::Clock& clock) {
  return std::chrono::duration_cast<std::chrono::seconds>(clock.wall().time_since_epoch()).count();
}

Tone toneOf(StepState state) {
  return state == StepState::done      ? Tone::good
         : state == StepState::waiting ? Tone::waiting
         : state == StepState::failed  ? Tone::bad
                                       : Tone::plain;
}

std::string shortened(std::string text, bool wide) {
  if (wide || text.size() <= kMessageWidth) return text;
  auto end = kMessageWidth;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string messageOf(const ChainStep& step) {
  return base::printable(step.reason.empty() || step.message.empty() ? step.reason + step.message
                                                                     : step.reason + ": " + step.message);
}

std::string tableOf(const Chain& chain, const OutputFlags& flags, int64_t now) {
  const bool color = base::wantsColor(flags.color);
  KubectlTable table;
  for (const char* header : {"STEP", "STATE", "SINCE", "OBJECT", "MESSAGE"}) table.column(header);
  for (const auto& step : chain.steps)
    table.row({step.step, toned(toString(step.state), toneOf(step.state), color),
               step.since == 0 ? "-" : ageOf(step.since, now), step.object.empty() ? "-" : base::printable(step.object),
               messageOf(step).empty() ? "-" : shortened(messageOf(step), flags.output == "wide")});
  return table.text(flags);
}

std::string conclusionOf(const Chain& chain, int64_t now) {
  if (chain.stopsAt < 0) return "Nothing holds it up.\n";
  const auto& step = chain.steps[static_cast<std::size_t>(chain.stopsAt)];
  std::string out = "Stands at: " + step.step + (step.object.empty() ? "" : " " + base::printable(step.object));
  if (step.since != 0) out += ", since " + ageOf(step.since, now);
  out += "\n  " + messageOf(step) + "\nWhat would help:\n";
  for (const auto& help : chain.help) out += "  - " + base::printable(help) + "\n";
  return out;
}

Json valueOf(const Chain& chain) {
  Json steps = Json::array();
  for (const auto& step : chain.steps) {
    Json one = {{"step", step.step}, {"state", toString(step.state)}};
    if (!step.object.empty()) one["object"] = step.object;
    if (step.since != 0) one["since"] = base::rfc3339(base::Clock::Wall(std::chrono::seconds(step.since)));
    if (!step.reason.empty()) one["reason"] = step.reason;
    if (!step.message.empty()) one["message"] = step.message;
    steps.push_back(std::move(one));
  }
  Json out = {{"claim", chain.claim}, {"steps", std::move(steps)}};
  if (chain.stopsAt >= 0) {
    out["stopsAt"] = chain.steps[static_cast<std::size_t>(chain.stopsAt)].step;
    out["help"] = chain.help;
  }
  return out;
}

}  // namespace

int whyVerb(const WhyOptions& options) {
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  const auto evidence = gather(**connection, options.subject);
  if (!evidence) return fail("", evidence.status(), evidence.status().code() == base::Code::invalid ? kUsage : kFailed);
  const auto chains = chainsOf(*evidence);
  if (isStructured(options.output)) {
    Json all = Json::array();
    for (const auto& chain : chains) all.push_back(valueOf(chain));
    printValue({{"kind", evidence->kind}, {"namespace", evidence->space}, {"name", evidence->name}, {"chains", all}},
               options.output);
    return kDone;
  }
  std::string out;
  const auto now = secondsOf((*connection)->clock());
  for (const auto& chain : chains) {
    if (!out.empty()) out += "\n";
    out += tableOf(chain, options.output, now);
    if (!options.output.noHeaders) out += "\n" + conclusionOf(chain, now);
  }
  if (!evidence->note.empty() && !options.output.noHeaders) out += "Note: " + base::printable(evidence->note) + "\n";
  printText(out);
  return kDone;
}

}  // namespace egpu::kubectl

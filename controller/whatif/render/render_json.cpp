#include "controller/codec/json/text.h"
#include "controller/whatif/render/render.h"

namespace egpu::whatif {

namespace {

using codec::JsonText;
using scheduler::Decision;
using scheduler::Explanation;
using scheduler::Placed;

/// Converts a fill of 0 … 2,000,000 to thousandths, rounded to the nearest.
int64_t thousandths(int64_t fill) { return (fill + 1000) / 2000; }

void put(JsonText& j, std::string_view key, const std::string& text) {
  if (!text.empty()) j.key(key).value(text);
}

void write(JsonText& j, const scheduler::Amount& amount) {
  j.beginObject().key("core").value(amount.core).key("memory").value(amount.memory).endObject();
}

void write(JsonText& j, const Decision& decision) {
  j.beginObject().key("fits").value(decision.fits);
  put(j, "node", decision.node);
  j.key("cards").beginArray();
  for (const auto& placement : decision.placements) {
    j.beginObject().key("name").value(placement.card).key("uuid").value(placement.uuid).key("granted");
    write(j, placement.granted);
    j.key("charged");
    write(j, placement.charged);
    j.endObject();
  }
  j.endArray();
  if (decision.linkGap > 0) j.key("linkGap").value(decision.linkGap);
  j.endObject();
}

void write(JsonText& j, const Subject& subject) {
  j.beginObject();
  put(j, "claim", subject.claim);
  put(j, "class", subject.className);
  j.key("requests").beginObject();
  for (const auto& [key, amount] : subject.requests) j.key(key).value(amount);
  j.endObject();
  put(j, "phase", subject.phase);
  put(j, "node", subject.node);
  put(j, "device", subject.device);
  put(j, "message", subject.problem);
  put(j, "notDecided", subject.request ? std::string() : subject.why);
  put(j, "note", subject.note);
  put(j, "quota", subject.quota);
  j.endObject();
}

/// Writes the gang of the claim, and the places of its open members.
void writeGang(JsonText& j, const DefragAnswer& answer) {
  const auto& of = *answer.gang;
  const auto& plan = answer.plan.gang;
  j.key("gang").beginObject().key("name").value(of.gang.name).key("podGroup").value(of.gang.podGroup);
  j.key("size").value(static_cast<int64_t>(of.gang.size)).key("phase").value(of.phase);
  j.key("decided").value(static_cast<int64_t>(of.decided));
  put(j, "notDecided", of.why);
  put(j, "quota", of.quota);
  put(j, "topology", of.gang.topology);
  if (plan) {
    put(j, "group", plan->group);
    j.key("fit").value(static_cast<int64_t>(plan->fit));
    if (plan->lacking) put(j, "lacking", of.open[plan->lacking->member]);
  }
  j.key("members").beginArray();
  for (std::size_t i = 0; i < of.open.size(); ++i) {
    j.beginObject().key("claim").value(of.open[i]);
    if (plan && i < plan->decisions.size()) {
      j.key("to");
      write(j, plan->decisions[i]);
    }
    j.endObject();
  }
  j.endArray().endObject();
}

void writeStages(JsonText& j, const Explanation& explanation) {
  j.key("stages").beginArray();
  for (const auto& stage : explanation.stages) {
    j.beginObject().key("stage").value(stage.stage).key("before").value(stage.before).key("after").value(stage.after);
    j.key("reasons").beginArray();
    for (const auto& [reason, count] : stage.reasons)
      j.beginObject().key("reason").value(reason).key("count").value(count).endObject();
    j.endArray().key("dropped").beginArray();
    for (const auto& dropped : stage.dropped) {
      j.beginObject().key("node").value(dropped.node);
      put(j, "card", dropped.card);
      j.key("reason").value(dropped.reason).endObject();
    }
    j.endArray().endObject();
  }
  j.endArray();
}

void writeRemedies(JsonText& j, const Explanation& explanation) {
  using Kind = scheduler::Remedy::Kind;
  j.key("smallestChange").value(explanation.smallestChange).key("remedies").beginArray();
  for (const auto& remedy : explanation.remedies) {
    const bool ask = remedy.kind == Kind::ask, release = remedy.kind == Kind::release;
    j.beginObject().key("kind").value(ask ? "ask" : release ? "release" : "add").key("text").value(remedy.text);
    put(j, "node", remedy.node);
    if (release) {
      j.key("shortages").beginArray();
      for (const auto& shortage : remedy.shortages) {
        j.beginObject().key("card").value(shortage.card).key("core").value(shortage.amount.core);
        j.key("memory").value(shortage.amount.memory).key("claims").value(shortage.claims);
        put(j, "isolation", shortage.isolation);
        j.endObject();
      }
      j.endArray().key("nodeClaims").value(remedy.nodeClaims);
    } else if (!ask) {
      j.key("cards").value(remedy.cards).key("memory").value(remedy.card.memory);
      put(j, "model", remedy.card.model);
    }
    j.endObject();
  }
  j.endArray();
}

void write(JsonText& j, const Placed& placed) {
  j.beginObject().key("claim").value(placed.claim);
  put(j, "from", placed.from);
  j.key("to");
  write(j, placed.to);
  put(j, "why", placed.why);
  j.endObject();
}

void write(JsonText& j, std::string_view key, const std::vector<Placed>& list) {
  j.key(key).beginArray();
  for (const auto& placed : list) write(j, placed);
  j.endArray();
}

void write(JsonText& j, const scheduler::Resizing& resizing) {
  j.beginObject().key("claim").value(resizing.claim);
  put(j, "node", resizing.node);
  j.key("inPlace").value(resizing.inPlace).key("cards").beginArray();
  for (const auto& card : resizing.cards) {
    j.beginObject().key("name").value(card.card).key("available");
    write(j, card.available);
    j.key("old");
    write(j, card.old);
    if (card.wanted) {
      j.key("wanted");
      write(j, *card.wanted);
      j.key("left");
      write(j, card.left());
    }
    j.endObject();
  }
  j.endArray();
  put(j, "refused", resizing.refused);
  put(j, "why", resizing.excess ? resizing.excess->text() : resizing.why);
  put(j, "smallestChange", resizing.smallestChange);
  if (!resizing.inPlace) {
    j.key("elsewhere");
    write(j, resizing.elsewhere);
  }
  j.endObject();
}

/// Writes the score of the request's own policy as "score", if it has one, and the scores of all policies.
void writeScores(JsonText& j, const scheduler::PolicyScores& scores, const std::string& own) {
  if (const auto it = scores.find(own); it != scores.end()) j.key("score").value(it->second);
  j.key("scores").beginObject();
  for (const auto& [policy, score] : scores) j.key(policy).value(score);
  j.endObject();
}

/// Writes the policies of the request, and the nodes in the order in which they would be chosen.
void writeRanking(JsonText& j, const scheduler::Request& request, const std::vector<scheduler::RankedNode>& ranking) {
  j.key("policies").beginObject().key("node").value(request.nodePolicy).key("card").value(request.cardPolicy);
  j.endObject().key("ranking").beginArray();
  for (const auto& node : ranking) {
    j.beginObject().key("node").value(node.decision.node).key("fill").value(thousandths(node.fill));
    j.key("fillAfter").value(thousandths(node.fillAfter));
    writeScores(j, node.scores, request.nodePolicy);
    j.key("decision");
    write(j, node.decision);
    j.key("cards").beginArray();
    for (const auto& card : node.cards) {
      j.beginObject().key("name").value(card.card).key("index").value(card.index);
      j.key("healthy").value(card.healthy).key("given").value(card.given);
      j.key("fill").value(thousandths(card.fill)).key("fillAfter").value(thousandths(card.fillAfter));
      writeScores(j, card.scores, request.cardPolicy);
      j.endObject();
    }
    j.endArray().endObject();
  }
  j.endArray();
}

void writePreemption(JsonText& j, const scheduler::Preemption& preemption, const std::vector<std::string>& victims) {
  j.key("preemption").beginObject().key("possible").value(preemption.possible);
  put(j, "node", preemption.node);
  j.key("exact").value(preemption.exact).key("victims").beginArray();
  for (std::size_t i = 0; i < preemption.victims.size(); ++i) {
    j.beginObject().key("device").value(preemption.victims[i].device).key("holder").value(victims[i]);
    j.key("cards").beginArray();
    for (const auto& holding : preemption.victims[i].holdings) {
      j.beginObject().key("name").value(holding.card).key("charged");
      write(j, holding.charged);
      j.endObject();
    }
    j.endArray().endObject();
  }
  j.endArray();
  if (preemption.possible) {
    j.key("decision");
    write(j, preemption.decision);
  }
  j.endObject();
}

void write(JsonText& j, const scheduler::StepReport& report, const std::string& text) {
  j.beginObject().key("step").value(text);
  if (!report.nodes.empty()) {
    j.key("nodes").beginArray();
    for (const auto& node : report.nodes) j.value(node);
    j.endArray();
  }
  write(j, "moved", report.moved);
  for (const auto& [key, placed] : {std::pair{"released", &report.released}, {"created", &report.created}})
    if (*placed) {
      j.key(key);
      write(j, **placed);
    }
  if (report.resized) {
    j.key("resized");
    write(j, *report.resized);
  }
  write(j, "bound", report.bound);
  j.key("waiting").value(report.waiting).endObject();
}

/// Returns the result as one sentence. If a quota stops the claim, that is the text, because the remedies of explain()
/// would not help.
std::string textOf(const Subject& subject, const scheduler::Explanation& explanation) {
  if (!subject.request) return subject.why;
  return subject.quota.empty() ? explanation.text() : subject.quota;
}

void writeSimulation(JsonText& j, const Subject& subject, const scheduler::Simulation& simulation) {
  j.key("subject");
  write(j, subject);
  j.key("decision");
  write(j, simulation.decision);
  j.key("text").value(textOf(subject, simulation.filter));
  writeStages(j, simulation.filter);
  writeRanking(j, subject.request.value_or(scheduler::Request{}), simulation.ranking);
  writeRemedies(j, simulation.filter);
}

void writePod(JsonText& j, const PodSimulation& pod) {
  j.key("pod").value(pod.pod).key("fits").value(pod.fits);
  put(j, "node", pod.node);
  put(j, "why", pod.why);
  put(j, "note", pod.note);
  j.key("claims").beginArray();
  for (const auto& claim : pod.claims) {
    j.beginObject().key("bound").value(claim.bound);
    writeSimulation(j, claim.subject, claim.simulation);
    j.endObject();
  }
  j.endArray();
}

void write(JsonText& j, const scheduler::Move& move, const MovableClaim& who) {
  j.beginObject().key("claim").value(who.claim).key("device").value(who.device);
  j.key("from").beginObject().key("node").value(who.node).key("cards").beginArray();
  for (const auto& holding : move.from) {
    j.beginObject().key("name").value(holding.card).key("charged");
    write(j, holding.charged);
    j.endObject();
  }
  j.endArray().endObject().key("to");
  write(j, move.to);
  j.key("evictable").value(who.evictable);
  put(j, "annotate", who.moveAnnotation);
  j.key("pods").beginArray();
  for (const auto& pod : who.pods) j.value(pod);
  j.endArray().endObject();
}

std::string jsonOf(const ExplainAnswer& answer) {
  JsonText j;
  j.beginObject().key("subject");
  write(j, answer.subject);
  j.key("decision");
  write(j, answer.decision);
  j.key("text").value(textOf(answer.subject, answer.explanation));
  writeStages(j, answer.explanation);
  writeRemedies(j, answer.explanation);
  j.endObject();
  return j.take();
}

std::string jsonOf(const SimulateAnswer& answer) {
  JsonText j;
  j.beginObject();
  if (answer.asksWhatIf) {
    write(j, "before", answer.before);
    j.key("steps").beginArray();
    for (std::size_t i = 0; i < answer.steps.size(); ++i) write(j, answer.steps[i], answer.stepTexts[i]);
    j.endArray();
  }
  if (answer.subject) {
    writeSimulation(j, *answer.subject, answer.simulation);
    writePreemption(j, answer.simulation.preemption, answer.victims);
  }
  if (answer.pod) writePod(j, *answer.pod);
  j.endObject();
  return j.take();
}

std::string jsonOf(const ForecastAnswers& answers) {
  JsonText j;
  j.beginObject().key("forecasts").beginArray();
  for (const auto& each : answers) {
    j.beginObject().key("class").value(each.className).key("of").value(each.of).key("subject");
    write(j, each.subject);
    j.key("count").value(each.forecast.count).key("more").value(each.forecast.more).key("byModel").beginObject();
    for (const auto& [model, count] : each.forecast.byModel) j.key(model).value(count);
    j.endObject();
    put(j, "quota", each.quota);
    j.endObject();
  }
  j.endArray().endObject();
  return j.take();
}

std::string jsonOf(const DefragAnswer& answer) {
  const auto& plan = answer.plan;
  JsonText j;
  j.beginObject();
  if (answer.subject) {
    j.key("subject");
    write(j, *answer.subject);
  }
  j.key("text").value(answer.text()).key("possible").value(plan.possible).key("exact").value(plan.exact);
  j.key("movable").value(static_cast<int64_t>(answer.movable)).key("moves").beginArray();
  for (std::size_t i = 0; i < plan.moves.size(); ++i) write(j, plan.moves[i], answer.moved[i]);
  j.endArray();
  if (answer.gang) writeGang(j, answer);
  if (answer.holds) j.key("holds").value(*answer.holds);
  if (answer.subject) {
    j.key("decision");
    write(j, plan.decision);
  } else {
    j.key("freedCards").value(plan.freedCards);
  }
  j.endObject();
  return j.take();
}

}  // namespace

std::string toJson(const Answer& answer) {
  return std::visit([](const auto& one) { return jsonOf(one); }, answer);
}

}  // namespace egpu::whatif

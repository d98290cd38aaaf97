// fit and try: questions that the controller's own code answers, on a copy of the cluster's objects.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/files.h"
#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/base/text.h"
#include "controller/kube/query.h"
#include "controller/kubectl/cluster_mirror.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/pod_sources.h"
#include "controller/kubectl/verbs.h"
#include "controller/kubectl/workload.h"

namespace egpu::kubectl {

namespace {

constexpr std::size_t kColumns = 100;

void note(const std::string& text) { std::fprintf(stderr, "note: %s\n", base::printable(text).c_str()); }

std::string withoutNewline(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// Prints the error of an answer. Errors in the body name the file. Returns the exit status.
int refused(const http::Response& answer, const std::string& file) {
  std::string text = withoutNewline(answer.body);
  constexpr std::string_view kBody = "body: ";
  if (!file.empty() && text.starts_with(kBody)) text.replace(0, kBody.size(), file + ": ");
  return fail(text);
}

std::string targetOf(const QuestionOptions& options, const std::string& path, const std::string& space) {
  std::string target = path;
  for (const auto& [name, value] : options.fields)
    kube::addQuery(target, name, name == "claim" ? withoutKind(value, "elasticgpuclaim") : value);
  kube::addQuery(target, "namespace", space);
  return target;
}

base::Result<std::string> bodyOf(const QuestionOptions& options) {
  if (options.file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  auto body = base::readFile(options.file);
  if (!body) return base::Status(body.status().code(), "--filename: " + body.status().message());
  return std::move(*body);
}

std::string fileNameOf(const QuestionOptions& options) { return options.file == "-" ? "standard input" : options.file; }

/// Asks for the answer as text for people, or as JSON.
std::string formatted(const QuestionOptions& options, std::string target) {
  if (isStructured(options.output)) {
    kube::addQuery(target, "format", options.output.output);
    return target;
  }
  const bool wide = options.output.output == "wide";
  kube::addQuery(target, "format", "text");
  kube::addQuery(target, "columns",
                 wide ? "0" : std::to_string(std::clamp<std::size_t>(base::terminalColumns(kColumns), 40, kColumns)));
  if (wide) kube::addQuery(target, "wide", "1");
  if (base::wantsColor(options.output.color)) kube::addQuery(target, "color", "1");
  return target;
}

/// True if every resize of the steps of /simulate is possible in place, and every claim that they create, displace
/// or resize has a place after the last step.
bool allPlaced(const Json& steps) {
  std::set<std::string> pending;
  for (const auto& step : steps) {
    if (const auto& resized = at(step, {"resized"}); !resized.is_null()) {
      // A claim that cannot be resized keeps its amounts, so that a place in a later step does not answer the question.
      if (at(resized, {"inPlace"}) != true || !textAt(resized, {"refused"}).empty()) return false;
      if (textAt(resized, {"node"}).empty()) pending.insert(textAt(resized, {"claim"}));  // it was not Bound before
    }
    for (const auto& claim : at(step, {"moved"}))
      if (at(claim, {"to", "fits"}) != true) pending.insert(textAt(claim, {"claim"}));
    if (const auto& created = at(step, {"created"}); !created.is_null() && at(created, {"to", "fits"}) != true)
      pending.insert(textAt(created, {"claim"}));
    if (const auto& released = at(step, {"released"}); !released.is_null()) pending.erase(textAt(released, {"claim"}));
    for (const auto& claim : at(step, {"bound"})) pending.erase(textAt(claim, {"claim"}));
  }
  return pending.empty();
}

/// True if the JSON of an answer reports that everything that was asked about fits, after all steps.
bool fits(const Json& answer) {
  if (const auto& all = at(answer, {"answers"}); all.is_array())
    return std::all_of(all.begin(), all.end(), [](const Json& each) { return fits(each); });
  if (!allPlaced(at(answer, {"steps"}))) return false;
  if (!at(answer, {"pod"}).is_null()) return at(answer, {"fits"}) == true;
  if (at(answer, {"subject"}).is_null() || textAt(answer, {"subject", "phase"}) == "Bound") return true;
  return at(answer, {"decision", "fits"}) == true;
}

int printPlaces(const std::vector<WorkloadPlace>& places, const QuestionOptions& options) {
  const bool all = std::all_of(places.begin(), places.end(), [](const auto& place) { return place.fits; });
  const auto fitting = std::count_if(places.begin(), places.end(), [](const auto& place) { return place.fits; });
  if (isStructured(options.output)) {
    Json list = Json::array();
    for (const auto& place : places) {
      Json one = {{"kind", place.kind}, {"name", place.name}, {"fits", place.fits}};
      if (!place.node.empty()) one["node"] = place.node;
      if (!place.cards.empty()) one["cards"] = place.cards;
      if (!place.message.empty()) one["message"] = place.message;
      list.push_back(std::move(one));
    }
    printValue({{"fits", all}, {"count", fitting}, {"places", list}}, options.output);
    return all ? kDone : kNegative;
  }
  KubectlTable table;
  for (const char* header : {"KIND", "NAME", "FITS", "NODE", "CARDS", "MESSAGE"}) table.column(header);
  const bool color = base::wantsColor(options.output.color);
  for (const auto& place : places) {
    std::string cards;
    for (const auto& card : place.cards) cards += (cards.empty() ? "" : ",") + base::printable(card);
    table.row({place.kind, base::printable(place.name),
               toned(place.fits ? "yes" : "no", place.fits ? Tone::good : Tone::bad, color),
               base::printable(place.node), cards, base::printable(place.message)});
  }
  std::string out = table.text(options.output);
  if (!options.output.noHeaders)
    out += "\n" + std::to_string(fitting) + " of " + std::to_string(places.size()) + " fit.\n";
  printText(out);
  return all ? kDone : kNegative;
}

/// Answers a question with one HTTP question of the controller.
int askOne(const QuestionOptions& options, ClusterMirror& mirror, const std::string& target, const std::string& body) {
  const auto verdict = mirror.ask(target + (target.find('?') == std::string::npos ? "?" : "&") + "format=json", body);
  if (verdict.status != 200) return refused(verdict, fileNameOf(options));
  const auto answer = mirror.ask(formatted(options, target), body);
  if (answer.status != 200) return refused(answer, fileNameOf(options));
  printText(answer.body);
  const auto value = Json::parse(verdict.body, nullptr, false);
  return value.is_discarded() || fits(value) ? kDone : kNegative;
}

/// One row per class: claims of its usual or the given size that fit.
KubectlTable fitTable(const Json& answer) {
  KubectlTable table;
  for (const char* header : {"CLASS", "FIT", "SIZE", "BY MODEL"}) table.column(header);
  table.column("SIZE OF", KubectlTable::Show::wide);
  table.column("LIMIT", KubectlTable::Show::wide);
  for (const auto& each : at(answer, {"forecasts"})) {
    std::string size, models;
    for (const auto& [key, value] : at(each, {"subject", "requests"}).items())
      size += (size.empty() ? "" : ",") + key.substr(key.rfind('/') + 1) + "=" + value.get<std::string>();
    for (const auto& [model, count] : at(each, {"byModel"}).items())
      models += (models.empty() ? "" : ",") + model + "=" + count.dump();
    auto count = std::to_string(numberAt(each, {"count"})) + (at(each, {"more"}) == true ? "+" : "");
    if (!textAt(each, {"subject", "notDecided"}).empty()) count = "<unknown>";
    auto limit = textAt(each, {"quota"});
    if (limit.empty()) limit = textAt(each, {"subject", "notDecided"});
    table.row({base::printable(textAt(each, {"class"})), count, base::printable(size), base::printable(models),
               base::printable(textAt(each, {"of"})), base::printable(limit)});
  }
  return table;
}

/// Prints why a class can't be forecast: the reasons that the table shows only if it is wide. True if that is an error:
/// the capacity of remote GPUs is never known.
bool reportErrors(const Json& answer, const cache::Stores& stores) {
  bool any = false;
  for (const auto& each : at(answer, {"forecasts"}))
    if (const auto why = textAt(each, {"subject", "notDecided"}); !why.empty()) {
      const auto cls = stores.classes.get({"", textAt(each, {"class"})});
      const bool wrong = !cls || !stores.remoteProvisioners.contains(cls->provisioner);
      const auto named = "class " + textAt(each, {"class"});
      const auto text = why.starts_with(named + " ") ? why : named + ": " + why;
      any = any || wrong;
      if (wrong)
        fail(text);
      else
        note(text);
    }
  return any;
}

}  // namespace

int fitVerb(const QuestionOptions& options) {
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  auto mirror = ClusterMirror::read(**connection);
  if (!mirror) return fail("", mirror.status());
  const auto& given = options.client.namespace_;  // without it no quota limits the count
  auto target = targetOf(options, "/forecast", given);
  kube::addQuery(target, "format", "json");
  const auto answer = (*mirror)->ask(target);
  if (answer.status != 200) return refused(answer, {});
  const auto value = Json::parse(answer.body, nullptr, false);
  const bool wrong = reportErrors(value, (*mirror)->stores());
  if (isStructured(options.output)) {
    printValue(value, options.output);
  } else {
    const auto table = fitTable(value);
    if (table.empty())
      std::fputs("No classes found.\n", stderr);
    else
      printText(table.text(options.output));
  }
  return wrong ? kFailed : kDone;
}

int tryVerb(const QuestionOptions& options) {
  if (options.file.empty() && options.fields.empty())
    return fail("name a claim, or give -f FILE, amounts such as --gpu-core, or a step such as --drain", kUsage);
  std::string body;
  if (!options.file.empty()) {
    auto read = bodyOf(options);
    if (!read) return fail(read.status().message(), kUsage);
    if (base::trimmed(*read).empty()) return fail("--filename: " + fileNameOf(options) + " is empty", kUsage);
    body = std::move(*read);
  }
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  auto mirror = ClusterMirror::read(**connection);
  if (!mirror) return fail("", mirror.status());
  const auto& space = (*connection)->space();
  if (options.explain || !options.fields.empty() || body.empty())
    return askOne(options, **mirror, targetOf(options, options.explain ? "/explain" : "/simulate", space), body);
  auto workload = readWorkload(body, space);
  if (!workload) return fail(fileNameOf(options), workload.status());
  if (workload->isEmpty())
    return fail(fileNameOf(options) + ": kind: it has nothing to place; valid are ElasticGPUClaim, Pod, " +
                std::string(kKindsWithPods));
  if (!workload->isJoint()) return askOne(options, **mirror, targetOf(options, "/simulate", space), body);
  auto places = placeWorkload(**mirror, *workload);
  if (!places) return fail(fileNameOf(options), places.status());
  for (const auto& ignored : workload->ignored) note(ignored);
  return printPlaces(*places, options);
}

}  // namespace egpu::kubectl

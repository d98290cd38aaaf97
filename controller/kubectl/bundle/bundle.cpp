// bundle: an archive for a bug report, without secrets.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "controller/base/printable.h"
#include "controller/base/private_files.h"
#include "controller/kubectl/bundle/archive.h"
#include "controller/kubectl/bundle/redact.h"
#include "controller/kubectl/check/finding.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"

namespace egpu::kubectl {

namespace {

/// Kinds whose objects are all added. Of other kinds, wants() selects objects.
const std::set<std::string, std::less<>>& wholeKinds() {
  static const std::set<std::string, std::less<>> kinds = {
      "Node",       "DeviceClass",     "DeviceTaintRule", "Lease",           "NodeLease",
      "ElasticGPU", "ElasticGPUClaim", "ElasticGPUClass", "ElasticGPUQuota", "ElasticGPUClaimTemplate",
      "Deployment", "DaemonSet"};
  return kinds;
}

bool mentionsUs(const Json& object) {
  const auto& annotations = at(object, {"metadata", "annotations"});
  for (const auto& [key, value] : annotations.items())
    if (key.find("elasticgpu.io/") != std::string::npos) return true;
  for (const auto& gate : at(object, {"spec", "schedulingGates"}))
    if (textAt(gate, {"name"}).find("elasticgpu.io") != std::string::npos) return true;
  return !at(object, {"spec", "resourceClaims"}).empty();
}

bool isOurRequest(const Json& resourceClaim) {
  for (const auto& request : at(resourceClaim, {"spec", "devices", "requests"}))
    if (textAt(request, {"exactly", "deviceClassName"}) == "elasticgpu.io") return true;
  return false;
}

bool isAboutUs(const Json& event) {
  const auto kind = textAt(event, {"involvedObject", "kind"});
  return kind.starts_with("ElasticGPU") || kind == "Node" || kind == "ResourceClaim" || kind == "Pod";
}

/// Returns whether the object belongs into the archive. Secrets, ConfigMaps and requests for certificates never do.
bool wants(const std::string& kind, const Json& object) {
  if (wholeKinds().count(kind) != 0) return true;
  const auto name = textAt(object, {"metadata", "name"});
  if (kind == "Pod") return textAt(object, {"metadata", "namespace"}) == kSystemNamespace || mentionsUs(object);
  if (kind == "ResourceClaim") return isOurRequest(object);
  if (kind == "ResourceSlice") return true;
  if (kind == "Event") return isAboutUs(object);
  if (kind == "CustomResourceDefinition") return name.ends_with(".elasticgpu.io");
  if (kind == "CertificateSigningRequest") return false;
  return name.starts_with("elastic-gpu");  // roles, policies and their bindings
}

/// The definition of a kind without its long schema, of which the number of rules is enough.
Json shortened(Json definition) {
  if (definition.contains("spec") && definition["spec"].contains("versions"))
    for (auto& version : definition["spec"]["versions"]) version.erase("schema");
  return definition;
}

std::string linesOf(const Findings& found) {
  std::string out;
  for (const auto& f : found) out += f.check + "  " + f.object + ": " + f.problem + "\n  fix: " + f.fix + "\n";
  return out.empty() ? "nothing found\n" : out;
}

void addObjects(Archive& archive, const Inventory& inventory) {
  for (const auto& [kind, objects] : inventory.lists) {
    Json list = Json::array();
    for (const auto& object : objects)
      if (wants(kind, object))
        list.push_back(redacted(kind == "CustomResourceDefinition" ? shortened(object) : object));
    if (list.empty()) continue;
    archive.add("objects/" + kind + ".json", list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
}

void addLogs(Archive& archive, const Connection& connection, const Inventory& inventory, int lines, std::string& left) {
  if (lines <= 0) return;
  for (const auto& pod : inventory.of("Pod")) {
    if (textAt(pod, {"metadata", "namespace"}) != kSystemNamespace) continue;
    const auto name = textAt(pod, {"metadata", "name"});
    const auto log =
        connection.text(pathOf("v1", kSystemNamespace, "pods", name) + "/log?tailLines=" + std::to_string(lines));
    if (log)
      archive.add("logs/" + name + ".log", redactedText(*log));
    else
      left += "logs of " + name + ": " + log.status().message() + "\n";
  }
}

std::string fileNameFor(int64_t time) {
  const std::time_t seconds = time;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return std::string("egpu-bundle-") + text + ".tar.gz";
}

}  // namespace

int bundleVerb(const BundleOptions& options) {
  const auto connection = Connection::open(options.client);
  if (!connection) return fail(connection.status().message());
  const auto inventory = takeInventory(**connection);
  if (!inventory) return fail("", inventory.status());
  Archive archive(inventory->localTime);
  std::string left;
  for (const auto& [kind, why] : inventory->unreadable) left += kind + ": " + why + "\n";
  archive.add("version.json", inventory->version.dump(1) + "\n");
  archive.add("check.txt", redactedText(linesOf(checkAll(*inventory))));
  addObjects(archive, *inventory);
  addLogs(archive, **connection, *inventory, options.logLines, left);
  archive.add("left-out.txt", left.empty() ? "nothing\n" : redactedText(left));
  const auto bytes = archive.finish();
  if (!bytes) return fail("", bytes.status());
  if (options.file == "-") {
    std::fwrite(bytes->data(), 1, bytes->size(), stdout);
    return std::fflush(stdout) == 0 ? kDone : fail("standard output can't be written");
  }
  const auto file = options.file.empty() ? fileNameFor(inventory->localTime) : options.file;
  if (const auto written = base::writePrivateFile(file, *bytes); !written.ok()) return fail("--file", written);
  printText("Written: " + base::printable(file) +
            ". It has no Secrets, environment values, commands or foreign annotations; "
            "names of namespaces, pods and images are in it. Read it before you send it.");
  if (!left.empty()) std::fprintf(stderr, "Left out, for lack of rights:\n%s", base::printable(left, '\n').c_str());
  return kDone;
}

}  // namespace egpu::kubectl

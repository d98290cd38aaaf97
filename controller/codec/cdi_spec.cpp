#include "controller/codec/cdi_spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "controller/codec/json/text.h"

namespace egpu::codec {

namespace {

using Json = nlohmann::json;
using base::Code;
using base::Status;

void texts(JsonText& j, std::string_view key, const std::vector<std::string>& all) {
  if (all.empty()) return;
  j.key(key).beginArray();
  for (const auto& each : all) j.value(each);
  j.endArray();
}

std::string preparedFor(const CdiSpec& spec) {
  JsonText j;
  j.beginObject().key("namespace").value(spec.claimNamespace).key("resourceClaim").value(spec.claimName);
  j.key("uid").value(spec.claimUid).key("device").value(spec.device).key("provisioner").value(spec.provisioner);
  j.key("cards").beginArray();
  for (const auto& card : spec.cards) {
    j.beginObject().key("name").value(card.name).key("uuid").value(card.uuid);
    j.key("core").value(card.core).key("memory").value(card.memory);
    j.key("chargedCore").value(card.chargedCore).key("chargedMemory").value(card.chargedMemory);
    if (!card.slots.empty()) j.key("slots").value(int64_t{card.slots.bits});
    j.endObject();
  }
  j.endArray();
  if (!spec.boot.empty()) j.key("boot").value(spec.boot);
  if (!spec.driver.empty()) j.key("driver").value(spec.driver);
  if (!spec.minors.empty()) j.key("minors").beginArray();
  for (const auto minor : spec.minors) j.value(minor);
  if (!spec.minors.empty()) j.endArray();
  if (!spec.beside.empty()) j.key("beside").beginArray();
  for (const auto& other : spec.beside)
    j.beginObject().key("resourceClaim").value(other.claim).key("deviceUid").value(other.deviceUid).endObject();
  if (!spec.beside.empty()) j.endArray();
  texts(j, "cdiDevices", spec.edits.cdiDevices);
  return j.endObject().take();
}

void hooks(JsonText& j, const std::vector<core::Hook>& all) {
  if (all.empty()) return;
  j.key("hooks").beginArray();
  for (const auto& hook : all) {
    j.beginObject().key("hookName").value(hook.name).key("path").value(hook.path);
    texts(j, "args", hook.args);
    texts(j, "env", hook.env);
    if (hook.timeoutSeconds > 0) j.key("timeout").value(int64_t{hook.timeoutSeconds});
    j.endObject();
  }
  j.endArray();
}

bool needs050(const CdiSpec& spec) {
  const bool digit = !spec.deviceUid.empty() && spec.deviceUid[0] >= '0' && spec.deviceUid[0] <= '9';
  return digit || std::any_of(spec.edits.deviceNodes.begin(), spec.edits.deviceNodes.end(),
                              [](const auto& node) { return !node.hostPath.empty() && node.hostPath != node.path; });
}

/// Returns the array in field `key`, or an empty one.
const Json& listOf(const Json& object, const char* key) {
  static const Json none = Json::array();
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : none;
}

bool text(const Json& object, const char* key, std::string& out) {
  if (!object.is_object()) return false;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) return false;
  out = it->get<std::string>();
  return true;
}

bool amount(const Json& object, const char* key, int64_t& out) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return false;
  if (it->is_number_unsigned() && it->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
  out = it->get<int64_t>();
  return out >= 0;
}

bool textsOf(const Json& list, std::vector<std::string>& out) {
  for (const auto& each : list) {
    if (!each.is_string()) return false;
    out.push_back(each.get<std::string>());
  }
  return true;
}

bool readPreparedFor(const std::string& json, CdiSpec& out) {
  const Json j = Json::parse(json, nullptr, false);
  if (!text(j, "namespace", out.claimNamespace) || !text(j, "resourceClaim", out.claimName) ||
      !text(j, "uid", out.claimUid) || !text(j, "device", out.device) || !text(j, "provisioner", out.provisioner))
    return false;
  for (const auto& each : listOf(j, "cards")) {
    v1alpha::DeviceCard card;
    if (!text(each, "name", card.name) || !text(each, "uuid", card.uuid) || !amount(each, "core", card.core) ||
        !amount(each, "memory", card.memory) || !amount(each, "chargedCore", card.chargedCore) ||
        !amount(each, "chargedMemory", card.chargedMemory))
      return false;
    if (int64_t slots = 0; each.contains("slots")) {
      if (!amount(each, "slots", slots) || slots < 0 || slots >> v1alpha::Slots::kCount != 0) return false;
      card.slots.bits = static_cast<uint16_t>(slots);
    }
    out.cards.push_back(std::move(card));
  }
  (void)text(j, "boot", out.boot);
  (void)text(j, "driver", out.driver);
  for (const auto& each : listOf(j, "minors")) {
    if (!each.is_number_integer()) return false;
    out.minors.push_back(each.get<int64_t>());
  }
  for (const auto& each : listOf(j, "beside"))
    if (auto& other = out.beside.emplace_back();
        !text(each, "resourceClaim", other.claim) || !text(each, "deviceUid", other.deviceUid))
      return false;
  return textsOf(listOf(j, "cdiDevices"), out.edits.cdiDevices);
}

bool readHooks(const Json& list, std::vector<core::Hook>& out) {
  for (const auto& each : list) {
    auto& hook = out.emplace_back();
    if (!text(each, "hookName", hook.name) || !text(each, "path", hook.path) ||
        !textsOf(listOf(each, "args"), hook.args) || !textsOf(listOf(each, "env"), hook.env))
      return false;
    int64_t timeout = 0;
    if (each.contains("timeout") && (!amount(each, "timeout", timeout) || timeout > INT32_MAX)) return false;
    hook.timeoutSeconds = static_cast<int>(timeout);
  }
  return true;
}

bool readEdits(const Json& edits, CdiSpec& out, bool& preparedFor) {
  int count = 0;
  for (const auto& each : listOf(edits, "env")) {
    if (!each.is_string()) return false;
    const auto& variable = each.get_ref<const std::string&>();
    const auto equals = variable.find('=');
    if (equals == std::string::npos) return false;
    std::string name = variable.substr(0, equals), value = variable.substr(equals + 1);
    if (name == kPreparedFor)
      preparedFor = ++count == 1 && readPreparedFor(value, out);
    else
      out.edits.env.emplace_back(std::move(name), std::move(value));
  }
  for (const auto& each : listOf(edits, "deviceNodes")) {
    auto& node = out.edits.deviceNodes.emplace_back();
    if (!text(each, "path", node.path)) return false;
    (void)text(each, "hostPath", node.hostPath);
    (void)text(each, "permissions", node.permissions);
  }
  for (const auto& each : listOf(edits, "mounts")) {
    auto& mount = out.edits.mounts.emplace_back();
    if (!text(each, "hostPath", mount.hostPath) || !text(each, "containerPath", mount.containerPath)) return false;
    if (!textsOf(listOf(each, "options"), mount.options)) return false;
  }
  return readHooks(listOf(edits, "hooks"), out.edits.hooks);
}

bool anyRuns(const Json& statuses) {
  return std::any_of(statuses.begin(), statuses.end(), [](const Json& each) {
    if (!each.is_object() || !each.contains("state") || !each["state"].is_object()) return false;
    const auto running = each["state"].find("running");
    return running != each["state"].end() && running->is_object();
  });
}

}  // namespace

std::string encodeCdiSpec(const CdiSpec& spec) {
  JsonText j;
  j.beginObject().key("cdiVersion").value(needs050(spec) ? "0.5.0" : "0.3.0").key("kind").value(kCdiKind);
  j.key("devices").beginArray().beginObject().key("name").value(spec.deviceUid).key("containerEdits").beginObject();
  j.key("env").beginArray().value(std::string(kPreparedFor) + "=" + preparedFor(spec));
  for (const auto& [name, value] : spec.edits.env) j.value(name + "=" + value);
  j.endArray();
  if (!spec.edits.deviceNodes.empty()) j.key("deviceNodes").beginArray();
  for (const auto& node : spec.edits.deviceNodes) {
    j.beginObject().key("path").value(node.path);
    if (!node.hostPath.empty() && node.hostPath != node.path) j.key("hostPath").value(node.hostPath);
    if (!node.permissions.empty()) j.key("permissions").value(node.permissions);
    j.endObject();
  }
  if (!spec.edits.deviceNodes.empty()) j.endArray();
  if (!spec.edits.mounts.empty()) j.key("mounts").beginArray();
  for (const auto& mount : spec.edits.mounts) {
    j.beginObject().key("hostPath").value(mount.hostPath).key("containerPath").value(mount.containerPath);
    texts(j, "options", mount.options);
    j.endObject();
  }
  if (!spec.edits.mounts.empty()) j.endArray();
  hooks(j, spec.edits.hooks);
  return j.endObject().endObject().endArray().endObject().take() + "\n";
}

base::Result<CdiSpec> decodeCdiSpec(std::string_view json) {
  const auto wrong = [](std::string why) { return Status(Code::malformed, std::move(why)); };
  const Json file = Json::parse(json, nullptr, false);
  if (!file.is_object()) return wrong("not a JSON object");
  std::string kind;
  if (!text(file, "kind", kind) || kind != kCdiKind) return wrong("its kind is not " + std::string(kCdiKind));
  const Json& devices = listOf(file, "devices");
  if (devices.size() != 1) return wrong("it must have one device, not " + std::to_string(devices.size()));
  CdiSpec out;
  if (!text(devices[0], "name", out.deviceUid)) return wrong("its device has no name");
  bool preparedFor = false;
  if (!readEdits(devices[0].value("containerEdits", Json()), out, preparedFor))
    return wrong("its containerEdits are not valid CDI");
  if (!preparedFor) return wrong("its " + std::string(kPreparedFor) + " does not name what it was prepared for");
  return out;
}

bool hasRunningContainer(std::string_view podJson) {
  const Json pod = Json::parse(podJson, nullptr, false);
  if (!pod.is_object() || !pod.contains("status") || !pod["status"].is_object()) return false;
  const Json& status = pod["status"];
  const Json &main = listOf(status, "containerStatuses"), &init = listOf(status, "initContainerStatuses");
  if (anyRuns(main) || anyRuns(init)) return true;
  std::string phase;
  return main.empty() && text(status, "phase", phase) && phase == "Running";
}

}  // namespace egpu::codec

// mock.provisioner.elasticgpu.io: a provisioner without effects; the class's parameters control its results and
// failures. For tests, and for trying out how a failing plugin appears in a cluster.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace {

using namespace egpu::sdk;

const std::vector<std::string> kParameters = {"at",      "env",    "inProgress", "latencyMs",
                                              "outcome", "prefer", "times",      "veto"};
const std::vector<std::string> kVerbs = {"validate", "provision", "deprovision", "resize", "stage",
                                         "mount",    "unmount",   "unstage",     "prefer"};
const std::vector<std::string> kOutcomes = {"ok",   "reschedule", "exists", "invalid", "unavailable", "internal",
                                            "hang", "crash",      "exit",   "garbage", "throw"};

bool among(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

/// Parses a number from 0 to 999999; returns false if `text` is none.
bool parseCount(const std::string& text, unsigned& out) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  out = static_cast<unsigned>(std::stoul(text));
  return true;
}

/// Behaviour that the parameters request.
struct Script {
  std::string at = "provision";                          ///< verb that misbehaves
  std::string outcome = "ok";                            ///< kind of misbehaviour
  unsigned times = 0;                                    ///< number of first calls per key that misbehave; 0 = all
  unsigned inProgress = 0;                               ///< number of IN_PROGRESS replies of provision before that
  unsigned latencyMs = 0;                                ///< duration of each call of `at`, unless the host cancels it
  std::vector<std::pair<std::string, std::string>> env;  ///< "A=1;B=2": variables that mount adds

  static Status parse(const Parameters& parameters, Script& out) {
    if (Status status = refuseUnknown(parameters, kParameters); status.code != EGPU_OK) return status;
    out.at = parameter(parameters, "at", out.at);
    if (!among(kVerbs, out.at)) return invalid("at is \"" + out.at + "\"; known are " + joined(kVerbs));
    out.outcome = parameter(parameters, "outcome", out.outcome);
    if (!among(kOutcomes, out.outcome))
      return invalid("outcome is \"" + out.outcome + "\"; known are " + joined(kOutcomes));
    for (const auto& [name, target] : {std::pair{"times", &out.times}, std::pair{"inProgress", &out.inProgress},
                                       std::pair{"latencyMs", &out.latencyMs}}) {
      const std::string text = parameter(parameters, name, "0");
      if (!parseCount(text, *target))
        return invalid(std::string(name) + " is \"" + text + "\", not a number from 0 to 999999");
    }
    std::istringstream variables(parameter(parameters, "env"));
    for (std::string item; std::getline(variables, item, ';');) {
      const auto equals = item.find('=');
      if (equals == 0 || equals == std::string::npos) return invalid("env holds \"" + item + "\", not NAME=value");
      out.env.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    }
    return ok();
  }
};

/// State of the device with one key.
struct KeyRecord {
  Script script;
  std::string fingerprint;                ///< empty until provisioned
  std::int64_t resizeNumber = 0;          ///< number of the last resize
  std::map<std::string, unsigned> calls;  ///< by verb
};

/// Records in memory and, if $ELASTICGPU_STATE_DIR is set, in one file each in its folder mock/, so that a new process
/// reads them.
class RecordStore {
 public:
  RecordStore() {
    const char* root = std::getenv("ELASTICGPU_STATE_DIR");
    if (!root || !*root) return;
    dir_ = std::string(root) + "/mock";
    ::mkdir(root, 0700);
    ::mkdir(dir_.c_str(), 0700);
    DIR* open = ::opendir(dir_.c_str());
    if (!open) return;
    while (const dirent* entry = ::readdir(open)) load(entry->d_name);  // NOLINT(concurrency-mt-unsafe): one thread yet
    ::closedir(open);
  }

  std::mutex mutex;
  std::map<std::string, KeyRecord> records;  ///< protected by mutex

  /// Requires mutex.
  void save(const std::string& key) const {
    if (dir_.empty() || !plainName(key)) return;
    const KeyRecord& r = records.at(key);
    std::ostringstream out;
    out << r.script.at << ' ' << r.script.outcome << ' ' << r.script.times << ' ' << r.script.inProgress << ' '
        << r.script.latencyMs << ' ' << r.resizeNumber << ' ' << r.calls.size();
    for (const auto& [verb, n] : r.calls) out << ' ' << verb << ' ' << n;
    out << '\n' << r.fingerprint;
    writeBeside(dir_ + "/" + key, out.str());
  }
  void erase(const std::string& key) {
    records.erase(key);
    if (!dir_.empty() && plainName(key)) ::unlink((dir_ + "/" + key).c_str());
  }

 private:
  static bool plainName(const std::string& key) {
    return !key.empty() && key.size() <= 128 && key.front() != '.' && key.find('/') == std::string::npos &&
           key.back() != '~';
  }
  /// Writes a file that only this user can access, without following a symlink; removes the temporary of an earlier
  /// process.
  static void writeBeside(const std::string& path, const std::string& text) {
    const std::string beside = path + "~";
    ::unlink(beside.c_str());
    const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(fd);
    if (whole) std::rename(beside.c_str(), path.c_str());
  }
  void load(const std::string& key) {
    if (!plainName(key)) return;
    std::ifstream in(dir_ + "/" + key);
    KeyRecord r;
    std::size_t verbs = 0;
    in >> r.script.at >> r.script.outcome >> r.script.times >> r.script.inProgress >> r.script.latencyMs >>
        r.resizeNumber >> verbs;
    for (std::string verb; verbs > 0 && in >> verb; --verbs) in >> r.calls[verb];
    in.get();
    if (!in) return;
    std::getline(in, r.fingerprint, '\0');
    records[key] = r;
  }

  std::string dir_;
};

class Mock final : public Provisioner {
 public:
  Description describe() override { return {"mock.provisioner.elasticgpu.io", "0.1.0", "gpuShare", "Advisory"}; }

  Status validate(const Parameters& parameters) override {
    Script script;
    if (Status status = Script::parse(parameters, script); status.code != EGPU_OK) return status;
    if (script.at != "validate") return ok();
    std::this_thread::sleep_for(std::chrono::milliseconds(script.latencyMs));
    return misbehave(script.outcome, ok());
  }

  Status provision(Call& call, const Device& device) override {
    const std::string fingerprint = Records::fingerprint(device);
    Script script;
    if (Status status = Script::parse(device.parameters, script); status.code != EGPU_OK) return status;
    unsigned calls = 0;
    {
      const std::lock_guard lock(store_.mutex);
      KeyRecord& record = store_.records[device.key];
      if (!record.fingerprint.empty() && record.fingerprint != fingerprint)
        return exists("key " + device.key + " is in use with other content");
      record.script = script;
      calls = ++record.calls["provision"];
      store_.save(device.key);
    }
    if (calls <= script.inProgress) {
      note(device.key, fingerprint);
      return inProgress("step " + std::to_string(calls) + " of " + std::to_string(script.inProgress));
    }
    Status status = act(call, script, "provision", calls - script.inProgress);
    if (status.code == EGPU_OK) call.isolation(provided(device));
    if (status.code == EGPU_OK) return note(device.key, fingerprint) ? ok() : noChange();
    forget(device.key);
    return status;
  }

  Status deprovision(Call& call) override {
    Status status = actByKey(call, "deprovision");
    if (status.code != EGPU_OK) return status;
    const std::lock_guard lock(store_.mutex);
    store_.erase(call.key());
    return ok();
  }

  Status resize(Call& call, const Device& device) override {
    Status status = actByKey(call, "resize");
    if (status.code != EGPU_OK) return status;
    const std::lock_guard lock(store_.mutex);
    const auto found = store_.records.find(device.key);
    if (found == store_.records.end()) return invalid("key " + device.key + " was not provisioned");
    if (device.resizeNumber < found->second.resizeNumber) return exists("a later resize was done already");
    found->second.resizeNumber = device.resizeNumber;
    found->second.fingerprint = Records::fingerprint(device);
    store_.save(device.key);
    call.isolation(provided(device));
    return ok();
  }

  Status list(Call& call) override {
    const std::lock_guard lock(store_.mutex);
    for (const auto& [key, record] : store_.records)
      if (!record.fingerprint.empty()) call.listed(key);
    return ok();
  }

  Status stage(Call& call, const Device& device) override {
    Script script;
    if (Status status = Script::parse(device.parameters, script); status.code != EGPU_OK) return status;
    {
      const std::lock_guard lock(store_.mutex);  // the process on the node has not seen provision
      store_.records[device.key].script = script;
      store_.save(device.key);
    }
    return actOn(call, device, "stage");
  }

  Status mount(Call& call, const Device& device, const Container&) override {
    Script script;
    if (Status status = Script::parse(device.parameters, script); status.code != EGPU_OK) return status;
    if (script.at == "mount")
      if (Status status = actOn(call, device, "mount"); status.code != EGPU_OK) return status;
    call.env("ELASTICGPU_DEVICE", device.device);
    call.env("ELASTICGPU_CLAIM", device.claim);
    std::string uuids;
    for (const auto& card : device.cards) uuids += (uuids.empty() ? "" : ",") + card.uuid;
    call.env("ELASTICGPU_CARDS", uuids);
    for (const auto& [name, value] : script.env) call.env(name, value);
    for (const auto& card : device.cards) call.deviceNode("/dev/nvidia" + std::to_string(card.index));
    return ok();
  }

  Status unmount(Call& call, const Container&) override { return actByKey(call, "unmount"); }
  Status unstage(Call& call) override {
    Status status = actByKey(call, "unstage");
    if (status.code != EGPU_OK) return status;
    const std::lock_guard lock(store_.mutex);
    const auto found = store_.records.find(call.key());
    if (found != store_.records.end() && found->second.calls.count("provision") == 0) store_.erase(call.key());
    return status;
  }

  /// Parameter prefer names the best node, veto a node to exclude.
  Status prefer(Call& call, const Wish& wish) override {
    Script script;
    if (Status status = Script::parse(wish.parameters, script); status.code != EGPU_OK) return status;
    if (Status status = act(call, script, "prefer", 1); status.code != EGPU_OK) return status;
    const std::string best = parameter(wish.parameters, "prefer");
    const std::string worst = parameter(wish.parameters, "veto");
    if (best.empty() && worst.empty()) return noChange();
    for (std::size_t i = 0; i < wish.candidates.size(); ++i)
      if (wish.candidates[i].node == worst)
        call.veto(i, "the class's parameter veto names it");
      else if (wish.candidates[i].node == best)
        call.preferred(i);
    return ok();
  }

 private:
  /// Its shares are simulated: nothing limits them.
  static Isolation provided(const Device& device) {
    return hasWholeCards(device) ? wholeCardIsolation() : Isolation{"none", "None", "None", "None"};
  }

  /// Records that the key has a device; returns false if it already had one.
  bool note(const std::string& key, const std::string& fingerprint) {
    const std::lock_guard lock(store_.mutex);
    KeyRecord& record = store_.records[key];
    const bool fresh = record.fingerprint.empty();
    record.fingerprint = fingerprint;
    store_.save(key);
    return fresh;
  }
  /// After a failed provision only the count of calls remains.
  void forget(const std::string& key) {
    const std::lock_guard lock(store_.mutex);
    store_.records[key].fingerprint.clear();
    store_.save(key);
  }

  Status actOn(Call& call, const Device& device, const std::string& verb) {
    Script script;
    if (Status status = Script::parse(device.parameters, script); status.code != EGPU_OK) return status;
    return act(call, script, verb, counted(device.key, verb, script));
  }
  /// For verbs without parameters: uses those of the key's provision or stage.
  Status actByKey(Call& call, const std::string& verb) {
    Script script;
    {
      const std::lock_guard lock(store_.mutex);
      const auto found = store_.records.find(call.key());
      if (found == store_.records.end()) return ok();
      script = found->second.script;
    }
    return act(call, script, verb, counted(call.key(), verb, script));
  }
  /// Returns the number of this call of the verb for the key, from 1. Counts only if the script depends on it.
  unsigned counted(const std::string& key, const std::string& verb, const Script& script) {
    if (script.at != verb || script.times == 0) return 1;
    const std::lock_guard lock(store_.mutex);
    KeyRecord& record = store_.records[key];
    record.script = script;
    const unsigned calls = ++record.calls[verb];
    store_.save(key);
    return calls;
  }

  static Status act(Call& call, const Script& script, const std::string& verb, unsigned calls) {
    if (script.at != verb) return ok();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(script.latencyMs);
    while (std::chrono::steady_clock::now() < end) {
      if (call.cancelled())
        return unavailable("given up before " + std::to_string(script.latencyMs) + " ms had passed");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (script.times > 0 && calls > script.times) return ok();
    return misbehave(script.outcome, ok());
  }

  static Status misbehave(const std::string& outcome, Status otherwise) {
    const std::string why = "as the class's parameter outcome asks";
    if (outcome == "reschedule") return reschedule(why);
    if (outcome == "exists") return exists(why);
    if (outcome == "invalid") return invalid(why);
    if (outcome == "unavailable") return unavailable(why);
    if (outcome == "internal") return internal(why);
    if (outcome == "hang")
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    if (outcome == "crash") std::abort();
    if (outcome == "exit") std::_Exit(3);
    if (outcome == "garbage") return {4711, why};
    if (outcome == "throw") throw std::runtime_error(why);
    return otherwise;
  }

  RecordStore store_;
};

}  // namespace

EGPU_PROVISIONER(Mock)

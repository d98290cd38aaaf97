#include "provisioners/gpushare/driver_limits/container.h"

#include <unistd.h>

#include <cctype>
#include <fstream>
#include <iterator>

namespace egpu::driver_limits {
namespace {

constexpr int kMaxDepth = 64;

/// Reads JSON text from its begin. Accepts some texts that are no JSON, because the runtime is trusted.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Skips blanks, and returns the next character; 0 at the end.
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// Reads a string. Escaped characters stay as they are written; ids have none.
  bool string(std::string& out) {
    if (!take('"')) return false;
    out.clear();
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') return ++at_, true;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) out += text_[at_++];
      out += text_[at_];
    }
    return false;
  }
  /// Reads a number, true, false or null.
  bool word(std::string& out) {
    out.clear();
    for (peek(); at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                        std::string_view("+-.").find(text_[at_]) != std::string_view::npos);
         ++at_)
      out += text_[at_];
    return !out.empty();
  }
  /// Skips a value of any kind.
  bool value(int depth = 0) {
    std::string ignored;
    const char c = peek();
    if (c == '"') return string(ignored);
    if (c != '{' && c != '[') return word(ignored);
    if (depth == kMaxDepth) return false;
    const char end = c == '{' ? '}' : ']';
    take(c);
    if (take(end)) return true;
    do {
      if (c == '{' && (!string(ignored) || !take(':'))) return false;
      if (!value(depth + 1)) return false;
    } while (take(','));
    return take(end);
  }

 private:
  const std::string_view text_;
  std::size_t at_ = 0;
};

bool readMembers(Scanner& scanner, ContainerState& out) {
  if (!scanner.take('{')) return false;
  if (scanner.take('}')) return true;
  std::string name, word;
  do {
    if (!scanner.string(name) || !scanner.take(':')) return false;
    if (name == "id" && scanner.peek() == '"') {
      if (!scanner.string(out.id)) return false;
    } else if (name == "pid" && scanner.peek() != '"') {
      if (!scanner.word(word) || word.size() > 10 || word.find_first_not_of("0123456789") != std::string::npos)
        return false;
      out.pid = std::stol(word);
    } else if (!scanner.value()) {
      return false;
    }
  } while (scanner.take(','));
  return scanner.take('}');
}

}  // namespace

std::string readState(std::string_view json, ContainerState& out) {
  Scanner scanner(json);
  if (!readMembers(scanner, out)) return "the state of the container from the runtime is no JSON object";
  return out.id.empty() ? "the state of the container from the runtime has no id" : "";
}

std::string Cgroups::whyUnsuitable() const {
  if (exists(root_ + "/cgroup.controllers")) return {};
  return "the node does not use cgroup v2: " + root_ + "/cgroup.controllers is missing";
}

std::string Cgroups::folderOf(long pid, std::string& out) const {
  const std::string file = proc_ + "/" + std::to_string(pid) + "/cgroup";
  std::ifstream in(file);
  if (!in) return file + " can't be read";
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    const std::string path = line.substr(3);
    if (path == "/") return "process " + std::to_string(pid) + " has no cgroup of its own";
    if (path.find("/../") != std::string::npos)
      return "the cgroup " + path + " is outside of this cgroup namespace; the runtime must run in the host's";
    out = root_ + path;
    return exists(out) ? std::string() : "the cgroup " + out + " does not exist";
  }
  return file + " names no cgroup of version 2";
}

bool Cgroups::exists(const std::string& folder) { return ::access(folder.c_str(), F_OK) == 0; }

bool Cgroups::isInUse(const std::string& folder) {
  std::ifstream in(folder + "/cgroup.events");
  if (!in) return false;
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return text.find("populated 0") == std::string::npos;
}

bool Cgroups::isInHierarchy(const std::string& folder) { return exists(folder + "/dmem.min"); }

}  // namespace egpu::driver_limits

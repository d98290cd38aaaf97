// Converts YAML to JSON with the events of yaml-cpp. It builds its own tree instead of a YAML::Node to know the kind of
// each scalar (plain or quoted) and the position for messages, and to limit the expansion of aliases.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "controller/codec/codec.h"
#include "controller/codec/json/text.h"
#include "controller/codec/yaml_text.h"

namespace egpu::codec {

namespace {

constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxOutput = std::size_t{32} << 20;  // bytes of JSON per stream of documents
constexpr std::size_t kMaxMerged = 100'000;                // fields copied by merge keys, per document

struct Tree;
using TreePtr = std::shared_ptr<const Tree>;

/// A node of a document. Aliases share the node of their anchor.
struct Tree {
  enum class Kind { null, scalar, sequence, mapping } kind = Kind::null;
  std::size_t height = 0;      // includes aliases; limited, because writing and destruction recurse
  std::string json;            // scalar
  std::vector<TreePtr> items;  // sequence
  std::vector<std::pair<std::string, TreePtr>> fields;  // mapping, in order
};

/// Thrown and caught in this file only.
struct Refused {
  int line;
  int column;
  std::string why;
};

[[noreturn]] void refuse(const YAML::Mark& mark, std::string why) {
  throw Refused{mark.line + 1, mark.column + 1, std::move(why)};
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  const YAML::Mark& start() const { return start_; }
  /// Moves the document's root out. Of an empty document it is a null node.
  TreePtr take() { return root_ ? std::move(root_) : std::make_shared<const Tree>(); }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = mark; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (keyExpected()) refuse(mark, "a key must not be null");
    auto tree = std::make_shared<const Tree>();
    if (anchor != 0) anchors_[anchor] = tree;
    add(mark, std::move(tree));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias must not be inside its own anchor");
    if (keyExpected()) {
      if (!keys_.contains(anchor)) refuse(mark, "a key must be a scalar");
      setKey(mark, keys_[anchor]);
      return;
    }
    add(mark, found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    std::string why;
    const auto json = scalarToJson(tag, text, why);
    if (!json) refuse(mark, why);
    auto tree = std::make_shared<Tree>();
    tree->kind = *json == "null" ? Tree::Kind::null : Tree::Kind::scalar;
    tree->json = *json;
    const bool merge = tag == "?" && text == "<<";
    std::string key = json->front() == '"' ? text : *json;
    if (anchor != 0) {
      anchors_[anchor] = tree;
      if (tree->kind != Tree::Kind::null) keys_[anchor] = key;
    }
    if (!keyExpected()) {
      add(mark, std::move(tree));
      return;
    }
    if (tree->kind == Tree::Kind::null) refuse(mark, "a key must not be null");
    if (merge) {
      open_.back().merging = true;
      open_.back().haveKey = true;
      open_.back().keyMark = mark;
      return;
    }
    setKey(mark, std::move(key));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, Tree::Kind::sequence, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, Tree::Kind::mapping, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    std::shared_ptr<Tree> tree;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    bool haveKey = false;
    bool merging = false;  // the next value belongs to "<<"
    std::string key;
    YAML::Mark keyMark;
    std::unordered_set<std::string> seen;
    std::vector<TreePtr> merged;
  };

  bool keyExpected() const {
    return !open_.empty() && open_.back().tree->kind == Tree::Kind::mapping && !open_.back().haveKey;
  }

  void setKey(const YAML::Mark& mark, std::string key) {
    Open& open = open_.back();
    if (!open.seen.insert(key).second) refuse(mark, "key \"" + key + "\" is duplicated in one mapping");
    open.key = std::move(key);
    open.keyMark = mark;
    open.haveKey = true;
  }

  void begin(const YAML::Mark& mark, Tree::Kind kind, YAML::anchor_t anchor) {
    if (keyExpected()) refuse(mark, "a key must be a scalar");
    if (open_.size() >= kMaxDepth) refuse(mark, "nested deeper than " + std::to_string(kMaxDepth));
    Open& open = open_.emplace_back();
    open.tree = std::make_shared<Tree>();
    open.tree->kind = kind;
    open.anchor = anchor;
    open.mark = mark;
  }

  void end() {
    Open open = std::move(open_.back());
    open_.pop_back();
    for (const auto& source : open.merged) {
      mergedFields_ += source->fields.size();
      if (mergedFields_ > kMaxMerged)
        refuse(open.mark, "merge keys take over more than " + std::to_string(kMaxMerged) + " fields");
      for (const auto& [key, value] : source->fields)
        if (open.seen.insert(key).second)
          open.tree->fields.emplace_back(key, value);  // keys of the mapping and of earlier sources have precedence
    }
    if (open.anchor != 0) anchors_[open.anchor] = open.tree;
    add(open.mark, std::move(open.tree));
  }

  void add(const YAML::Mark& mark, TreePtr tree) {
    if (open_.empty()) {
      root_ = std::move(tree);
      return;
    }
    Open& open = open_.back();
    open.tree->height = std::max(open.tree->height, tree->height + 1);
    if (open.tree->height > kMaxDepth) refuse(mark, "nested deeper than " + std::to_string(kMaxDepth));
    if (open.tree->kind == Tree::Kind::sequence) {
      open.tree->items.push_back(std::move(tree));
      return;
    }
    if (open.merging) {
      merge(mark, open, tree);
      open.merging = false;
    } else {
      open.tree->fields.emplace_back(std::move(open.key), std::move(tree));
    }
    open.haveKey = false;
  }

  static void merge(const YAML::Mark& mark, Open& open, const TreePtr& tree) {
    if (tree->kind == Tree::Kind::mapping) {
      open.merged.push_back(tree);
      return;
    }
    const bool mappings = tree->kind == Tree::Kind::sequence &&
                          std::all_of(tree->items.begin(), tree->items.end(),
                                      [](const TreePtr& item) { return item->kind == Tree::Kind::mapping; });
    if (!mappings) refuse(mark, "<< takes a mapping or a sequence of mappings");
    open.merged.insert(open.merged.end(), tree->items.begin(), tree->items.end());
  }

  YAML::Mark start_;
  TreePtr root_;
  std::vector<Open> open_;
  std::size_t mergedFields_ = 0;
  std::unordered_map<YAML::anchor_t, TreePtr> anchors_;
  std::unordered_map<YAML::anchor_t, std::string> keys_;  // texts of anchored scalars, for aliases used as keys
};

/// Writes a tree as JSON and limits its size, because aliases can make the output much larger than the tree.
class TreeWriter {
 public:
  /// left: remaining bytes of `max`, the limit for all documents together.
  TreeWriter(std::size_t left, std::size_t max) : left_(left), max_(max) {}

  std::string write(const Tree& tree) {
    one(tree);
    return j_.take();
  }

 private:
  void spend(std::size_t bytes) {
    if (bytes > left_) throw Refused{0, 0, "expands to more than " + std::to_string(max_ >> 20) + " MiB"};
    left_ -= bytes;
  }

  void one(const Tree& tree) {
    spend(2);
    switch (tree.kind) {
      case Tree::Kind::null:
        j_.null();
        return;
      case Tree::Kind::scalar:
        spend(tree.json.size());
        j_.raw(tree.json);
        return;
      case Tree::Kind::sequence:
        j_.beginArray();
        for (const auto& item : tree.items) one(*item);
        j_.endArray();
        return;
      case Tree::Kind::mapping:
        j_.beginObject();
        for (const auto& [key, value] : tree.fields) {
          spend(key.size());
          j_.key(key);
          one(*value);
        }
        j_.endObject();
        return;
    }
  }

  JsonText j_;
  std::size_t left_;
  const std::size_t max_;
};

base::Status invalidYaml(int line, int column, const std::string& why) {
  const std::string where =
      line > 0 ? "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " : "";
  return {base::Code::invalid, "YAML: " + where + why};
}

/// Converts all documents except empty ones and null. Fails if there are more than `max` documents or `bytes` bytes.
base::Result<std::vector<std::string>> documents(std::string_view yaml, std::size_t max, std::size_t bytes) {
  std::vector<std::string> out;
  try {
    if (!isUtf8(yaml)) return invalidYaml(0, 0, "is not UTF-8");
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    std::size_t used = 0;
    int lastStart = -1;
    for (;;) {
      TreeBuilder builder;
      if (!parser.HandleNextDocument(builder)) break;
      // At a stray "]" the parser returns empty documents at the same position without end.
      if (builder.start().pos <= lastStart) refuse(builder.start(), "unexpected text");
      lastStart = builder.start().pos;
      const TreePtr tree = builder.take();
      if (tree->kind == Tree::Kind::null) continue;
      if (out.size() == max) return invalidYaml(0, 0, "holds more than one document");
      out.push_back(TreeWriter(bytes - used, bytes).write(*tree));
      used += std::min(out.back().size(), bytes - used);
    }
  } catch (const Refused& refused) {
    return invalidYaml(refused.line, refused.column, refused.why);
  } catch (const YAML::Exception& e) {
    return invalidYaml(e.mark.line + 1, e.mark.column + 1, e.msg);
  } catch (const std::exception& e) {
    return invalidYaml(0, 0, e.what());
  }
  return out;
}

}  // namespace

base::Result<std::string> yamlToJson(std::string_view yaml) {
  auto all = documents(yaml, 1, kMaxOutput);
  if (!all) return all.status();
  return all->empty() ? std::string("null") : std::move(all->front());
}

base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml) { return yamlDocuments(yaml, kMaxOutput); }

base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml, std::size_t bytes) {
  return documents(yaml, SIZE_MAX, bytes);
}

}  // namespace egpu::codec

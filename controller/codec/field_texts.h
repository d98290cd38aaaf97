// Names of an object's fields, and the JSON of each, as fields() declares them (fields_core.h). Patches are the
// differences of two such lists, so that a new field needs no code here. Internal to codec/.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/codec/json/text.h"
#include "controller/codec/json/writer.h"

namespace egpu::codec::internal {

/// Implements the calls in fields_core.h: collects the texts, without fields that are omitted when empty.
class FieldTexts {
 public:
  using Texts = std::map<std::string, std::string, std::less<>>;

  template <class M>
  void operator()(std::string_view name, const M& member) {
    add(name, [&](Writer& writer) { writer(name, member); });
  }
  template <class M>
  void always(std::string_view name, const M& member) {
    add(name, [&](Writer& writer) { writer.always(name, member); });
  }
  void thousandths(std::string_view name, int64_t number) {
    add(name, [&](Writer& writer) { writer.thousandths(name, number); });
  }
  template <class M>
  void quantities(std::string_view name, const M& all) {
    add(name, [&](Writer& writer) { writer.quantities(name, all); });
  }
  Texts take() { return std::move(all_); }

 private:
  template <class Write>
  void add(std::string_view name, const Write& write) {
    JsonText j;
    j.beginObject();
    Writer writer(j);
    write(writer);
    j.endObject();
    const std::string text = j.take();
    if (const auto colon = text.find(':'); colon != std::string::npos)
      all_[std::string(name)] = text.substr(colon + 1, text.size() - colon - 2);
  }
  Texts all_;
};

template <class T>
FieldTexts::Texts textsOf(const T& object) {
  FieldTexts texts;
  fields(texts, object);
  return texts.take();
}

/// Implements the same calls: collects the names of the object's own fields.
class FieldNames {
 public:
  void operator()(std::string_view name, const auto&) { all_.emplace_back(name); }
  void object(std::string_view name, const auto&) { all_.emplace_back(name); }
  void quantities(std::string_view name, const auto&) { all_.emplace_back(name); }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

template <class T>
std::vector<std::string> namesOf() {
  FieldNames names;
  const T none{};
  fields(names, none);
  return names.take();
}

/// Writes the members of a merge patch that turns `before` into `after`: those that differ, and null for those that
/// `after` lacks. Objects are compared member by member; lists are replaced, because a merge patch has no other way.
void writeMergePatch(JsonText& j, const FieldTexts::Texts& before, const FieldTexts::Texts& after);

/// Writes the operations of a JSON patch that does the same at `path`, a JSON pointer. Each field is replaced as a
/// whole. except: a field that stays as it is. Fields that this version does not know stay, because another version
/// wrote them.
void writeJsonPatch(JsonText& j, const std::string& path, const FieldTexts::Texts& before,
                    const FieldTexts::Texts& after, std::string_view except = {});

}  // namespace egpu::codec::internal

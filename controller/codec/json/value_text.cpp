// Implements value.h and readDocument() by moving one position through the text, without another library. A value that
// is not read is skipped, and only its strings and brackets are checked.
#include <charconv>
#include <cmath>
#include <deque>

#include "controller/codec/json/text.h"
#include "controller/codec/json/value.h"

namespace egpu::codec::internal {

namespace {

constexpr std::string_view kNotJson = "is not JSON";

/// The position in the text of a document.
class Cursor {
 public:
  explicit Cursor(std::string_view json) : at_(json.data()), end_(json.data() + json.size()) {}

  const char* at() const { return at_; }
  /// Returns the next character that is not white space, without reading it, or 0 at the end.
  char next() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }
  bool take(char wanted) {
    if (next() != wanted || at_ == end_) return false;
    ++at_;
    return true;
  }

  /// Reads a string. The text is a part of the document, or of texts_ if it has escapes.
  bool readString(std::string_view& text) {
    if (!take('"')) return false;
    const char* const from = at_;
    if (!skipPlain()) return false;
    text = {from, static_cast<std::size_t>(at_ - from)};
    if (*at_ == '\\') {
      auto& unescaped = texts_.emplace_back(text);
      if (!unescape(unescaped)) return false;
      text = unescaped;
    }
    ++at_;
    return true;
  }
  /// Reads a number, true, false or null.
  std::string_view readWord() {
    next();
    const char* const from = at_;
    while (at_ != end_ && std::string_view(",]} \n\t\r").find(*at_) == std::string_view::npos) ++at_;
    return {from, static_cast<std::size_t>(at_ - from)};
  }
  bool skip() {
    std::size_t open = 0;
    do {
      const char c = next();
      if (c == '"') {
        if (!skipString()) return false;
      } else if (c == '{' || c == '[') {
        ++open;
        ++at_;
      } else if (open > 0 && (c == '}' || c == ']')) {
        --open;
        ++at_;
      } else if (open > 0 && (c == ',' || c == ':')) {
        ++at_;
      } else if (readWord().empty()) {
        return false;
      }
    } while (open > 0);
    return true;
  }

 private:
  /// Moves to the next quotation mark or backslash.
  bool skipPlain() {
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= ' ') ++at_;
    return at_ != end_ && (*at_ == '"' || *at_ == '\\');
  }
  bool skipString() {
    ++at_;
    while (skipPlain() && *at_ == '\\') {
      if (++at_ == end_) return false;
      ++at_;
    }
    return at_ != end_ && *at_++ == '"';
  }
  /// Appends the rest of a string, up to its quotation mark.
  bool unescape(std::string& text) {
    while (*at_ == '\\') {
      if (++at_ == end_ || !appendEscaped(text)) return false;
      const char* const from = at_;
      if (!skipPlain()) return false;
      text.append(from, at_);
    }
    return true;
  }
  bool appendEscaped(std::string& text) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char name = *at_++;
    if (name == 'u') return appendUnicode(text);
    const auto which = kNames.find(name);
    if (which == std::string_view::npos) return false;
    text += kMeanings[which];
    return true;
  }
  bool readHex(unsigned& unit) {
    if (end_ - at_ < 4) return false;
    const auto [to, error] = std::from_chars(at_, at_ + 4, unit, 16);
    const bool good = error == std::errc() && to == at_ + 4;
    at_ += 4;
    return good;
  }
  bool appendUnicode(std::string& text) {
    unsigned code = 0, low = 0;
    if (!readHex(code)) return false;
    if (code >= 0xDC00 && code < 0xE000) return false;
    if (code >= 0xD800 && code < 0xDC00) {  // the first half of a pair
      if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') return false;
      at_ += 2;
      if (!readHex(low) || low < 0xDC00 || low >= 0xE000) return false;
      code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
    }
    const auto add = [&text](unsigned byte) { text += static_cast<char>(byte); };
    if (code < 0x80) return add(code), true;
    if (code < 0x800) {
      add(0xC0 | code >> 6U);
    } else {
      if (code < 0x10000) {
        add(0xE0 | code >> 12U);
      } else {
        add(0xF0 | code >> 18U);
        add(0x80 | (code >> 12U & 0x3FU));
      }
      add(0x80 | (code >> 6U & 0x3FU));
    }
    return add(0x80 | (code & 0x3FU)), true;
  }

  const char* at_;
  const char* end_;
  std::deque<std::string> texts_;  // strings that had escapes; never moved, because readers keep views of them
};

}  // namespace

/// The value at the cursor's position.
class Value {
 public:
  explicit Value(Cursor& cursor) : cursor_(cursor), first_(cursor.next()), begin_(cursor.at()) {}

  Cursor& cursor() { return cursor_; }
  char first() const { return first_; }
  const char* begin() const { return begin_; }
  /// Skips the value unless it was read.
  bool pass() { return cursor_.at() != begin_ || cursor_.skip(); }

 private:
  Cursor& cursor_;
  char first_;
  const char* begin_;
};

namespace {

/// Calls one() for each element, up to the closing bracket.
template <class One>
bool readList(Cursor& cursor, char open, char close, Failure& f, const One& one) {
  if (!cursor.take(open)) return f.is(open == '{' ? "must be an object" : "must be an array");
  if (cursor.take(close)) return true;
  do {
    if (!one()) return false;
  } while (cursor.take(','));
  return cursor.take(close) || f.is(kNotJson);
}

bool readFields(Cursor& cursor, const FieldFn& fn, Failure& f, bool (Failure::*name)(std::string_view)) {
  return readList(cursor, '{', '}', f, [&] {
    std::string_view key;
    if (!cursor.readString(key) || !cursor.take(':')) return f.is(kNotJson);
    Value child(cursor);
    if (!fn(key, child)) return (f.*name)(key);
    return child.pass() || f.is(kNotJson);
  });
}

}  // namespace

bool readDocument(std::string_view json, Failure& f, const FieldFn& fn) {
  if (!isUtf8(json)) return f.is("is not UTF-8");
  Cursor cursor(json);
  if (!readFields(cursor, fn, f, &Failure::under)) return false;
  cursor.next();
  return cursor.at() == json.data() + json.size() || f.is("unexpected text after the object");
}

bool typeOf(Value& value, JsonType& type, Failure& f) {
  const char c = value.first();
  if (c == '{') return type = JsonType::object, true;
  if (c == '[') return type = JsonType::array, true;
  if (c == '"') return type = JsonType::string, true;
  if (c == '-' || (c >= '0' && c <= '9')) return type = JsonType::number, true;
  if (c == 't' || c == 'f') return type = JsonType::boolean, true;
  if (c == 'n') return type = JsonType::null, true;
  return f.is(kNotJson);
}

bool readNull(Value& value, Failure& f) { return value.cursor().readWord() == "null" || f.is(kNotJson); }

bool readText(Value& value, std::string_view& text, Failure& f) {
  if (value.first() != '"') return f.is("must be a string");
  return value.cursor().readString(text) || f.is(kNotJson);
}

bool readFlag(Value& value, bool& flag, Failure& f) {
  const auto word = value.cursor().readWord();
  flag = word == "true";
  return flag || word == "false" || f.is("must be true or false");
}

bool readInteger(Value& value, int64_t& number, Failure& f) {
  const auto word = value.cursor().readWord();
  if (!isJsonNumber(word)) return f.is("must be an integer");
  const char* const end = word.data() + word.size();
  if (const auto [to, error] = std::from_chars(word.data(), end, number); error == std::errc() && to == end)
    return true;
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const auto [to, error] = std::from_chars(word.data(), end, real);
  if (error != std::errc() || to != end || real != std::floor(real) || std::fabs(real) > kExact)
    return f.is("must be an integer");
  number = static_cast<int64_t>(real);
  return true;
}

bool readNumberText(Value& value, std::string_view& text, Failure& f) {
  text = value.cursor().readWord();
  return isJsonNumber(text) || f.is(kNotJson);
}

bool readJson(Value& value, std::string_view& text, Failure& f) {
  if (!value.cursor().skip()) return f.is(kNotJson);
  text = {value.begin(), static_cast<std::size_t>(value.cursor().at() - value.begin())};
  return true;
}

bool readFields(Value& value, const FieldFn& fn, Failure& f, bool (Failure::*name)(std::string_view)) {
  return readFields(value.cursor(), fn, f, name);
}

bool readElements(Value& value, const ElementFn& fn, Failure& f) {
  std::size_t index = 0;
  return readList(value.cursor(), '[', ']', f, [&] {
    Value child(value.cursor());
    if (!fn(child)) return f.underKey(std::to_string(index));
    ++index;
    return child.pass() || f.is(kNotJson);
  });
}

}  // namespace egpu::codec::internal

// The verbs get, list and watch.
#include <algorithm>
#include <charconv>
#include <optional>

#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/verbs/rest.h"
#include "controller/standalone/apiserver/verbs/watch.h"

namespace egpu::apiserver {
namespace {

constexpr std::size_t kMaxAnswer = std::size_t{64} << 20;
constexpr int64_t kMinWatchSeconds = 1800;  // minimum if the request has no timeoutSeconds, the same as on real servers

/// Returns resourceVersion as a number, or nullopt if it is not set.
std::optional<uint64_t> versionParam(const RequestInfo& call) {
  std::string_view v = call.param("resourceVersion");
  if (v.empty()) return std::nullopt;
  uint64_t n = 0;
  auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), n);
  if (error != std::errc() || end != v.data() + v.size())
    throw badRequest("invalid resource version \"" + std::string(v) + "\": it must be a number");
  return n;
}

/// Error for a list that was not requested in pages. It can't be truncated, because the client would take it for
/// complete.
ApiError tooLargeList() {
  return {413, "RequestEntityTooLarge",
          "the list would be larger than 64 MiB: ask for it in pages (limit=500; with kubectl leave --chunk-size as it "
          "is), or for less of it by namespace or selector",
          nullptr, 0};
}

// Returns a page token: the version of the list and the last key of the page, in hexadecimal so that it needs no
// escaping.
std::string pageToken(uint64_t version, const Key& last) {
  static constexpr char digits[] = "0123456789abcdef";
  const std::string plain = std::to_string(version) + "/" + last.ns + "/" + last.name;
  std::string out;
  for (unsigned char c : plain) {
    out += digits[c >> 4];
    out += digits[c & 15];
  }
  return out;
}

bool parsePageToken(std::string_view token, uint64_t& version, Key& last) {
  std::string plain;
  if (token.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < token.size(); i += 2) {
    unsigned value = 0;
    auto [end, error] = std::from_chars(token.data() + i, token.data() + i + 2, value, 16);
    if (error != std::errc() || end != token.data() + i + 2) return false;
    plain += static_cast<char>(value);
  }
  auto first = plain.find('/');
  auto second = first == std::string::npos ? first : plain.find('/', first + 1);
  if (second == std::string::npos) return false;
  auto [end, error] = std::from_chars(plain.data(), plain.data() + first, version);
  if (error != std::errc() || end != plain.data() + first) return false;
  last = {plain.substr(first + 1, second - first - 1), plain.substr(second + 1)};
  return true;
}

[[noreturn]] void forbiddenOption(std::string field, std::string_view why) {
  FieldError e = forbiddenField(std::move(field), why);
  Json causes = Json::array({{{"reason", e.reason}, {"message", e.message}, {"field", e.field}}});
  throw ApiError{422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: " + joinErrors({e}),
                 Json{{"group", "meta.k8s.io"}, {"kind", "ListOptions"}, {"causes", causes}}, 0};
}

struct ListQuery {
  std::optional<uint64_t> version;
  std::string_view match;
  bool initialEvents = false;
};

ListQuery listQuery(const RequestInfo& call, bool watching, bool continuing) {
  ListQuery q;
  q.match = call.param("resourceVersionMatch");
  q.initialEvents = call.flag("sendInitialEvents");
  const bool hasInitialEvents = !call.param("sendInitialEvents").empty();
  if (!q.match.empty() && q.match != "Exact" && q.match != "NotOlderThan")
    forbiddenOption("resourceVersionMatch", "supported values are Exact and NotOlderThan");
  if (watching) {
    if (hasInitialEvents && q.match != "NotOlderThan")
      forbiddenOption("resourceVersionMatch",
                      "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    if (!hasInitialEvents && !q.match.empty())
      forbiddenOption("resourceVersionMatch",
                      "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    if (q.initialEvents && !call.flag("allowWatchBookmarks"))
      forbiddenOption("allowWatchBookmarks", "sendInitialEvents requires allowWatchBookmarks");
  } else {
    if (hasInitialEvents) forbiddenOption("sendInitialEvents", "sendInitialEvents is forbidden for list");
    if (!q.match.empty() && call.param("resourceVersion").empty())
      forbiddenOption("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (!q.match.empty() && continuing)
      forbiddenOption("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
    if (q.match == "Exact" && call.param("resourceVersion") == "0")
      forbiddenOption("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  }
  q.version = versionParam(call);
  return q;
}

/// Returns the objects of a list before selectors and limit are applied, starting with the page of the token. Sets
/// `version` to the version of the list.
std::vector<ObjectPtr> objectsFor(const Store& store, const RequestInfo& call, const ListQuery& q,
                                  std::string_view token, uint64_t& version) {
  std::vector<ObjectPtr> all;
  if (!token.empty()) {
    Key last;
    if (!parsePageToken(token, version, last)) throw badRequest("continue key is not valid");
    if (!store.listAt(*call.resource, call.key.ns, version, last, all))
      throw expired(
          "The provided continue parameter is too old to display a consistent list result. You can start a new list "
          "without the continue parameter.");
  } else if (q.match == "Exact") {
    version = *q.version;
    if (version > store.version()) throw versionTooLarge(version, store.version());
    if (!store.listAt(*call.resource, call.key.ns, version, Key{}, all))
      throw expired("The resourceVersion for the provided list is too old.");
  } else {
    all = store.list(*call.resource, call.key.ns, version);
    if (q.version && *q.version > version) throw versionTooLarge(*q.version, version);
  }
  return all;
}

/// By default kubectl requests tables in pages of 500, and after the first ten pages only five pages per second. Pages
/// have no advantage here, so such tables are sent completely, as a server that does not support `limit` may do.
constexpr std::size_t kKubectlPage = 500;

}  // namespace

Selector Rest::selectorOf(const RequestInfo& call) const {
  auto selector = Selector::parse(*call.resource, call.param("labelSelector"), call.param("fieldSelector"));
  if (!selector) throw badRequest(selector.status().message());
  return std::move(*selector);
}

http::Response Rest::get(const RequestInfo& call) {
  const Presentation as = presentationOf(call);
  if (auto version = versionParam(call); version && *version > store_.version())
    throw versionTooLarge(*version, store_.version());
  ObjectPtr object = store_.get(*call.resource, call.key);
  if (!object) throw notFound(*call.resource, call.key.name);
  http::Response r;
  r.contentType = as.contentType;
  r.body = render(call, as, *object, clock_);
  return r;
}

http::Response Rest::list(const RequestInfo& call) {
  if (call.flag("watch")) return watch(call);
  const Presentation as = presentationOf(call);
  const Selector selector = selectorOf(call);
  const std::string_view token = call.param("continue");
  const ListQuery q = listQuery(call, false, !token.empty());
  const auto limit = static_cast<std::size_t>(call.number("limit").value_or(0));
  if (!token.empty() && q.version && *q.version != 0)
    throw badRequest("specifying resource version is not allowed when using continue");

  uint64_t version = 0;
  std::vector<ObjectPtr> all = objectsFor(store_, call, q, token, version);

  const bool whole = limit == 0 || (as.form == ObjectForm::table && limit >= kKubectlPage);
  std::vector<ObjectPtr> page;
  std::size_t at = 0, bytes = 0;
  for (; at < all.size() && (whole || page.size() < limit); ++at) {
    if (!selector.empty() && !selector.matches(all[at]->body)) continue;
    if (limit != 0 && !page.empty() && bytes + all[at]->text.size() > kMaxAnswer) break;
    bytes += all[at]->text.size();
    page.push_back(std::move(all[at]));
  }
  if (limit == 0 && as.form == ObjectForm::plain && bytes > kMaxAnswer) throw tooLargeList();
  const std::size_t end = at;
  Json meta = {{"resourceVersion", std::to_string(version)}};
  if (!selector.empty())
    while (at < all.size() && !selector.matches(all[at]->body)) ++at;
  if (at < all.size() && !page.empty()) {
    meta["continue"] = pageToken(version, page.back()->key);
    if (selector.empty()) meta["remainingItemCount"] = all.size() - at;
    if (token.empty())
      store_.cachePages(*call.resource, call.key.ns, version, page.back()->key,
                        {all.begin() + static_cast<std::ptrdiff_t>(end), all.end()});
  }
  http::Response r;
  r.contentType = as.contentType;
  r.body = renderList(call, as, page, meta, clock_);
  if (limit == 0 && r.body.size() > kMaxAnswer) throw tooLargeList();
  return r;
}

http::Response Rest::watch(const RequestInfo& call) {
  Presentation as = presentationOf(call);
  Selector selector = selectorOf(call);
  const ListQuery q = listQuery(call, true, false);
  WatchOptions o;
  o.bookmarks = call.flag("allowWatchBookmarks");
  o.bookmarkInterval = bookmarkInterval_;
  const int64_t seconds = std::min<int64_t>(
      call.number("timeoutSeconds").value_or(kMinWatchSeconds + static_cast<int64_t>(random_.below(kMinWatchSeconds))),
      int64_t{24} * 3600);
  o.end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  // As on real servers, a watch without initial events waits silently for a version in the future.
  if (q.initialEvents && q.version && *q.version > store_.version())
    throw versionTooLarge(*q.version, store_.version());

  const bool declined = !q.initialEvents && !call.param("sendInitialEvents").empty();
  if (q.initialEvents || (!declined && (!q.version || *q.version == 0))) {
    for (auto& object : store_.list(*call.resource, call.key.ns, o.from))
      if ((call.key.name.empty() || object->key.name == call.key.name) &&
          (selector.empty() || selector.matches(object->body)))
        o.initial.push_back(std::move(object));
    o.initialEventsEnd = q.initialEvents;
  } else {
    o.from = q.version && *q.version != 0 ? *q.version : store_.version();
  }
  http::Response r;
  // The parameter prevents compressing proxies and libraries from delaying events.
  r.contentType = "application/json;stream=watch";
  r.stream = std::make_unique<WatchStream>(store_, clock_, call, std::move(as), std::move(selector), std::move(o));
  return r;
}

}  // namespace egpu::apiserver

// Watch of one client: sends the initial objects, then events and bookmarks, until its end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/http/http.h"
#include "controller/standalone/apiserver/show/view.h"
#include "controller/standalone/apiserver/verbs/call.h"
#include "controller/standalone/apiserver/verbs/selectors.h"

namespace egpu::apiserver {

struct WatchOptions {
  uint64_t from = 0;               ///< send events after this version
  std::vector<ObjectPtr> initial;  ///< sent as ADDED first
  bool bookmarks = false;
  bool initialEventsEnd = false;  ///< a bookmark marks the end of `initial`
  std::chrono::milliseconds bookmarkInterval{60'000};
  std::chrono::steady_clock::time_point end;  ///< when the server ends the watch
};

/// Reads the store's history at the client's pace, so that a slow client does not slow down the server. If the client
/// falls behind the history, the watch ends with a 410. Must not outlive store and clock. Used by one thread.
class WatchStream final : public http::BodyStream {
 public:
  WatchStream(const Store& store, base::Clock& clock, const RequestInfo& call, Presentation as, Selector selector,
              WatchOptions options);
  bool next(std::string& chunk, std::stop_token stop) override;

 private:
  bool concerns(const Key& key) const;
  void append(std::string& chunk, std::string_view type, const Object& object);
  void appendEvent(std::string& chunk, const Event& event);
  void appendBookmark(std::string& chunk, bool initialEventsEnd);

  const Store& store_;
  base::Clock& clock_;
  http::Request request_;  ///< the request of info_
  RequestInfo info_;
  const Presentation as_;
  const Selector selector_;
  WatchOptions options_;
  std::size_t sent_ = 0;  ///< number of objects in options_.initial that are sent
  uint64_t cursor_;
  bool started_ = false, ended_ = false, columns_ = true;
  std::chrono::steady_clock::time_point nextBookmark_;
};

}  // namespace egpu::apiserver

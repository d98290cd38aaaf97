// One request over libcurl: the state shared by the caller and the I/O thread, and libcurl's callbacks.
#pragma once

#include <curl/curl.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/kube/config/credentials.h"
#include "controller/kube/transport/transport.h"

namespace egpu::kube {

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

/// Appends a line; if memory is exhausted, the list is unchanged.
void append(HeaderList& list, const std::string& line);

/// Shared by the caller and the I/O thread, so that a stopped caller can return immediately, whatever libcurl is doing.
struct Transfer {
  // Constant once passed to the I/O thread; from then on that thread owns the easy handle and curl's inputs.
  std::unique_ptr<CURL, EasyDeleter> easy;
  HeaderList headers, connectTo;
  std::string url, body;
  CredentialsPtr credentials;  ///< curl reads the PEM texts in place
  std::size_t bodySent = 0;
  bool streaming = false;
  bool repeatable = false;  ///< GET: libcurl may resend it on a new connection
  std::size_t maxBody = 0, streamBuffer = 0;
  char error[CURL_ERROR_SIZE] = {};

  base::Mutex mutex;
  std::condition_variable_any changed;
  int sends EGPU_GUARDED_BY(mutex) = 0;               ///< number of times that sending the request began
  HttpResponse response EGPU_GUARDED_BY(mutex);       ///< head, and the body unless streamed
  bool headDone EGPU_GUARDED_BY(mutex) = false;       ///< head of the final answer, not of a 1xx
  std::string chunks EGPU_GUARDED_BY(mutex);          ///< streamed data, not consumed yet
  bool receivePaused EGPU_GUARDED_BY(mutex) = false;  ///< libcurl delivers no data: `chunks` is full
  bool tooBig EGPU_GUARDED_BY(mutex) = false;
  bool abandoned EGPU_GUARDED_BY(mutex) = false;  ///< the caller has returned: the data is not read any more
  bool finished EGPU_GUARDED_BY(mutex) = false;
  CURLcode result EGPU_GUARDED_BY(mutex) = CURLE_OK;

  /// Registers the callbacks, with this as their argument.
  void listen();
  /// Sets method and body; `body` must be set.
  void setMethod(Method method);
  /// Returns the result of a finished transfer.
  base::Result<HttpResponse> conclude(const std::string& server) EGPU_REQUIRES(mutex);
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace egpu::kube

// Shared by the commands that query a running controller: sends one request to its operations address and prints the
// answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "controller/cmd/options.h"
#include "controller/kube/transport/transport.h"

namespace egpu::cmd {

/// Percent-encodes a value for a query.
std::string queryEncoded(const std::string& text);

/// Returns the target with the query field set to that value, replacing earlier values.
std::string withField(const std::string& target, const std::string& name, const std::string& value);

/// Returns the layout part of the query. output is table, wide, or the name of a server format. Tables have at most
/// kTableColumns columns, and no more than the terminal, unless wide.
std::string layoutQuery(const std::string& output, const std::string& color);
inline constexpr std::size_t kTableColumns = 100;

/// Builds the request of a question, and reads its file. layout: from layoutQuery(). False: the file can't be read; the
/// error is printed.
bool readQuestion(const QuestionOptions& options, const std::string& layout, kube::HttpRequest& request);

/// Prints "error: TEXT" and a newline to standard error. Control characters in TEXT are made visible, because it may
/// contain user input.
void printError(const std::string& text);

/// Returns the answer to a question if it is a 200. Otherwise prints the error as printAnswer() does, and sets `status`
/// to the exit status.
std::optional<kube::HttpResponse> answerOf(const std::string& server, const CallerOptions& caller,
                                           kube::HttpRequest request, const std::string& bodyName, int& status);

/// Prints the body of a 200 to standard output with a final newline, and anything else as an error; errors in the body
/// name `bodyName`. Returns the exit status: 0; 1 for no answer, a refusal, or an answer that reports an error; 2 if
/// `server` is not an address or `caller` has no token.
int printAnswer(const std::string& server, const CallerOptions& caller, kube::HttpRequest request,
                const std::string& bodyName = {});

}  // namespace egpu::cmd

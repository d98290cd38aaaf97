// What the commands that ask a running controller share: one request to its operations address, its answer printed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "controller/cmd/options.h"
#include "controller/kube/transport/transport.h"

namespace egpu::cmd {

/// Whether to colour: "always", "never", or "auto": on a terminal, unless NO_COLOR is set or TERM is dumb.
bool wantsColor(const std::string& mode);

/// A value in a query.
std::string queryEncoded(const std::string& text);

/// A target whose query has that field with that value, once, whatever it had.
std::string withField(const std::string& target, const std::string& name, const std::string& value);

/// Columns of the terminal; `otherwise` if standard output is none.
std::size_t terminalColumns(std::size_t otherwise);

/// The query's part that says how to answer: output is table, wide, or a format that the server knows by that name.
/// Tables have at most kTableColumns columns, and no more than the terminal, unless wide.
std::string layoutQuery(const std::string& output, const std::string& color);
inline constexpr std::size_t kTableColumns = 100;

/// The question as a request, with its file read. layout: how to answer, as layoutQuery() says. False: the file can't be read,
/// which is printed.
bool readQuestion(const QuestionOptions& options, const std::string& layout, kube::HttpRequest& request);

/// Prints "error: TEXT" and a newline to standard error; TEXT may hold words of the user and of others, none of which
/// the terminal obeys.
void printError(const std::string& text);

/// The answer to a question, if it is a 200. Anything else is printed as printAnswer() does, and `status` is the process's exit status.
std::optional<kube::HttpResponse> answerOf(const std::string& server, const CallerOptions& caller,
                                           kube::HttpRequest request, const std::string& bodyName, int& status);

/// Prints the body of a 200 to standard output, ended by a newline, anything else as an error, in which what is wrong
/// with the body is said of `bodyName`. The process's exit status: 0, 1 no answer, a refusal, or an answer that says an
/// error, 2 `server` is no address, or `caller` has no token.
int printAnswer(const std::string& server, const CallerOptions& caller, kube::HttpRequest request,
                const std::string& bodyName = {});

}  // namespace egpu::cmd

#include "provisioners/gpushare/limiter/host_processes.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Reads a small file of a process's folder as text. Returns 0 if it cannot be read, as when the process has ended.
static int readText(const char* proc, const char* pid, const char* name, char* text, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s/%s", proc, pid, name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, size - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  return length > 0;
}

static int readNamespace(const char* proc, const char* pid, uint64_t* out) {
  char path[512], text[64];
  snprintf(path, sizeof path, "%s/%s/ns/pid", proc, pid);
  const ssize_t length = readlink(path, text, sizeof text - 1);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* at = strchr(text, '[');
  if (at != NULL) *out = strtoull(at + 1, NULL, 10);
  return at != NULL;
}

/// The last number of the line NSpid is the PID in the innermost namespace.
static uint64_t innermostPid(const char* status) {
  const char* line = strstr(status, "\nNSpid:");
  if (line == NULL) return 0;
  const char* end = strchr(line + 1, '\n');
  if (end == NULL) end = line + strlen(line);
  while (end > line && !isdigit((unsigned char)end[-1])) end--;
  while (end > line && isdigit((unsigned char)end[-1])) end--;
  return strtoull(end, NULL, 10);
}

static uint64_t startTime(const char* stat) {
  const char* at = strrchr(stat, ')');  // the name in parentheses may contain anything
  for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
  return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

static int readProcess(const char* proc, const char* pid, struct egpu_limiter_process* out) {
  char text[4096];
  if (!readNamespace(proc, pid, &out->pidNamespace)) return 0;
  if (!readText(proc, pid, "stat", text, sizeof text)) return 0;
  out->started = startTime(text);
  if (!readText(proc, pid, "status", text, sizeof text)) return 0;
  out->pid = innermostPid(text);
  out->hostPid = strtoull(pid, NULL, 10);
  return out->pid != 0;
}

int egpu_limiter_read_process(struct egpu_limiter_process* out, const char* proc, uint64_t hostPid) {
  char pid[32];
  snprintf(pid, sizeof pid, "%llu", (unsigned long long)hostPid);
  memset(out, 0, sizeof *out);
  return readProcess(proc, pid, out);
}

int egpu_limiter_read_processes(struct egpu_limiter_processes* out, const char* proc) {
  size_t capacity = 0;
  memset(out, 0, sizeof *out);
  out->proc = proc;
  DIR* folder = opendir(proc);
  if (folder == NULL) return -1;
  for (const struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    struct egpu_limiter_process process = {0, 0, 0, 0};
    if (!isdigit((unsigned char)entry->d_name[0]) || !readProcess(proc, entry->d_name, &process)) continue;
    if (out->count == capacity) {
      capacity = capacity == 0 ? 256 : capacity * 2;
      struct egpu_limiter_process* list = realloc(out->list, capacity * sizeof *list);
      if (list == NULL) {
        closedir(folder);
        egpu_limiter_free_processes(out);
        return -1;
      }
      out->list = list;
    }
    out->list[out->count++] = process;
  }
  closedir(folder);
  return 0;
}

void egpu_limiter_free_processes(struct egpu_limiter_processes* processes) {
  free(processes->list);
  processes->list = NULL;
  processes->count = 0;
}

static int contains(const struct egpu_limiter_processes* processes, uint64_t pid, uint64_t started,
                    uint64_t inNamespace) {
  for (size_t i = 0; i < processes->count; i++) {
    const struct egpu_limiter_process* at = &processes->list[i];
    if (at->pid == pid && at->pidNamespace == inNamespace && (started == 0 || at->started == started)) return 1;
  }
  return 0;
}

int egpu_limiter_runs_on_host(void* context, uint64_t owner, uint64_t started, uint64_t pidNamespace) {
  struct egpu_limiter_processes* processes = context;
  // A process that has just taken its slot has not written its namespace yet.
  if (pidNamespace == 0 || contains(processes, owner >> 32, started, pidNamespace)) return 1;
  const char* proc = processes->proc;
  egpu_limiter_free_processes(processes);
  if (egpu_limiter_read_processes(processes, proc) != 0) return 1;
  return contains(processes, owner >> 32, started, pidNamespace);
}

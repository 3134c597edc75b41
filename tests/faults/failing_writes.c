/* Makes one call that writes below a folder fail, for failing_writes.py; loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OFF, FAIL, SHORT, KILL, PASS };

static char below[4096], within[64];
static long place, calls;
static int action, number, lasting, data_only, log_file = -1;
static __thread const char *caller;

/* At the `at`-th call from now below a folder, of those on paths with a text in them, that write
   data or of all: fail with errno `with`, once or from then on; write half; die. */
void arm(const char *folder, const char *text, long at, int what, int with, int on, int data)
{
    strncpy(below, folder, sizeof below - 1);
    strncpy(within, text, sizeof within - 1);
    place = at, action = what, number = with, lasting = on, data_only = data, calls = 0;
}

/* Write every call that is counted to a file: its name, a blank, its path. */
void record(int file) { log_file = file; }

static int decide(const char *path, int is_data)
{
    if (action == OFF || !path || strncmp(path, below, strlen(below)) != 0)
        return PASS;
    int counts = (is_data || !data_only) && strstr(path + strlen(below), within);
    if (counts && log_file >= 0)
        dprintf(log_file, "%s %s\n", caller, path + strlen(below));
    long now = counts ? __sync_add_and_fetch(&calls, 1) : calls;
    return (counts && now == place) || (lasting && place && now >= place) ? action : PASS;
}

static void find_path(int file, char *path, size_t room)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t size = readlink(name, path, room - 1);
    path[size < 0 ? 0 : size] = 0;
}

static int decide_file(int file, int is_data)
{
    char path[4096];
    if (action == OFF)
        return PASS;
    find_path(file, path, sizeof path);
    return decide(path, is_data);
}

/* A path that may be relative to a folder that is open. */
static int decide_at(int folder, const char *path)
{
    char whole[8192];
    if (action == OFF || !path || *path == '/' || folder == AT_FDCWD)
        return decide(path, 0);
    find_path(folder, whole, 4096);
    strcat(whole, "/");
    strncat(whole, path, 4000);
    return decide(whole, 0);
}

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

#define WRITE(name, types, args, half)                                      \
    {                                                                       \
        caller = #name;                                                     \
        int what = decide_file(file, 1);                                    \
        if (what == FAIL) { errno = number; return -1; }                    \
        if (what == PASS || (what == SHORT && size < 2))                    \
            return ((ssize_t (*) types)dlsym(RTLD_NEXT, #name)) args;       \
        ssize_t done = ((ssize_t (*) types)dlsym(RTLD_NEXT, #name)) half;   \
        if (what == KILL) raise(SIGKILL);                                   \
        return done;                                                        \
    }

ssize_t write(int file, const void *data, size_t size)
    WRITE(write, (int, const void *, size_t), (file, data, size), (file, data, size / 2))
ssize_t pwrite(int file, const void *data, size_t size, off_t at)
    WRITE(pwrite, (int, const void *, size_t, off_t), (file, data, size, at), (file, data, size / 2, at))
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
    WRITE(pwrite64, (int, const void *, size_t, off64_t), (file, data, size, at), (file, data, size / 2, at))

#define OTHER(decision, call)                            \
    {                                                    \
        caller = __func__;                               \
        int what = decision;                             \
        if (what == FAIL) { errno = number; return -1; } \
        if (what == KILL) raise(SIGKILL);                \
        return call;                                     \
    }

int ftruncate(int file, off_t size) OTHER(decide_file(file, 0), REAL(int, ftruncate, int, off_t)(file, size))
int ftruncate64(int file, off64_t size) OTHER(decide_file(file, 0), REAL(int, ftruncate64, int, off64_t)(file, size))
int fsync(int file) OTHER(decide_file(file, 0), REAL(int, fsync, int)(file))
int fdatasync(int file) OTHER(decide_file(file, 0), REAL(int, fdatasync, int)(file))
int rename(const char *from, const char *to) OTHER(decide(from, 0), REAL(int, rename, const char *, const char *)(from, to))
int unlink(const char *path) OTHER(decide(path, 0), REAL(int, unlink, const char *)(path))
int renameat(int at, const char *from, int to_at, const char *to)
    OTHER(decide_at(at, from), REAL(int, renameat, int, const char *, int, const char *)(at, from, to_at, to))
int unlinkat(int at, const char *path, int flags)
    OTHER(decide_at(at, path), REAL(int, unlinkat, int, const char *, int)(at, path, flags))
int rmdir(const char *path) OTHER(decide(path, 0), REAL(int, rmdir, const char *)(path))
int mkdir(const char *path, mode_t mode) OTHER(decide(path, 0), REAL(int, mkdir, const char *, mode_t)(path, mode))
int mkdirat(int at, const char *path, mode_t mode)
    OTHER(decide_at(at, path), REAL(int, mkdirat, int, const char *, mode_t)(at, path, mode))
int chmod(const char *path, mode_t mode) OTHER(decide(path, 0), REAL(int, chmod, const char *, mode_t)(path, mode))
int fchmod(int file, mode_t mode) OTHER(decide_file(file, 0), REAL(int, fchmod, int, mode_t)(file, mode))
int fchmodat(int at, const char *path, mode_t mode, int flags)
    OTHER(decide_at(at, path), REAL(int, fchmodat, int, const char *, mode_t, int)(at, path, mode, flags))
int fchown(int file, uid_t user, gid_t group)
    OTHER(decide_file(file, 0), REAL(int, fchown, int, uid_t, gid_t)(file, user, group))
int link(const char *from, const char *to) OTHER(decide(to, 0), REAL(int, link, const char *, const char *)(from, to))
int linkat(int at, const char *from, int to_at, const char *to, int flags)
    OTHER(decide_at(to_at, to), REAL(int, linkat, int, const char *, int, const char *, int)(at, from, to_at, to, flags))
int fallocate(int file, int mode, off_t at, off_t size)
    OTHER(decide_file(file, 0), REAL(int, fallocate, int, int, off_t, off_t)(file, mode, at, size))

/* SQLite waits ten seconds for others to make the file that could not be made: a twentieth will do. */
int usleep(useconds_t time) { return REAL(int, usleep, useconds_t)(time / 20); }
int nanosleep(const struct timespec *time, struct timespec *left)
{
    long long all = (time->tv_sec * 1000000000LL + time->tv_nsec) / 20;
    struct timespec part = {all / 1000000000, all % 1000000000};
    return REAL(int, nanosleep, const struct timespec *, struct timespec *)(&part, left);
}

/* Of a list of buffers, half a write is the first of them. */
ssize_t writev(int file, const struct iovec *list, int size)
    WRITE(writev, (int, const struct iovec *, int), (file, list, size), (file, list, size / 2))

/* To open a file is a write where it may be made or emptied. */
#define OPEN(name, decision, types, ...)                                    \
    {                                                                       \
        caller = #name;                                                     \
        va_list rest;                                                       \
        va_start(rest, flags);                                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                       \
        int what = flags & (O_CREAT | O_TRUNC) ? decision : PASS;           \
        if (what == FAIL) { errno = number; return -1; }                    \
        if (what == KILL) raise(SIGKILL);                                   \
        return ((int (*) types)dlsym(RTLD_NEXT, #name))(__VA_ARGS__, flags, mode); \
    }

int open(const char *path, int flags, ...) OPEN(open, decide(path, 0), (const char *, int, ...), path)
int open64(const char *path, int flags, ...) OPEN(open64, decide(path, 0), (const char *, int, ...), path)
int openat(int at, const char *path, int flags, ...)
    OPEN(openat, decide_at(at, path), (int, const char *, int, ...), at, path)
int openat64(int at, const char *path, int flags, ...)
    OPEN(openat64, decide_at(at, path), (int, const char *, int, ...), at, path)

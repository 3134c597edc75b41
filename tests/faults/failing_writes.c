/* Makes one call that writes below a folder fail, for failing_writes.py; loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { OFF, FAIL, SHORT, KILL, PASS };

static char below[4096];
static long place, calls;
static int action, number, lasting;

/* At the `at`-th call from now: fail with errno `with`, at once or from then on; write half; die. */
void arm(const char *folder, long at, int what, int with, int on)
{
    strncpy(below, folder, sizeof below - 1);
    place = at, action = what, number = with, lasting = on, calls = 0;
}

long count(void) { return calls; }

static int decide(const char *path)
{
    if (action == OFF || !path || strncmp(path, below, strlen(below)) != 0)
        return PASS;
    long now = __sync_add_and_fetch(&calls, 1);
    return now == place || (lasting && now > place) ? action : PASS;
}

static int decide_file(int file)
{
    char name[64], path[4096];
    if (action == OFF)
        return PASS;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t size = readlink(name, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = 0;
    return decide(path);
}

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

#define WRITE(name, types, args, half)                                      \
    {                                                                       \
        int what = decide_file(file);                                       \
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
        int what = decision;                             \
        if (what == FAIL) { errno = number; return -1; } \
        if (what == KILL) raise(SIGKILL);                \
        return call;                                     \
    }

int ftruncate(int file, off_t size) OTHER(decide_file(file), REAL(int, ftruncate, int, off_t)(file, size))
int ftruncate64(int file, off64_t size) OTHER(decide_file(file), REAL(int, ftruncate64, int, off64_t)(file, size))
int fsync(int file) OTHER(decide_file(file), REAL(int, fsync, int)(file))
int fdatasync(int file) OTHER(decide_file(file), REAL(int, fdatasync, int)(file))
int rename(const char *from, const char *to) OTHER(decide(from), REAL(int, rename, const char *, const char *)(from, to))
int unlink(const char *path) OTHER(decide(path), REAL(int, unlink, const char *)(path))

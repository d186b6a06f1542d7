/* A spool: the last bytes of a stream in a file of bounded size, at absolute offsets (ring file). */
#define _GNU_SOURCE
#include <poll.h>
#include "stay.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, or the errno. The room on the disk is taken now: who starts knows then that it is there, and a
 * disk that others fill later costs no output. */
int open_spool(struct spool *spool, const char *path, uint64_t size) {
    *spool = (struct spool){.file = -1, .size = size};
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    int problem = posix_fallocate(file, 0, size);
    if (problem) {
        close(file);
        unlink(path);
        return problem;
    }
    spool->file = file;
    return 0;
}

static bool moved(struct spool *spool, uint64_t at, char *data, size_t count, bool writing) {
    while (count) {
        uint64_t place = at % spool->size, room = spool->size - place;
        size_t part = count < room ? count : room;
        ssize_t done = writing ? pwrite(spool->file, data, part, place)
                               : pread(spool->file, data, part, place);
        if (done <= 0) {
            if (done < 0 && errno == EINTR) continue;
            spool->problem = done < 0 ? errno : EIO;
            return false;
        }
        at += done, data += done, count -= done;
    }
    return true;
}

/* What the disk does not take is lost, and counted like what fell out. */
void add_to_spool(struct spool *spool, const char *data, size_t count) {
    bool kept = moved(spool, spool->end, (char *)data, count, true);
    spool->end += count;
    if (!kept) spool->first = spool->end;
    else if (spool->end - spool->first > spool->size) spool->first = spool->end - spool->size;
}

size_t read_spool(struct spool *spool, uint64_t from, char *to, size_t count) {
    uint64_t there = spool->end - from;
    if (count > there) count = there;
    if (moved(spool, from, to, count, false)) return count;
    spool->first = spool->end;
    return 0;
}

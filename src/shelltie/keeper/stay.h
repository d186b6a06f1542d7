/* What stay.c, stream.c and spool.c know of one another. */
#include "keeper.h"

#include <stdint.h>

enum { STREAM_VERSION = 1, ID_MAX = 64 };
enum { FRAME_MAX = 128 * 1024, WINDOW = 256 * 1024, INPUT_MAX = 64 * 1024 };

/* Whoever holds us says these; stream_protocol.py has what is in them. */
enum {
    HELLO = 1, START, FOLLOW, ACK, INPUT, CLOSE, SIGNAL, RESIZE, LIMIT, SHOOT_LEASH, FORGET, PING,
    TERMINAL, FINISH, LAST_ASKED = FINISH
};
/* We say these. */
enum { WELCOME = 65, ROW, WORD, OUTPUT, END_OF_OUTPUT, TAKEN, PONG, ERROR, BYE, TTY };

/* spool.c: the last `size` bytes of a stream in a file, at absolute offsets */
struct spool {
    int file; /* -1: there is none */
    uint64_t first, end, size;
    int problem; /* an errno, if the disk has failed */
};
int open_spool(struct spool *spool, const char *path, uint64_t size);
void add_to_spool(struct spool *spool, const char *data, size_t count);
size_t read_spool(struct spool *spool, uint64_t from, char *to, size_t count);

/* stream.c: who is connected, and frames */
struct body { /* what is left of the frame that is read */
    char *at;
    size_t left;
};
bool take_number(struct body *body, uint64_t *value);
char *take_text(struct body *body);
bool open_stream(int descriptor, const char *token);
size_t stream_polls(struct pollfd *into);
void serve_stream(const struct pollfd *polled, size_t count);
long stream_deadline(void);
bool held(void);                      /* somebody is connected, and has shown the token */
bool has_room(void);                  /* for more output */
long last_heard(void);                /* when the holder last said something */
bool nothing_waits(void);             /* all that was told is sent */
void tell(int kind, const void *data, size_t count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool tell_terminal(const char *run, int terminal); /* false: not now */
void refuse_frame(const char *code, const char *why);

/* stay.c, for stream.c */
void greet(void);                     /* somebody new holds us */
void let_go(void);                    /* nobody does any more */
void serve_request(int kind, struct body body);
extern bool leaving;                  /* everything is being ended: nobody is let in */
extern long lease;

/* held_run.c: one command */
enum { OUT = 0, ERR = 1, STREAMS = 2, WORDS = 6, LEASH_LINE = 64 + 32 * 12 };

struct word { /* a state, which whoever comes later is told, too */
    char line[64];
    uint64_t at[STREAMS]; /* how much was printed before */
    bool ready, told;
};

struct run {
    char id[ID_MAX + 1];
    long number; /* of its leash */
    int control, input, terminal; /* -1: closed, or none */
    struct stream {
        int source;
        struct spool spool;
        uint64_t acked, sent;
        bool followed, dry, end_told;
    } streams[STREAMS];
    char line[LEASH_LINE]; /* what the leash is saying */
    size_t line_length;
    struct word words[WORDS];
    int word_count;
    bool gone, asked_terminal;
    long gone_at, deadline, grace, kill_at; /* 0: none */
    char typed[INPUT_MAX];
    size_t typed_count;
    uint64_t taken, taken_told, close_at;
    bool closes;
};

void tell_row(struct run *run);
void add_word(struct run *run, const char *line, bool ready);
void close_descriptor(int *descriptor);
bool wants_more(const struct stream *stream);
void read_output(struct run *run, struct stream *stream);
void send_output(struct run *run, int number);
void settle_words(struct run *run);
void note_end(struct run *run, const char *line);
void hear_leash(struct run *run);
void order(struct run *run, int number);
void resize(struct run *run, uint64_t rows, uint64_t columns);
bool open_streams(struct run *run, const char *kind, int theirs[STDIO]);
void free_run(struct run *run);
struct run *new_run(const char *id, uint64_t bound, bool has_errors, const char **step);
void follow(struct run *run, struct body body);
void acknowledge(struct run *run, struct body body);
void take_input(struct run *run, struct body body);
void write_input(struct run *run);
bool unblock(int descriptor);

extern const char *directory;         /* where the spools are */
extern bool keeper_lives;             /* our child, which starts and ends commands */

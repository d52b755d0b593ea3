/* Messages of a librdkafka queue as arrays, a batch at a time: no Python object per message.
 *
 * native.py is its only user, loads it by ctypes and tells it librdkafka's functions, so that it is linked to nothing and needs no
 * header but those of C: a compiler of any Python will do. What is used of librdkafka is its public interface (rdkafka.h): the
 * struct of a message and the functions below. The interface is stable: a message's fields are the same since 0.9.
 *
 * librdkafka loads this library too, as a plugin (plugin.library.paths): that is its way to tell which handle a client has.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

typedef struct {
        int err;
        void *rkt;
        int32_t partition;
        void *payload;
        size_t len;
        void *key;
        size_t key_len;
        int64_t offset;
        void *_private;
} message_t;

typedef int (*on_new_t)(void *handle, const void *conf, void *opaque, char *errstr, size_t errstr_size);

static struct {
        ssize_t (*consume_batch_queue)(void *queue, int timeout_ms, message_t **messages, size_t most);
        void (*message_destroy)(message_t *message);
        int64_t (*message_timestamp)(const message_t *message, int *type);
        const char *(*message_errstr)(const message_t *message);
        int (*interceptor_add_on_new)(void *conf, const char *name, on_new_t on_new, void *opaque);
} librdkafka;

static _Thread_local void *created;

/* What a batch has beside values. */
enum { HAS_ERRORS = 1, HAS_NULLS = 2, HAS_LINE_FEEDS = 4 };

/* Take librdkafka's functions, in the order of the struct. */
void funken_bind(void *const functions[5]) { memcpy(&librdkafka, functions, sizeof librdkafka); }

static int on_new(void *handle, const void *conf, void *opaque, char *errstr, size_t errstr_size) {
        (void)conf, (void)opaque, (void)errstr, (void)errstr_size;
        created = handle;
        return 0;
}

/* librdkafka calls this for each client that names the plugin. */
int conf_init(void *conf, void **opaque, char *errstr, size_t errstr_size) {
        (void)opaque, (void)errstr, (void)errstr_size;
        return librdkafka.interceptor_add_on_new(conf, "funken", on_new, NULL);
}

/* Return the handle of the client that this thread has made last; NULL if it was asked for already. */
void *funken_created(void) {
        void *handle = created;
        created = NULL;
        return handle;
}

static size_t length_of(const message_t *message) {
        return message->err ? strlen(librdkafka.message_errstr(message)) : message->len;
}

/* Take messages: those that are there, else the first that comes in time and what is there with it.
 * Return how many; size: how many bytes funken_copy needs for them. */
int64_t funken_take(void *queue, int timeout_ms, message_t **messages, int64_t most, int64_t *size) {
        ssize_t count = librdkafka.consume_batch_queue(queue, 0, messages, (size_t)most);
        if (count == 0) {
                count = librdkafka.consume_batch_queue(queue, timeout_ms, messages, 1);
                if (count == 1 && most > 1) {
                        ssize_t more = librdkafka.consume_batch_queue(queue, 0, messages + 1, (size_t)most - 1);
                        count += more > 0 ? more : 0;
                }
        }
        *size = 0;
        for (ssize_t i = 0; i < count; i++)
                *size += (int64_t)length_of(messages[i]) + 1;
        return count > 0 ? count : 0;
}

/* Write the messages into arrays. Each text ends with a line feed, and starts has one element more than there are
 * messages; the text of an error is what it says. Return what there is beside values. */
int funken_copy(message_t **messages, int64_t count, char *text, int64_t *starts, int64_t *offsets, int64_t *timestamps,
                int32_t *partitions, int32_t *codes, uint8_t *nulls, uint64_t *topics) {
        int found = 0, type;
        int64_t at = 0;
        for (int64_t i = 0; i < count; i++) {
                message_t *message = messages[i];
                size_t length = length_of(message);
                starts[i] = at;
                offsets[i] = message->offset;
                partitions[i] = message->partition;
                topics[i] = (uint64_t)(uintptr_t)message->rkt;
                codes[i] = message->err;
                nulls[i] = !message->err && message->payload == NULL;
                timestamps[i] = message->err ? -1 : librdkafka.message_timestamp(message, &type);
                if (message->err)
                        memcpy(text + at, librdkafka.message_errstr(message), length);
                else if (length)
                        memcpy(text + at, message->payload, length);
                found |= (message->err ? HAS_ERRORS : 0) | (nulls[i] ? HAS_NULLS : 0);
                found |= !message->err && length && memchr(text + at, '\n', length) ? HAS_LINE_FEEDS : 0;
                text[at + (int64_t)length] = '\n';
                at += (int64_t)length + 1;
        }
        starts[count] = at;
        return found;
}

/* Free the messages: until then, the pointers to their topics are valid. */
void funken_drop(message_t **messages, int64_t count) {
        for (int64_t i = 0; i < count; i++)
                librdkafka.message_destroy(messages[i]);
}

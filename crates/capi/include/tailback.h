/* libtailback: the network of the HPCC simulator and its forks, to the nanosecond, for whoever has work for it.
 *
 * A caller opens a network, sends, expects and schedules, and runs it. Callbacks come while it runs, in the order of time,
 * and may do all of these but run, write and close. One thread at a time. Times are nanoseconds.
 */
#ifndef TAILBACK_H
#define TAILBACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tailback tailback;
typedef void (*tailback_call)(void *arg);

/* A network by its plan, JSON as `python -m tailback.astra.network CONFIG` prints it. NULL where it is impossible: then `error` has a
 * line of at most `size` bytes that says why, with its final zero. */
tailback *tailback_open(const char *plan, char *error, size_t size);

/* Sends a message on a queue pair of its own, from now on. `sent` is called, unless it is NULL, when its sender has the last ACK.
 * Returns 0, or -1 where a node is no host or the size is not in 1 to 2^32 - 1; tailback_error says which. */
int tailback_send(tailback *network, uint32_t from, uint32_t to, uint64_t bytes, int32_t tag, tailback_call sent,
                  void *arg);

/* Expects bytes of this tag; `received` is called when they are there, at once if they are. They are matched as ASTRA-sim's front end
 * does: by tag and hosts and then by bytes alone. What comes early is kept; what is expected again before it came is added up, and only the
 * last callback counts. */
int tailback_receive(tailback *network, uint32_t to, uint32_t from, uint64_t bytes, int32_t tag,
                     tailback_call received, void *arg);

/* Calls `call` after a delay. */
void tailback_schedule(tailback *network, uint64_t delay_ns, tailback_call call, void *arg);

/* Simulated time. */
uint64_t tailback_now(const tailback *network);

/* Runs until nothing is to come, or until it is stopped; once. Returns 0, or -1 with tailback_error. */
int tailback_run(tailback *network);

/* Ends the run when the calling callback returns. Messages in flight are not in fct.txt. */
void tailback_stop(tailback *network);

/* Why a call failed: one line, valid to the next call. NULL: none did. */
const char *tailback_error(const tailback *network);

/* After the run: writes the completed messages, in order of completion, as that simulator's fct.txt. */
int tailback_write_fct(tailback *network, const char *path);

void tailback_close(tailback *network);

#ifdef __cplusplus
}
#endif

#endif

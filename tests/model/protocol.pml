/* The protocol of one exclusive lock: acquire, queue, hand-off by message, lease, extend, give up, release.
 *
 * Each atomic step named SCRIPT is one run of a Lua script; ARCHITECTURE.md says which lines it stands for. All other
 * steps are a client's. Between any two steps another client may run, a client may crash, a connection may break, the
 * server may lose its data, and time may pass, as often as the budgets below allow. A question whose connection broke
 * may come late: after its client has asked again, has released the lock, or has given up.
 *
 * Time is relative, so that the model is finite: ages count up and leases count down at each tick and stop at the
 * lease's length. A client believes that it holds while `left` is above 0; it never asks anybody for that.
 *
 * A mutant is this file compiled with one of the names in mutants.py defined; each must be caught.
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef TICKS       /* time that passes although somebody could act: pauses and slow networks */
#define TICKS 4
#endif
#ifndef FAULTS      /* crashes, broken connections, waits that end without the lock, and lost data, in all */
#define FAULTS 2
#endif
#ifndef EXTENDS
#define EXTENDS 1
#endif
#ifndef LATE_ONES       /* questions that come late, each after one of the faults */
#define LATE_ONES 1
#endif

#define NOBODY CLIENTS
#define GHOST (CLIENTS + 1)             /* a token that has ended, and holds: only if the server lost its data */
#define GONE(client) (done[client] || dead[client])
#if CLIENTS > 2
#define ALL_ARE_GONE (GONE(0) && GONE(1) && GONE(2))
#define NOTHING_IS_LATE (!late[0] && !late[1] && !late[2])
#else
#define ALL_ARE_GONE (GONE(0) && GONE(1))
#define NOTHING_IS_LATE (!late[0] && !late[1])
#endif
/* Time that may pass while nobody can act: a dead holder's lease each, a ghost's, and the last hold's. */
#define PATIENCE (LEASE * (CLIENTS * ROUNDS + FAULTS + 3))

byte ticks = TICKS, faults = FAULTS, extends = EXTENDS, late_ones = LATE_ONES;

/* ---- the server ---- */
byte holder = NOBODY;                   /* holder key */
byte holder_left;                       /* ticks until it expires */
chan queue = [CLIENTS + 1] of { byte }; /* queue key; claims are implied by it */
byte fence, highest;                    /* the last token given out; the highest ever, which only the checks use */
bit lost_data;

/* ---- the network: what PUBLISH to a client's channel does ---- */
mtype = { closed, open, half_open };     /* no receiver; a living one; one that counts but receives nothing */
mtype listener[CLIENTS] = closed;
bit message[CLIENTS], stale[CLIENTS];   /* a grant is under way; the server answered a later request since */
byte message_age[CLIENTS], message_fence[CLIENTS];
bit late[CLIENTS];                      /* a question is under way whose connection broke */
bit late_marked[CLIENTS];               /* the server has a mark of its token with a higher number than the question's */
bit late_ended[CLIENTS];                /* its token has ended */

/* ---- the clients ---- */
bit wants[CLIENTS];                     /* waits for a grant: messages for its token are kept */
bit believes[CLIENTS];                  /* between acquire and release */
byte left[CLIENTS];                     /* ticks until the lease ends by its own clock */
bit asks[CLIENTS];                      /* a request is under way */
byte age[CLIENTS];                      /* ticks since it was sent */
byte delay[CLIENTS];                    /* of them, how many until the server ran it */
byte timer[CLIENTS];                    /* ticks until the next sign of life */
byte token[CLIENTS];                    /* fencing token of its hold */
bit old[CLIENTS];                       /* its grant is from before the server lost its data */
bit dead[CLIENTS], done[CLIENTS];

/* ---- the protected resource, never faulted ---- */
byte top, value;

inline smaller_by_one(number) { if :: number > 0 -> number-- :: else fi }
inline older_by_one(number) { if :: number < LEASE -> number++ :: else fi }

inline tick() {
    k = 0;
    do
    :: k < CLIENTS ->
#ifndef NO_LOCAL_DEADLINE
        smaller_by_one(left[k]);
#endif
        smaller_by_one(timer[k]);
#ifdef STALE_GRANTS_ARE_BELIEVED
        if :: asks[k] || wants[k] -> older_by_one(age[k]) :: else fi;
#else
        if :: asks[k] -> older_by_one(age[k]) :: else fi;
#endif
        if :: message[k] -> older_by_one(message_age[k]) :: else fi;
        k++
    :: else -> break
    od;
    k = 0;
    if
    :: holder != NOBODY ->
        holder_left--;
        if :: holder_left == 0 -> holder = NOBODY :: else fi
    :: else
    fi
}

/* ---- what must hold, whenever it could have changed ---- */

inline no_overlap(me) {                 /* promise 1 */
    i = 0;
    do
    :: i < CLIENTS ->
        assert(i == me || dead[i] || !believes[i] || left[i] == 0 || left[me] == 0 || old[i] || old[me]);
        i++
    :: else -> break
    od;
    i = 0
}

/* ---- pieces of the scripts ---- */

inline next_fence() {
#ifdef FENCE_DIES_WITH_THE_DATA
    fence++;
#else
    fence = highest + 1;                /* max(last + 1, clock): the clock is ahead of every earlier token */
#endif
    assert(fence > highest);            /* promise 2 */
    highest = fence
}

inline grant(to) {
    holder = to;
    old[to] = 0;
#ifdef EXPIRES_EARLY
    holder_left = LEASE - 1
#else
    holder_left = LEASE
#endif
}

inline take_out(who) {
    if :: queue??[eval(who)] -> queue??eval(who) :: else fi
}

inline hand_off(me) {
    first = NOBODY;
    do
    :: len(queue) == 0 -> first = NOBODY; break
    :: len(queue) > 0 ->
#ifdef HAND_OFF_KEEPS_THE_PLACE
        queue?<first>;
#else
        queue?first;
#endif
        if
        :: first == me -> next_fence(); grant(first); break
#ifdef DEAD_WAITERS_ARE_GRANTED
        :: first != me ->
#else
        :: first != me && listener[first] != closed ->
#endif
            assert(!dead[first] || listener[first] == half_open);  /* promise 3: a crashed waiter blocks nobody */
            next_fence();
            grant(first);
            if
            :: listener[first] == open && wants[first] ->
                message[first] = 1; stale[first] = 0; message_age[first] = 0; message_fence[first] = fence
            :: else
            fi;
            break
#ifndef DEAD_WAITERS_ARE_GRANTED
        :: first != me && listener[first] == closed ->
#ifdef HAND_OFF_KEEPS_THE_PLACE
            queue?first
#else
            skip
#endif
#endif
        fi
    od
}

inline check_after_script() {           /* the invariants of _lock.lua */
    assert(holder == NOBODY || !(queue??[eval(holder)]));               /* 1 */
    i = 0;
    do
    :: i < CLIENTS ->
        assert(holder != NOBODY || listener[i] == closed || !(queue??[eval(i)])); /* 3 */
        i++
    :: else -> break
    od;
    i = 0
}

inline mark_late(me) {                  /* this question or end has a higher number than all that were broken off */
    if :: late[me] && !late_ended[me] -> late_marked[me] = 1 :: else fi
}

/* ---- the scripts ---- */

inline acquire_script(me) {             /* granted = whether the reply says so */
    granted = 0;
    mark_late(me);
    listener[me] = open;
    delay[me] = age[me];
    if :: message[me] -> stale[me] = 1 :: else fi;
    if
#ifndef NOT_IDEMPOTENT
    :: holder == me ->
        holder_left = LEASE; granted = 1
#endif
#ifdef NEWCOMERS_OVERTAKE
    :: holder == NOBODY ->
#else
    :: holder == NOBODY && len(queue) == 0 ->
#endif
        assert(len(queue) == 0 || queue?[eval(me)]);                    /* promise 4: no barging */
        next_fence(); grant(me); granted = 1
    :: else ->
        if :: queue??[eval(me)] -> skip :: else -> queue!me fi;
        if
        :: holder == NOBODY ->
            hand_off(me);
            granted = (holder == me)
        :: else
        fi
    fi;
    first = NOBODY;
    if :: granted -> token[me] = fence :: else fi;
    check_after_script()
}

/* A question that was broken off, and whose reply nobody reads. */
inline late_acquire_script(who) {
    if
#ifndef LATE_QUESTIONS_COUNT
    :: late_marked[who] -> skip
#endif
    :: else ->
        assert(!late_ended[who] || lost_data);          /* promise 7: no token holds again that has ended */
        if
        :: late_ended[who] ->                           /* in the queue it is dropped, as nobody listens */
            if
            :: holder == NOBODY && len(queue) == 0 -> next_fence(); holder = GHOST; holder_left = LEASE
            :: holder == NOBODY && len(queue) > 0 -> hand_off(NOBODY)
            :: else
            fi
        :: else ->
            if
            :: holder == who -> holder_left = LEASE
            :: holder == NOBODY && len(queue) == 0 -> next_fence(); grant(who)
            :: else ->
                if :: queue??[eval(who)] -> skip :: else -> queue!who fi;
                if :: holder == NOBODY -> hand_off(who) :: else fi
            fi
        fi;
        first = NOBODY;
        check_after_script()
    fi;
    late[who] = 0; late_marked[who] = 0; late_ended[who] = 0
}

inline extend_script(me) {
    granted = 0;
    if
#ifdef EXTENDS_ANYBODYS_HOLD
    :: holder != NOBODY ->
#else
    :: holder == me ->
#endif
        holder_left = LEASE; granted = 1
    :: else
    fi;
    assert(!granted || holder == me)                                    /* promise 6: only the caller's own hold */
}

inline free_and_hand_on() {
    holder = NOBODY; holder_left = 0;
#ifndef RELEASE_TELLS_NOBODY
    hand_off(NOBODY);
#endif
    first = NOBODY
}

inline release_script(me) {
    if
#ifdef RELEASES_ANYBODYS_HOLD
    :: holder != NOBODY -> free_and_hand_on()
#else
    :: holder == me -> free_and_hand_on()
#endif
    :: else ->
        if :: holder == NOBODY -> free_and_hand_on() :: else fi
    fi;
    check_after_script()
}

inline give_up_script(me) {
#ifndef QUITTER_LEAVES_NO_MARK
    mark_late(me);
#endif
#ifndef QUITTER_STAYS_IN_THE_QUEUE
    take_out(me);
#endif
    if
#ifdef QUITTER_KEEPS_THE_GRANT
    :: false
#else
    :: holder == me || holder == NOBODY -> free_and_hand_on()
#endif
    :: else
    fi;
    check_after_script();
    assert(holder != me && !(queue??[eval(me)]))                        /* promise 5: nothing left behind */
}

/* ---- a client ---- */

/* The connection is gone: what was under way is lost, and PUBLISH finds nobody, or counts one that is not there. */
inline break_link(me) {
    faults--;
    message[me] = 0; stale[me] = 0; message_age[me] = 0; message_fence[me] = 0; granted = 0;
    if :: listener[me] = closed :: listener[me] = half_open fi
}

/* A question is broken off: the server never gets it, has got it, or gets it later. */
inline break_off(me) {
    break_link(me);
    if
    :: true
    :: late_ones > 0 && !late[me] -> late_ones--; late[me] = 1
    fi
}

inline forget_message(me) {
    message[me] = 0; stale[me] = 0; message_age[me] = 0; message_fence[me] = 0
}

inline send(me) { asks[me] = 1; age[me] = 0; delay[me] = 0 }

inline enter(me, ticks_left) {
    left[me] = ticks_left;
    believes[me] = 1;
    wants[me] = 0; asks[me] = 0; age[me] = 0; delay[me] = 0; timer[me] = 0; granted = 0;
    forget_message(me);
    no_overlap(me)
}

proctype client(byte me) {
    byte round, i, seen;
    byte first = NOBODY;
    bit granted, fenced_off;
    {
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        d_step { round++; wants[me] = 1; send(me) }

ask:    if
        :: d_step { acquire_script(me) }                                /* SCRIPT acquire */
        :: atomic { faults > 0 -> break_off(me); send(me); goto ask }   /* the request is lost, or late */
        :: atomic { faults > 0 && late_ones > 0 -> break_off(me); asks[me] = 0; age[me] = 0; delay[me] = 0; goto give_up }
        fi;
        if
        :: atomic { granted ->
#ifdef LEASE_COUNTS_FROM_THE_REPLY
            d_step { enter(me, LEASE) };
#else
            d_step { enter(me, LEASE - age[me]) };
#endif
            goto inside }
        :: d_step { !granted -> asks[me] = 0; timer[me] = LEASE }
        :: atomic { faults > 0 -> break_link(me); send(me); goto ask }  /* the reply is lost */
        fi;

        /* Waiting: for the grant, for the next sign of life, for the end of the wait. */
        if
        :: atomic { message[me] ->
            token[me] = message_fence[me];
            if
#ifdef STALE_GRANTS_ARE_BELIEVED
            :: stale[me] && age[me] < LEASE -> d_step { enter(me, LEASE - age[me]) }; goto inside
#endif
#ifdef LEASE_COUNTS_FROM_THE_MESSAGE
            :: !stale[me] -> d_step { enter(me, LEASE) }; goto inside
#else
            :: !stale[me] && delay[me] + message_age[me] < LEASE ->
                d_step { enter(me, LEASE - delay[me] - message_age[me]) }; goto inside
#endif
            :: else ->                                                  /* over before it was heard, or too old */
                d_step { forget_message(me); token[me] = 0; send(me) }; goto ask
            fi }
#ifndef WAITERS_NEVER_ASK_AGAIN
        :: atomic { timer[me] == 0 -> send(me); goto ask }
#endif
        :: atomic { faults > 0 ->                                       /* the wait is over, or cancelled */
            faults--; timer[me] = 0; delay[me] = 0; age[me] = 0; goto give_up }
        :: atomic { faults > 0 -> break_link(me); send(me); goto ask }  /* the grant is lost */
        fi;

give_up:
        if
        :: d_step { give_up_script(me); wants[me] = 0; forget_message(me) }  /* SCRIPT give_up */
        :: atomic { faults > 0 -> break_link(me); goto give_up }          /* the request is lost */
        fi;
        if
        :: goto next
        :: atomic { faults > 0 -> break_link(me); goto give_up }          /* the reply is lost */
        fi;

inside: /* The first touch of the resource is a read, and it checks the token. */
        atomic {
#ifndef RESOURCE_CHECKS_NOTHING
#ifndef RESOURCE_CHECKS_WRITES_ONLY
            if :: token[me] < top -> fenced_off = 1 :: else -> top = token[me] fi;
#endif
#endif
            seen = value
        }
        if
        :: atomic { extends > 0 && left[me] > 0 -> extends--; send(me) }
            if
            :: d_step { extend_script(me) }                             /* SCRIPT extend */
                d_step {
                    if
                    :: granted && left[me] > 0 ->
                        if :: left[me] < LEASE - age[me] -> left[me] = LEASE - age[me] :: else fi;
                        no_overlap(me)
                    :: granted && left[me] == 0                         /* the answer came too late */
                    :: !granted -> left[me] = 0                         /* told that it is lost */
                    fi;
                    granted = 0; asks[me] = 0; age[me] = 0
                }
            :: atomic { faults > 0 -> break_link(me); asks[me] = 0; age[me] = 0 }
            fi
        :: skip
        fi;
        d_step {
#ifndef RESOURCE_CHECKS_NOTHING
            if :: token[me] < top -> fenced_off = 1 :: else -> top = token[me] fi;
#endif
            if
            :: !fenced_off ->
                assert(value == seen);                                  /* promise 2: no lost update */
                value = seen + 1
            :: else
            fi;
            seen = 0; fenced_off = 0; token[me] = 0
        }
        d_step { believes[me] = 0; left[me] = 0; old[me] = 0 }

free:   if
        :: d_step { release_script(me) }                                /* SCRIPT release */
        :: atomic { faults > 0 -> break_link(me); goto free }           /* the request is lost */
        fi;
        if
        :: skip
        :: atomic { faults > 0 -> break_link(me); goto free }           /* the reply is lost */
        fi;
next:   late_ended[me] = late[me]
    od;
    done[me] = 1
    } unless { dead[me] }
}

/* ---- faults and time ---- */

proctype world() {
    byte k, idle, i;
    byte first = NOBODY;
    do
    :: d_step { ticks > 0 -> ticks--; tick() }
    :: d_step { late[0] -> late_acquire_script(0) }                     /* SCRIPT acquire, late */
    :: d_step { late[1] -> late_acquire_script(1) }
#if CLIENTS > 2
    :: d_step { late[2] -> late_acquire_script(2) }
#endif
    :: atomic { faults > 0 ->           /* a process crashes */
        faults--;
        if
        :: k = 0
        :: k = 1
#if CLIENTS > 2
        :: k = 2
#endif
        fi;
        if :: listener[k] = closed :: listener[k] = half_open fi;
        if
        :: !done[k] ->
            d_step {
                dead[k] = 1; forget_message(k);
                late[k] = 0; late_marked[k] = 0; late_ended[k] = 0;
                believes[k] = 0; left[k] = 0; wants[k] = 0; asks[k] = 0; age[k] = 0; delay[k] = 0; timer[k] = 0;
                token[k] = 0; old[k] = 0
            }
        :: else
        fi;
        k = 0 }
    :: d_step { faults > 0 ->           /* FLUSHALL, or a restart without data */
        faults--;
        holder = NOBODY; holder_left = 0;
#ifdef FENCE_DIES_WITH_THE_DATA
        fence = 0;
#endif
        do :: len(queue) > 0 -> queue?k :: else -> break od;
        lost_data = (LATE_ONES > 0);
        k = 0;
        do :: k < CLIENTS -> old[k] = 1; late_marked[k] = 0; k++ :: else -> break od;
        k = 0 }
    :: faults > 0 -> faults = 0         /* nothing more goes wrong */
    :: atomic { timeout ->              /* nobody can act: time passes */
        assert(idle < PATIENCE);                                        /* promise 4: bounded waiting */
        idle++;
        d_step { tick() } }
    :: atomic { ALL_ARE_GONE && holder == NOBODY && NOTHING_IS_LATE -> break }
    od;
    /* Nothing is left behind; the places of the dead expire by themselves. */
    atomic {
        k = 0;
        do
        :: k < CLIENTS -> assert(dead[k] || !(queue??[eval(k)])); k++
        :: else -> break
        od
    }
}

init {
    atomic {
        run client(0); run client(1);
#if CLIENTS > 2
        run client(2);
#endif
        run world()
    }
}

/* MPICH's ABI: handles are integers, but for files, and a status has 20 bytes. Facts are from mpi.h of MPICH
 * 5.0.2. */
#ifndef WEFT_FACE_ABI_H
#define WEFT_FACE_ABI_H

typedef int F_Comm;
typedef int F_Datatype;
typedef int F_Errhandler;
typedef int F_Group;
typedef int F_Info;
typedef int F_Message;
typedef int F_Op;
typedef int F_Request;
typedef int F_Session;
typedef int F_Win;
typedef struct ADIOI_FileD *F_File;

typedef struct {
    int count_lo;
    int count_hi_and_cancelled; /* the lowest bit: the operation was cancelled */
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
} F_Status;

/* Handles of the library have 8 bits of the kind, 24 of the index and 32 of a generation. The integer has the
 * index, 6 bits of the generation, and two bits that no predefined handle of MPICH has both. The rest of the
 * generation is kept here by index: in pieces, which are made when an index first occurs. */
enum kind { COMM = 1, GROUP, REQUEST, DATATYPE, OP, ERRHANDLER, INFO, MESSAGE, SESSION, WIN, KINDS };
#define MADE 0xc0000000u
#define INDEX_BITS 24
#define PIECE_BITS 12
#define LOW_BITS 63u
INTERNAL extern uint32_t *generations[KINDS][1 << (INDEX_BITS - PIECE_BITS)];
INTERNAL COLD int made_first_f(uintptr_t handle, enum kind kind);

/* The first handle with an index of a piece is converted elsewhere as a whole: a call in between would save
 * registers at the start of every function. */
static inline int made_f(uintptr_t handle, enum kind kind) {
    uint32_t index = (uint32_t)handle >> 8, generation = (uint32_t)(handle >> 32);
    uint32_t *piece = generations[kind][index >> PIECE_BITS];
    if (!LIKELY(piece != NULL)) {
        return made_first_f(handle, kind);
    }
    piece[index & ((1 << PIECE_BITS) - 1)] = generation;
    return (int)(MADE | (generation & LOW_BITS) << INDEX_BITS | index);
}

/* A stale handle has other low bits than its entry, and becomes a handle that the library refuses. */
static inline void *made_c(int handle, enum kind kind) {
    uint32_t bits = (uint32_t)handle, index = bits & ((1u << INDEX_BITS) - 1);
    uint32_t *piece = generations[kind][index >> PIECE_BITS];
    if (bits < MADE || !piece) {
        return NULL;
    }
    uint32_t generation = (piece[index & ((1 << PIECE_BITS) - 1)] & ~LOW_BITS) | (bits >> INDEX_BITS & LOW_BITS);
    return (void *)((uintptr_t)generation << 32 | (uintptr_t)index << 8 | kind);
}

/* Every message has a communicator, and many have a request, so no table has these. The library is told to
 * give them generations of 7 bits (weft_short_handles). The integer has those, the index, and the sign, which
 * no predefined handle of these kinds has in MPICH. What costs most is room for a request or a status as the
 * library has it, so the library gives and takes this ABI's where that matters. */
#define HAS_SHORT_CALLS
#define SHORT_MADE 0x80000000u
#define SHORT_CALLS(X)                                                                                        \
    X(MPI_Isend, weft_short_isend, (const void *, int, MPI_Datatype, int, int, MPI_Comm, F_Request *))        \
    X(MPI_Irecv, weft_short_irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, F_Request *))              \
    X(MPI_Wait, weft_short_wait, (F_Request *))                                                               \
    X(MPI_Recv, weft_short_recv, (void *, int, MPI_Datatype, int, int, MPI_Comm, F_Status *))                 \
    X(MPI_Sendrecv, weft_short_sendrecv,                                                                      \
      (const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm, F_Status *))
struct short_calls {
#define MEMBER(name, symbol, parameters) int(*name) parameters;
    SHORT_CALLS(MEMBER)
#undef MEMBER
};
INTERNAL extern struct short_calls short_calls;

static inline bool is_short(int handle) { return handle < 0; }
static inline int short_f(uintptr_t handle) { return (int)(SHORT_MADE | (uint32_t)(handle >> 8)); }
static inline void *short_c(int handle, enum kind kind) {
    return (void *)((uintptr_t)(uint32_t)handle << 8 ^ ((uintptr_t)SHORT_MADE << 8 | kind));
}
static inline int request_made_f(MPI_Request request) { return short_f((uintptr_t)request); }

/* The predefined handles of all kinds, by their number in the standard's ABI. */
#define PREDEFINED 1024
INTERNAL extern const int predefined[PREDEFINED];

#define HANDLE(word, type, kind, usual)                                                                       \
    INTERNAL type word##_unusual_c(F_##usual handle);                                                         \
    static inline int word##_f(type handle) {                                                                 \
        return (uintptr_t)handle < PREDEFINED ? predefined[(uintptr_t)handle] : made_f((uintptr_t)handle, kind); \
    }
INTERNAL MPI_Comm comm_unusual_c(F_Comm handle);
static inline int comm_f(MPI_Comm handle) {
    return (uintptr_t)handle < PREDEFINED ? predefined[(uintptr_t)handle] : short_f((uintptr_t)handle);
}
HANDLE(datatype, MPI_Datatype, DATATYPE, Datatype)
HANDLE(errhandler, MPI_Errhandler, ERRHANDLER, Errhandler)
HANDLE(group, MPI_Group, GROUP, Group)
HANDLE(info, MPI_Info, INFO, Info)
HANDLE(message, MPI_Message, MESSAGE, Message)
HANDLE(op, MPI_Op, OP, Op)
HANDLE(session, MPI_Session, SESSION, Session)
HANDLE(win, MPI_Win, WIN, Win)

#define ALWAYS_UNUSUAL(word, type, f_type)                                                                    \
    static inline type word##_c(f_type handle) { return word##_unusual_c(handle); }
ALWAYS_UNUSUAL(errhandler, MPI_Errhandler, F_Errhandler)
ALWAYS_UNUSUAL(group, MPI_Group, F_Group)
ALWAYS_UNUSUAL(info, MPI_Info, F_Info)
ALWAYS_UNUSUAL(message, MPI_Message, F_Message)
ALWAYS_UNUSUAL(session, MPI_Session, F_Session)

/* Handles that are usual in calls which move data: MPI_COMM_WORLD, predefined operations, requests and
 * windows that the library made, and predefined datatypes. The lowest byte of most of those is a number
 * of their own. */
static inline bool is_made(int handle) { return (unsigned)handle >= MADE; }

static inline bool comm_is_usual(F_Comm handle) { return handle == F_MPI_COMM_WORLD; }
static inline MPI_Comm comm_usual_c(F_Comm handle) {
    (void)handle;
    return MPI_COMM_WORLD;
}
/* A communicator that the library made, or MPI_COMM_WORLD. */
static inline bool comm_is_known(F_Comm handle) { return is_short(handle) || comm_is_usual(handle); }
static inline MPI_Comm comm_known_c(F_Comm handle) {
    return LIKELY(is_short(handle)) ? (MPI_Comm)short_c(handle, COMM) : MPI_COMM_WORLD;
}
static inline MPI_Comm comm_c(F_Comm handle) {
    return LIKELY(comm_is_known(handle)) ? comm_known_c(handle) : comm_unusual_c(handle);
}

struct numbered {
    int f;
    uint32_t c;
};
INTERNAL extern const struct numbered datatypes[256], operations[16];

/* Not in the standard's ABI. */
#define F_MPI_LB 0x4c000010
#define F_MPI_UB 0x4c000011
static inline bool datatype_is_usual(F_Datatype handle) {
    return datatypes[handle & 0xff].f == handle;
}
static inline MPI_Datatype datatype_usual_c(F_Datatype handle) {
    return (MPI_Datatype)(uintptr_t)datatypes[handle & 0xff].c;
}
static inline bool op_is_usual(F_Op handle) { return operations[handle & 0xf].f == handle; }
static inline MPI_Op op_usual_c(F_Op handle) {
    return (MPI_Op)(uintptr_t)operations[handle & 0xf].c;
}
/* What is no request becomes a handle that the library refuses. */
static inline bool request_is_usual(F_Request handle) { return is_short(handle); }
static inline MPI_Request request_usual_c(F_Request handle) { return short_c(handle, REQUEST); }
static inline MPI_Request request_c(F_Request handle) {
    return LIKELY(request_is_usual(handle)) ? request_usual_c(handle) : handle == F_MPI_REQUEST_NULL ? MPI_REQUEST_NULL : NULL;
}
static inline bool win_is_usual(F_Win handle) { return is_made(handle); }
static inline MPI_Win win_usual_c(F_Win handle) { return made_c(handle, WIN); }

/* Others that the library made are usual, too, where arguments are saved anyway. */
#define USUAL_OR_NOT(word, type, f_type, kind)                                                                \
    static inline type word##_c(f_type handle) {                                                              \
        return LIKELY(word##_is_usual(handle)) ? word##_usual_c(handle)                                       \
               : is_made(handle)               ? (type)made_c(handle, kind)                                   \
                                               : word##_unusual_c(handle);                                    \
    }
USUAL_OR_NOT(datatype, MPI_Datatype, F_Datatype, DATATYPE)
USUAL_OR_NOT(op, MPI_Op, F_Op, OP)
USUAL_OR_NOT(win, MPI_Win, F_Win, WIN)

static inline MPI_File file_c(F_File handle) { return handle ? (MPI_File)handle : MPI_FILE_NULL; }
static inline F_File file_f(MPI_File handle) { return handle == MPI_FILE_NULL ? NULL : (F_File)handle; }

/* A handle that the library gives has another size, so it needs room. */
#define HANDLE_ROOM(type, at) type c_##at = NULL
#define HANDLE_AT(type, at) ((at) ? &c_##at : NULL)
#define HANDLE_START(word, at)                                                                                \
    if (at) {                                                                                                 \
        c_##at = word##_c(*(at));                                                                             \
    }
/* What the library does not set, it leaves as it was. */
#define HANDLE_DONE(word, at)                                                                                 \
    if ((at) && c_##at) {                                                                                     \
        *(at) = word##_f(c_##at);                                                                             \
    }

/* A request that the library gives was made by it. One that it gets becomes null, or stays. */
#define REQUEST_DONE(at)                                                                                      \
    if (at) {                                                                                                 \
        *(at) = request_made_f(c_##at);                                                                       \
    }
#define REQUEST_ROOM(at) MPI_Request c_##at
#define REQUEST_START(at) MPI_Request c_##at = request_usual_c(*(at))
#define REQUEST_CHANGED(at)                                                                                   \
    if ((at) && LIKELY(c_##at == MPI_REQUEST_NULL)) {                                                               \
        *(at) = F_MPI_REQUEST_NULL;                                                                           \
    }
static inline bool request_is_made(F_Request handle) { return request_is_usual(handle); }

/* Arrays of requests that the library changes. */
INTERNAL void requests_unusual_c(const F_Request *array, int count, MPI_Request *c);
static inline MPI_Request *requests_open(struct room *room, int count, const F_Request *array) {
    count = array && count > 0 ? count : 0;
    MPI_Request *c = room_open(room, count, sizeof *c), *to = c;
    if (!c) {
        return NULL;
    }
    const F_Request *from = array;
#define USUAL_REQUEST_C(i)                                                                                    \
    if (!LIKELY(request_is_usual(from[i]))) {                                                                 \
        goto unusual;                                                                                         \
    }                                                                                                         \
    to[i] = request_usual_c(from[i]);
    FOR_EACH(count, from, to, USUAL_REQUEST_C);
    return c;
unusual:
    requests_unusual_c(array, count, c);
    return c;
}
static inline void requests_close(struct room *room, int count, F_Request *array, const MPI_Request *c) {
#define REQUEST_OF_ARRAY_CHANGED(i)                                                                           \
    if (LIKELY(c[i] == MPI_REQUEST_NULL)) {                                                                   \
        array[i] = F_MPI_REQUEST_NULL;                                                                        \
    }
    if (array && count > 0) {
        FOR_EACH(count, array, c, REQUEST_OF_ARRAY_CHANGED);
    }
    room_close(room);
}

/* A buffer with a negative sign may be MPI_IN_PLACE. */
#define BUFFER_SIGN(buffer) ((intptr_t)(buffer))

/* All but the error. */
static inline void status_f(const MPI_Status *from, F_Status *to) {
    to->count_lo = from->MPI_internal[0];
    to->count_hi_and_cancelled = (int)((uint32_t)from->MPI_internal[1] << 1 | (from->MPI_internal[2] != 0));
    to->MPI_SOURCE = rank_f(from->MPI_SOURCE);
    to->MPI_TAG = tag_f(from->MPI_TAG);
}
/* The status as the library has it in `room`, or null if it is none. */
static inline MPI_Status *status_c(const F_Status *from, MPI_Status *room) {
    if ((uintptr_t)from <= 1) {
        return NULL;
    }
    *room = (MPI_Status){
        .MPI_SOURCE = rank_c(from->MPI_SOURCE),
        .MPI_TAG = tag_c(from->MPI_TAG),
        .MPI_ERROR = error_c(from->MPI_ERROR),
        .MPI_internal = {from->count_lo, (int)((uint32_t)from->count_hi_and_cancelled >> 1),
                         from->count_hi_and_cancelled & 1},
    };
    return room;
}

/* Handles in Fortran are the same integers. */
#define INTEGERS(word)                                                                                        \
    static inline int word##_integer(int handle) { return handle; }                                           \
    static inline int word##_from_integer(int handle) { return handle; }
INTEGERS(comm)
INTEGERS(datatype)
INTEGERS(errhandler)
INTEGERS(group)
INTEGERS(info)
INTEGERS(message)
INTEGERS(op)
INTEGERS(request)
INTEGERS(session)
INTEGERS(win)
static inline int file_integer(F_File handle) {
    return handle ? library.MPI_File_toint(file_c(handle)) : 0;
}
static inline F_File file_from_integer(int integer) { return integer ? file_f(library.MPI_File_fromint(integer)) : NULL; }

#endif

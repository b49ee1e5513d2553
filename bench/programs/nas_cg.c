/* NAS kernel CG: the smallest eigenvalue of a large sparse matrix by inverse iteration with conjugate
 * gradients. Written from report RNR-94-007, section 2.3.4, with the classes and the values of zeta that NASA
 * publishes for them.
 *
 * The matrix is the sum of w_i x_i x_i' over random sparse vectors x_i, plus (rcond - shift) on the diagonal.
 * Every rank makes all vectors and keeps its block of rows. The vector that is multiplied is gathered on all
 * ranks (Allgatherv) before each product, and dot products are Allreduces. */
#include "nas.h"
#include <math.h>

enum { OUTER = 15, INNER = 25, NONZEROS_MAX = 16 };

typedef struct class {
    const char *name;
    int order, nonzeros;        /* rows; non-zeros of a random vector besides its own position */
    double shift, zeta;         /* zeta as published */
} class;

static const class classes[] = {
    {"S", 1400, 7, 10, 8.5971775078648},
    {"W", 7000, 8, 12, 10.362595087124},
    {"A", 14000, 11, 20, 17.130235054029},
};
static const double condition = 0.1, tolerance = 1e-10;

/* A sparse vector of the sum. */
typedef struct sparse {
    int count, at[NONZEROS_MAX];
    double value[NONZEROS_MAX];
} sparse;

/* One rank's rows, each a run of (column, value), and its parts of the vectors of the iteration. */
typedef struct problem {
    const class *class;
    int first, rows;            /* own rows */
    int *counts, *displacements;
    int *start, *column;        /* row i: start[i] .. start[i+1] */
    double *value;
    double *x, *z, *r, *p, *q;  /* own parts */
    double *whole;              /* the gathered vector */
    double residual;
} problem;

static void *memory(size_t bytes)
{
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p) {
        fprintf(stderr, "nas_cg: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    return p;
}

/* ---- The matrix ---- */

static int find(const sparse *v, int at)
{
    for (int i = 0; i < v->count; i++)
        if (v->at[i] == at)
            return i;
    return v->count;
}

/* A random vector: pairs of numbers, a value and a position; positions outside or already taken are passed
 * over. Its own position then gets 1/2. `range` is the least power of two that is not below the order. */
static void make_vector(sparse *v, const class *c, int own, int range, nas_word *x)
{
    int place;
    v->count = 0;
    while (v->count < c->nonzeros) {
        double value = nas_next(x);
        int at = (int)(range * nas_next(x));
        if (at >= c->order || find(v, at) < v->count)
            continue;
        v->at[v->count] = at;
        v->value[v->count++] = value;
    }
    place = find(v, own);
    v->at[place] = own;
    v->value[place] = 0.5;
    if (place == v->count)
        v->count++;
}

static sparse *make_vectors(const class *c)
{
    sparse *all = memory((size_t)c->order * sizeof *all);
    nas_word x = NAS_SEED;
    int range = 1;
    while (range < c->order)
        range *= 2;
    nas_next(&x);               /* the report's sequence starts with the second number */
    for (int i = 0; i < c->order; i++)
        make_vector(&all[i], c, i, range, &x);
    return all;
}

/* For each own row the vectors that touch it, in order: of[start[row]] .. of[start[row + 1]]. */
static int *vectors_by_row(const problem *m, const sparse *vectors, int *start)
{
    int *of, *next = memory((size_t)(m->rows + 1) * sizeof *next);
    for (int i = 0; i < m->class->order; i++)
        for (int k = 0; k < vectors[i].count; k++)
            if (vectors[i].at[k] >= m->first && vectors[i].at[k] < m->first + m->rows)
                start[vectors[i].at[k] - m->first + 1]++;
    for (int row = 0; row < m->rows; row++)
        start[row + 1] += start[row];
    memcpy(next, start, (size_t)(m->rows + 1) * sizeof *next);
    of = memory((size_t)start[m->rows] * sizeof *of);
    for (int i = 0; i < m->class->order; i++)
        for (int k = 0; k < vectors[i].count; k++)
            if (vectors[i].at[k] >= m->first && vectors[i].at[k] < m->first + m->rows)
                of[next[vectors[i].at[k] - m->first]++] = i;
    free(next);
    return of;
}

/* Adds the outer products of one row; equal columns are summed. Returns where the row ends. */
static int fill_row(problem *m, const sparse *vectors, const double *weights, const int *of, int of_count, int row, int *where, int end)
{
    int begin = end, global = m->first + row;
    for (int o = 0; o < of_count; o++) {
        const sparse *v = &vectors[of[o]];
        double scale = weights[of[o]] * v->value[find(v, global)];
        for (int k = 0; k < v->count; k++) {
            int column = v->at[k];
            if (where[column] < begin) {
                where[column] = end;
                m->column[end] = column;
                m->value[end++] = 0;
            }
            m->value[where[column]] += scale * v->value[k];
        }
    }
    /* Every row has its diagonal: its own vector has 1/2 there. */
    m->value[where[global]] += condition - m->class->shift;
    return end;
}

static void make_matrix(problem *m)
{
    const class *c = m->class;
    sparse *vectors = make_vectors(c);
    double *weights = memory((size_t)c->order * sizeof *weights), ratio = pow(condition, 1.0 / c->order), weight = 1;
    int *of_start = memory((size_t)(m->rows + 1) * sizeof *of_start), *where = memory((size_t)c->order * sizeof *where);
    int *of = vectors_by_row(m, vectors, of_start);
    size_t room = (size_t)of_start[m->rows] * (size_t)(c->nonzeros + 1);
    m->start = memory((size_t)(m->rows + 1) * sizeof *m->start);
    m->column = memory(room * sizeof *m->column);
    m->value = memory(room * sizeof *m->value);
    for (int i = 0; i < c->order; i++, weight *= ratio)
        weights[i] = weight;
    for (int i = 0; i < c->order; i++)
        where[i] = -1;
    for (int row = 0; row < m->rows; row++)
        m->start[row + 1] = fill_row(m, vectors, weights, of + of_start[row], of_start[row + 1] - of_start[row], row, where, m->start[row]);
    free(vectors);
    free(weights);
    free(of_start);
    free(where);
    free(of);
}

static void create(problem *m, const bench *b, const class *c)
{
    double **parts[] = {&m->x, &m->z, &m->r, &m->p, &m->q};
    memset(m, 0, sizeof *m);
    m->class = c;
    m->counts = memory((size_t)b->ranks * sizeof *m->counts);
    m->displacements = memory((size_t)b->ranks * sizeof *m->displacements);
    for (int r = 0; r < b->ranks; r++) {
        m->displacements[r] = (int)((long)c->order * r / b->ranks);
        m->counts[r] = (int)((long)c->order * (r + 1) / b->ranks) - m->displacements[r];
    }
    m->first = m->displacements[b->rank];
    m->rows = m->counts[b->rank];
    for (int i = 0; i < 5; i++)
        *parts[i] = memory((size_t)m->rows * sizeof(double));
    m->whole = memory((size_t)c->order * sizeof *m->whole);
    make_matrix(m);
}

static void destroy(problem *m)
{
    double *parts[] = {m->x, m->z, m->r, m->p, m->q, m->whole, m->value};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
    free(m->counts);
    free(m->displacements);
    free(m->start);
    free(m->column);
}

/* ---- The iteration ---- */

static double dot(const problem *m, const double *a, const double *b)
{
    double mine = 0, all;
    for (int i = 0; i < m->rows; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* out = A in, own rows. */
static void multiply(problem *m, const double *in, double *out)
{
    MPI_Allgatherv(in, m->rows, MPI_DOUBLE, m->whole, m->counts, m->displacements, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int row = 0; row < m->rows; row++) {
        double sum = 0;
        for (int k = m->start[row]; k < m->start[row + 1]; k++)
            sum += m->value[k] * m->whole[m->column[k]];
        out[row] = sum;
    }
}

/* 25 steps of conjugate gradients towards A z = x. */
static void solve(problem *m)
{
    double rho;
    for (int i = 0; i < m->rows; i++) {
        m->z[i] = 0;
        m->r[i] = m->p[i] = m->x[i];
    }
    rho = dot(m, m->r, m->r);
    for (int step = 0; step < INNER; step++) {
        double alpha, rho_before = rho, beta;
        multiply(m, m->p, m->q);
        alpha = rho / dot(m, m->p, m->q);
        for (int i = 0; i < m->rows; i++) {
            m->z[i] += alpha * m->p[i];
            m->r[i] -= alpha * m->q[i];
        }
        rho = dot(m, m->r, m->r);
        beta = rho / rho_before;
        for (int i = 0; i < m->rows; i++)
            m->p[i] = m->r[i] + beta * m->p[i];
    }
    multiply(m, m->z, m->q);
    for (int i = 0; i < m->rows; i++)
        m->q[i] = m->x[i] - m->q[i];
    m->residual = sqrt(dot(m, m->q, m->q));
}

static double inverse_iteration(problem *m, int steps)
{
    double zeta = 0;
    for (int i = 0; i < m->rows; i++)
        m->x[i] = 1;
    for (int step = 0; step < steps; step++) {
        double scale;
        solve(m);
        zeta = m->class->shift + 1 / dot(m, m->x, m->z);
        scale = 1 / sqrt(dot(m, m->z, m->z));
        for (int i = 0; i < m->rows; i++)
            m->x[i] = m->z[i] * scale;
    }
    return zeta;
}

/* The operations that NASA counts for a run. */
static double operations(const class *c)
{
    double row = c->nonzeros * (c->nonzeros + 1.0);
    return 2.0 * OUTER * c->order * (3 + row + INNER * (5 + row) + 3);
}

static int measure(bench *b, problem *m, int sample)
{
    char why[BENCH_WHY_MAX] = "";
    double began, seconds, zeta, error;
    int valid;
    inverse_iteration(m, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_lines_before(b);
    began = bench_now();
    zeta = inverse_iteration(m, OUTER);
    seconds = bench_max(bench_now() - began);
    bench_lines_after(b);
    error = fabs(zeta - m->class->zeta) / m->class->zeta;
    if (!(error <= tolerance))
        snprintf(why, sizeof why, "rank %d: zeta is %.13f, published is %.13f", b->rank, zeta, m->class->zeta);
    valid = bench_agree(b, error <= tolerance, why);
    nas_print(b, m->class->name, m->class->order, OUTER, sample, seconds, operations(m->class), valid, why);
    return !valid;
}

int main(int argc, char **argv)
{
    problem m;
    int status = 0;
    bench b;
    const class *c = nas_start(&b, "nas_cg", &argc, &argv, classes, sizeof classes / sizeof *classes, sizeof *classes);
    if (!c)
        return bench_end(&b, 2);
    if (!nas_power_of_two(b.ranks)) {
        bench_failed(&b, 0, "Mop/s", "CG wants a power of two of ranks");
        return bench_end(&b, 1);
    }
    create(&m, &b, c);
    for (int sample = 0; sample < b.samples; sample++)
        status |= measure(&b, &m, sample);
    destroy(&m);
    return bench_end(&b, status);
}

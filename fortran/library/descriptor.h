#ifndef WEFT_DESCRIPTOR_H
#define WEFT_DESCRIPTOR_H

/* Sections of arrays: what TYPE(*), DIMENSION(..) passes to a procedure with BIND(C) (Fortran 2018 §18.5.3).
 * gfortran and flang agree on the members that are named here; they disagree on the order of type and
 * attribute, which are not used. */
struct dimension {
    ptrdiff_t lower_bound, extent, stride;
};
struct descriptor {
    void *base;
    size_t element;
    int version;
    unsigned char rank;
    unsigned char others[3];
    struct dimension dimensions[];
};
static inline ptrdiff_t section_extent(const struct descriptor *section, int i) { return section->dimensions[i].extent; }
static inline ptrdiff_t section_stride(const struct descriptor *section, int i) { return section->dimensions[i].stride; }

#endif

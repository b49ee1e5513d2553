//! Which algorithm to use when: policy, apart from the algorithms.

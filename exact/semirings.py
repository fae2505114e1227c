"""The algebras in which the one bottom-up recursion runs.

==========  =================  =======  ====  ======  ==============================================
code        plus               times    zero  one     inside value of the root
==========  =================  =======  ====  ======  ==============================================
``LOG``     log(e^a + e^b)     a + b    -inf  0       log evidence
``MAX``     max(a, b)          a + b    -inf  0       log joint of the best tree
==========  =================  =======  ====  ======  ==============================================

Functions that multiply over the leaves, or over the questions, of a tree (``z^leaves``, "feature k is not used") are
expectations under the LOG posterior and run in the ring of complex numbers (`recursion.expect`): their values at the
roots of unity give the law of the number of leaves, and one real column a feature gives its inclusion.
"""

LOG, MAX = range(2)

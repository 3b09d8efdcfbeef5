"""Messages of the C functions with the names that attend() has for its arguments.

    in_python("kv_heads is 0; it must be 1 to 9")     # "the number of heads of k is 0; ..."

Loaded when a call fails.
"""

import re

#: Patterns of C's messages and what is written for them, in this order.
_WORDS = (
    (r"^context args: ", ""),
    (r" at 0x[0-9a-f]+(?= overlaps|;|$)", ""),
    (r"^heads is (\d+); (.*) kv_heads, ", r"q: the number of heads is \1; \2 that of k, "),
    (r"^heads\b", "the number of heads of q"),
    (r"\bkv_heads\b", "the number of heads of k"),
    (r"^batch\b", "the batch of q"),
    (r"\bcache_batch\b", "the batch of k"),
    (r"\bq_len\b", "the length of q (max_seqlen_q)"),
    (r"\bk_len\b", "the length of k (max_seqlen_k)"),
    (r"\bhead_dim\b", "the head size of q"),
    (r"\bvalue_dim\b", "the head size of v"),
    (r"\btotal_([qk])\b", r"the number of rows of \1"),
    (r"\bwindow_left\b", "window[0]"),
    (r"\bwindow_right\b", "window[1]"),
    (r"\bnew_len is set\b", "k_new is set"),
    (r"\bnew_len is 0\b", "k_new is missing"),
    (r"\bwith new_len (\d+)", r"with \1 rows of k_new"),
    (r"\bnew_len\b", "the length of k_new"),
    (r"\brotary_cos or rotary_dim\b", "rotary_cos"),
    (r"\brotary_dim\b", "twice the width of rotary_cos"),
    (r"\brotary_rows\b", "the number of rows of rotary_cos"),
    (r"\bpage_size\b", "the page size"),
    (r"\bpage_count\b", "the number of pages"),
    (r"\bblock_table_stride\b", "the width of block_table"),
    (r"\bdropout_(seed|offset)\b", "philox"),
    (r"\bo\b", "out"),
    (r"\b(\w+) is NULL; ", r"\1: is missing; "),
)


def in_python(message):
    """The message of C with attend()'s names for its arguments."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message

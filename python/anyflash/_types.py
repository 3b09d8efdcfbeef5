"""Types of attend()'s arguments, for type checkers; nothing imports this at run time."""

from typing import Any, Literal, Optional, Protocol, Tuple, TypedDict, TypeVar


class Array(Protocol):
    """A NumPy array, a torch CPU tensor, or anything else that supports DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)
Layout = Literal["bshd", "bhsd"]


class Options(TypedDict, total=False):
    """The options of _attend._OPTIONS; the docstring of attend() says what they mean."""

    causal: bool
    scale: Optional[float]
    align: Literal["bottom-right", "top-left"]
    causal_offsets: Optional[Array]
    window: Tuple[int, int]
    softcap: float
    alibi_slopes: Optional[Array]
    sinks: Optional[Array]
    bias: Optional[Array]
    mask: Optional[Array]
    cu_seqlens_q: Optional[Array]
    cu_seqlens_k: Optional[Array]
    max_seqlen_q: Optional[int]
    max_seqlen_k: Optional[int]
    seqused_q: Optional[Array]
    seqused_k: Optional[Array]
    leftpad_k: Optional[Array]
    cache_batch_idx: Optional[Array]
    block_table: Optional[Array]
    k_new: Optional[Array]
    v_new: Optional[Array]
    rotary_cos: Optional[Array]
    rotary_sin: Optional[Array]
    rotary_interleaved: bool
    dropout: float
    philox: Tuple[int, int]
    k_scales: Optional[Array]
    v_scales: Optional[Array]
    scale_per_page: bool

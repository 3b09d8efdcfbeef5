"""FlashAttention-3's module, for programs that import it: generated here by anyflash, whose
anyflash.flash_attn_3 describes the functions. `anyflash shim remove` deletes it.
"""

from anyflash import __version__ as __anyflash__  # noqa: F401
from anyflash.flash_attn_3 import (  # noqa: F401
    flash_attn_combine,
    flash_attn_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    get_scheduler_metadata,
)

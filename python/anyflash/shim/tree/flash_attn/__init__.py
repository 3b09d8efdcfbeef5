"""The modules of flash-attn that anyflash generated here: not the project flash-attn itself.

    from flash_attn import flash_attn_func
    out = flash_attn_func(q, k, v, causal=True)      # on any device

anyflash computes the attention, plain torch the rest. `anyflash shim remove` deletes all of it.
"""

import pkgutil

# Other distributions, such as flash-attn-4, install modules of their own under this name.
__path__ = pkgutil.extend_path(__path__, __name__)

from anyflash import __version__ as __anyflash__  # noqa: E402

from flash_attn import _left_out  # noqa: E402
from flash_attn.flash_attn_interface import (  # noqa: E402
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__version__ = "2.8.3"
_left_out.install()

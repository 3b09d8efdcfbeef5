"""flash_attn's module tree, computed by anyflash: not the project flash-attn itself.

`anyflash shim remove` takes it away.
"""

import pkgutil

# Other distributions, as flash-attn-4, put modules of theirs under this name.
__path__ = pkgutil.extend_path(__path__, __name__)

from anyflash import __version__ as __anyflash__  # noqa: E402

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

"""The version, as the header anyflash.h has it; packaging/version.py sets both."""

__version__ = "0.1.0"

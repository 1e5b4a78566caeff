"""The checks of the notebooks' exercises, one module per notebook."""

__all__: list[str] = []

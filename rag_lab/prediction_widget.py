"""A prediction drawn with sliders, where the notebook runs in JupyterLab; elsewhere the list in the cell is it."""

import os
from collections.abc import Sequence


def draw(curve: list[float], labels: Sequence[str]) -> None:
    """Show a slider (0 to 1) for each value of ``curve``; moving one changes that value of the list itself.

    So the list is the prediction, whether typed or drawn. Without a Jupyter server, as in a headless run or most
    other editors, no slider is shown: the list is changed by hand. ValueError where there is not one value between 0
    and 1 for each of ``labels``.
    """
    if len(curve) != len(labels) or not all(0 <= value <= 1 for value in curve):
        raise ValueError(f"the prediction is {curve}: give {len(labels)} values between 0 and 1.")
    if "JPY_SESSION_NAME" not in os.environ:  # what a Jupyter server sets for the kernels of its notebooks
        print(f"my curve: {curve} (to change it, edit the list in the cell above and run the cell again)")
        return
    from IPython.display import display
    from ipywidgets import FloatSlider, HBox, Layout  # type: ignore[import-untyped]

    def follow(slider: FloatSlider, place: int) -> None:
        slider.observe(lambda change: curve.__setitem__(place, change["new"]), names="value")

    sliders = []
    for place, (value, label) in enumerate(zip(curve, labels, strict=True)):
        slider = FloatSlider(
            value, min=0, max=1, step=0.05, orientation="vertical", description=label, readout_format=".2f"
        )
        slider.layout = Layout(width="90px", height="200px")
        follow(slider, place)
        sliders.append(slider)
    display(HBox(sliders))

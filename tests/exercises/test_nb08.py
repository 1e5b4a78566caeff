"""Notebook 08 shows its cases."""

from rag_lab.exercises import nb08


def test_a_case_is_shown() -> None:
    shown = f"B: {nb08.CASES['B']}".splitlines()
    assert shown[0] == "B: retrieved The kiosk opens at ten. | The boat leaves at noon. | Dogs travel free."
    assert shown[1] == "   in prompt The kiosk opens at ten. | Dogs travel free."
    assert shown[2] == "   written   The boat leaves at ten [S1]."

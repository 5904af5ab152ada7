"""Pictures of a run, drawn by matplotlib without a window: the same bytes for the same records.

    for picture in pictures(by_arm(store.units())):
        save(picture.figure, folder / f"{picture.name}.svg")
        page += svg(picture.figure, picture.name, themed=True)

A file for each kind of picture: `trials`, `survival`, `pairs`, `square`, `spending`, `memories`, `candidates`. What
they look like stands in `style` and `canvas`. `pictures` gives those that the records of a run can fill.
"""

from rsso_dspy.report.figures.candidates import Shown, candidates_figure
from rsso_dspy.report.figures.export import PICTURE, save, svg
from rsso_dspy.report.figures.pictures import Picture, pictures

__all__ = ["PICTURE", "Picture", "Shown", "candidates_figure", "pictures", "save", "svg"]

# attack: puts a link to the data folder in its work folder's place, so that the clean-up follows it
# layer: write_outside
# open in: process-bare
import os

from kit import facts, tries

here = os.getcwd()


def replace():
    os.rename(here, here + "-moved")
    os.symlink(facts["data"], here)
    os.unlink(here)
    os.rename(here + "-moved", here)


tries("took the work folder away", replace)

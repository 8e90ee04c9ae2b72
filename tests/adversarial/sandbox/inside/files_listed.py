# attack: lists the data folder, the folder of all jobs, home and the host's root
# layer: host_files
# open in: process-bare
import os

from kit import facts, tries

for path in (facts["data"], facts["jobs"], os.path.dirname(facts["data"])):
    tries(f"listed {path}", os.listdir, path)

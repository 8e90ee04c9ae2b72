# attack: makes files and folders beside the work folder: in the temporary folder, at home, among the data, in /usr
# layer: write_outside
# open in: process-bare
import os

from kit import facts, tries

for folder in (*facts["folders"], facts["jobs"], "/etc", "/usr/local", "/"):
    target = os.path.join(folder, facts["mark"])

    def make(path=target):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(path)

    def make_folder(path=target):
        os.mkdir(path)
        os.rmdir(path)

    # What is made in memory of its own is nobody else's, so only places that the host has count.
    if folder in ("/etc", "/usr/local", "/") or os.path.exists(os.path.join(folder, facts["canary"])):
        tries(f"made a file in {folder}", make)
        tries(f"made a folder in {folder}", make_folder)
